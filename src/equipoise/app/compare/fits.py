"""How each kind of contestant is trained and asked: one network under any head, on any rows, or none at all."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from equipoise.app.compare.linear_svm import KNOBS, fit_linear_svm, linear_svm_codes
from equipoise.app.compare.margins import LateMargins
from equipoise.app.compare.network import (
    Array,
    CannotRunError,
    FitOptions,
    HeadBuilder,
    Predicted,
    network_logits,
    predicted,
    train_network,
)
from equipoise.app.compare.resampling import resample
from equipoise.data.labels import class_counts, encode_labels
from equipoise.losses import (
    LOSSES,
    ClassVectorLoss,
    LogitLoss,
    UncertaintyMarginLoss,
    adjust_logits,
    effective_number_weights,
)
from equipoise.losses.uncertainty_margin import Form, SampleLevel
from equipoise.models import Standardize
from equipoise.tensors import new_tensor
from equipoise.training import Curriculum
from equipoise.training.settings import rows_at_once

Knob = Mapping[str, Any]
Heads = Callable[[Knob], HeadBuilder]


class FitMethod(Protocol):
    """Train on some rows, predict others."""

    def __call__(
        self, x_train: Any, y_train: Array, x_test: Any, *, seed: int, options: FitOptions, knob: Knob
    ) -> Predicted:
        """Predictions for ``x_test``; raises CannotRunError where the data do not allow the method."""
        ...


def neural(head: Heads, *, late: Callable[[FitOptions, Knob], LateMargins] | None = None) -> FitMethod:
    """The network under a head that no curriculum drives."""

    def fit(x_train: Any, y_train: Array, x_test: Any, *, seed: int, options: FitOptions, knob: Knob) -> Predicted:
        classes, target = encode_labels(y_train)
        margins = None if late is None else late(options, knob)
        network = train_network(x_train, target, len(classes), head(knob), seed=seed, options=options, late=margins)
        return predicted(network_logits(network, x_test), classes)

    return fit


def uncertainty(form: Form, sample_level: SampleLevel, *, held_back: float = 0.1) -> FitMethod:
    """Equipoise: the paper's method under the rule of this package."""

    def fit(x_train: Any, y_train: Array, x_test: Any, *, seed: int, options: FitOptions, knob: Knob) -> Predicted:
        classes, target = encode_labels(y_train)
        network = train_network(
            x_train,
            target,
            len(classes),
            partial(UncertaintyMarginLoss, form=form, sample_level=sample_level, **knob),
            seed=seed,
            options=options,
            curriculum=lambda epochs: Curriculum(epochs, kind=options.kind, m_max=options.m_max, held_back=held_back),
        )
        return predicted(network_logits(network, x_test), classes)

    return fit


def post_hoc(x_train: Any, y_train: Array, x_test: Any, *, seed: int, options: FitOptions, knob: Knob) -> Predicted:
    """Cross-entropy's logits, less τ times the logarithm of the class shares (Menon et al. 2021)."""
    classes, target = encode_labels(y_train)
    network = train_network(x_train, target, len(classes), LOSSES["cross_entropy"], seed=seed, options=options)
    counts = class_counts(target, len(classes))
    return predicted(adjust_logits(network_logits(network, x_test), counts, tau=knob.get("tau", 1.0)), classes)


def resampled(name: str) -> FitMethod:
    """Cross-entropy on the rows which a resampler leaves or makes."""

    def fit(x_train: Any, y_train: Array, x_test: Any, *, seed: int, options: FitOptions, knob: Knob) -> Predicted:
        classes, target = _one_label(name, y_train)
        rows = resample(name, x_train, target.numpy(), seed=seed, knob=knob)
        network = train_network(
            rows.x,
            torch.from_numpy(rows.codes),
            len(classes),
            LOSSES["cross_entropy"],
            seed=seed,
            options=options,
            samples=len(target),
        )
        return predicted(network_logits(network, x_test), classes, rows.notes)

    return fit


def support_vectors(kernel: Literal["linear", "rbf"]) -> FitMethod:
    """A support vector machine whose errors cost inversely to the class's share, on standardised columns."""

    def fit(
        x_train: Any,
        y_train: Array,
        x_test: Any,
        *,
        seed: int,
        options: FitOptions,  # noqa: ARG001
        knob: Knob,
    ) -> Predicted:
        classes, target = _one_label(f"svm_{kernel}", y_train)
        given, asked = _flat(x_train), _flat(x_test)
        scale = Standardize(given.shape[1]).fit(given)
        rows, asked = _standardized(scale, given), _standardized(scale, asked)
        if kernel == "rbf":
            from sklearn.svm import SVC

            machine = SVC(class_weight="balanced", cache_size=500, random_state=seed, **knob)
            return Predicted(classes[machine.fit(rows, target.numpy()).predict(asked)], None, classes)
        weights, unsettled = fit_linear_svm(
            rows, target.numpy(), **{KNOBS[name]: value for name, value in knob.items()}
        )
        notes = (f"svm_linear stopped {unsettled} before it had settled.",) if unsettled else ()
        return Predicted(classes[linear_svm_codes(weights, asked)], None, classes, notes)

    return fit


def printed(x_train: Any, y_train: Array, x_test: Any, *, seed: int, options: FitOptions, knob: Knob) -> Predicted:
    """The paper to the letter: whole-number margins of the own-sample variance on the true angle at full strength,
    free norms, and the true logit times the probability of a mistake."""
    head = partial(
        UncertaintyMarginLoss, form="angular", placement="target", normalize=False, sample_level="printed", **knob
    )
    late = LateMargins(1.0, options.m_max, "own", "paper")
    return neural(lambda _: head, late=lambda *_: late)(x_train, y_train, x_test, seed=seed, options=options, knob={})


def class_balanced(
    in_features: int, classes: int, *, beta: float, multilabel: bool, dropout: float, class_counts: Tensor
) -> ClassVectorLoss:
    """Cross-entropy weighed by the effective number of samples at another β."""
    weight = effective_number_weights(class_counts.float(), beta)
    return LogitLoss(in_features, classes, multilabel=multilabel, dropout=dropout, class_weight=weight)


def _one_label(name: str, y: Array) -> tuple[Array, Tensor]:
    if y.ndim > 1:
        raise CannotRunError(f"{name} cannot run on these data: it takes one label a sample, not several.")
    return encode_labels(y)


def _flat(x: Any) -> Array:
    rows = x if isinstance(x, np.ndarray) else x[np.arange(len(x))]
    return rows.reshape(len(rows), -1)


def _standardized(scale: Standardize, x: Array) -> Array:
    """Standardise rows a part at a time, or float64 would take eight times the memory of images."""
    step = rows_at_once(x.shape[1])
    return np.concatenate([scale(new_tensor(x[at : at + step])).numpy() for at in range(0, len(x), step)])


def by_name(name: str) -> Heads:
    """A loss by its name; a knob is an option of its own."""
    return lambda knob: partial(LOSSES[name], **knob)


def on_logits(name: str, criterion: Callable[..., Tensor]) -> Heads:
    """A loss on logits; a knob is an option of its criterion."""
    return lambda knob: partial(LogitLoss, criterion=partial(criterion, **knob)) if knob else LOSSES[name]
