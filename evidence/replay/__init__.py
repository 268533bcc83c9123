"""Compare a budget with other ways to spend the same steps, and short runs with squeezed schedules."""
