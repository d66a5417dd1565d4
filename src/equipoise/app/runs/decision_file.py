"""``decision.json``: how an external model's predictions become balanced decisions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta, Struct
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.app.run_folder import write_json
from equipoise.app.runs.trained_run import Predictions
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.conformal import MOST_COUNTED, MOST_KEPT
from equipoise.calibration.scaling import Scaling
from equipoise.decisions import Chosen, DecisionRule, Situation
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.estimators.blending import Blend
from equipoise.storage.files import foreign_files
from equipoise.storage.records import Name, read_json

FORMAT = 1
REMEDY = "make it again with `equipoise rebalance`"
MOST_CLASSES = 10**4
HUMAN = 0.1
"""Default share of the answers flagged for human review."""
STEPS = 100
"""Shares of the labelled rows at which the uncertainty is stored, every hundredth, for ``--human``."""

Bounded = Annotated[float, Meta(ge=-1e6, le=1e6)]
Positive = Annotated[float, Meta(ge=1e-100, le=1e100)]
Share = Annotated[float, Meta(ge=0, le=1)]
Score = Annotated[float, Meta(ge=0, le=1e6)]
PerClass = Meta(min_length=2, max_length=MOST_CLASSES)


class ScalingRecord(Struct, frozen=True):
    """A scale and an offset per class: logits z become s·z + b."""

    scale: Annotated[list[Annotated[float, Meta(ge=1e-6, le=1e6)]], PerClass]
    bias: Annotated[list[Bounded], PerClass]

    @classmethod
    def of(cls, scaling: Scaling) -> "ScalingRecord":
        """Return plain numbers."""
        return cls(scaling.scale.tolist(), scaling.bias.tolist())

    def scaling(self) -> Scaling:
        """Return the scaling that :meth:`of` was given."""
        return Scaling(_tensor(self.scale), _tensor(self.bias))


class ConformalRecord(Struct, frozen=True):
    """Scores −ln p of one class's labelled rows, ascending; beyond a limit, those at evenly spaced ranks."""

    rows: Annotated[int, Meta(ge=0, le=MOST_COUNTED)]
    scores: Annotated[list[Score], Meta(max_length=MOST_KEPT)]


class DecisionRecord(Struct, frozen=True, kw_only=True):
    r"""The file's content; every list has an entry per class.

    The given probabilities p are mixed with a little of the uniform distribution. The logits are
    :math:`z_c = \ln \mathrm{softmax}_c(s \ln p + b) + m_c` with s and b from ``undistort`` and m from ``margins``;
    they aim at the class prior ``aimed``, and ``scaling`` calibrates them.

    Args:
        format: version of this format.
        columns: the column with each class's probability; null for the one class that gets the rest.
        prior: class prior of the labelled rows, at which probabilities are given.
        uncertainty: of the labelled rows' answers, at every hundredth of them.
        decision: the rule that answers, see :class:`~equipoise.decisions.Chosen`; absent for the default.
    """

    format: int
    classes: Annotated[list[Name], PerClass]
    columns: Annotated[list[Name | None], PerClass]
    prior: Annotated[list[Share], PerClass]
    aimed: Annotated[list[Annotated[float, Meta(ge=1e-100, le=1)]], PerClass]
    undistort: ScalingRecord
    class_uncertainty: Annotated[list[Positive], PerClass]
    margins: Annotated[list[Annotated[float, Meta(ge=0, le=700)]], PerClass]
    scaling: ScalingRecord
    uncertainty: Annotated[list[Score], Meta(min_length=STEPS + 1, max_length=STEPS + 1)]
    conformal: Annotated[list[ConformalRecord], PerClass]
    decision: dict[str, Any] | None = None


