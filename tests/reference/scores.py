"""Scores by counting, one sample after the other: slow, and independent of the library."""

import math


def one_against_rest(true, predicted, label):
    """Counts (tp, fp, fn, tn) of one class."""
    tp = fp = fn = tn = 0
    for t, p in zip(true, predicted, strict=True):
        if t == label and p == label:
            tp += 1
        elif p == label:
            fp += 1
        elif t == label:
            fn += 1
        else:
            tn += 1
    return tp, fp, fn, tn


def class_metrics(tp, fp, fn, tn):
    """Precision, recall, F1, G-mean, IBA and BCA of a class; NaN where it has no samples, or no others."""
    nan = float("nan")
    if tp + fn == 0:
        precision = recall = f1 = nan
    else:
        precision = tp / (tp + fp) if tp + fp else 0.0
        recall = tp / (tp + fn)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    specificity = tn / (tn + fp) if tn + fp else nan
    g_mean = math.sqrt(recall * specificity)
    iba = (1 + 0.1 * (recall - specificity)) * g_mean**2
    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "g_mean": g_mean,
        "iba": iba,
        "bca": 0.5 * recall + 0.5 * specificity,
    }


def mean_and_deviation(values):
    """Over what is not NaN."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return float("nan"), float("nan")
    mean = sum(known) / len(known)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in known) / len(known))


def expected_calibration_error(confidences, right, bins=15):
    """Gap between confidence and share of right answers, bin by bin; a bin holds its upper edge, the first also 0."""
    total = 0.0
    for b in range(bins):
        inside = [
            (confidence, hit)
            for confidence, hit in zip(confidences, right, strict=True)
            if b / bins < confidence <= (b + 1) / bins or (b == 0 and confidence == 0)
        ]
        if inside:
            mean = sum(confidence for confidence, _ in inside) / len(inside)
            share = sum(hit for _, hit in inside) / len(inside)
            total += len(inside) / len(confidences) * abs(mean - share)
    return total


def brier(probabilities, true, classes):
    """Squared distance to the truth's corner, mean over the samples."""
    total = 0.0
    for row, t in zip(probabilities, true, strict=True):
        total += sum((p - (1.0 if label == t else 0.0)) ** 2 for p, label in zip(row, classes, strict=True))
    return total / len(true)


def log_loss(probabilities, true, classes):
    """−ln p of the truth, mean over the samples."""
    return -sum(math.log(row[classes.index(t)]) for row, t in zip(probabilities, true, strict=True)) / len(true)
