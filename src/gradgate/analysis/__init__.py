"""Measure on finished runs what training changed in a model: one analysis per file, its data in a CSV file.

Imports run ``report -> analysis -> study -> training``: an analysis reads runs and studies, and the report draws it.
"""
