"""The report of a study: one page, its figures and tables."""
