"""``equipoise compare``."""

import math
import time
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from equipoise.app.cli import completion
from equipoise.app.cli.flags import DECISION, AsJson, Quiet, check_weights, takes
from equipoise.app.cli.printing import ConsoleWatcher, Interrupted, new_table, print_json, shown
from equipoise.app.imported_estimator import imported_estimator
from equipoise.app.runs.run_options import RunOptions
from equipoise.errors import InvalidInputError
from equipoise.registry_names import check_methods, method_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from equipoise.app.compare import Comparison, Fit, Interval
    from equipoise.data.samples import Samples


Methods = Annotated[
    str | None,
    typer.Option(
        help="Comma-separated names, and NAME=MODULE:OBJECT for your own estimator; default: all but the "
        "research variants.",
        autocompletion=completion.methods,
    ),
]
Seeds = Annotated[
    int, typer.Option(min=1, help="Number of seeds; each shuffles the folds and starts from other weights.")
]
Folds = Annotated[int | None, typer.Option(min=2, help="Number of folds; default 5, or the official test part.")]
Budget = Annotated[
    float | None, typer.Option(min=0, help="Time limit in minutes, including reading; methods left out are listed.")
]
Out = Annotated[Path | None, typer.Option(help="Store fits in this .jsonl file; the same command then continues.")]
Page = Annotated[Path | None, typer.Option(help="Write the result as a self-contained .html page, or as .md.")]
COLUMNS = ("target", "labels", "group", "drop", "keep", "kind", "text_encoder")
NETWORK = ("epochs", "backbone", "weights", "freeze", "size")


