"""``equipoise evaluate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from equipoise.app.cli.flags import (
    DECISION,
    Abstain,
    AsJson,
    Prior,
    Quiet,
    RunFolder,
    rule_of_flags,
    takes,
    tell_expected,
)
from equipoise.app.cli.printing import (
    ConsoleWatcher,
    print_json,
    print_scores,
    print_sentence,
    print_sets,
    print_verdict,
    shares_sentence,
)

if TYPE_CHECKING:
    from equipoise.app.report.model_grade import ModelGrade
    from equipoise.app.run_folder import RunRecord
    from equipoise.app.runs import RunModel
    from equipoise.app.runs.evaluate import Evaluation


@takes("target", "labels", *DECISION)
def evaluate(
    run: RunFolder,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled data, in the format of the training data.")],
    *,
    prior: Prior = None,
    abstain: Abstain = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Score a finished run on other labelled data.

    --recall, --precision, --cost, --review and --f-score score a decision rule other than the run's own.

    --abstain adds, for each class, how often the prediction set contains the true class, and how often it contains
    more than one.

    \b
    Examples:
        equipoise evaluate runs/patients second-hospital.csv
        equipoise evaluate runs/patients second-hospital.csv --prior estimate --abstain 0.1
        equipoise evaluate runs/payments last-month.csv --cost miss:fraud=50
        equipoise evaluate runs/photos new-photos/ --json
    """
    from equipoise.app.run_folder import finished_record

    rule, where = rule_of_flags(values), {name: values[name] for name in ("target", "labels")}
    _check_source(finished_record(run), data, **where)
    from equipoise.app.runs.evaluate import evaluate_run  # torch
    from equipoise.app.runs.trained_run import RunModel

    model = RunModel.load(run)
    with ConsoleWatcher(quiet=quiet) as watcher:
        found = evaluate_run(model, data, watcher=watcher, prior=prior, abstain=abstain, rule=rule, **where)
    judged = _grade(model, found)
    if as_json:
        content = {"run": str(run), "data": data, "classes": list(model.classes), "scores": found.scores.as_dict()}
        decision = None if found.decision is None else found.decision.to_json()
        rest = {"prior": found.prior, "sets": found.sets, "verdict": judged.as_dict()}
        print_json(content | rest | {"decision": decision, "cost": found.cost, "outcome": found.outcome})
        return
    if found.prior is not None:
        watcher.note(shares_sentence("estimated class prior" if prior == "estimate" else "class prior", found.prior))
    _print(model, found, judged)


def _print(model: "RunModel", found: "Evaluation", judged: "ModelGrade") -> None:
    print_scores(
        Console(),
        found.scores,
        model.classes,
        uncertainty=model.learnt("class_uncertainty"),
        margins=model.learnt("margins"),
        title="On {samples:,} samples",
    )
    if found.decision is not None:
        tell_expected(found.decision)
    for sentence in found.outcome:
        print_sentence(sentence[0].upper() + sentence[1:])
    if found.sets is not None:
        print_sets(Console(), found.sets)
    print_verdict(Console(), judged.headline, judged.sentences)


def _check_source(record: "RunRecord", data: str, *, target: str | None, labels: str | None) -> None:
    """Raise an error for missing data, and for a table without the column that the run, or the user, names."""
    from equipoise.data.sources import check_source
    from equipoise.storage.archives import is_archive

    if not Path(data).exists():
        check_source(data)
    elif record.input is not None and record.input.kind == "table" and Path(data).is_file() and not is_archive(data):
        check_source(data, target=target or record.target, labels=labels)


def _grade(model: "RunModel", found: "Evaluation") -> "ModelGrade":
    import numpy as np

    from equipoise.app.report.asked_rule import differs
    from equipoise.app.report.model_grade import worth
    from equipoise.data.summary import class_groups

    counts = model.learnt("train_counts") or [1] * len(model.classes)
    rare = np.array(class_groups(counts)) == "rare"
    return worth(found.skill, model.classes, rare, multilabel=model.multilabel, asked=differs(found.decision))
