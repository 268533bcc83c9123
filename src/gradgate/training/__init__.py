"""One run: settings, Trainer, callbacks, the run folder and resume."""
