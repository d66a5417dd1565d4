"""Slow float64 loops of every formula, written from the papers: what the library must equal."""
