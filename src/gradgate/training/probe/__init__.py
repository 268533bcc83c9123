"""Fit a logistic regression on a frozen model's features, and set it as the model's head."""
