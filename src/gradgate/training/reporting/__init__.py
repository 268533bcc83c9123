"""Log runs to the trackers that Trainer knows."""
