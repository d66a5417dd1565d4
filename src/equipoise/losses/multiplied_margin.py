"""Margins that multiply an angle: L-Softmax and SphereFace (Liu et al. 2016, 2017), ψ at m = 4 for the true class."""

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
