"""What training changed in a model, measured on finished runs: one analysis a file, its data a CSV file.

Imports run ``report -> analysis -> study -> training``: an analysis reads runs and studies, and the report draws it.
"""
