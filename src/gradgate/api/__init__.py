"""What people call, from Python as from the command line: train, compare, recommend; and what they get back."""
