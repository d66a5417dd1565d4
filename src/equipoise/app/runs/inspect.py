"""``equipoise inspect``: classes that need more data, and samples whose label needs another look."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from equipoise.app.run_folder import finished_record
from equipoise.app.stored_arrays import JudgedLabels, read_judged_labels
from equipoise.app.stored_run import StoredRun, read_run

if TYPE_CHECKING:
    from equipoise.app.report.sections.hardness import HardnessKind

ADVICE: "dict[HardnessKind, str]" = {
    "needs data": "collect more",
    "overlaps": "look at labels and features",
    "middling": "better than average, but not good",
    "unclear": "too few held out to tell",
    "distinct": "seldom missed, though rare",
    "learnt": "seldom missed",
}
"""Advice for each kind of class, the most urgent first."""
FALSE_ALARMS = "seldom missed, mostly false alarms"
"""Advice for a class that is predicted too often: fewer than half of its predictions are right."""


@dataclass(frozen=True)
class ClassAdvice:
    """Advice on a class or an attribute; None is unknown.

    Its training samples, the share of ``tested`` ones that was missed, the class they were mostly mistaken for, and how
    many of its labels are suspected.
    """

    name: str
    samples: int
    tested: int
    missed: float | None
    precision: float | None
    taken_for: str | None
    suspected: int
    kind: str
    advice: str


@dataclass(frozen=True)
class Inspection:
    """Findings of a run about its data.

    Args:
        classes: the most urgent first.
        ranking: every label that could be judged, the most doubtful first: ``row`` or ``file``, ``part``, with several
            labels ``attribute``, ``label``, ``suggested`` and ``score``.
        labels: number of labels given; those missing in the ranking belong to classes too small to judge.
        several: whether a sample has several labels.
    """

    classes: tuple[ClassAdvice, ...]
    ranking: pd.DataFrame
    labels: int
    several: bool

    @property
    def suspected(self) -> int:
        """Labels that fit another class better than their own."""
        return int((self.ranking["score"] > 0.5).sum())

    def as_dict(self, top: int) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "classes": [asdict(entry) for entry in self.classes],
            "labels": self.labels,
            "judged": len(self.ranking),
            "suspected": self.suspected,
            "samples": self.ranking.head(top).to_dict(orient="records"),
        }


def inspect_run(folder: str | Path) -> Inspection:
    """Read a finished run, opening only the files of its folder."""
    folder = Path(folder)
    finished_record(folder)
    record = read_run(folder)
    judged = read_judged_labels(folder, len(record.classes), multilabel=record.multilabel)
    return Inspection(_advice(record, judged), ranking(judged, record.classes), judged.labels.size, record.multilabel)


def _advice(record: StoredRun, judged: JudgedLabels) -> tuple[ClassAdvice, ...]:
    from equipoise.app.report.sections.hardness import hardness

    found, right, doubtful = hardness(record), record.each("precision"), judged.doubt.suspected
    own = np.bincount(judged.labels[doubtful].ravel(), minlength=len(record.classes))
    suspected, entries = doubtful.sum(0) if record.multilabel else own, []
    for place, name in enumerate(record.classes):
        missed, rival, kind = float(found.missed[place]), found.rivals[place], found.kinds[place]
        entries.append(
            ClassAdvice(
                name=name,
                samples=int(record.counts[place]),
                tested=int(record.support[place]),
                missed=None if np.isnan(missed) else missed,
                precision=None if np.isnan(right[place]) else float(right[place]),
                taken_for=None if rival is None else record.classes[rival],
                suspected=int(suspected[place]),
                kind=kind,
                advice=FALSE_ALARMS if kind in ("distinct", "learnt") and right[place] < 0.5 else ADVICE[kind],
            )
        )
    urgency = [str(kind) for kind in ADVICE]
    return tuple(sorted(entries, key=lambda entry: (urgency.index(entry.kind), -(entry.missed or 0.0))))


def ranking(judged: JudgedLabels, classes: tuple[str, ...]) -> pd.DataFrame:
    """Return all labels that could be judged, the most doubtful first."""
    several, names = judged.labels.ndim == 2, np.array(classes, dtype=object)
    order = judged.doubt.ranking()
    sample, column = np.divmod(order, judged.labels.shape[1]) if several else (order, order)
    if judged.names is None:
        columns: dict[str, Any] = {"row": judged.rows[sample]}
    else:
        columns = {"file": [judged.names[place] for place in sample.tolist()]}
    columns["part"] = np.where(judged.test[sample], "test", "train")
    given, better = judged.labels.ravel()[order], judged.doubt.suggested.ravel()[order]
    if several:
        columns |= {"attribute": names[column], "label": given, "suggested": better}
    else:
        columns |= {"label": names[given], "suggested": names[better]}
    return pd.DataFrame(columns | {"score": judged.doubt.score.ravel()[order]})
