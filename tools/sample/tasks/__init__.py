"""Define the tasks that the sample's sentences carry labels for, one module each."""
