"""The application: what you type. Runs, their report, comparisons, and the command line."""
