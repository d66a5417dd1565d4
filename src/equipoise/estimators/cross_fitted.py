"""Cross-fitted members of a blend: their folds, their fits, and their probabilities for rows they have not seen."""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor

from equipoise.calibration.scaling import SMALLEST_SHARE
from equipoise.data.labels import class_counts
from equipoise.data.splits import stratified_folds
from equipoise.errors import EquipoiseWarning, InvalidInputError, listed
from equipoise.estimators.families import family_label
from equipoise.estimators.member_outputs import Member, is_frozen, member_probabilities, take
from equipoise.estimators.unseen_rows import mean_as_if_unseen
from equipoise.tensor_checks import check_finite

Array = NDArray[Any]
Folds = Sequence[tuple[Array, Array]]
"""Rows that a member is fitted on, and rows that it predicts."""
MOST_OUT_OF_FOLD = 100_000
"""Most rows that are predicted out of fold, including all of the rare classes."""


@dataclass(frozen=True)
class CrossFittedMembers:
    """Fitted members of each classifier, one for each fold; the only member of a trained model is itself.

    Args:
        members: of each classifier, one for each fold.
        shares: of each class's rows that each member was fitted on; None means all.
        classes: the labels, or the attributes' numbers.
        several: whether a row has several labels.
    """

    members: list[list[Member]]
    shares: list[list[Array | None]]
    classes: Array
    several: bool

    @classmethod
    def fit(
        cls,
        chosen: Sequence[tuple[Any, int]],
        x: Any,
        target: Tensor,
        folds: Folds,
        weight: Tensor | None,
        *,
        classes: Array,
        seed: int,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> "CrossFittedMembers":
        """Fit every classifier of ``chosen`` to the rows of every fold, at most to as many as stand beside it."""
        members, shares = [], []
        for estimator, most in chosen:
            drawn = [thinned(part, target.numpy(), seed + number, most) for number, (part, _) in enumerate(folds)]
            shares.append([share for _, share in drawn])
            if is_frozen(estimator):
                members.append([estimator])
                continue
            if verbose:
                print(f"Fitting {len(folds)} members: {family_label(estimator)}.", file=sys.stderr, flush=True)
            weights, parts = None if weight is None else weight.numpy(), [rows for rows, _ in drawn]
            members.append(
                fit_members(estimator, x, target.numpy(), parts, sample_weight=weights, seed=seed, n_jobs=n_jobs)
            )
        return cls(members, shares, classes, target.ndim == 2)

    def outputs(self, x: Any) -> Tensor:
        """Return the probabilities of every member: (models, members, rows, ...)."""
        return torch.stack([self._of_model(*each, x) for each in zip(self.members, self.shares, strict=True)])

    def out_of_fold(
        self, x: Any, target: Tensor, weight: Tensor | None, folds: Folds, seed: int
    ) -> tuple[Array, Tensor, Tensor | None]:
        """Return rows, their out-of-fold probabilities by each classifier, (models, rows, ...), and their weights.

        In very large tables a sample of each class is weighted to stand for all of its rows.
        """
        predicted = self._predicted_rows(target, folds)
        rows, share = thinned(predicted, target.numpy(), seed, MOST_OUT_OF_FOLD)
        shape = (len(self.classes), 2) if self.several else (len(self.classes),)
        found = torch.zeros(len(self.members), len(rows), *shape, dtype=torch.float64)
        place = np.full(len(target), -1)
        place[rows] = np.arange(len(rows))
        for number, (_, own) in enumerate(folds):
            chosen = own[place[own] >= 0]
            part = take(x, chosen)
            for model, members in enumerate(self.members):
                found[model, place[chosen]] = self._output(members[number], self.shares[model][number], part)
        each = None if weight is None else weight[rows].double()
        if share is not None:
            weights = torch.ones(len(target), dtype=torch.float64) if weight is None else weight.double()
            whole, drawn = (class_counts(target[some], shape[0], weights[some]) for some in (predicted, rows))
            each = weights[rows] * (whole / drawn)[target[rows]]
        return rows, found, each

    def means_as_if_unseen(self, x: Any, target: Tensor, rows: Array, folds: Folds) -> Tensor:
        """Return what the members' mean would give unseen rows like these, though most members saw them.

        Returns:
            (models, rows, ...).
        """
        by = np.zeros(len(target), dtype=np.intp)
        for number, (_, predicted) in enumerate(folds):
            by[predicted] = number
        part = take(x, rows)
        outputs = (self._of_model(*each, part) for each in zip(self.members, self.shares, strict=True))
        return torch.stack([mean_as_if_unseen(each, target[rows], by[rows]) for each in outputs])

    def _of_model(self, members: list[Member], shares: list[Array | None], x: Any) -> Tensor:
        return torch.stack([self._output(*each, x) for each in zip(members, shares, strict=True)])

    def _output(self, member: Member, share: Array | None, x: Any) -> Tensor:
        """Return a member's probabilities at the class prior of all rows, though it was fitted on some."""
        known = self.classes if is_frozen(member) else None
        p = torch.from_numpy(member_probabilities(member, x, len(self.classes), known=known, several=self.several))
        if known is not None:  # it may have further classes
            p = p / p.sum(-1, keepdim=True).clamp_min(SMALLEST_SHARE)
        if share is not None:
            p = p / torch.from_numpy(share)
            p = p / p.sum(-1, keepdim=True)
        check_finite(p.isfinite().flatten(1).all(1).numpy())
        return p

    def _predicted_rows(self, target: Tensor, folds: Folds) -> Array:
        """Return the rows predicted by a member that has seen their class; others would suggest that it never occurs.

        Several labels have both values in nearly every fold and are not checked.
        """
        if self.several:
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
            named = listed([str(self.classes[place]) for place in lost], most=5, quoted=False)
            warnings.warn(
                f"all rows of {named} lie in one fold, so that no out-of-fold prediction shows how well it is "
                "recognised; its margin follows its count alone.",
                EquipoiseWarning,
                stacklevel=5,
            )
        return honest


def deal_folds(
    x: Any, labels: Array, counted: Array, *, cv: Any, members: Any, groups: ArrayLike | None, seed: int
) -> list[tuple[Array, Array]]:
    """Return the rows that a member is fitted on, and those that it predicts, all among the rows that count.

    Args:
        labels: of all rows, (rows,) or (rows, attributes).
        counted: rows of non-zero weight.
        cv: a splitter, folds or their number; None takes stratified ones, as many as ``members``.
        groups: kept in one fold, (rows,).
    """
    own = None if groups is None else np.asarray(groups)
    if own is not None and own.shape != (len(labels),):
        raise InvalidInputError(f"groups must name a group for each of the {len(labels)} rows, got {own.shape}.")
    whole = isinstance(cv, int | np.integer) and not isinstance(cv, bool)
    if cv is not None and not whole:
        splitter = check_cv(cv, labels if labels.ndim == 1 else None, classifier=True)
        found = [(np.asarray(a), np.asarray(b)) for a, b in splitter.split(x, labels, own)]
        return [(a[np.isin(a, counted)], b[np.isin(b, counted)]) for a, b in found]
    folds = cv if whole else members
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or folds < 2:
        raise InvalidInputError(f"members must be a whole number of at least 2, got {folds!r}.")
    given = None if own is None else own[counted]
    most = len(counted) if given is None else len(np.unique(given))
    if most < 2:
        raise InvalidInputError("groups must name at least two groups, got one; leave groups out.")
    dealt = stratified_folds(labels[counted], min(int(folds), most), seed=seed, groups=given, allow_missing=True)
    return [(counted[a], counted[b]) for a, b in dealt]


def fit_members(
    estimator: Any,
    x: Any,
    target: NDArray[np.int64],
    parts: Sequence[Array],
    *,
    sample_weight: Array | None,
    seed: int,
    n_jobs: int | None = None,
) -> list[Member]:
    """Fit copies of a classifier, one on each part of the rows.

    Args:
        estimator: unfitted; one with its own ``fit_members`` fits them together.
        x: rows, as the classifier takes them.
        target: class indices, (rows,), or 0 and 1, (rows, attributes).
        parts: the rows of each member.
        sample_weight: (rows,), or None.
        seed: of every random choice that the classifier leaves open.
    """
    if target.ndim == 2:
        each = [
            fit_members(estimator, x, column, parts, sample_weight=sample_weight, seed=seed + place, n_jobs=n_jobs)
            for place, column in enumerate(target.T)
        ]
        return [list(member) for member in zip(*each, strict=True)]
    seeded = [_seeded(estimator, seed + number) for number in range(len(parts))]
    if hasattr(estimator, "fit_members") and all(len(np.unique(target[part])) > 1 for part in parts):
        found: list[Member] = seeded[0].fit_members(x, target, parts, sample_weight)
        return found
    fits = (delayed(_fit)(model, x, target, part, sample_weight) for model, part in zip(seeded, parts, strict=True))
    return list(Parallel(n_jobs=n_jobs)(fits))


def _fit(model: Any, x: Any, target: NDArray[np.int64], part: Array, sample_weight: Array | None) -> Any:
    if len(np.unique(target[part])) < 2:
        return DummyClassifier(strategy="prior").fit(np.zeros((len(part), 1)), target[part])
    rows = take(x, part)
    if sample_weight is None:
        return model.fit(rows, target[part])
    step = model.steps[-1] if isinstance(model, Pipeline) else None
    if step is not None and get_config()["enable_metadata_routing"]:  # its steps have requested what they take
        return model.fit(rows, target[part], sample_weight=sample_weight[part])
    if not has_fit_parameter(model if step is None else step[1], "sample_weight"):
        raise InvalidInputError(f"{type(model).__name__} does not support sample_weight; leave the weights out.")
    return model.fit(rows, target[part], **{f"{step[0] + '__' if step else ''}sample_weight": sample_weight[part]})


def _seeded(estimator: Any, seed: int) -> Any:
    """Copy an estimator, and seed it wherever it leaves a seed open."""
    model = clone(estimator)
    given = model.get_params()
    names = [name for name, value in given.items() if name.rpartition("__")[2] == "random_state" and value is None]
    return model.set_params(**dict.fromkeys(names, seed))


def thinned(part: Array, target: NDArray[np.int64], seed: int, most: int) -> tuple[Array, Array | None]:
    """Draw at most this many rows by thinning the common classes, and return how much each class was thinned.

    Classes share the room evenly; what a rare one leaves goes to the others. Several labels are not thinned by class.

    Returns:
        The rows kept, in order, and the share kept of each class, (classes,); None if all are.
    """
    if len(part) <= most:
        return part, None
    rng = np.random.RandomState(seed)
    if target.ndim == 2:
        return np.sort(rng.choice(part, most, replace=False)), None
    counts = np.bincount(target[part], minlength=int(target.max()) + 1)
    kept = _room(counts, most)
    rows = [rng.choice(part[target[part] == label], size, replace=False) for label, size in enumerate(kept) if size]
    return np.sort(np.concatenate(rows)), np.where(counts > 0, kept / np.maximum(counts, 1), 1.0)


def _room(counts: Array, most: int) -> Array:
    """Divide room for this many rows: rare classes stay whole, the others share the rest equally.

    >>> _room(np.array([900, 50, 300]), 450).tolist()
    [200, 50, 200]
    """
    kept = np.zeros_like(counts)
    order, left = np.argsort(counts, kind="stable"), most
    for done, label in enumerate(order):
        kept[label] = min(counts[label], left // (len(order) - done))
        left -= kept[label]
    return kept
