"""Balanced decisions from any classifier: ``BalancedClassifier().fit(X, y)``."""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from equipoise.calibration.scaling import SMALLEST_SHARE
from equipoise.data.encoder import TableEncoder, needs_encoding
from equipoise.data.labels import class_counts, column_or_matrix, encode_labels, plain_labels
from equipoise.data.splits import stratified_folds
from equipoise.decisions import DecisionRule
from equipoise.errors import InvalidInputError, listed
from equipoise.estimators.blend_files import FORMAT, BlendRecord, load_blend, save_blend
from equipoise.estimators.blending import Blend
from equipoise.estimators.calibrated_classifier import (
    CalibratedClassifier,
    Prior,
    check_rule,
    checked_table,
    relative_weights_of,
)
from equipoise.estimators.given_probabilities import GivenProbabilities, given_probabilities
from equipoise.estimators.member_outputs import (
    check_frozen,
    check_frozen_attributes,
    is_frozen,
    member_probabilities,
    take,
)
from equipoise.estimators.members import as_estimators, family_label, fit_members, thinned
from equipoise.estimators.persistence import labels_to_json
from equipoise.estimators.unseen_rows import as_if_unseen
from equipoise.models.picture_features import installed_pictures
from equipoise.tensor_checks import check_finite

Array = NDArray[Any]
MOST_OUT_OF_FOLD = 100_000
"""Most rows that are predicted out of fold, including all of the rare classes."""


