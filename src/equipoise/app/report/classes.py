"""The rows of the class table."""

from typing import Any

import numpy as np

from equipoise.app.report.confusion import by_count
from equipoise.app.report.record import Record
from equipoise.wording import plural

MOST_ROWS = 2000


def class_rows(record: Record) -> list[dict[str, Any]]:
    """One a class, the largest first; of too many the largest and the smallest."""
    metrics = {name: record.each(name) for name in ("recall", "precision", "f1")}
    nothing = np.full(len(record.classes), np.nan)
    metrics["uncertainty"] = nothing if record.uncertainty is None else record.uncertainty
    metrics["margin"] = nothing if record.margins is None else record.margins
    order = by_count(record).tolist()
    if len(order) > MOST_ROWS:
        order = order[: MOST_ROWS // 2] + order[-MOST_ROWS // 2 :]
    return [
        {
            "name": record.classes[place],
            "group": record.groups[place],
            "count": int(record.counts[place]),
            "support": int(record.support[place]),
            **{name: float(values[place]) for name, values in metrics.items()},
        }
        for place in order
    ]


def group_note(record: Record) -> str:
    """Which classes are called rare."""
    rare = record.in_group("rare")
    if not rare.any():
        return f"No {record.noun} is rare: the largest has less than 1.5 times the samples of the smallest."
    few, rest = int(record.counts[rare].max()), int(record.counts[~rare].min())
    return (
        f"The range of training counts is cut into three parts of equal ratio; rare {record.nouns} have at most "
        f"{few:,} {plural(few, 'sample')}, all others at least {rest:,}."
    )
