"""A ranking in plain words: which method to use, and whether it matters."""

from collections.abc import Mapping

from equipoise.app.compare.ranking import FEWEST_PAIRS, Interval, Place, Ranking
from equipoise.wording import counted

MOST_NAMES = 4


def recommend(ranking: Ranking, labels: Mapping[str, str], *, more: str = "give more seeds") -> str:
    """A few sentences: the winner, "no difference" where there is none, and never more than the runs can bear.

    Args:
        ranking: of :func:`rank`.
        labels: names of the methods for people; a method without one goes by its own.
        more: what to do where the runs are too few.

    >>> from equipoise.app.compare import Interval, Ranking
    >>> first = Place("weighted", 0.84, 0.01, 10, None, Interval(0.04, 0.03, 0.05, 10), tied=True)
    >>> second = Place("cross_entropy", 0.80, 0.01, 10, Interval(0.04, 0.03, 0.05, 10), None, tied=False)
    >>> ranking = Ranking("balanced_accuracy", "cross_entropy", (first, second), {}, first.to_baseline, 0.95)
    >>> recommend(ranking, {"weighted": "class weights"})
    'Use class weights: 84.0 % balanced accuracy, 4.0 points (between 3.0 and 5.0) above cross_entropy.'
    """
    places = ranking.places
    if not places:
        return "No method could run on these data, so there is nothing to recommend."
    first = places[0]
    if len(places) == 1:
        return f"Only {_name(first, labels)} was run, so there is nothing to compare it with."
    if first.runs < FEWEST_PAIRS:
        few = f"{counted(first.runs, 'fit')} of each method {'is' if first.runs == 1 else 'are'} too few"
        return (
            f"{few} to recommend anything: {_name(first, labels)} came out first this time, with "
            f"{_percent(first.mean)} {_metric(ranking)}. {more[0].upper()}{more[1:]}."
        )
    if ranking.baseline is None:
        return _without_baseline(ranking, labels, more)
    return _with_baseline(ranking, labels, more)


def _with_baseline(ranking: Ranking, labels: Mapping[str, str], more: str) -> str:
    first, baseline = ranking.places[0], labels.get(str(ranking.baseline), str(ranking.baseline))
    claim, metric = ranking.claim, _metric(ranking)
    others = [place for place in ranking.places[1:] if place.tied]
    if first.method == ranking.baseline:
        if not others:
            return f"Use {baseline}: it wins, and every remedy for imbalance made {metric} worse on these data."
        return (
            f"No difference: no method beats {baseline} on these data. Use {baseline}, the simplest. "
            f"{_also(others, labels, 'not to be told from it')}"
        ).strip()
    if claim is None or claim.contains_zero:
        return (
            f"No difference that these runs could show: {_name(first, labels)} came out first, but its lead over "
            f"{baseline} is {_span(claim)}. Use {baseline}, the simplest, or {more}."
        )
    ties = [place for place in others if place.method != ranking.baseline]
    return (
        f"Use {_name(first, labels)}: {_percent(first.mean)} {metric}, {_span(claim)} above {baseline}. "
        f"{_also(ties, labels, 'no worse as far as these runs show')}"
    ).strip()


def _without_baseline(ranking: Ranking, labels: Mapping[str, str], more: str) -> str:
    first = ranking.places[0]
    others = [place for place in ranking.places[1:] if place.tied]
    if len(others) == len(ranking.places) - 1:
        return (
            f"No difference that these runs could show: {_name(first, labels)} came out first, and no other method "
            f"lies clearly behind it. Use the one that suits you best, or {more}."
        )
    return (
        f"Use {_name(first, labels)}: {_percent(first.mean)} {_metric(ranking)}. "
        f"{_also(others, labels, 'no worse as far as these runs show')}"
    ).strip()


def _also(places: list[Place], labels: Mapping[str, str], what: str) -> str:
    if not places:
        return ""
    names = [_name(place, labels) for place in places[:MOST_NAMES]]
    more = len(places) - len(names)
    listed = names + ([f"{more} more"] if more else [])
    joined = listed[0] if len(listed) == 1 else ", ".join(listed[:-1]) + " and " + listed[-1]
    return f"{joined[0].upper()}{joined[1:]} {'is' if len(places) == 1 else 'are'} {what}."


def _name(place: Place, labels: Mapping[str, str]) -> str:
    return labels.get(place.method, place.method)


def _metric(ranking: Ranking) -> str:
    return ranking.metric.replace("_", " ")


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _span(interval: Interval | None) -> str:
    if interval is None:
        return "not known"
    if interval.low is None or interval.high is None:
        return f"{100 * interval.mean:.1f} points in {counted(interval.pairs, 'run')}"
    return f"{100 * interval.mean:.1f} points (between {100 * interval.low:.1f} and {100 * interval.high:.1f})"
