"""Learning from imbalanced data: Bayesian uncertainty decides how much room each class and each sample gets."""

__version__ = "0.1.0.dev0"
