"""The model card that ``save`` writes: what a model was trained on, how well it does by class, and its limits."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.decisions.expected_results import ClassExpectation
from equipoise.evaluation.intervals import Estimate
from equipoise.storage.files import read_plain, write_atomically, writing_into
from equipoise.storage.run_files import MODEL_CARD
from equipoise.storage.versions import versions

if TYPE_CHECKING:
    from equipoise.estimators.calibrated_classifier import CalibratedClassifier

LIBRARY = "library_name: equipoise"
"""The line of the header by which a card of ours is recognised."""
FEW = 30
"""Classes with fewer held-out samples than this have uncertain scores."""
MOST_NAMES, MOST_CLASSES = 40, 200
"""Most columns and classes that a card lists."""
MOST_BYTES = 2**20


def write_model_card(folder: Path, model: "CalibratedClassifier") -> None:
    """Write the card of a fitted model into a ``folder``, unless that has another README."""
    path = folder / MODEL_CARD
    if path.exists() and LIBRARY.encode() not in read_plain(path, most_bytes=MOST_BYTES):
        return
    with writing_into(folder, "a model"):
        write_atomically(path, model_card(model).encode())


def model_card(model: "CalibratedClassifier") -> str:
    """Return the model card of a fitted model as Markdown, with the header that the Hugging Face Hub reads."""
    name = type(model).__name__
    sections = [
        f"---\n{LIBRARY}\ntags:\n- equipoise\n- imbalanced-learning\n- classification\n---\n\n# {name}",
        _purpose(model),
        "## Training data\n\n" + "\n\n".join(_data(model)),
        "## Scores by class\n\n" + "\n\n".join(_scores(model)),
        "## Decision\n\n" + "\n".join(f"- {_text(line, most=1000)}" for line in _decision(model)),
        "## Limits\n\n" + "\n".join(f"- {line}" for line in _limits(model)),
        f"## Use\n\n```python\nfrom equipoise import {name}\n\nmodel = {name}.load(folder)  # this folder\n"
        "model.predict(X)\nmodel.predict_proba(X)\n```",
        "## Versions\n\n" + ", ".join(f"{package} {number}" for package, number in versions().items()) + ".",
    ]
    return "\n\n".join(sections) + "\n"


def _purpose(model: "CalibratedClassifier") -> str:
    kinds = model.history_["chosen"].get("classifiers")
    if kinds is None:
        built = f"a network trained by {_text(model.get_params(deep=False)['method'])}"
    else:
        built = f"{'a blend of ' if len(kinds) > 1 else ''}{', '.join(map(_text, kinds))}"
    several = "0 or 1 of each of" if model._multilabel else "one of"
    return f"A classifier for imbalanced data: {built}. It predicts {several} {len(model.classes_):,} labels."


def _data(model: "CalibratedClassifier") -> Iterator[str]:
    rows = model.history_["chosen"].get("rows")
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    size = f"{rows:,} rows" if rows else "An unrecorded number of rows"
    yield f"{size}, {model.n_features_in_:,} {'columns' if getattr(model, 'backbone', None) is None else 'channels'}."
    if names:
        more = "" if len(names) <= MOST_NAMES else f" and {len(names) - MOST_NAMES:,} more"
        yield f"Columns: {', '.join(_text(each) for each in names[:MOST_NAMES])}{more}."
    prior = np.atleast_1d(model.prior_)
    shares = prior[:, 1] if model._multilabel else prior
    lines = ["| class | share of the training rows | rows, about |", "|---|---:|---:|"]
    order = np.argsort(-shares, kind="stable")
    for place in order[:MOST_CLASSES]:
        count = f"{shares[place] * rows:,.0f}" if rows else "—"
        lines.append(f"| {_text(model.classes_[place])} | {100 * shares[place]:.2f} % | {count} |")
    yield "\n".join(lines)
    if len(order) > MOST_CLASSES:
        yield f"The {len(order) - MOST_CLASSES:,} rarest classes are not listed."


def _scores(model: "CalibratedClassifier") -> Iterator[str]:
    expected = model.decision_.expected
    if expected is None:
        yield (
            "None. The model was fitted without held-out rows, so its training rows would be the only ones to score; "
            "score it on rows of your own, or fit it again with some held out."
        )
        return
    kinds = "Out-of-fold predictions" if "classifiers" in model.history_["chosen"] else "Predictions"
    yield (
        f"{kinds} for {expected.rows:,} rows that the predicting model was not trained on, with 95 % intervals. "
        "Shares are those expected at the class prior of the decision."
    )
    lines = ["| class | samples | recall | precision |", "|---|---:|---:|---:|"]
    for each in _by_rarity(expected.classes)[:MOST_CLASSES]:
        lines.append(f"| {_text(each.name)} | {each.samples:,} | {_share(each.recall)} | {_share(each.precision)} |")
    yield "\n".join(lines)


def _by_rarity(classes: list[ClassExpectation]) -> list[ClassExpectation]:
    return sorted(classes, key=lambda each: each.samples)


def _decision(model: "CalibratedClassifier") -> Iterator[str]:
    chosen = model.decision_
    if model.decision is None and chosen.policy.as_aimed:
        yield "The most probable label at the class prior that the method aims at, by default a balanced one."
    else:
        yield f"The rule {chosen.rule!r}."
    yield from chosen.lines()


def _limits(model: "CalibratedClassifier") -> Iterator[str]:
    yield (
        "Probabilities hold where classes are as common as in the training rows. Elsewhere pass `target_prior`, or "
        "estimate it from unlabelled rows with `estimate_prior`."
    )
    expected = model.decision_.expected
    few = [] if expected is None else [each for each in _by_rarity(expected.classes) if each.samples < FEW]
    if few:
        named = ", ".join(f"{_text(each.name)} ({each.samples})" for each in few[:10])
        more = "" if len(few) <= 10 else f" and {len(few) - 10:,} more"
        yield f"Scores of classes with fewer than {FEW} held-out samples are uncertain: {named}{more}."
    yield "It was scored on rows like its training rows. Other places, times and populations are untested."
    yield "It labels every row, even one unlike its training rows; see `uncertainty` and `predict(X, abstain=…)`."


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return "—"
    value, low, high = (100 * part for part in (estimate.value, estimate.low, estimate.high))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]"


def _text(value: Any, *, most: int = 100) -> str:
    """Return a name as plain text inside Markdown: on one line, and without marks or HTML of its own.

    >>> print(_text("a|b <i>\\n*c*"))
    a\\|b &lt;i> \\*c\\*
    """
    line = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;")
    line = line if len(line) <= most else f"{line[: most - 1]}…"
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", line)
