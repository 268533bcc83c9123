"""Train one model on several tasks at a time."""
