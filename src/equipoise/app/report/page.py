"""One run -> one self-contained page."""

import base64
import hashlib
import math
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from equipoise.app.report.classes import class_rows, group_note
from equipoise.app.report.confusion import matrix, worst_pairs
from equipoise.app.report.curves import (
    MOST_LINES,
    abstention_figure,
    class_coverage_figure,
    reliability_figure,
    training_figure,
)
from equipoise.app.report.figures import before_after_figure, hardness_figure, uncertainty_figure
from equipoise.app.report.formats import number, percent, points
from equipoise.app.report.gallery import gallery
from equipoise.app.report.hardness import KINDS, hardness
from equipoise.app.report.provenance import origin
from equipoise.app.report.record import REMEDY, Record, read_record
from equipoise.app.report.reliability import reliability
from equipoise.app.report.review import MOST_CLASSES, SHOWN_STEP, Sending, sending, sent_rows, sent_sentence
from equipoise.app.report.trust import (
    calibrated_how,
    calibration_rows,
    calibrations,
    few_sentence,
    set_level,
    set_rows,
    set_sentence,
)
from equipoise.app.report.verdict import verdict
from equipoise.errors import InvalidInputError
from equipoise.storage.files import DiskFullError, foreign_files, write_atomically
from equipoise.wording import counted

REPORT = "report.html"
MOST_NAMED = 12


def write_report(run: str | Path, out: str | Path | None = None) -> Path:
    """Write the page of a finished run; it needs no other file and no network.

    Args:
        run: the run's folder.
        out: where to; None is ``report.html`` in the folder. An earlier page there is replaced.
    """
    record = read_record(run)
    path = page_path(record.folder / REPORT if out is None else out)
    with foreign_files(record.folder, REMEDY):
        page = render("report.html.j2", _content(record))
    return write_page(page, path)


def page_path(out: str | Path) -> Path:
    """Where a page can be written."""
    if Path(out).is_dir():
        raise InvalidInputError(f"the report cannot be written to {out}, which is a folder; name a file in it.")
    return Path(out)


def render(template: str, content: dict[str, Any]) -> str:
    """Fill a template: everything is escaped, and the page's policy allows its own script and style alone."""
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(
            **content,
            policy=policy,
            style=Markup(style),  # a file of ours
            script=Markup(script),
        )
    )


@cache
def _environment() -> jinja2.Environment:
    """Make the environment once: it keeps the templates that it has compiled."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "points": points, "number": number, "counted": counted}
    return environment


def write_page(page: str, path: Path) -> Path:
    """All of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page.encode("utf-8", errors="replace"))
    except DiskFullError:
        raise
    except OSError as error:
        raise InvalidInputError(f"the report cannot be written to {path} ({error}); choose another file.") from error
    return path


def _content(record: Record) -> dict[str, Any]:
    found, sent, kinds = reliability(record), sending(record), hardness(record)
    steps = [] if sent is None else sent.steps
    curve, places = abstention_figure(steps) if steps else (None, [])
    confusion = matrix(record)
    rows = class_rows(record)
    return {
        "record": record,
        "verdict": verdict(record),
        "rows": rows,
        "left_out": len(record.classes) - len(rows),
        "group_note": group_note(record),
        "uncertainty_figure": uncertainty_figure(record),
        "change_figure": before_after_figure(record),
        "matrix": confusion,
        "pairs": worst_pairs(record),
        "attributes": _attribute_rows(record),
        "reliability": [(part, reliability_figure(part, place)) for place, part in enumerate(found)],
        "trust": _trust(record),
        "steps": steps,
        "coverage_figure": curve,
        "sent": None if sent is None else _sent(record, sent),
        "training_figure": training_figure(record),
        "gallery": gallery(record),
        "hardness_figure": hardness_figure(record, kinds),
        "often_above": kinds.often_above,
        "kinds": _named_kinds(record),
        "origin": origin(record),
        "data": {
            "confusion": None if confusion is None else confusion.as_dict(),
            "steps": [_finite(step.as_dict()) for step in steps],
            "places": places,
        },
    }


def _sent(record: Record, found: Sending) -> dict[str, Any]:
    """Which classes are sent to the human most."""
    rows, tested = sent_rows(record, found), sum(count > 0 for count in found.shares.samples)
    return {
        "share": SHOWN_STEP,
        "sentence": sent_sentence(record, found),
        "rows": rows,
        "left_out": tested - len(rows),
        "means": tested > MOST_LINES,
        "figure": class_coverage_figure(record, found),
    }


def _trust(record: Record) -> dict[str, Any] | None:
    """Calibration and sets of possible classes; None for a run without them."""
    if record.held_out is None or record.held_out.trust is None:
        return None
    rows = set_rows(record)
    return {
        "calibration": calibration_rows(calibrations(record)),
        "how": calibrated_how(record),
        "few": few_sentence(record),
        "level": set_level(record),
        "sets": rows[:MOST_CLASSES],
        "sentence": set_sentence(record, rows),
        "left_out": max(0, len(rows) - MOST_CLASSES),
    }


def _named_kinds(record: Record) -> list[dict[str, Any]]:
    """The kinds that occur, with their classes, those missed most often first."""
    found = hardness(record)
    groups = []
    for kind, text in KINDS.items():
        mine = [place for place in range(len(record.classes)) if found.kinds[place] == kind]
        mine.sort(key=lambda place: -np.nan_to_num(found.missed[place], nan=-1))
        if not mine:
            continue
        names = []
        for place in mine[:MOST_NAMED]:
            rival = found.rivals[place]
            names.append(
                {
                    "name": record.classes[place],
                    "missed": found.missed[place],
                    "rival": record.classes[rival] if rival is not None and kind in ("needs data", "overlaps") else "",
                }
            )
        percents = kind not in ("learnt", "distinct")
        groups.append({"text": text, "names": names, "percents": percents, "more": len(mine) - len(names)})
    return groups


def _attribute_rows(record: Record) -> list[dict[str, Any]]:
    """What was found and missed of each attribute."""
    table = record.scores.get("confusion")
    if not record.multilabel or table is None:
        return []
    return [
        {"name": name, "found": cells[1][1], "missed": cells[1][0], "false": cells[0][1], "absent": cells[0][0]}
        for name, cells in zip(record.classes, table, strict=True)
    ]


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()}


def _asset(name: str) -> str:
    return (resources.files("equipoise.app.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
