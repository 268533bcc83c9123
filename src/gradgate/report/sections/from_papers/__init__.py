"""The sections that a paper needs; the page has them with ``--all-sections``, or if their data was asked for."""
