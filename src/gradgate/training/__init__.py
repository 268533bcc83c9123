"""Train one run with Hugging Face's Trainer: callbacks, checkpoints and resume."""
