"""Class mixes, conformal sets and abstention by counting, one sample after the other: slow, and independent."""

import math


def mixture_likelihood(rows, mix, old):
    """Σ ln Σ_c π_c p_c / old_c, of the classes that the old mix has."""
    return sum(math.log(sum(m * p / o for p, m, o in zip(row, mix, old, strict=True) if o > 0)) for row in rows)


def em_step(rows, mix, old):
    """The mean over the samples of the probabilities at the mix."""
    total = [0.0] * len(mix)
    for row in rows:
        moved = [m * p / o if o > 0 else 0.0 for p, m, o in zip(row, mix, old, strict=True)]
        for place, value in enumerate(moved):
            total[place] += value / sum(moved)
    return [value / len(rows) for value in total]


def conformal_set(own, row, percent):
    """Classes kept for one sample; ``own`` holds what each class's calibration samples gave their own class.

    Were the sample one more of the class, it would be number likelier + 1 of n + 1; the first ``percent`` of these
    places, rounded up, stay.
    """
    kept = []
    for mine, probability in zip(own, row, strict=True):
        last = -(-(len(mine) + 1) * percent // 100)
        likelier = sum(other > probability for other in mine)
        kept.append(likelier + 1 <= last)
    return kept


def answered_first(uncertainty, count):
    """Places of the ``count`` most certain samples; of equals the last."""
    order = sorted(range(len(uncertainty)), key=lambda place: (uncertainty[place], -place))
    return order[:count]
