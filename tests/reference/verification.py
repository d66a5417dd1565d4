"""The protocol of LFW written out as loops."""

import itertools


def accuracy_at(similarity, same, threshold):
    right = 0
    for value, truth in zip(similarity, same, strict=True):
        right += (value >= threshold) == bool(truth)
    return right / len(similarity)


def all_thresholds(similarity):
    """One between any two neighbouring values, one below all and one above all."""
    levels = sorted(set(similarity))
    between = [(low + high) / 2 for low, high in itertools.pairwise(levels)]
    return [levels[0] - 1, *between, levels[-1] + 1]


def best_accuracy(similarity, same):
    return max(accuracy_at(similarity, same, threshold) for threshold in all_thresholds(similarity))


def true_accepts(similarity, same, far):
    """The most pairs of one person that pass while no more than a share ``far`` of the others does."""
    best = 0.0
    positive = [value for value, truth in zip(similarity, same, strict=True) if truth]
    negative = [value for value, truth in zip(similarity, same, strict=True) if not truth]
    for threshold in all_thresholds(similarity):
        if sum(value >= threshold for value in negative) / len(negative) <= far:
            best = max(best, sum(value >= threshold for value in positive) / len(positive))
    return best


def area(similarity, same):
    """How often a pair of one person is more alike than one of two; a tie counts half."""
    positive = [value for value, truth in zip(similarity, same, strict=True) if truth]
    negative = [value for value, truth in zip(similarity, same, strict=True) if not truth]
    won = sum((a > b) + 0.5 * (a == b) for a in positive for b in negative)
    return won / (len(positive) * len(negative))
