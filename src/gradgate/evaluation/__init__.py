"""Score finished runs and predict new rows with them."""
