"""From a ranking to advice in plain words: first whether any remedy is needed at all, then what to use."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from equipoise.app.compare.leaderboard import FEWEST_PAIRS, Interval, Place, Ranking
from equipoise.wording import counted

MOST_NAMES = 4
"""Most methods tied for first that a recommendation names."""
RULED_OUT = 0.05
"""Lead of the best method that the runs must rule out before the advice says "no remedy is needed" outright."""
NO_WORSE = "no worse as far as these runs show"


class Advice(NamedTuple):
    """A recommendation.

    Args:
        verdict: whether a remedy is needed, in one sentence.
        details: what to use, and how sure that is, in a few more.
    """

    verdict: str
    details: str

    def __str__(self) -> str:
        return f"{self.verdict} {self.details}".strip()


def recommend(
    ranking: Ranking,
    labels: Mapping[str, str],
    *,
    plain: Collection[str] = ("cross_entropy",),
    moved: Collection[str] = (),
    more: str = "give more seeds",
) -> Advice:
    """Return advice on whether a remedy is needed and what to use, never claiming more than the runs support.

    A plain method is recommended if it is not significantly worse than the best; otherwise a plain method with a moved
    threshold, under the same condition. If neither is close enough to be sure, the better one is named with a
    reservation. The intervals allow for having picked the best of many.

    Args:
        ranking: of :func:`~equipoise.app.compare.leaderboard.rank`.
        labels: display names of the methods; default: the method's own name.
        plain: methods that do nothing about imbalance.
        moved: plain methods whose decision alone is moved.
        more: advice for when there are too few runs.

    >>> from equipoise.app.compare import Interval, Ranking
    >>> lead = Interval(0.04, 0.03, 0.05, 10)
    >>> first = Place("weighted", 0.84, 0.01, 10, None, lead, tied=True)
    >>> second = Place("cross_entropy", 0.80, 0.01, 10, lead, None, tied=False)
    >>> ranking = Ranking("balanced_accuracy", "cross_entropy", (first, second), {}, {"cross_entropy": lead}, 0.95)
    >>> print(recommend(ranking, {"weighted": "class weights", "cross_entropy": "plain cross-entropy"}))
    A remedy is needed: class weights is 4.0 points (between 3.0 and 5.0) above plain cross-entropy, the best method
    without one. Use class weights: 84.0 % balanced accuracy.
    """
    places = ranking.places
    names = {place.method: labels.get(place.method, place.method) for place in places}
    if len(places) < 2:
        only = "".join(f"Only {name} was run, so there is nothing to compare it with." for name in names.values())
        return Advice(only or "No method could run on these data, so there is nothing to recommend.", "")
    first, best = places[0], names[places[0].method]
    if first.runs < FEWEST_PAIRS:
        fits = f"{counted(first.runs, 'fit')} of each method {'is' if first.runs == 1 else 'are'}"
        came = f"{best} came first this time, with {_score(ranking, first)}"
        return Advice(f"{fits} too few to tell whether a remedy is needed: {came}.", _sentence(more))
    return _verdict(ranking, names, plain, moved, more)


def _verdict(
    ranking: Ranking, names: Mapping[str, str], plain: Collection[str], moved: Collection[str], more: str
) -> Advice:
    places = ranking.places
    first, best = places[0], names[places[0].method]
    for nearest in filter(None, (_best_of(places, group) for group in (plain, moved))):
        if nearest is first:
            return _nothing_wins(ranking, nearest, names)
        if _level(ranking, nearest) and not _wide(ranking, nearest):
            return _nothing_suffices(ranking, nearest, _best_of(places, plain), names, more)
    reference = _best_of(places, {*plain, *moved})
    use = f"Use {best}: {_score(ranking, first)}. {_also(_tied(places, names), NO_WORSE)}".strip()
    if reference is None:
        return _without_reference(ranking, names, use, more)
    if _level(ranking, reference):
        return _nothing_suffices(ranking, reference, _best_of(places, plain), names, more)
    above = f"{_span(ranking.claims.get(reference.method))} above {names[reference.method]}"
    return Advice(f"A remedy is needed: {best} is {above}, the best method without one.", use)


def _level(ranking: Ranking, place: Place) -> bool:
    """Return whether the best method is not significantly better than this one."""
    lead = ranking.claims.get(place.method)
    return lead is None or lead.contains_zero


def _wide(ranking: Ranking, place: Place) -> bool:
    """Return whether the interval is wide enough to hide a difference that would matter."""
    lead = ranking.claims.get(place.method)
    return lead is None or lead.high is None or lead.high > RULED_OUT


def _nothing_wins(ranking: Ranking, nearest: Place, names: Mapping[str, str]) -> Advice:
    tied = _tied(ranking.places, names)
    others = _also(tied, "not significantly different") if tied else "Every other method is significantly worse."
    name = names[nearest.method]
    return Advice(
        f"No remedy is needed: {name} is the best method.", f"Use {name}: {_score(ranking, nearest)}. {others}"
    )


def _nothing_suffices(
    ranking: Ranking, nearest: Place, best_plain: Place | None, names: Mapping[str, str], more: str
) -> Advice:
    """Return advice for a plain method that is not significantly worse than the best."""
    wide, lead = _wide(ranking, nearest), ranking.claims.get(nearest.method)
    name, best = names[nearest.method], names[ranking.places[0].method]
    needed = "shown to be needed" if wide else "needed"
    verdict = f"No remedy is {needed}: {name} is not significantly worse than the best method, {best}."
    use, after = ("", ", which may be chance") if wide else ("Use ", "")
    stands = f"{use}{name}: {_score(ranking, nearest)}, {_span(lead)} below the best{after}."
    details = [stands[0].upper() + stands[1:]]
    if best_plain is not None and best_plain is not nearest and not _level(ranking, best_plain):
        behind = _span(ranking.claims.get(best_plain.method))
        details.append(f"The threshold matters: {names[best_plain.method]}, the best without it, is {behind} behind.")
    if wide:
        if len(ranking.places) > 2:
            details.append(f"This interval allows for having picked the best of {len(ranking.places)} methods.")
        details.append(f"To narrow this down, {more}; until then {best} is the better guess.")
    return Advice(verdict, " ".join(details))


def _without_reference(ranking: Ranking, names: Mapping[str, str], use: str, more: str) -> Advice:
    """Return what to use if every method did something about imbalance."""
    unknown = "Whether a remedy is needed is unknown, because no plain method was compared."
    if all(place.tied for place in ranking.places):
        best = names[ranking.places[0].method]
        use = f"{best} came first, but no other method is significantly worse: use the one that suits you, or {more}."
    return Advice(unknown, use)


def _best_of(places: Sequence[Place], group: Collection[str]) -> Place | None:
    return next((place for place in places if place.method in group), None)


def _tied(places: Sequence[Place], names: Mapping[str, str]) -> list[str]:
    return [names[place.method] for place in places[1:] if place.tied]


def _score(ranking: Ranking, place: Place) -> str:
    return f"{100 * place.mean:.1f} % {ranking.metric.replace('_', ' ')}"


def _also(names: list[str], what: str) -> str:
    if not names:
        return ""
    shown = names[:MOST_NAMES] + ([f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else [])
    joined = shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
    return _sentence(f"{joined} {'is' if len(names) == 1 else 'are'} {what}")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _span(interval: Interval | None) -> str:
    if interval is None:
        return "an unknown number of points"
    if interval.low is None or interval.high is None:
        said = f"{100 * interval.mean:.1f} points in {counted(interval.pairs, 'run')}"
    else:
        said = f"{100 * interval.mean:.1f} points (between {100 * interval.low:.1f} and {100 * interval.high:.1f})"
    return said.replace("-", "−")
