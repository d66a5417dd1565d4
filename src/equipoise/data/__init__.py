"""Where samples come from, and the protocols that make them imbalanced."""
