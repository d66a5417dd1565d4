"""The losses, one sample and one class at a time in plain float64 Python, each from its own paper.

A vector is a list of floats, ``vectors`` a list of class vectors. Nothing here imports torch or equipoise.
"""

import math
from collections.abc import Sequence

Vector = Sequence[float]


# --- the margin functions -------------------------------------------------------------------------------------------


def psi(cosine: float, margin: float) -> float:
    """Section 4, by its pieces: (−1)^r cos(mα) − 2r on the r-th of the segments [rπ/m, (r+1)π/m]."""
    angle = math.acos(min(1.0, max(-1.0, cosine)))
    r = 0
    while angle > (r + 1) * math.pi / margin:
        r += 1
    return (-1) ** r * math.cos(margin * angle) - 2 * r


def psi_slope(cosine: float, margin: float) -> float:
    """dψ/dcos α = (−1)^r·m·sin(mα)/sin α, inside (−1, 1)."""
    angle = math.acos(cosine)
    r = 0
    while angle > (r + 1) * math.pi / margin:
        r += 1
    return (-1) ** r * margin * math.sin(margin * angle) / math.sin(angle)


def printed_expansion(cosine: float, margin: int) -> float:
    """cos(mα) as section 4 prints it, with the exponent m."""
    total = 0.0
    for t in range(margin // 2 + 1):
        total += math.comb(margin, 2 * t) * (cosine**2 - 1) ** margin * cosine ** (margin - 2 * t)
    return total


def corrected_expansion(cosine: float, margin: int) -> float:
    """cos(mα) with the exponent t, from de Moivre's formula."""
    total = 0.0
    for t in range(margin // 2 + 1):
        total += math.comb(margin, 2 * t) * (cosine**2 - 1) ** t * cosine ** (margin - 2 * t)
    return total


def shifted_cosine(cosine: float, margin: float) -> float:
    """ArcFace's cos(α + m); past π the curve goes on as its own mirror image, −cos(α + m) − 2."""
    angle = math.acos(min(1.0, max(-1.0, cosine))) + margin
    return math.cos(angle) if angle <= math.pi else -math.cos(angle) - 2


# --- softmax and its rivals on logits -------------------------------------------------------------------------------
# Each has the name of its function in logit_losses.py and is called with the constants of that function by name;
# test_logit_losses.py compares the two.


def cross_entropy(logits: Vector, label: int, counts: Vector = ()) -> float:  # noqa: ARG001
    """−log(exp z_y / Σ exp z_j)."""
    highest = max(logits)
    total = 0.0
    for z in logits:
        total += math.exp(z - highest)
    return math.log(total) + highest - logits[label]


def focal(logits: Vector, label: int, counts: Vector, gamma: float) -> float:  # noqa: ARG001
    """(1 − p_y)^γ·(−log p_y) (Lin et al. 2017)."""
    loss = cross_entropy(logits, label)
    probability = math.exp(-loss)
    return (1 - probability) ** gamma * loss


def balanced_softmax(logits: Vector, label: int, counts: Vector) -> float:
    """−log(n_y exp z_y / Σ n_j exp z_j) (Ren et al. 2020)."""
    total = 0.0
    for z, n in zip(logits, counts, strict=True):
        total += max(n, 1) * math.exp(z)
    return -math.log(max(counts[label], 1) * math.exp(logits[label]) / total)


def priors(counts: Vector) -> list[float]:
    """π_j = n_j/n; a class without a sample counts as one."""
    seen = [max(n, 1) for n in counts]
    return [n / sum(seen) for n in seen]


def logit_adjustment(logits: Vector, label: int, counts: Vector, tau: float) -> float:
    """log(1 + Σ_{j≠y} (π_j/π_y)^τ exp(z_j − z_y)) (Menon et al. 2021)."""
    prior = priors(counts)
    total = 0.0
    for j in range(len(logits)):
        if j != label:
            total += (prior[j] / prior[label]) ** tau * math.exp(logits[j] - logits[label])
    return math.log1p(total)


def post_hoc_logits(logits: Vector, counts: Vector, tau: float) -> list[float]:
    """z_j − τ·log π_j, what the prediction is the arg max of (Menon et al. 2021)."""
    return [z - tau * math.log(p) for z, p in zip(logits, priors(counts), strict=True)]


def vector_scaling(logits: Vector, label: int, counts: Vector, gamma: float, tau: float) -> float:
    """log(1 + Σ_{j≠y} exp(ι_j − ι_y)·exp(Δ_j z_j − Δ_y z_y)), Δ = (n/n_max)^γ, ι = τ·log π (Kini et al. 2021)."""
    prior = priors(counts)
    most = max(max(n, 1) for n in counts)
    scale = [(max(n, 1) / most) ** gamma for n in counts]
    total = 0.0
    for j in range(len(logits)):
        if j != label:
            shift = tau * (math.log(prior[j]) - math.log(prior[label]))
            total += math.exp(shift + scale[j] * logits[j] - scale[label] * logits[label])
    return math.log1p(total)


def separability(groups: Sequence[Sequence[Vector]]) -> list[list[float]]:
    """Root of the mean squared distance within class p by that between p and q, over all pairs of their features."""

    def mean_square(some: Sequence[Vector], others: Sequence[Vector]) -> float:
        total = 0.0
        for a in some:
            for b in others:
                total += sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
        return total / (len(some) * len(others))

    return [[math.sqrt(mean_square(p, p) / mean_square(p, q)) for q in groups] for p in groups]


def cosen(logits: Vector, label: int, counts: Vector, separable: Vector, mu: float, sigma: float) -> float:
    """−log(ξ_y exp z_y / Σ ξ_j exp z_j), ξ_j = max(h_y, h_j)·exp(−(S_yj − μ)²/2σ²) (Khan et al. 2018)."""
    share = priors(counts)
    costs = []
    for j in range(len(logits)):
        histogram = share[label] if j == label else max(share[label], share[j])
        costs.append(histogram * math.exp(-((separable[j] - mu) ** 2) / (2 * sigma**2)))
    total = 0.0
    for cost, z in zip(costs, logits, strict=True):
        total += cost * math.exp(z)
    return -math.log(costs[label] * math.exp(logits[label]) / total)


# --- weights and margins from counts --------------------------------------------------------------------------------


def inverse_frequency_weights(counts: Vector) -> list[float]:
    """n/(C·n_c)."""
    return [sum(counts) / (len(counts) * max(n, 1)) for n in counts]


def effective_number_weights(counts: Vector, beta: float) -> list[float]:
    """1/E_n with E_n = (1 − β^n)/(1 − β), scaled so that they add up to C (Cui et al. 2019)."""
    weights = [(1 - beta) / (1 - beta ** max(n, 1)) for n in counts]
    return [w * len(counts) / sum(weights) for w in weights]


def ldam_margins(counts: Vector, largest: float) -> list[float]:
    """Δ_c = K/n_c^{1/4}, K such that the rarest class has ``largest`` (Cao et al. 2019)."""
    constant = largest * min(max(n, 1) for n in counts) ** 0.25
    return [constant / max(n, 1) ** 0.25 for n in counts]


def deferred_weights(counts: Vector, share: float, defer: float, beta: float) -> list[float]:
    """DRW: 1 for every class, and from ``defer`` on the weights by effective number (Cao et al. 2019)."""
    return effective_number_weights(counts, beta) if share >= defer else [1.0] * len(counts)


# --- heads on angles ------------------------------------------------------------------------------------------------


def dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def norm(a: Vector) -> float:
    return math.sqrt(dot(a, a))


def cosines(feature: Vector, vectors: Sequence[Vector]) -> list[float]:
    """cos α_j, 0 for a feature without a direction."""
    if norm(feature) == 0:
        return [0.0] * len(vectors)
    return [dot(feature, w) / (norm(feature) * norm(w)) for w in vectors]


def am_softmax(feature: Vector, vectors: Sequence[Vector], label: int, margin: float, scale: float) -> float:
    """s·(cos α_y − m) against s·cos α_j (Wang et al. 2018); LDAM with the class's own margin is the same formula."""
    logits = [scale * c for c in cosines(feature, vectors)]
    logits[label] -= scale * margin
    return cross_entropy(logits, label)


def arcface(feature: Vector, vectors: Sequence[Vector], label: int, margin: float, scale: float) -> float:
    """s·cos(α_y + m) against s·cos α_j (Deng et al. 2019)."""
    angles = cosines(feature, vectors)
    logits = [scale * c for c in angles]
    logits[label] = scale * shifted_cosine(angles[label], margin)
    return cross_entropy(logits, label)


def l_softmax(feature: Vector, vectors: Sequence[Vector], label: int, margin: float, lambda_: float) -> float:
    """‖w_y‖‖f‖·(λ·cos α_y + ψ(α_y))/(1 + λ) against w_j·f (Liu et al. 2016)."""
    logits = [dot(feature, w) for w in vectors]
    cosine = cosines(feature, vectors)[label]
    blend = (lambda_ * cosine + psi(cosine, margin)) / (1 + lambda_)
    logits[label] = norm(vectors[label]) * norm(feature) * blend
    return cross_entropy(logits, label)


def sphereface(feature: Vector, vectors: Sequence[Vector], label: int, margin: float, lambda_: float) -> float:
    """L-Softmax on class vectors of unit length (Liu et al. 2017)."""
    unit = [[x / norm(w) for x in w] for w in vectors]
    return l_softmax(feature, unit, label, margin, lambda_)


# --- the paper's loss -----------------------------------------------------------------------------------------------


def error_mean(feature: Vector, rival: Vector, true: Vector) -> float:
    """μ_E = (w_j − w_y)ᵀ f, section 5."""
    total = 0.0
    for f, w_j, w_y in zip(feature, rival, true, strict=True):
        total += (w_j - w_y) * f
    return total


def error_variance(feature: Vector, rival: Vector, true: Vector, rate: float) -> float:
    """σ_E² = (w_j − w_y)ᵀ Σ (w_j − w_y), where dropout makes Σ diagonal with f_d²·p/(1 − p)."""
    total = 0.0
    for f, w_j, w_y in zip(feature, rival, true, strict=True):
        total += (w_j - w_y) ** 2 * f**2 * rate / (1 - rate)
    return total


def misclassification_probability(mean: float, variance: float) -> float:
    """F̂ = ½(1 + erf(μ_E/√(2σ_E²))), a step where there is no variance."""
    if variance == 0:
        return 0.5 + 0.5 * ((mean > 0) - (mean < 0))
    return 0.5 * (1 + math.erf(mean / math.sqrt(2 * variance)))


def margin_logits(
    feature: Vector,
    vectors: Sequence[Vector],
    label: int,
    margins: Vector,
    strength: float,
    *,
    form: str,
    placement: str,
) -> list[float]:
    """‖w_j‖‖f‖cos α_j, moved by the margin of each class (``all``) or of the true class alone (``target``)."""
    result = []
    for j, w in enumerate(vectors):
        length, cosine = norm(w) * norm(feature), cosines(feature, vectors)[j]
        if placement == "target" and j != label:
            result.append(length * cosine)
        elif form == "additive":
            result.append(length * cosine - strength * (margins[j] - 1))
        else:
            result.append(length * (cosine + strength * (psi(cosine, margins[j]) - cosine)))
    return result


def uncertainty_margin(
    feature: Vector,
    vectors: Sequence[Vector],
    label: int,
    *,
    margins: Vector,
    strength: float,
    form: str,
    placement: str,
    normalize: bool,
    sample_level: str = "none",
    kappa: float = 0.25,
    sample_strength: float = 1.0,
    rate: float = 0.0,
) -> float:
    """Sections 4 and 5 for one sample, with the readings of ``docs/paper-to-code.md``."""
    if normalize:
        vectors = [[x / norm(w) for x in w] for w in vectors]
    logits = margin_logits(feature, vectors, label, margins, strength, form=form, placement=placement)
    true = vectors[label]
    if sample_level == "expected":
        for j, w in enumerate(vectors):
            if j != label:
                logits[j] += sample_strength * kappa * error_variance(feature, w, true, rate)
    elif sample_level in ("complement", "printed"):
        worst = 0.0
        for j, w in enumerate(vectors):
            if j != label:
                mean, variance = error_mean(feature, w, true), error_variance(feature, w, true, rate)
                worst = max(worst, misclassification_probability(mean, variance))
        if sample_level == "printed":
            logits[label] *= (1 - sample_strength) + sample_strength * worst
        elif logits[label] > 0:
            logits[label] *= 1 - sample_strength * worst
        else:
            logits[label] *= 1 + sample_strength * worst
    return cross_entropy(logits, label)


def multilabel_uncertainty_margin(
    feature: Vector, pairs: Sequence[Sequence[Vector]], labels: Sequence[int], *, margins: Sequence[Vector], **options
) -> float:
    """The sum over the attributes, each a two-class problem with its own pair of class vectors and margins."""
    total = 0.0
    for pair, label, own in zip(pairs, labels, margins, strict=True):
        total += uncertainty_margin(feature, pair, label, margins=own, **options)
    return total


def mixed_loss(
    x: Sequence[Vector],
    y: Sequence[int],
    vectors: Sequence[Vector],
    counts: Vector,
    rows: Sequence[int],
    partners: Sequence[int],
    shares: Vector,
    weights: Vector,
) -> float:
    """Mean over the pairs of λ·w_i·CE(y_i) + (1 − λ)·w_j·CE(y_j), with logits at unit class vectors moved by
    log π_c; partners' weights are scaled to one mean for all classes.
    """
    prior = priors(counts)
    total = 0.0
    for i, j, share in zip(rows, partners, shares, strict=True):
        feature = [share * a + (1 - share) * b for a, b in zip(x[i], x[j], strict=True)]
        logits = [dot(w, feature) / norm(w) + math.log(p) for w, p in zip(vectors, prior, strict=True)]
        own = [w for w, label in zip(weights, y, strict=True) if label == y[j]]
        scale = (sum(weights) / len(weights)) / (sum(own) / len(own))
        total += share * weights[i] * cross_entropy(logits, y[i])
        total += (1 - share) * weights[j] * scale * cross_entropy(logits, y[j])
    return total / len(rows)
