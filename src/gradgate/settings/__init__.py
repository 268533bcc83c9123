"""Define and check what people ask for: the settings of each request, its adapter, its budget."""
