"""Add, save and load the adapters of the PEFT library."""
