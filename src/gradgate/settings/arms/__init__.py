"""Read the arms of a comparison: a method, an adapter, and the settings of their own."""
