"""Fitted classifiers of other libraries in files that cannot run code."""