@dataclass(frozen=True)
class Decision:
    """Balanced decisions from an external model's probabilities.

    Args:
        classes: names of the classes, in the order of everything else.
        columns: each class's column in a table of predictions; None for the one that gets the rest.
        blend: undoes the model's distortions and shifts its logits by the margins.
        calibrated: from those logits to probabilities and to sets of classes.
        uncertainty: of the labelled rows at every hundredth of them, each by a decision fitted without it.
        chosen: the rule that answers, with its thresholds; None is the most probable class at a class prior.
    """

    classes: tuple[str, ...]
    columns: tuple[str | None, ...]
    blend: Blend
    calibrated: Calibrated
    uncertainty: NDArray[np.float64]
    multilabel: bool = False
    chosen: Chosen | None = None

    @classmethod
    def of(
        cls,
        fitted: BalancedClassifier,
        classes: tuple[str, ...],
        columns: tuple[str | None, ...],
        uncertainty: NDArray[np.float64],
        rule: DecisionRule | None = None,
    ) -> "Decision":
        """Build a decision from what :meth:`BalancedClassifier.from_predictions` fitted.

        ``uncertainty`` is that of the labelled rows, (rows,).
        """
        steps = np.quantile(uncertainty, np.arange(STEPS + 1) / STEPS, method="inverted_cdf")
        calibrated, chosen = fitted.calibrated_, None
        if rule is not None:
            prior, aimed = calibrated.prior.numpy(), calibrated.aimed.numpy()
            chosen = rule.choose(Situation(classes, prior, aimed, fitted.evidence_))
        return cls(classes, columns, fitted.blend_, calibrated, steps, chosen=chosen)

    def logits(self, probabilities: NDArray[np.float64]) -> Tensor:
        """Return the logits, (rows, classes), that ``calibrated`` takes."""
        return self.blend.logits(torch.from_numpy(probabilities)[None])

    def predictions(self, probabilities: NDArray[np.float64], prior: ArrayLike | None = None) -> Predictions:
        """Return the answers: by the rule, or the most probable class at a class prior.

        The uncertainty is the variance of the decided label, Σ p(1 − p).
        """
        logits, calibrated = self.logits(probabilities), self.calibrated
        p: Any = calibrated.probabilities(logits, prior).numpy()
        at_prior = calibrated.decision(logits, prior).softmax(-1)
        uncertainty: Any = (at_prior * (1 - at_prior)).sum(-1).numpy()
        if self.chosen is not None:
            return Predictions(p, self.chosen.places(calibrated, logits), uncertainty, logits)
        return Predictions(p, calibrated.decided(logits, prior).numpy(), uncertainty, logits)

    def human_threshold(self, share: float) -> float:
        """Return the uncertainty exceeded by this share of the labelled rows."""
        if share in (0, 1):
            return np.inf if share == 0 else -np.inf
        return float(np.quantile(self.uncertainty, 1 - share, method="inverted_cdf"))

    def save(self, path: Path) -> None:
        """Write ``decision.json``."""
        thresholds = self.calibrated.thresholds
        assert thresholds is not None  # from_predictions always fits them
        kept = [
            ConformalRecord(int(rows), scores[: min(int(rows), MOST_KEPT)].tolist())
            for rows, scores in zip(thresholds.counts, thresholds.scores, strict=True)
        ]
        record = DecisionRecord(
            format=FORMAT,
            classes=list(self.classes),
            columns=list(self.columns),
            prior=self.calibrated.prior.tolist(),
            aimed=self.calibrated.aimed.tolist(),
            undistort=ScalingRecord.of(self.blend.scalings[0]),
            class_uncertainty=self.blend.uncertainty.tolist(),
            margins=self.blend.margins.tolist(),
            scaling=ScalingRecord.of(self.calibrated.scaling),
            uncertainty=self.uncertainty.tolist(),
            conformal=kept,
            decision=None if self.chosen is None else self.chosen.to_json(),
        )
        write_json(path, record)

    @classmethod
    def load(cls, path: str | Path) -> "Decision":
        """Read ``decision.json`` from an untrusted file."""
        path = Path(path)
        if not path.exists():
            raise InvalidInputError(f"no such file: {str(path)!r}; give a decision.json of `equipoise rebalance`.")
        record = read_json(path, DecisionRecord, remedy=REMEDY)
        if record.format != FORMAT:
            raise InvalidInputError(
                f"{path} has format {record.format}, this version reads {FORMAT}; update equipoise."
            )
        _check(record, path)
        with foreign_files(path, REMEDY):
            blend = Blend(
                scalings=(record.undistort.scaling(),),
                weights=torch.ones(1, dtype=torch.float64),
                uncertainty=_tensor(record.class_uncertainty),
                margins=_tensor(record.margins),
            )
            uncertainty = np.array(record.uncertainty)
            classes, chosen = tuple(record.classes), None
            if record.decision is not None:
                chosen = Chosen.from_json(record.decision, classes, several=False, where=path)
            calibrated = _calibrated(record, path)
            return cls(classes, tuple(record.columns), blend, calibrated, uncertainty, chosen=chosen)


def _check(record: DecisionRecord, path: Path) -> None:
    """Raise an error for lists of different lengths, duplicate names, and shares that do not add up."""
    size = len(record.classes)
    names = ("columns", "prior", "aimed", "class_uncertainty", "margins", "conformal")
    lists = {name: getattr(record, name) for name in names}
    for name in ("undistort", "scaling"):
        lists |= {f"{name}.{part}": getattr(getattr(record, name), part) for part in ("scale", "bias")}
    for name, values in lists.items():
        if len(values) != size:
            raise InvalidInputError(f"{path} has {size} classes and {len(values)} entries in {name!r}; {REMEDY}.")
    named = [column for column in record.columns if column is not None]
    if len(set(record.classes)) < size or len(set(named)) < len(named) or len(named) < max(1, size - 1):
        raise InvalidInputError(
            f"{path} must name every class once, and a column of its own for all or all but one; {REMEDY}."
        )
    if not abs(sum(record.prior) - 1) < 1e-6 or sorted(record.uncertainty) != record.uncertainty:
        raise InvalidInputError(f"{path} holds an impossible prior or impossible uncertainties; {REMEDY}.")


def _calibrated(record: DecisionRecord, path: Path) -> Calibrated:
    kept = max(len(each.scores) for each in record.conformal)
    scores = np.full((len(record.classes), max(kept, 1)), np.inf, dtype=np.float32)
    for row, each in zip(scores, record.conformal, strict=True):
        row[: len(each.scores)] = each.scores
    arrays = {"conformal_scores": scores, "conformal_counts": np.array([each.rows for each in record.conformal])}
    tensors = {"prior": record.prior, "aimed": record.aimed, "scale": record.scaling.scale, "bias": record.scaling.bias}
    try:
        return Calibrated.from_tensors(
            (len(record.classes),),
            {name: _tensor(values) for name, values in tensors.items()}
            | {name: torch.from_numpy(values) for name, values in arrays.items()},
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{path} holds an impossible class prior or impossible scores; {REMEDY}.") from error


def _tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