class BalancedClassifier(CalibratedClassifier):
    """Classifier for imbalanced data over any other classifiers: cross-fitted, blended, calibrated and balanced.

    Each classifier is fitted ``members`` times, every time without another fold, and a new row gets the mean of its
    members. The out-of-fold predictions are honest: from them come what undoes the distortions of class weights or
    resampling, the weights of the blend, class uncertainty and its margins, calibrated probabilities and label sets.

    Args:
        estimator: ``"auto"`` blends a network, a random forest, extra trees and, up to 50 classes, gradient boosting.
            Or one of ``"network"``, ``"forest"``, ``"extra_trees"``, ``"boosting"``; any scikit-learn classifier or
            pipeline with ``predict_proba``; a list of these. ``FrozenEstimator(model)`` is a model that is trained
            already: ``fit`` then takes rows that it has not seen.
        members: how often each classifier is fitted, and how many folds there are. A member is fitted to at most
            100,000 rows, of the default's forests to at most 10,000: rare classes stay whole as long as there is room.
        cv: a splitter or folds of scikit-learn to use instead of stratified ones.
        decision: a rule of :mod:`equipoise.decisions` by which ``predict`` answers; None is ``Balanced()``.
        probabilities: the class prior at which ``predict_proba`` holds, ``"natural"`` (as among the training rows) or
            ``"balanced"``, where ``predict`` is its argmax; for voting and stacking.
        encoder: a ``TableEncoder`` with kinds of columns or a text encoder of your choice, of which a copy is fitted
            to frames with more than numbers; None is one with its defaults.
        n_jobs: members fitted at the same time; as in scikit-learn.
        verbose: 1 prints a line for each classifier fitted.
        random_state: seed; the same seed gives the same model.

    Attributes:
        classes_: the labels, or 0 to K - 1 for K attributes.
        class_uncertainty_, margins_: of each class, out of fold; (classes,) or (attributes, 2).
        weights_: of each classifier in the blend.
        members_: the fitted members of each classifier, a list of lists; those of a ``FrozenEstimator`` are itself.
        out_of_fold_: calibrated probabilities of the training rows, each by members that have not seen it; NaN for
            rows of weight 0, rows that no member predicts which has seen their class, and rows left out of very large
            tables.
        decision_: the rule with its thresholds, chosen by the out-of-fold predictions, and what it is expected to give.
        calibrated_: turns the blend's logits into probabilities and sets of labels.
        encoder_: encodes a frame's text, dates and missing values as numbers; None where X is used as it is.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = BalancedClassifier("forest", members=3, random_state=0).fit(X, y)
    >>> clf.predict(X[:3]), clf.predict_proba(X[:3]).shape
    (array([0, 0, 0]), (3, 2))
    """

    def __init__(
        self,
        estimator: Any = "auto",
        *,
        members: int = 5,
        cv: Any = None,
        decision: DecisionRule | None = None,
        probabilities: Literal["natural", "balanced"] = "natural",
        encoder: TableEncoder | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.members = members
        self.cv = cv
        self.decision = decision
        self.probabilities = probabilities
        self.encoder = encoder
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @classmethod
    def from_predictions(
        cls,
        probabilities: ArrayLike,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> "BalancedClassifier":
        """Fit to another model's predictions for rows that it was not trained on.

        Args:
            probabilities: (rows, classes); for two classes that of the second, (rows,), is enough. For several labels
                that of each being 1, (rows, labels).
            y: true labels, (rows,), or a 0/1 matrix, (rows, labels).
            classes: the labels in the order of the columns; None is the sorted labels of ``y``, or its columns.

        Returns:
            A classifier whose X is such probabilities: ``clf.predict(new_probabilities)``.

        >>> p = np.array([0.02, 0.05, 0.1, 0.3] * 5)
        >>> BalancedClassifier.from_predictions(p, [0, 0, 0, 1] * 5).predict([0.04, 0.25])
        array([0, 1])
        """
        truth = column_or_matrix(np.asarray(plain_labels(y)))
        if truth.ndim == 1:
            named = np.unique(truth) if classes is None else np.asarray(classes)
        else:
            named = np.asarray(getattr(y, "columns", np.arange(truth.shape[1])) if classes is None else classes)
        model = GivenProbabilities(named, several=truth.ndim > 1)
        return cls(FrozenEstimator(model), random_state=random_state).fit(model.columns(probabilities), y)

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> "BalancedClassifier":
        """Fit to X (rows, columns), an array or a data frame, and to y: labels (rows,), or a 0/1 matrix.

        Args:
            sample_weight: (rows,), how many rows each counts as; one of weight 0 is left out.
            groups: rows of one group, a patient or a customer, are never on both sides of a fold, (rows,).
        """
        self._check_probabilities()
        if self.decision is not None:
            check_rule(self.decision)
        x, labels = self._training_rows(X, y, groups)
        weight = relative_weights_of(sample_weight, x)
        counted = np.arange(len(labels)) if weight is None else weight.nonzero().squeeze(-1).numpy()
        classes, target = encode_labels(labels[counted])
        labels = labels.ravel() if target.ndim == 1 else labels
        seed = int(check_random_state(self.random_state).randint(2**30))
        chosen = as_estimators(self.estimator, len(counted), len(classes) if target.ndim == 1 else 2)
        frozen = self._frozen([each for each, _ in chosen], classes, x, target)
        folds = [(counted, counted)] if frozen else self._folds(x, labels, groups, seed, counted)
        place = np.full(len(labels), -1)
        place[counted] = np.arange(len(counted))
        folds = [(place[fit], place[predicted]) for fit, predicted in folds]  # among the rows that count
        x, weight = (x, weight) if len(counted) == len(labels) else (take(x, counted), weight[counted])  # type: ignore[index]
        members, shares = [], []
        for each, most in chosen:
            drawn = [thinned(part, target.numpy(), seed + number, most) for number, (part, _) in enumerate(folds)]
            members.append(self._fit_one(each, x, target, [rows for rows, _ in drawn], weight, seed))
            shares.append([share for _, share in drawn])
        self.classes_, self.members_, self._shares = classes, members, shares
        self._several = target.ndim == 2
        rows, outputs, own = self._out_of_fold(x, target, weight, folds, seed)
        self.blend_ = Blend.fit(outputs, target[rows], own, counts=class_counts(target, outputs.shape[-1], weight))
        logits = self.blend_.logits(outputs)
        start = self.blend_.calibrated(target, weight)
        self.calibrated_ = start.fit_on(logits, target[rows], sample_weight=own)
        self.out_of_fold_ = np.full((len(labels), *logits.shape[1:]), np.nan)
        self.out_of_fold_[counted[rows]] = self.calibrated_.probabilities(logits).numpy()
        by_all = partial(self._answered, x, target, rows, folds)
        self._decide_by(logits, target[rows], own, answered=None if frozen else by_all)
        self.history_ = {"chosen": {"seed": seed, "classifiers": [type(each).__name__ for each, _ in chosen]}}
        return self

    def uncertainty(
        self, X: Any, *, target_prior: Prior | None = None, kind: Literal["total", "epistemic"] = "total"
    ) -> Array:
        """Return the uncertainty of each prediction, (rows,), summed over the attributes if there are several.

        Args:
            target_prior: the class prior where the model is used, as for :meth:`predict`.
            kind: ``"total"`` is the variance of the predicted label, Σ_c p_c(1 − p_c), where p are the probabilities
                that decide it. ``"epistemic"`` is the part of it that the members disagree on, the trace of their
                covariance: more data would reduce it; 0 for a single trained model, which has no members.
        """
        if kind not in ("total", "epistemic"):
            raise InvalidInputError(f"kind must be 'total' or 'epistemic', got {kind!r}.")
        x, prior = self._rows(X), self._decision_prior(target_prior)
        if kind == "total":
            return np.asarray(self._unresolved(self._logits(x), prior).numpy())
        each = self._member_outputs(x)  # (models, members, rows, ...)
        together = self._unresolved(self.blend_.logits(each.mean(1)), prior)
        share = (self.blend_.weights / each.shape[1]).repeat_interleave(each.shape[1])
        apart = [self.blend_.comparable(each[:, member]) for member in range(each.shape[1])]
        logits = torch.stack(apart, 1).flatten(0, 1).clamp_min(SMALLEST_SHARE).log() + self.blend_.margins
        p = self.calibrated_.decision(logits, prior).softmax(-1)
        mean = torch.einsum("m,m...->...", share, p)
        found = torch.einsum("m,m...->...", share, (p - mean).square())
        return np.asarray(found.flatten(1).sum(-1).minimum(together).numpy())

    def save(self, folder: str | Path) -> None:
        """Write the fitted model into a ``folder``: ``model.json``, ``model.safetensors`` and a file for each member;
        nothing in them can run code. A classifier of your own class cannot be written so.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        classes, class_type = labels_to_json(self.classes_)
        plain = {"members": int(self.members), "probabilities": self.probabilities, "estimator": _named(self.estimator)}
        record = BlendRecord(
            format=FORMAT,
            kind="blend",
            parameters=plain,
            classes=classes,
            class_type=class_type,
            multilabel=self._several,
            rows_as_they_are=self._as_they_are,
            columns=self.n_features_in_,
            column_names=None if names is None else [str(name) for name in names],
            encoder=None if self.encoder_ is None else self.encoder_.to_json(),
            decision=None if self.decision is None else self.decision.to_json(),
            members=[],
            shares=[[None if share is None else share.tolist() for share in own] for own in self._shares],
            history=self.history_,
        )
        save_blend(Path(folder), record, self.members_, self.blend_, self.calibrated_, self.evidence_)

    @classmethod
    def load(cls, folder: str | Path) -> "BalancedClassifier":
        """Read a model written by :meth:`save` from its ``folder``."""
        saved = load_blend(Path(folder))
        record = saved.record
        given = {name: value for name, value in record.parameters.items() if name in ("members", "probabilities")}
        named = record.parameters.get("estimator")
        estimators = [_unfitted(own) for own in saved.members]
        found = cls(named or (estimators[0] if len(estimators) == 1 else estimators), **given)  # type: ignore[arg-type]
        found._as_they_are = record.rows_as_they_are
        found.classes_, found.n_features_in_, found._several = saved.classes, record.columns, record.multilabel
        if record.column_names is not None:
            found.feature_names_in_ = np.array(record.column_names, dtype=object)
        found.encoder_ = (
            None if record.encoder is None else TableEncoder.from_json(record.encoder, installed_pictures())
        )
        found.members_, found._shares = saved.members, saved.shares
        found.blend_, found.calibrated_, found.history_ = saved.blend, saved.calibrated, record.history
        found._decide_as(saved.decision, saved.evidence)
        return found

    @property
    def class_uncertainty_(self) -> Array:
        check_is_fitted(self)
        return self.blend_.uncertainty.numpy().copy()

    @property
    def margins_(self) -> Array:
        check_is_fitted(self)
        return self.blend_.margins.numpy().copy()

    @property
    def weights_(self) -> Array:
        check_is_fitted(self)
        return self.blend_.weights.numpy().copy()

    @property
    def _multilabel(self) -> bool:
        return self._several

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _training_rows(self, X: Any, y: Any, groups: ArrayLike | None) -> tuple[Any, Array]:
        """Check X and y, and learn to encode columns that are not numbers."""
        if y is None:
            raise InvalidInputError("BalancedClassifier requires y to be passed, but the target y is None.")
        labels = check_array(plain_labels(y), ensure_2d=False, dtype=None, input_name="y")
        table = checked_table(X)
        if hasattr(table, "tocsr"):
            check_array(table)  # refuses it, in scikit-learn's own words
        own = self._as_they_are = _prepares_rows(self.estimator)
        encode = not own and (needs_encoding(table) or (self.encoder is not None and hasattr(table, "columns")))
        if encode and _prepares_rows(self.estimator, all_of_them=False):
            raise InvalidInputError(
                "pipelines take a frame as it is and other classifiers take numbers; blend pipelines only, or encode "
                "the frame with TableEncoder first."
            )
        if encode:
            self.encoder_ = clone(self.encoder or TableEncoder(pictures=installed_pictures()))
        else:
            self.encoder_ = None
        validate_data(self, table, skip_check_array=True)
        if self.encoder_ is not None:
            rows = self.encoder_.fit_transform(table, column_or_matrix(labels), groups)
        else:
            rows = table if own and hasattr(table, "iloc") else self._numbers(table, first=True)
        check_consistent_length(rows, labels)
        if len(labels) < 2:
            raise InvalidInputError(f"Found array with {len(labels)} sample(s) while a minimum of 2 is required.")
        return rows, labels

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        given = given_probabilities(self.estimator)
        table = checked_table(X) if given is None else given.columns(X)
        validate_data(self, table, reset=False, skip_check_array=True)
        return table if self._as_they_are and hasattr(table, "iloc") else self._numbers(table)

    def _numbers(self, table: Any, *, first: bool = False) -> Array:
        """Return rows as a matrix of finite numbers."""
        if self.encoder_ is not None:
            encoded: Array = self.encoder_.transform(table)
            return encoded
        if not first and not self._as_they_are and needs_encoding(table):
            raise InvalidInputError(
                "X has text or missing values, and the training rows had none; fill them in, or fit to such rows."
            )
        finite: Any = "allow-nan" if self._as_they_are else True
        kinds = (np.float64, np.float32)
        found: Array = check_array(
            table, dtype=kinds, ensure_min_samples=2 if first else 1, ensure_all_finite=finite, estimator=self
        )
        return found

    def _frozen(self, estimators: list[Any], classes: Array, x: Any, target: Tensor) -> bool:
        """Return whether the models are already trained; then they must know the labels."""
        trained = [each for each in estimators if is_frozen(each)]
        if 0 < len(trained) < len(estimators):
            raise InvalidInputError(
                "a FrozenEstimator cannot be blended with models yet to be fitted; freeze all or none."
            )
        for each in trained:
            check_is_fitted(each)
            if target.ndim == 1:
                check_frozen(each, x, classes)
            else:
                check_frozen_attributes(each, x, target.numpy())
        return bool(trained)

    def _folds(
        self, x: Any, labels: Array, groups: ArrayLike | None, seed: int, counted: Array
    ) -> list[tuple[Array, Array]]:
        """Return the rows that a member is fitted on, and those that it predicts; all have non-zero weight."""
        own = None if groups is None else np.asarray(groups)
        if own is not None and own.shape != (len(labels),):
            raise InvalidInputError(f"groups must name a group for each of the {len(labels)} rows, got {own.shape}.")
        whole = isinstance(self.cv, int | np.integer) and not isinstance(self.cv, bool)
        if self.cv is not None and not whole:
            splitter = check_cv(self.cv, labels if labels.ndim == 1 else None, classifier=True)
            found = [(np.asarray(a), np.asarray(b)) for a, b in splitter.split(x, labels, own)]
            return [(a[np.isin(a, counted)], b[np.isin(b, counted)]) for a, b in found]
        folds = self.cv if whole else self.members
        if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or folds < 2:
            raise InvalidInputError(f"members must be a whole number of at least 2, got {folds!r}.")
        most = len(counted) if own is None else len(np.unique(own[counted]))
        if most < 2:
            raise InvalidInputError("groups must name at least two groups, got one; leave groups out.")
        given = None if own is None else own[counted]
        dealt = stratified_folds(labels[counted], min(int(folds), most), seed=seed, groups=given, allow_missing=True)
        return [(counted[a], counted[b]) for a, b in dealt]

    def _fit_one(
        self, estimator: Any, x: Any, target: Tensor, parts: list[Array], weight: Tensor | None, seed: int
    ) -> list[Any]:
        """Fit the members of one classifier."""
        if is_frozen(estimator):
            return [estimator]
        if self.verbose:
            print(f"Fitting {len(parts)} members: {family_label(estimator)}.", file=sys.stderr, flush=True)
        weights = None if weight is None else weight.numpy()
        return fit_members(estimator, x, target.numpy(), parts, sample_weight=weights, seed=seed, n_jobs=self.n_jobs)

    def _out_of_fold(
        self, x: Any, target: Tensor, weight: Tensor | None, folds: list[tuple[Array, Array]], seed: int
    ) -> tuple[Array, Tensor, Tensor | None]:
        """Return rows, their out-of-fold probabilities by each classifier, (models, rows, ...), and their weights.

        In very large tables some rows stand for the others of their class: a class weighs as much as all of its rows.
        """
        predicted = self._predicted_rows(target, folds)
        rows, share = thinned(predicted, target.numpy(), seed, MOST_OUT_OF_FOLD)
        shape = (len(self.classes_), 2) if self._several else (len(self.classes_),)
        found = torch.zeros(len(self.members_), len(rows), *shape, dtype=torch.float64)
        place = np.full(len(target), -1)
        place[rows] = np.arange(len(rows))
        for number, (_, own) in enumerate(folds):
            chosen = own[place[own] >= 0]
            part = take(x, chosen)
            for model, members in enumerate(self.members_):
                found[model, place[chosen]] = self._output(members[number], part, self._shares[model][number])
        each = None if weight is None else weight[rows].double()
        if share is not None:
            weights = torch.ones(len(target), dtype=torch.float64) if weight is None else weight.double()
            whole, drawn = (class_counts(target[some], shape[0], weights[some]) for some in (predicted, rows))
            each = weights[rows] * (whole / drawn)[target[rows]]
        return rows, found, each

    def _answered(
        self, x: Any, target: Tensor, rows: Array, folds: list[tuple[Array, Array]], kept: NDArray[np.intp]
    ) -> Tensor:
        """Return the logits that the members' mean would give unseen rows like these, though most members saw them.

        Args:
            rows: that have out-of-fold predictions.
            kept: places among them.
        """
        own = rows[kept]
        by = np.zeros(len(target), dtype=np.intp)
        for number, (_, predicted) in enumerate(folds):
            by[predicted] = number
        part = take(x, own)
        means = []
        for members, shares in zip(self.members_, self._shares, strict=True):
            each = torch.stack([self._output(one, part, share) for one, share in zip(members, shares, strict=True)])
            means.append(as_if_unseen(each, target[own], by[own]).mean(0))
        return self.blend_.logits(torch.stack(means))

    def _predicted_rows(self, target: Tensor, folds: list[tuple[Array, Array]]) -> Array:
        """Return the rows predicted by some member that has seen their class; others would teach that it never occurs.

        Several labels have both values in nearly every fold and are taken as they are.
        """
        if self._several:
            return np.unique(np.concatenate([own for _, own in folds]))
        y = target.numpy()
        honest = np.unique(np.concatenate([own[np.isin(y[own], y[part])] for part, own in folds]))
        if len(honest) == 0:
            raise InvalidInputError(
                "each class has all of its rows in one fold, so that no member can predict a class it has seen; give "
                "more rows of a class, or use other groups or another cv."
            )
        lost = np.setdiff1d(y, y[honest])
        if len(lost):
            named = listed([str(self.classes_[place]) for place in lost], most=5, quoted=False)
            warnings.warn(
                f"all rows of {named} lie in one fold, so that no out-of-fold prediction shows how well it is "
                "recognised; its margin follows its count alone.",
                stacklevel=4,
            )
        return honest

    def _output(self, member: Any, x: Any, share: Array | None) -> Tensor:
        """Return a member's probabilities at the class prior of all rows, though it was fitted on some."""
        known = self.classes_ if is_frozen(member) else None
        given = member_probabilities(member, x, len(self.classes_), known=known, several=self._several)
        p = torch.from_numpy(given)
        if known is not None:  # it may know further classes
            p = p / p.sum(-1, keepdim=True).clamp_min(SMALLEST_SHARE)
        if share is not None:
            p = p / torch.from_numpy(share)
            p = p / p.sum(-1, keepdim=True)
        check_finite(p.isfinite().flatten(1).all(1).numpy())
        return p

    def _member_outputs(self, x: Any) -> Tensor:
        """Return the probabilities of every member: (models, members, rows, ...)."""
        return torch.stack(
            [
                torch.stack([self._output(each, x, share) for each, share in zip(own, shares, strict=True)])
                for own, shares in zip(self.members_, self._shares, strict=True)
            ]
        )

    def _unresolved(self, logits: Tensor, prior: ArrayLike | None) -> Tensor:
        """Return the variance of the label that is decided, Σ p(1 − p), (rows,)."""
        p = self.calibrated_.decision(logits, prior).softmax(-1)
        return (p * (1 - p)).flatten(1).sum(-1)

    def _logits(self, x: Any) -> Tensor:
        return self.blend_.logits(self._member_outputs(x).mean(1))


def _unfitted(members: list[Any]) -> Any:
    """Return the classifier that members are copies of; a trained model is returned as it is."""
    flat = [each for member in members for each in (member if isinstance(member, list) else [member])]
    own = next((each for each in flat if not isinstance(each, DummyClassifier)), flat[0])
    if is_frozen(own):
        return own
    model = clone(own)
    seeds = [name for name in model.get_params() if name.rpartition("__")[2] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds))


def _named(estimator: Any) -> Any:
    """Return an estimator given by names, or None for one that is not."""
    given = estimator if isinstance(estimator, list) else [estimator]
    return estimator if all(isinstance(each, str) for each in given) else None


def _prepares_rows(estimator: Any, *, all_of_them: bool = True) -> bool:
    """Return whether the user's estimator takes rows as they are: a pipeline, or an already trained model."""
    given = estimator if isinstance(estimator, list | tuple) else [estimator]
    own = [isinstance(each, Pipeline) or is_frozen(each) for each in given]
    return all(own) if all_of_them else any(own)
