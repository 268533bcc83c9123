"""Independent checks of the papers' claims: studies, their numbers, and the verdicts on them."""
