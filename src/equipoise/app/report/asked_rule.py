"""The decision rule that a run was given: its flags, its promises, and its threshold for a class."""

import shlex

from equipoise.app.decision_options import DECISION_FLAGS
from equipoise.app.stored_run import StoredRun
from equipoise.decisions import Chosen


def asked_rule(run: StoredRun) -> Chosen | None:
    """Return the run's own rule with its thresholds; None for the default."""
    if run.record.decision is None:
        return None
    names = (run.record.attributes if run.multilabel else None) or run.record.classes
    return Chosen.from_json(run.record.decision, tuple(names), several=run.multilabel, where=run.folder)


def is_asked(run: StoredRun) -> bool:
    """Return whether the run answers by another rule than the default."""
    return differs(asked_rule(run))


def differs(chosen: Chosen | None) -> bool:
    """Return whether the user chose the rule, rather than leaving the default."""
    return chosen is not None and not chosen.policy.as_aimed


def asked_flags(run: StoredRun) -> str:
    """Return the flags that asked for the rule, as typed; empty if it was set otherwise."""
    given = ((flag, run.record.options.get(name)) for name, flag in DECISION_FLAGS.items())
    known = [(flag, value) for flag, value in given if isinstance(value, str | int | float)]
    return " ".join(f"{flag} {shlex.quote(str(value))}" for flag, value in known)


def asked_sentences(run: StoredRun) -> list[str]:
    """Return what was asked for, what is expected, and what can and cannot be promised; nothing for the default."""
    chosen = asked_rule(run)
    if chosen is None:
        return []
    flags = asked_flags(run)
    return [f"You asked for {flags or repr(chosen.rule)}.", *chosen.lines()]


def asked_share(chosen: Chosen, place: int) -> float | None:
    """Return how common the class is where the rule is used; None means as in training."""
    if chosen.target_prior is None:
        return None
    own = chosen.target_prior[place]
    return float(own[1] / own.sum() if own.ndim else own / chosen.target_prior.sum())


def asked_threshold(chosen: Chosen, place: int, prior: float) -> float | None:
    """Return the probability from which the rule predicts a class where its share is ``prior``.

    None without a single threshold, as with more than two classes.
    """
    policy = chosen.policy
    if policy.thresholds is not None:
        threshold = float(policy.thresholds[place])
    elif len(chosen.classes) == 2 and policy.claims and policy.claims[0].places == (place,):
        threshold = policy.claims[0].threshold
    else:
        return None
    share = asked_share(chosen, place)
    if share is None or not 0 < threshold < 1 or not 0 < share < 1:
        return threshold
    odds = threshold / (1 - threshold) * (prior / (1 - prior)) * ((1 - share) / share)
    return odds / (1 + odds)