@takes("data", *COLUMNS, *DECISION, *NETWORK)
def compare(
    *,
    methods: Methods = None,
    seeds: Seeds = 5,
    folds: Folds = None,
    budget: Budget = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    out: Out = None,
    page: Page = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Rank all methods on your data.

    Compares forests, boosting, losses and resamplers on the same folds. The first sentence says whether a remedy for
    imbalance is needed at all, the last one what to use.

    With --cost, --recall, --precision, --review or --f-score every method decides by that rule, with thresholds chosen
    on other test rows than those it is scored on. Methods are then ranked by the cost saved compared with a constant
    answer (--cost), by the share of false alarms avoided at this recall (--recall), by the share of cases found
    (--precision, --review), or by the F score (--f-score).

    \b
    Examples:
        equipoise compare patients.csv --target diagnosis --budget 10 --page methods.html
        equipoise compare payments.csv --target kind --cost miss:fraud=50
        equipoise compare machines.csv --target state --recall failure=0.95
        equipoise compare patients.csv --methods cross_entropy,uncertainty_margin --seeds 3 --out fits.jsonl
        equipoise compare patients.csv --methods boosting,boosting_prior_shift,mine=my_models:MyClassifier
    """
    started = time.monotonic()  # what is imported and read counts too
    options = RunOptions(**values)
    chosen = None if methods is None else named_methods(methods)
    _check(options, chosen, page, budget)
    with ConsoleWatcher(quiet=quiet) as watcher:
        samples = _samples(options, watcher, started, budget)
        limits = {"seeds": seeds, "folds": folds, "jobs": jobs, "started": started, "out": out}
        limits["budget_seconds"] = None if budget is None else 60 * budget
        try:
            found = _compared(samples, options, watcher, methods=chosen, **limits)
        except KeyboardInterrupt:
            if out is None:
                raise
            raise Interrupted(f"stopped; finished fits are kept in {out}: the same command continues.") from None
    _tell(found, watcher, page, data=options.data, as_json=as_json)


def _check(options: RunOptions, chosen: dict[str, Any] | None, page: Path | None, budget: float | None) -> None:
    """Refuse data, methods, pages and budgets that cannot be used, before anything takes time."""
    from equipoise.data.sources import check_source

    if budget is not None and not budget > 0:
        raise InvalidInputError(f"--budget must be above 0 minutes, got {budget:g}.")
    where = {"target": options.target, "labels": options.labels, "group": options.group}
    check_source(options.data, **where, columns=options.columns)
    check_weights(options.weights)
    from equipoise.app.compare.comparison_page import check_page  # torch
    from equipoise.app.compare.methods import check_installed

    check_installed(name for name, own in (chosen or {}).items() if own is None)
    if page is not None:
        check_page(page)


def _samples(options: RunOptions, watcher: ConsoleWatcher, started: float, budget: float | None) -> "Samples":
    """Read the data within the time budget."""
    from equipoise.data.sources import open_data

    where: dict[str, Any] = {name: getattr(options, name) for name in ("target", "labels", "group", "size")}
    read = partial(open_data, options.data, **where, progress=watcher.progress)
    samples = options.columns.of(read() if budget is None else _in_time(read, started, budget, options.data))
    watcher.note(*samples.notes)
    return samples


def _compared(samples: "Samples", options: RunOptions, watcher: ConsoleWatcher, **more: Any) -> "Comparison":
    from equipoise.app.compare import FitOptions
    from equipoise.app.compare import compare as run_comparison
    from equipoise.app.runs.preprocessing import make_input

    return run_comparison(
        samples,
        decision=options.decision(),
        options=FitOptions(epochs=options.epochs),
        prepare=partial(make_input, options=options),
        progress=partial(_show, watcher),
        reading=partial(watcher.progress, name="features of the images"),
        note=watcher.note,
        **more,
    )


def _tell(found: "Comparison", watcher: ConsoleWatcher, page: Path | None, *, data: str, as_json: bool) -> None:
    """Print the comparison, and write its page."""
    from equipoise.app.compare.comparison_page import write_methods_page

    watcher.note(*found.notes)
    written = None if page is None else write_methods_page(found, page, data=data)
    if as_json:
        print_json(plain(found) | ({} if written is None else {"page": str(written)}))
    else:
        _print(Console(), found)
    if written is not None:
        watcher.note(f"Open {written} in a browser." if written.suffix != ".md" else f"The table is in {written}.")


def named_methods(text: str) -> dict[str, Any]:
    """Return the methods of a command line: None for a known name, an estimator for ``NAME=MODULE:OBJECT``.

    The object is an estimator, or a class or function that makes one without arguments. The module is looked for where
    Python looks, and last in the present folder; importing it runs its code.
    """
    parts = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    known = [name for name, own, _ in parts if not own]
    for name, times in Counter(name for name, *_ in parts).items():
        if times > 1:
            raise InvalidInputError(f"--methods names {name!r} twice; give each a name of its own.")
    if known or not parts:
        check_methods(known, method_names())
    return {name: imported_estimator(place, name) if own else None for name, own, place in parts}


def _in_time(read: "Callable[[], Samples]", started: float, minutes: float, data: str) -> "Samples":
    """Return what was read; raise an error once the budget has run out."""
    from equipoise.app.compare.deadline import Deadline, OutOfTimeError

    try:
        return Deadline(started, 60 * minutes).call(read)
    except OutOfTimeError:
        sentence = f"the budget of {minutes:g} min ran out while reading {data}; give more minutes."
        raise OutOfTimeError(sentence) from None


def _show(watcher: ConsoleWatcher, fit: "Fit", done: int, total: int) -> None:
    """Show a finished fit."""
    from equipoise.app.compare import METHODS

    label = METHODS[fit.method].label if fit.method in METHODS else fit.method
    watcher.progress(done, total, f"{label}, seed {fit.seed + 1}, fold {fit.fold + 1}")


def plain(found: "Comparison") -> dict[str, Any]:
    """Return the result as plain values, without the single fits."""
    places = [
        asdict(place)
        | {"deviation": None if math.isnan(place.deviation) else place.deviation}
        | {"scores": found.means(place.method)}
        for place in found.ranking.places
    ]
    return {
        "metric": found.ranking.metric,
        "baseline": found.ranking.baseline,
        "verdict": found.verdict,
        "recommendation": found.recommendation,
        "places": places,
        "cannot_run": dict(found.ranking.cannot_run),
        "left_out": dict(found.left_out),
        "notes": list(found.notes),
        "seeds": found.seeds,
        "folds": found.folds,
        "rounds": found.rounds,
        "seconds": found.seconds,
    }


def _print(console: Console, found: "Comparison") -> None:
    from equipoise.app.compare.comparison_page import absences, basis, table_rows

    console.print(f"[bold]{shown(found.verdict)}[/bold]", highlight=False, soft_wrap=True)
    console.print(basis(found), highlight=False, soft_wrap=True)
    metric = found.ranking.metric.replace("_", "\n")  # narrow columns leave room for the names
    counted = None if found.yardstick is None else found.yardstick.counted
    headings = ["", "method", metric, "behind\nthe best", "average\nprecision", "log\nloss"]
    headings += [] if counted is None else [f"{counted.replace('_', ' ')}\nper 1,000"]
    table = new_table(*headings, left=("", "method"))
    for place, row in zip(found.ranking.places, table_rows(found), strict=True):
        cells = [row["position"], shown(row["label"]), f"{place.mean:.1%}", _points(place.to_best)]
        cells += [row["shown"][name] for name in ("macro_average_precision", "log_loss")]
        table.add_row(*cells, *([] if counted is None else [f"{row['values'][counted]:,.1f}"]))
    console.print(table)
    for sentence in filter(None, (*absences(found), found.recommendation.removeprefix(found.verdict).strip())):
        console.print(shown(sentence), highlight=False, soft_wrap=True)


def _points(interval: "Interval | None") -> str:
    """Show a difference in points, with half of its 95 % interval, which is symmetric."""
    if interval is None:
        return "–"
    if interval.high is None:
        return f"{100 * interval.mean:.1f}"
    return f"{100 * interval.mean:.1f} ± {100 * (interval.high - interval.mean):.1f}"
