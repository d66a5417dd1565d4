"""Tables in files: one module for each format, and the choice of the target column."""
