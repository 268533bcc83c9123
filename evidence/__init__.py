"""Evidence: full grids of methods, and the commands that make them again."""
