"""Results of a verification: the ROC as a table or picture, and a page with everything."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from equipoise.app.output_files import check_free, one_line, write_file
from equipoise.app.report import drawing
from equipoise.app.report.markup import Section, fill, render
from equipoise.app.report.run_page import write_page
from equipoise.app.report.sections.reliability_diagrams import diagram_of, reliability_figure
from equipoise.app.runs.notable_samples import thumbnail
from equipoise.errors import InvalidInputError
from equipoise.paper.face_options import VerifyOptions
from equipoise.paper.faces.pairs import FacePairs, Source
from equipoise.paper.faces.verification_scores import FALSE_ACCEPTS, Roc
from equipoise.paper.faces.verify import SamePerson, VerifiedPairs

DRAWN_POINTS = 2000
"""Most points of a ROC curve in a figure; more would not be visible."""
HARDEST = 12
"""Pairs of each kind that a page shows."""
SHOWN_SIDE = 112
CURVE = (".csv", ".png", ".svg")
PAGE = (".html", ".htm")
RESULT = """\
<p class="headline">{{ found.accuracy|percent }} of the pairs are decided correctly, ± \
{{ (100 * found.deviation)|number }} points over {{ found.folds|length }} folds.</p>
<p>{{ found.pairs|whole }} pairs, {{ found.same|whole }} of one person and {{ (found.pairs - found.same)|whole }} of \
two. Each fold is decided at the threshold that is best on all other folds.</p>
<div class="scroll" tabindex="0" role="region" aria-label="Scores"><table id="scores"><tbody>
<tr><th scope="row">area under the ROC curve</th>{{ n("%.4f"|format(found.roc.area)) }}</tr>
{% for far, tar in found.tar.items() %}
<tr><th scope="row">true accepts at {{ far|percent if far >= 0.001 else "%g%%"|format(100 * far) }} false \
accepts</th>{{ n(tar|percent if tar is not none else "needs " ~ (false_accepts / far)|int|whole ~ " pairs of two") \
}}</tr>
{% endfor %}
<tr><th scope="row">calibration error of P(one person)</th>{{ n(probability.ece|percent) }}</tr>
<tr><th scope="row">log loss of P(one person)</th>{{ n(probability.log_loss|number(3)) }}</tr>
</tbody></table></div>
{% for note in notes %}<p>{{ note }}</p>
{% endfor %}
<details><summary>Fold by fold</summary>
<div class="scroll"><table class="small" id="folds"><thead><tr><th scope="col">fold</th>\
{{ heads("pairs", "threshold", "accuracy") }}</tr></thead><tbody>
{% for fold in found.folds %}<tr><th scope="row">{{ fold.name }}</th>{{ n(fold.pairs|whole) }}\
{{ n("%.4f"|format(fold.threshold)) }}{{ n(fold.accuracy|percent) }}</tr>
{% endfor %}</tbody></table></div></details>
"""
CURVES = """\
<div class="split wide"><p class="prose">A pair is accepted as one person if its similarity reaches a \
threshold. The higher the threshold, the fewer strangers are accepted (left), but also the fewer pairs of one person \
(down).</p>
<figure>{{ roc }}</figure></div>
"""
PROBABILITY = """\
<div class="split wide"><div class="prose"><p>P(one person) = 1 / (1 + exp(−({{ "%.3f"|format(probability.slope) }} · \
similarity {{ "%+.3f"|format(probability.intercept) }}))), fitted to all pairs. The picture shows each fold by a \
curve fitted to the others: dots on the dashed line mean that answers given with 80% probability are right in 80% of \
the cases.</p>
<p>It holds where {{ probability.share|percent }} of the pairs show one person, as here. If only \
{{ "1 pair in 1,000" }} does, a pair with a probability of 99% here shows one person with {{ rare|percent }}.</p></div>
<figure>{{ picture }}</figure></div>
"""
PAIRS = """\
{% for part in parts %}
<h3>{{ part.title }}</h3>
<p>{{ part.text }}</p>
<ul class="gallery" id="{{ part.id }}">
{% for pair in part.pairs %}
<li class="card"><div>
<p>{% for image in pair.images %}{% if image %}<img src="{{ image }}" alt="{{ pair.names[loop.index0] }}" \
loading="lazy"> {% endif %}{% endfor %}</p>
<p class="file">{{ pair.names|join(" · ") }}</p>
<p><span class="{{ "ok" if pair.right else "bad" }}">{{ "right" if pair.right else "wrong" }}</span>, similarity \
{{ "%.3f"|format(pair.similarity) }}, P(one person) {{ pair.probability|percent }}</p></div></li>
{% endfor %}
</ul>
{% endfor %}
"""


def check_outputs(options: VerifyOptions, *, force: bool = False) -> None:
    """Refuse files that cannot or must not be written, before any expensive work."""
    for file, suffixes in ((options.roc, CURVE), (options.page, PAGE)):
        if file is not None:
            output_file(file, suffixes, force=force)


def write_outputs(found: VerifiedPairs, options: VerifyOptions, *, title: str) -> None:
    """Write the ROC, the page, both or neither."""
    if options.roc is not None:
        write_roc(found.scores.roc, options.roc, force=True)
    if options.page is not None:
        write_page(verification_page(found, title=title), options.page.expanduser())


def output_file(path: Source, suffixes: tuple[str, ...], *, force: bool = False) -> Path:
    """Return the path if a file can be written there; check this before any expensive work."""
    file = Path(path).expanduser()
    if file.suffix.lower() not in suffixes:
        raise InvalidInputError(f"{file.name} must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}.")
    check_free(file, force)
    return file


def write_roc(curve: Roc, path: Source, *, force: bool = False) -> None:
    """Write the curve as a table (``.csv``) or a picture (``.png``, ``.svg``)."""
    file = output_file(path, CURVE, force=force)
    if file.suffix.lower() == ".csv":
        table = pd.DataFrame({"threshold": curve.threshold, "far": curve.far, "tar": curve.tar})
        content = table.to_csv(index=False, lineterminator="\n").encode()
    else:
        content = _picture(curve, file.suffix.lower()[1:])
    write_file(file, content)


def verification_page(found: VerifiedPairs, *, title: str) -> str:
    """Return the page: scores, ROC, the probability of one person, and the hardest pairs."""
    scores, probability = found.scores, found.probability
    result = fill(RESULT, found=scores, probability=probability, notes=found.notes, false_accepts=FALSE_ACCEPTS)
    sections = [
        Section("Result", "Result", result),
        Section("ROC", "False and true accepts", fill(CURVES, roc=_roc_figure(scores.roc))),
        _probability(probability, found.pairs.same),
        _hardest(found),
    ]
    subtitle = f"face verification · {scores.pairs:,} pairs"
    return render("report.html.j2", title=one_line(title), subtitle=subtitle, sections=sections, data={})


def _probability(probability: SamePerson, same: NDArray[np.bool_]) -> Section:
    stated = probability.out_of_fold
    answer = stated >= 0.5
    diagram = diagram_of("P(one person)", np.where(answer, stated, 1 - stated), answer == same)
    sure = (np.log(99) - probability.intercept) / probability.slope if probability.slope else 0.0
    body = fill(
        PROBABILITY,
        probability=probability,
        picture=reliability_figure(diagram, 0),
        rare=float(probability.probability(sure, share=0.001)),
    )
    return Section("Probability", "How probable is one person?", body)


def _hardest(found: VerifiedPairs) -> Section:
    pairs, similarity, pictures = found.pairs, found.similarity, found.pictures
    threshold = {fold.name: fold.threshold for fold in found.scores.folds}
    right = (similarity >= np.array([threshold[fold] for fold in pairs.fold.tolist()])) == pairs.same
    first_image = np.unique(pairs.face, return_index=True)[1]  # a video is shown by its first frame

    def shown(pair: int) -> dict[str, Any]:
        places = [int(first_image[side[pair]]) for side in (pairs.first, pairs.second)]
        names = [str(pairs.files[place]) if pairs.root else f"image {place + 1}" for place in places]
        return {
            "images": ["" if pictures is None else _thumbnail(pictures, place) for place in places],
            "names": [one_line(name, 80) for name in names],
            "right": bool(right[pair]),
            "similarity": float(similarity[pair]),
            "probability": float(found.probability.out_of_fold[pair]),
        }

    order = np.argsort(similarity, kind="stable")
    same, different = order[pairs.same[order]], order[~pairs.same[order]][::-1]
    parts = [
        {
            "id": "unlike",
            "title": "One person, least alike",
            "text": "Turned, covered or badly aligned faces, different ages, or a mistaken label.",
            "pairs": [shown(pair) for pair in same[:HARDEST].tolist()],
        },
        {
            "id": "alike",
            "title": "Two people, most alike",
            "text": "Look-alikes, relatives, or one person under two names.",
            "pairs": [shown(pair) for pair in different[:HARDEST].tolist()],
        },
    ]
    return Section("Pairs", "The hardest pairs", fill(PAIRS, parts=parts))


def _thumbnail(pairs: FacePairs, place: int) -> str:
    pixels = pairs.images((SHOWN_SIDE, SHOWN_SIDE), 3)[slice(place, place + 1)][0]
    return f"data:image/jpeg;base64,{thumbnail(pixels)}"


def _draw(axes: Any, curve: Roc, **style: Any) -> None:
    rows = np.unique(np.linspace(0, len(curve.far) - 1, DRAWN_POINTS).round().astype(np.intp))
    lowest = float(curve.far[curve.far > 0].min())
    axes.semilogx(curve.far[rows].clip(min=lowest), curve.tar[rows], drawstyle="steps-post", **style)
    axes.set(xlabel="false accepts (FAR)", ylabel="true accepts (TAR)", ylim=(0, 1.01), xlim=(lowest, 1))


@drawing.house_style()
def _roc_figure(curve: Roc) -> Markup:
    axes = drawing.new_axes(320)
    _draw(axes, curve, color=drawing.COLOURS["accent"])
    drawing.share_axis(axes.yaxis)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda far, _: f"{100 * far:g}%"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    return drawing.inline_svg(axes.figure, "roc", f"True accepts over false accepts; the area is {curve.area:.4f}")


def _picture(curve: Roc, kind: str) -> bytes:
    from matplotlib.figure import Figure  # drawing is rare, and slow to import

    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot()
    _draw(axes, curve)
    axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=120)
    return buffer.getvalue()
