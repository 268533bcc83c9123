"""Recommend an arm for a task: choose candidates that fit, compare them, report the result."""
