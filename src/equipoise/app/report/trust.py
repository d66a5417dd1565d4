"""How far answers can be believed: probabilities before and after calibration, and sets of possible classes."""

from dataclasses import asdict
from typing import Any

import numpy as np

from equipoise.app.report.record import Record
from equipoise.calibration.conformal import LEVEL, class_coverage, unanswered_rows
from equipoise.calibration.reliability import Calibration, calibration_at_prior
from equipoise.decisions.abstention import abstained_shares, listed
from equipoise.storage.schema import CALIBRATION, fits
from equipoise.wording import plural

FIGURES = {
    "ece": "calibration error (ECE)",
    "mean_class_ece": "the same class by class, mean",
    "brier": "Brier score",
    "log_loss": "log loss",
}
FEW = 30
"""Held-out samples of a class below which figures at a balanced mix are said to rest on few."""


def calibrations(record: Record) -> dict[str, tuple[Calibration, Calibration]]:
    """Measure calibration without and with the scaling, at the training samples' class prior and a balanced one."""
    held = record.held_out
    if held is None or held.trust is None:
        return {}
    trust = held.trust
    priors = {"natural": trust.prior, "balanced": np.full(trust.prior.shape, 1 / trust.prior.shape[-1])}
    return {
        name: (
            calibration_at_prior(trust.uncalibrated, held.labels, held.predicted, old=trust.prior, new=prior),
            calibration_at_prior(held.probabilities, held.labels, held.predicted, old=trust.prior, new=prior),
        )
        for name, prior in priors.items()
    }


def calibration_rows(found: dict[str, tuple[Calibration, Calibration]]) -> list[dict[str, Any]]:
    """One a figure."""
    rows = []
    for name, text in FIGURES.items():
        row: dict[str, Any] = {"text": text, "percent": name.endswith("ece")}
        for mix, (before, after) in found.items():
            row |= {f"{mix}_before": asdict(before)[name], f"{mix}_after": asdict(after)[name]}
        rows.append(row)
    return rows


def calibrated_how(record: Record) -> str:
    """Which samples the probabilities are calibrated on, as the run's record says."""
    told = _told(record)
    if told.get("source") == "held_out":
        return (
            f"The model's probabilities are calibrated on the held-out samples. For the figures here these were cut "
            f"into {told['folds']} parts, and each was answered with a calibration on the others: no sample flatters "
            "itself."
        )
    if told.get("source") == "held_back":
        return (
            "There are too few held-out samples to calibrate on; the model's probabilities are calibrated on training "
            "samples which the first two stages have left out."
        )
    return "There are too few held-out samples to calibrate on, and the model's probabilities are as they are."


def set_level(record: Record) -> float:
    """The share of each class's samples whose set is to hold their class."""
    return float(_told(record).get("level", LEVEL))


def never_ruled_out(record: Record) -> list[str]:
    """Classes that the saved model was calibrated on too few samples of to rule them out, as the run's record says."""
    known = set(_told(record).get("never_ruled_out", ()))
    return [name for name in record.classes if name in known]


def _told(record: Record) -> dict[str, Any]:
    told = record.about.get("calibration")
    return told if isinstance(told, dict) and fits(told, CALIBRATION) else {}


def few_sentence(record: Record) -> str:
    """Which class has fewest held-out samples, where a balanced mix rests on few."""
    tested = record.support[record.support > 0]
    least = int(tested.min()) if len(tested) else 0
    if not 0 < least < FEW:
        return ""
    name = record.classes[int(np.flatnonzero(record.support == least)[0])]
    return (
        f"At a balanced mix {name} counts as much as the largest {record.noun} and has {least:,} held-out "
        f"{plural(least, 'sample')}: such figures come out too high by chance."
    )


def set_rows(record: Record) -> list[dict[str, Any]]:
    """One a class that has held-out samples, those left unanswered most first."""
    held = record.held_out
    if held is None or held.trust is None:
        return []
    sets = held.trust.sets
    coverage, sizes = class_coverage(sets, held.labels)
    shares = abstained_shares(held.labels, unanswered_rows(sets), len(record.classes))
    always = set(never_ruled_out(record))
    rows: list[dict[str, Any]] = []
    for place, count in enumerate(shares.samples):
        if not count:
            continue
        rows.append(
            {
                "name": record.classes[place],
                "group": record.groups[place],
                "support": count,
                "coverage": float(coverage[place]),
                "sent": shares.each[place],
                "size": float(sizes[place]),
                "verdict": shares.verdicts[place],
                "always": record.classes[place] in always,
            }
        )
    return sorted(rows, key=lambda row: -row["sent"])


def set_sentence(record: Record, rows: list[dict[str, Any]]) -> str:
    """How many samples are left unanswered, and which classes most, in plain words."""
    held = record.held_out
    if held is None or held.trust is None:
        return ""
    share = float(unanswered_rows(held.trust.sets).mean())
    settled = "an attribute is not settled" if record.multilabel else "more than one class remains"
    said = f"For {share:.1%} of the held-out samples {settled}."
    always = never_ruled_out(record)
    if always:
        said += f" Too few samples to be ruled out, and so possible for every sample: {listed(always)}."
    away = [f"{row['name']} ({row['sent']:.0%})" for row in rows if row["verdict"] == "abstained away"]
    if not away:
        return f"{said} No {record.noun} is left unanswered far more often than the rest."
    return f"{said} Left unanswered far more often than the rest: {listed(away)}."
