"""Train, decode and score generation tasks."""
