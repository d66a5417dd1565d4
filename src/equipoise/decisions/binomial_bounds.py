"""Exact binomial bounds: how many misses a promise allows, and what can be promised given some misses."""

from scipy.stats import beta, binom

CONFIDENCE = 0.95
"""Confidence of every promise: the probability, over the rows that a rule is chosen on, that it holds."""


def allowed_misses(samples: int, floor: float, risk: float) -> int:
    """Return how many of a class's samples may lie below a threshold that promises a recall of ``floor``.

    With the (k + 1)-th smallest score as the threshold, the true recall is below the floor with a probability of at
    most P(B(n, 1 − floor) ≤ k), whatever the scores; k is the largest number for which that is at most ``risk``.

    Returns:
        k, or −1 if even the smallest score is too high a threshold: floorⁿ > risk.

    >>> allowed_misses(59, 0.95, 0.05), allowed_misses(58, 0.95, 0.05), allowed_misses(1000, 0.95, 0.05)
    (0, -1, 38)
    """
    k = int(binom.ppf(risk, samples, 1 - floor))
    return k if binom.cdf(k, samples, 1 - floor) <= risk else k - 1


def least_share(hits: int, trials: int, risk: float) -> float:
    """Return Clopper and Pearson's lower bound of a share, which fails with a probability of at most ``risk``.

    >>> round(least_share(13, 13, 0.05), 3)
    0.794
    """
    return 0.0 if hits <= 0 else float(beta.ppf(risk, hits, trials - hits + 1))


def samples_needed(floor: float, risk: float) -> int:
    """Return the fewest samples of a class that support a promise of ``floor`` if none of them is missed.

    >>> samples_needed(0.95, 0.05)
    59
    """
    n = 1
    while floor**n > risk:
        n *= 2
    low = n // 2
    while low + 1 < n:
        middle = (low + n) // 2
        low, n = (low, middle) if floor**middle <= risk else (middle, n)
    return n
