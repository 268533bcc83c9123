"""Check the papers' claims independently: studies, their numbers, and the verdicts on them."""
