"""Many runs: the grid, its processes, what they scored and which differences are real."""
