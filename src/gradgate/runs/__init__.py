"""Read and write a run's folder: its record, history, checkpoints, predictions and model."""
