"""``equipoise compare``."""

import importlib
import math
import os
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equipoise.app.cli.flags import AsJson, Labels, Quiet, Target, check_weights
from equipoise.app.cli.printing import ConsoleWatcher, Interrupted, print_json, shown
from equipoise.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from equipoise.app.compare import Comparison, Fit, Interval
    from equipoise.data.samples import Samples


def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled data: as for training.")],
    target: Target = None,
    labels: Labels = None,
    group: Annotated[str | None, typer.Option(help="Column whose equal values stay in one fold: a patient.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between, and NAME=MODULE:OBJECT for an estimator of yours; default all but the "
            "research variants."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Each shuffles the folds and starts from other weights.")] = 5,
    folds: Annotated[int | None, typer.Option(min=2, help="Default 5, or the official test part.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Most minutes it may take, reading included; what did not fit is named."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    epochs: Annotated[int | None, typer.Option(min=1, help="Visits of all samples; default: by their number.")] = None,
    backbone: Annotated[str | None, typer.Option(help="For images, as in training.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Pretrained weights for the backbone.")] = None,
    freeze: Annotated[
        bool | None, typer.Option("--freeze/--fine-tune", help="Use the backbone as it is, or train it too.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=8, help="Side of the square that images are brought to.")] = None,
    out: Annotated[Path | None, typer.Option(help="A .jsonl file that keeps every fit; the same call goes on.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rank all methods on your data.

    Each gets the same network and the same folds; the ranking ends with what to use, in plain words.

    \b
    Examples:
        equipoise compare patients.csv --target diagnosis --budget 10
        equipoise compare patients.csv --methods cross_entropy,uncertainty_margin --seeds 3 --out fits.jsonl
        equipoise compare patients.csv --methods cross_entropy,mine=my_models:forest
    """
    started = time.monotonic()  # what is imported and read counts too
    from equipoise.app.runs.run_options import TrainOptions
    from equipoise.data.sources import check_source, open_data

    file = None if weights is None else str(weights)
    images = TrainOptions(data, backbone=backbone, weights=file, freeze=freeze, size=size)
    chosen = None if methods is None else named_methods(methods)
    check_source(data, target=target, labels=labels, group=group)
    check_weights(weights)
    from equipoise.app.compare import FitOptions  # torch
    from equipoise.app.compare import compare as run_comparison
    from equipoise.app.runs.inputs import make_input

    with ConsoleWatcher(quiet=quiet) as watcher:
        read = partial(open_data, data, target=target, labels=labels, group=group, size=size, progress=watcher.progress)
        samples = read() if budget is None else _in_time(read, started, budget, data)
        for sentence in samples.notes:
            watcher.note(sentence)
        try:
            found = run_comparison(
                samples,
                methods=chosen,
                seeds=seeds,
                folds=folds,
                budget_seconds=None if budget is None else 60 * budget,
                out=out,
                jobs=jobs,
                options=FitOptions(epochs=epochs),
                prepare=partial(make_input, options=images),
                progress=partial(_show, watcher),
                reading=partial(watcher.progress, name="features of the images"),
                note=watcher.note,
                started=started,
            )
        except KeyboardInterrupt:
            if out is None:
                raise
            raise Interrupted(f"stopped; finished fits are kept in {out}: the same command goes on.") from None
    for sentence in found.notes:
        watcher.note(sentence)
    if as_json:
        print_json(plain(found))
        return
    _print(Console(), found)


def named_methods(text: str) -> dict[str, Any]:
    """Return the methods of a command line: None for a known name, an estimator for ``NAME=MODULE:OBJECT``.

    The object is an estimator, or a class or function that makes one without arguments. The module is looked for where
    Python looks, and last in the present folder; importing it runs its code.
    """
    from equipoise.errors import InvalidInputError
    from equipoise.family_names import check_methods, family_names

    parts = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    known = [name for name, own, _ in parts if not own]
    twice = next((name for place, (name, *_) in enumerate(parts) if name in [one[0] for one in parts[:place]]), None)
    if twice is not None:
        raise InvalidInputError(f"--methods names {twice!r} twice; give each a name of its own.")
    if known or not parts:
        check_methods(known, family_names("equipoise.app.compare.methods", "METHODS"))
    return {name: _imported(name, place) if own else None for name, own, place in parts}


def _imported(name: str, place: str) -> Any:
    from equipoise.errors import InvalidInputError

    module, _, attribute = place.partition(":")
    if not (name and module and attribute):
        raise InvalidInputError(f"an estimator of yours is named NAME=MODULE:OBJECT, got {name}={place}.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found if hasattr(found, "fit") and not isinstance(found, type) else found()
    except Exception as error:  # whatever the user's own code raises
        reason = (str(error).splitlines() or [""])[0].rstrip(".")
        raise InvalidInputError(f"{place} gives no estimator ({type(error).__name__}: {reason}).") from error


def _in_time(read: "Callable[[], Samples]", started: float, minutes: float, data: str) -> "Samples":
    """Return what was read, as long as the budget lasts."""
    from equipoise.app.compare.deadline import Deadline, OutOfTimeError
    from equipoise.errors import InvalidInputError

    if not minutes > 0:
        raise InvalidInputError(f"--budget must be above 0 minutes, got {minutes:g}.")
    try:
        return Deadline(started, 60 * minutes).call(read)
    except OutOfTimeError:
        sentence = f"the budget of {minutes:g} min ended while {data} was being read; give more minutes."
        raise OutOfTimeError(sentence) from None


def _show(watcher: ConsoleWatcher, fit: "Fit", done: int, total: int) -> None:
    """Show a finished fit."""
    watcher.progress(done, total, f"{_label(fit.method)}, seed {fit.seed + 1}, fold {fit.fold + 1}")


def _label(name: str) -> str:
    from equipoise.app.compare import METHODS

    return METHODS[name].label if name in METHODS else name


def plain(found: "Comparison") -> dict[str, Any]:
    """Return what was found as plain values, without the single fits."""
    places = [
        asdict(place) | {"deviation": None if math.isnan(place.deviation) else place.deviation}
        for place in found.ranking.places
    ]
    return {
        "metric": found.ranking.metric,
        "places": places,
        "cannot_run": dict(found.ranking.cannot_run),
        "left_out": dict(found.left_out),
        "recommendation": found.recommendation,
        "notes": list(found.notes),
        "seeds": found.seeds,
        "folds": found.folds,
        "rounds": found.rounds,
        "seconds": found.seconds,
    }


def _print(console: Console, found: "Comparison") -> None:
    ranking = found.ranking
    runs = counted(found.seeds, "seed") + (f" × {counted(found.folds, 'fold')}" if found.folds else "")
    if found.rounds < found.seeds * (found.folds or 1):
        runs = f"{counted(found.rounds, 'fit')} of each method instead of {runs}"
    console.print(f"{ranking.metric.replace('_', ' ')}, {runs}", highlight=False)
    table = Table()
    baseline = "the baseline" if ranking.baseline is None else _label(ranking.baseline)
    for heading in ("", "method", "mean", "±", "points behind the best", f"points above {baseline}"):
        table.add_column(heading, justify="left" if heading in ("", "method") else "right")
    for position, place in enumerate(ranking.places, start=1):
        table.add_row(
            f"{position}{'=' if place.tied and position > 1 else ''}",
            shown(_label(place.method)),
            f"{place.mean:.1%}",
            "–" if math.isnan(place.deviation) else f"{100 * place.deviation:.1f}",
            _points(place.to_best),
            _points(place.to_baseline),
        )
    console.print(table)
    for what, why in ranking.cannot_run.items():
        console.print(shown(f"{_label(what)}: {why}"), highlight=False, soft_wrap=True)
    for why in dict.fromkeys(found.left_out.values()):
        names = "; ".join(_label(name) for name, own in found.left_out.items() if own == why)
        console.print(shown(f"Left out for the budget ({why}): {names}"), highlight=False, soft_wrap=True)
    console.print(shown(found.recommendation), highlight=False, soft_wrap=True)


def _points(interval: "Interval | None") -> str:
    """Show a difference in points, with half of its 95 % interval, which is symmetric."""
    if interval is None:
        return "–"
    if interval.high is None:
        return f"{100 * interval.mean:.1f}"
    return f"{100 * interval.mean:.1f} ± {100 * (interval.high - interval.mean):.1f}"
