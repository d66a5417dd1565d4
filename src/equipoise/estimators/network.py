"""The scikit-learn estimator of the paper's network: ``UncertaintyBalancedClassifier().fit(X, y)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.data.encoder import TableEncoder
from equipoise.data.images import Images
from equipoise.data.labels import class_counts, encode_labels
from equipoise.decisions import DecisionRule
from equipoise.errors import InvalidInputError
from equipoise.estimators.calibrated_classifier import CalibratedClassifier, Prior, relative_weights_of
from equipoise.estimators.failed_fits import all_or_nothing
from equipoise.estimators.input_rows import network_rows, network_samples
from equipoise.estimators.model_card import write_model_card
from equipoise.estimators.network_files import SavedModel, load_model, restored_network, save_model
from equipoise.estimators.network_prediction import PredictionModule
from equipoise.estimators.network_training import class_correction, train_network
from equipoise.estimators.options_to_settings import (
    check_parameters,
    effective_option,
    has_unseen,
    held_out_rows,
    recipe_for,
    settings_for,
)
from equipoise.estimators.saved_model import restore_common
from equipoise.estimators.training_options import TrainingOptions, positional
from equipoise.losses.registry import LossBuilder
from equipoise.options import documented, option
from equipoise.tensor_checks import check_finite, new_tensor
from equipoise.training import ArrayData, Network, Settings
from equipoise.training.curriculum import StrengthRule
from equipoise.training.settings import rows_at_once
from equipoise.uncertainty import mc_dropout
from equipoise.uncertainty.class_level import UncertaintyKind

Array = NDArray[Any]
CalibrationRule = Literal["held_back", "validation", "none"]
Probabilities = Literal["natural", "balanced"]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class UncertaintyBalancedClassifier(TrainingOptions, CalibratedClassifier):
    """Classify imbalanced data with a neural network: uncertainty decides the margin of each class and sample.

    Args:
        backbone: any ``nn.Module`` from X to features of shape (batch, D); a copy of it is trained. None builds the
            paper's network for tables: standardised columns, two hidden layers, dropout.
        width: units per hidden layer; None chooses from the number of samples.
        weight_decay: weight decay of AdamW.
        kind: kind of class uncertainty, see ``class_uncertainty``; with ``strength="head"`` None leaves the method's
            own margins unchanged.
        strength: strength of the margins, see ``Curriculum``. ``"uncertainty"``: as ``margins`` say, without held-out
            samples. ``"feedback"``: adjusted after every epoch on held-out samples. ``"head"``: the method's own, such
            as ``"arcface"``'s, phased in over the class stage. A number: that strength.
        held_back: share of the training samples that the first two stages leave out, to calibrate probabilities and,
            unless margins are by counts, to fit the logit correction; the last stage trains on all. None is a tenth,
            or 0 if samples are mixed, which should leave little overconfidence to correct.
        calibration: samples that the probabilities are calibrated on. ``"held_back"``: those that the first two stages
            leave out (methods without stages are then not calibrated). ``"validation"``: the ``validation_fraction``,
            which no epoch sees; abstention needs it, and it excludes ``early_stopping`` and ``strength="feedback"``,
            which use these samples for choices of their own. ``"none"``: no calibration.
        probabilities: the class prior of ``predict_proba``. ``"natural"``: that of the training samples; ``predict``
            may then differ from the most probable class. ``"balanced"``: all classes equally common, and ``predict`` is
            the argmax of ``predict_proba``, whatever the method. Use it in compositions that decide by the
            probabilities themselves, such as ``VotingClassifier(voting="soft")``, stacking or
            ``cross_val_predict(method="predict_proba").argmax(1)``, which would otherwise lose rare classes.
        decision: the decision rule of ``predict``, one of :mod:`equipoise.decisions`; None is ``Balanced()``. Rules
            with thresholds need ``calibration="validation"``, or :meth:`calibrate`.
        validation_fraction: share of the training samples held out, stratified, for ``strength="feedback"``, for
            ``early_stopping`` and for ``calibration="validation"``; without these, all samples are trained on.
        encoder: a ``TableEncoder`` with your own column kinds or text encoder; a copy of it is fitted to frames with
            columns that are not numbers. None uses the defaults.
        early_stopping, patience: stop when balanced accuracy on the held-out samples has not improved for ``patience``
            epochs, and keep the best epoch's weights.
        warm_start: start from the weights of the last fit, which must have had the same classes, columns and width.
        run_dir: a folder for ``metrics.jsonl`` and checkpoints; an interrupted fit found there is resumed, for which
            ``random_state`` must be set.
        verbose: 1 shows a progress bar on a terminal.
        random_state: seed or ``RandomState``; the same seed gives the same weights.

    Attributes:
        classes_: the labels, or 0 to K - 1 for K attributes.
        class_uncertainty_, margins_: one per class, (classes,) or (attributes, 2); None for methods without them.
        prior_: weighted class prior of the training samples, (classes,) or (attributes, 2).
        decision_: the rule with its thresholds, and its expected results if there are samples to estimate them on.
        calibrated_: the calibration, from the network's logits to probabilities and prediction sets.
        history_: ``"chosen"``, the settings chosen for these data, and ``"epochs"``, one record per epoch.
        network_: the trained torch module.
        encoder_: the fitted ``TableEncoder`` for text, dates and missing values; None if X is used as it is.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = UncertaintyBalancedClassifier(epochs=5, random_state=0).fit(X, y)
    >>> clf.predict(X[:3])
    array([0, 1, 2])
    """

    method: str | LossBuilder = positional("method")  # type: ignore[assignment]
    backbone: nn.Module | None = None
    width: int | None = None
    weight_decay: float = 0.5
    kind: UncertaintyKind | None = "unresolved"
    strength: StrengthRule | float = "uncertainty"
    held_back: float | None = None
    calibration: CalibrationRule = option("held_back", choices=lambda: get_args(CalibrationRule))
    probabilities: Probabilities = option("natural", choices=lambda: get_args(Probabilities))
    decision: DecisionRule | None = None
    validation_fraction: float = option(0.1, least=0, below=1)
    encoder: TableEncoder | None = None
    early_stopping: bool = False
    patience: int = 10
    warm_start: bool = False
    run_dir: str | Path | None = None
    verbose: int = 0
    random_state: int | np.random.RandomState | None = None

    @all_or_nothing
    def fit(
        self, X: ArrayLike | Images, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> UncertaintyBalancedClassifier:
        """Train the network, and calibrate it.

        Args:
            X: an array of numbers or a data frame with columns of any kind, (samples, columns); with a ``backbone``
                an array (samples, ...), or images.
            y: labels, (samples,), or a 0/1 matrix, (samples, attributes).
            sample_weight: (samples,); a sample of weight 2 counts as two in the loss, the class counts, the class
                uncertainty, the correction, the calibration and ``prior_``. Only ratios matter; samples of weight 0
                are left out.
        """
        check_parameters(self)
        x, labels = network_samples(self, X, y)
        classes, target = encode_labels(labels)
        data = ArrayData(x, target, relative_weights_of(sample_weight, x))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        recipe = recipe_for(self, x, classes, target)
        rows, held = held_out_rows(self, data, recipe, seed)
        trained_on, held_out = data.subset(rows), data.subset(held) if len(held) else None
        counts = class_counts(trained_on.y, len(classes), trained_on.weight)
        fit = partial(train_network, self, data, recipe, seed)
        folder = None if self.run_dir is None else Path(self.run_dir)
        lacking = None
        if effective_option(self, "margins") == "out_of_fold" and recipe.uncertain:
            by_fold = lambda part, own: fit(part, own, held_out).network  # noqa: E731
            lacking = class_correction(trained_on, by_fold, seed=seed, folder=folder)
        network, curriculum, settings, epochs = fit(trained_on, folder, held_out, classes if self.warm_start else None)
        scaling = None if curriculum is None else curriculum.scaling
        if lacking is not None:
            network.head.shift, scaling = lacking
        self.classes_, self._recipe, self._seed = classes, recipe, seed
        self._keep(network, None if curriculum is None else curriculum.uncertainty)
        self.calibrated_ = Calibrated.of_loss(network.head, counts, None if self.calibration == "none" else scaling)
        unseen = has_unseen(self)
        if not unseen or held_out is None:
            self._decide_as(self.decision, None)
        if held_out is not None and self.calibration != "none":
            logits, weight = self._logits(x[held.numpy()]), held_out.weight
            self.calibrated_ = self.calibrated_.fit_on(logits, held_out.y, sample_weight=weight, unseen=unseen)
            if unseen:
                self._decide_by(logits, held_out.y, weight)
        chosen = {"epochs": settings.epochs, "epoch_batches": settings.epoch_batches, "width": recipe.width}
        chosen |= {"members": recipe.members}
        chosen |= {"batch_size": settings.batch_size, "steps": sum(record["steps"] for record in epochs)}
        chosen |= {"rows": len(data), "held_out": len(held), "seed": seed}
        self.history_ = {"chosen": chosen, "epochs": epochs}
        return self

    def predict_proba(self, X: ArrayLike | Images, target_prior: Prior | None = None, *, passes: int = 0) -> Array:
        """Return probabilities (rows, classes), or of each attribute being 1, (rows, attributes).

        They are calibrated at the class prior of the training samples or, with ``probabilities="balanced"``, at a
        balanced one.

        Args:
            X: as for :meth:`fit`.
            target_prior: the class prior where the model is used, if it differs, as for :meth:`predict`; Bayes' rule
                moves the probabilities there. :meth:`estimate_prior` estimates it from unlabelled samples.
            passes: number of stochastic passes to average; 0 is one deterministic pass.
        """
        found = self._probabilities(self._rows(X), self._decision_prior(target_prior), passes=passes)
        return found[..., 1] if self._multilabel else found

    def uncertainty(
        self,
        X: ArrayLike | Images,
        *,
        target_prior: Prior | None = None,
        kind: Literal["total", "passes", "members"] = "total",
        passes: int | None = None,
    ) -> Array:
        """Return the uncertainty of each prediction, (rows,), summed over the attributes if there are several.

        Args:
            X: as for :meth:`fit`.
            target_prior: the class prior where the model is used, as for :meth:`predict`.
            kind: ``"total"`` is the variance of the predicted label, Σ_c p_c(1 − p_c), of the probabilities p that
                decide it, averaged over dropout on the last features in closed form; ``equipoise predict``, reports and
                exported models give the same. ``"passes"`` is the disagreement of stochastic passes, the trace of the
                paper's covariance; ``"members"`` is that of the networks trained side by side.
            passes: number of passes for ``"passes"``; None takes the estimator's ``passes``.
        """
        if kind not in ("total", "passes", "members"):
            raise InvalidInputError(f"kind must be 'total', 'passes' or 'members', got {kind!r}.")
        if passes is not None and kind != "passes":
            raise InvalidInputError(f"kind={kind!r} needs no passes, got passes={passes!r}; leave it out.")
        x, prior = self._rows(X), self._decision_prior(target_prior)
        if kind == "total":
            module = PredictionModule(self.network_, self.calibrated_, target_prior=prior)
            found = self._in_batches(x, lambda part: module.logits_and_uncertainty(part)[1].double())
            return np.asarray(found.numpy())
        draws = self.passes if passes is None else passes
        network = self.network_
        if kind == "members" and network.head.members == 1:
            raise InvalidInputError("kind='members' needs several members, got one; fit with members=4, for example.")

        def traces(part: Tensor) -> Tensor:
            if kind == "members":
                several = network.head.member_logits(network.head.dropped(network.backbone(part)))
            else:
                several = self._drawn(part, draws)
            drawn = self.calibrated_.decision(several, prior).softmax(-1)
            return drawn.var(0, correction=0).flatten(1).sum(-1)

        return np.asarray(self._in_batches(x, traces, passes=draws).numpy())

    def save(self, folder: str | Path) -> None:
        """Save the fitted model to a ``folder`` without pickle, so that loading it cannot run code.

        The files are ``model.safetensors``, ``model.json`` and a model card.
        """
        check_is_fitted(self)
        if not isinstance(self.method, str):
            raise InvalidInputError(
                "a loss without a name cannot be saved; add it to equipoise.losses.LOSSES and fit with that name."
            )
        save_model(Path(folder), self)
        write_model_card(Path(folder), self)

    @classmethod
    def load(cls, folder: str | Path, *, backbone: nn.Module | None = None) -> UncertaintyBalancedClassifier:
        """Load a model saved by :meth:`save` from its ``folder``; pass its custom ``backbone`` again, if any."""
        return cls._restored(load_model(Path(folder)), folder, backbone)

    @classmethod
    def _restored(
        cls, model: SavedModel, folder: str | Path, backbone: nn.Module | None = None
    ) -> UncertaintyBalancedClassifier:
        """Build the estimator of a ``model`` read from ``folder``, on the ``backbone`` it was trained with."""
        network, record = restored_network(model, folder, backbone), model.record
        unknown = set(record.parameters) - set(cls().get_params())
        if unknown:
            raise InvalidInputError(
                f"{folder} has parameters that this version lacks: {sorted(unknown)}; update equipoise."
            )
        found = cls(backbone=backbone, **record.parameters)
        restore_common(found, record, model.classes)
        if found.encoder_ is not None and len(found.encoder_.column_names_) != model.recipe.columns:
            raise InvalidInputError(f"{folder} holds a table encoding of another model; save the model again.")
        found._recipe, found.calibrated_ = model.recipe, model.calibrated
        found._seed = int(record.history["chosen"]["seed"])
        found._keep(network, model.uncertainty)
        found._decide_as(model.decision, model.evidence)
        return found

    @property
    def _multilabel(self) -> bool:
        return bool(self.network_.head.multilabel)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return network_rows(self, X)

    def _settings(self, samples: int, seed: int) -> Settings:
        return settings_for(self, samples, seed)

    def _keep(self, network: Network, uncertainty: Tensor | None) -> None:
        self.network_ = network.eval().cpu()
        head = network.head
        self.class_uncertainty_: Any = None if uncertainty is None else uncertainty.numpy()
        self.margins_: Any = None if head.margins is None else head.margins.numpy()

    def _logits(self, x: Array | Images) -> Tensor:
        """Run the network over checked rows: (rows, classes), or (rows, attributes, 2)."""
        return self._in_batches(x, self.network_)

    def _probabilities(self, x: Any, prior: ArrayLike | None = None, *, passes: int = 0) -> NDArray[np.float64]:
        """Return calibrated probabilities, shaped like the logits: of one deterministic pass, or the mean of draws."""

        def probabilities(part: Tensor) -> Tensor:
            if not passes:
                return self.calibrated_.probabilities(self.network_(part), prior)
            return self.calibrated_.probabilities(self._drawn(part, passes), prior).mean(0)

        return np.asarray(self._in_batches(x, probabilities, passes=passes).numpy())

    def _drawn(self, x: Tensor, passes: int) -> Tensor:
        """Draw logits of stochastic passes, (passes, batch, ...), with the same sub-networks for all rows."""
        return mc_dropout(self.network_, x, passes, torch.Generator().manual_seed(self._seed))

    def _in_batches(self, x: Array | Images, forward: Callable[[Tensor], Tensor], *, passes: int = 1) -> Tensor:
        step = rows_at_once(x[0].size + passes * self.calibrated_.prior.numel())
        step = min(step, getattr(self.network_.backbone, "images_at_once", None) or step)
        parts = (new_tensor(x[start : start + step]) for start in range(0, len(x), step))
        with torch.no_grad():
            found = torch.cat([forward(part) for part in parts])
        check_finite(found.isfinite().flatten(1).all(1).numpy() if found.ndim > 1 else found.isfinite().numpy())
        return found
