"""Queue the runs of a study and train them in processes of their own, on one machine or many."""
