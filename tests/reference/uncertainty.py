"""Sections 3 to 5 as they are written, element by element in Python floats: slow, and easy to check by eye."""

import math

import torch
from torch import Tensor


def predictive_covariance(outputs: Tensor, precision: float | None = None) -> Tensor:
    """u = τ⁻¹I + (1/N) Σ ŷŷᵀ − E[ŷ]E[ŷ]ᵀ for every sample: (passes, batch, C) -> (batch, C, C)."""
    passes, batch, classes = outputs.shape
    covariance = torch.zeros(batch, classes, classes, dtype=torch.float64)
    for b in range(batch):
        for i in range(classes):
            for j in range(classes):
                product = sum(float(outputs[n, b, i]) * float(outputs[n, b, j]) for n in range(passes)) / passes
                mean_i = sum(float(outputs[n, b, i]) for n in range(passes)) / passes
                mean_j = sum(float(outputs[n, b, j]) for n in range(passes)) / passes
                identity = 1.0 / precision if precision is not None and i == j else 0.0
                covariance[b, i, j] = identity + product - mean_i * mean_j
    return covariance


def moments(values: list[float]) -> tuple[float, float]:
    """Mean and variance (divided by N, as in the paper) of the passes of one output."""
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values)


def relative(outputs: Tensor) -> Tensor:
    """u_c = mean Var[p_c] / (mean E[p_c])², both over all samples."""
    means, variances = _mean_moments(outputs)
    return torch.tensor([v / m**2 for m, v in zip(means, variances, strict=True)], dtype=torch.float64)


def dispersion(outputs: Tensor) -> Tensor:
    """u_c = mean Var[p_c] / mean E[p_c]."""
    means, variances = _mean_moments(outputs)
    return torch.tensor([v / m for m, v in zip(means, variances, strict=True)], dtype=torch.float64)


def unresolved(outputs: Tensor) -> Tensor:
    """u_c = √(mean q_c(1 − q_c) / (m_c(1 − m_c))) / m_c: q_c a sample's mean over the passes, m_c the mean of q_c."""
    passes, batch, classes = outputs.shape
    found = []
    for c in range(classes):
        q = [sum(float(outputs[n, b, c]) for n in range(passes)) / passes for b in range(batch)]
        m = sum(q) / batch
        left_open = sum(value * (1 - value) for value in q) / batch
        found.append(math.sqrt(left_open / (m * (1 - m))) / m)
    return torch.tensor(found, dtype=torch.float64)


def own(outputs: Tensor, target: Tensor) -> Tensor:
    """u_c = the trace of the predictive covariance, averaged over the samples of class c."""
    covariance = predictive_covariance(outputs)
    classes = outputs.shape[-1]
    traces: list[list[float]] = [[] for _ in range(classes)]
    for b, label in enumerate(target.tolist()):
        traces[label].append(sum(float(covariance[b, c, c]) for c in range(classes)))
    return torch.tensor([sum(t) / len(t) for t in traces], dtype=torch.float64)


def margins_log(u: list[float], m_max: float, m_min: float = 1.0) -> list[float]:
    """m = m_min + (m_max − m_min)·log(u/min u)/log(max u/min u)."""
    widest = math.log(max(u) / min(u))
    return [m_min + (m_max - m_min) * math.log(value / min(u)) / widest for value in u]


def margins_paper(u: list[float], m_max: int) -> list[float]:
    """m = max(1, ⌊0.5·u⌋), u rescaled so that its largest value is 2·m_max."""
    rescaled = [value / max(u) * (2 * m_max) for value in u]
    return [float(max(1, math.floor(0.5 * value))) for value in rescaled]


def error_moments(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Moments over the passes of E_j = z_j − z_y: (passes, batch, C) -> two of (batch, C)."""
    passes, batch, classes = logits.shape
    mean, variance = torch.zeros(2, batch, classes, dtype=torch.float64)
    for b in range(batch):
        y = int(target[b])
        for j in range(classes):
            errors = [float(logits[n, b, j]) - float(logits[n, b, y]) for n in range(passes)]
            mean[b, j], variance[b, j] = moments(errors)
    return mean, variance


def dropout_error_moments(features: Tensor, vectors: Tensor, target: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """μ_j = (w_j − w_y)ᵀf and σ_j² = Σ_d (w_j − w_y)_d² f_d² p/(1 − p), one feature at a time."""
    batch, classes = len(features), len(vectors)
    mean, variance = torch.zeros(2, batch, classes, dtype=torch.float64)
    for b in range(batch):
        for j in range(classes):
            for d in range(features.shape[1]):
                f = float(features[b, d])
                difference = float(vectors[j, d]) - float(vectors[int(target[b]), d])
                mean[b, j] += difference * f
                variance[b, j] += difference**2 * f**2 * rate / (1 - rate)
    return mean, variance


def every_mask_error_moments(
    features: list[float], vectors: list[list[float]], target: int, rate: float
) -> tuple[list[float], list[float]]:
    """The exact moments of E_j under dropout: every one of the 2^D masks with its own probability."""
    length = len(features)
    means, variances = [], []
    for vector in vectors:
        first = second = 0.0
        for mask in range(2**length):
            kept = [(mask >> d) & 1 for d in range(length)]
            chance = math.prod(1 - rate if k else rate for k in kept)
            seen = [f * k / (1 - rate) for f, k in zip(features, kept, strict=True)]
            error = sum((w - t) * f for w, t, f in zip(vector, vectors[target], seen, strict=True))
            first += chance * error
            second += chance * error**2
        means.append(first)
        variances.append(second - first**2)
    return means, variances


def probability_of_error(mean: float, variance: float, steps: int = 20_000) -> float:
    """P(E > 0) for E ~ N(mean, variance): the density's integral from 0 to 12σ past the mean, by the midpoint rule."""
    sigma = math.sqrt(variance)
    low, high = max(0.0, mean - 12 * sigma), max(0.0, mean + 12 * sigma)
    width = (high - low) / steps
    points = (low + (k + 0.5) * width for k in range(steps))
    return width * sum(math.exp(-((e - mean) ** 2) / (2 * variance)) for e in points) / (sigma * math.sqrt(2 * math.pi))


def _mean_moments(outputs: Tensor) -> tuple[list[float], list[float]]:
    passes, batch, classes = outputs.shape
    means, variances = [0.0] * classes, [0.0] * classes
    for c in range(classes):
        for b in range(batch):
            mean, variance = moments([float(outputs[n, b, c]) for n in range(passes)])
            means[c] += mean / batch
            variances[c] += variance / batch
    return means, variances
