"""Provide the functions of the command line in Python: train, compare, recommend and others, and their results."""
