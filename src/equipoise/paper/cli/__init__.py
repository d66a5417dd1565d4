"""The commands of the paper: ``reproduce``, ``faces align`` and ``verify``."""
