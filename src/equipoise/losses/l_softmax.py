"""L-Softmax (Liu et al. 2016) and SphereFace (Liu et al. 2017): ψ with m = 4 on the true class's angle alone."""

from functools import partial

from equipoise.losses.uncertainty_margin import UncertaintyMarginLoss

L_SOFTMAX_STRENGTH = 1 / (1 + 5)
"""s = 1/(1 + λ) at λ = 5, where the authors of both stop lowering λ."""

l_softmax = partial(
    UncertaintyMarginLoss,
    form="angular",
    placement="target",
    margin=4.0,
    strength=L_SOFTMAX_STRENGTH,
    normalize=False,
)
sphereface = partial(l_softmax, normalize=True)
