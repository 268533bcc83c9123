"""How the documentation is made from the code."""
