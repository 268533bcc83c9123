"""Replay a finished study to see how a budget would have decided."""
