"""Columns of a table as numbers: what each is, how it is parsed, and how it is encoded."""
