"""Export finished runs: what comes out loads without gradgate."""
