"""Words that speak for each class, of the columns of free text."""

from equipoise.app.output_files import one_line
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun

MOST_ROWS, MOST_WORDS = 60, 12
TEMPLATE = """\
<p>The words of a text add up to the log-odds of each {{ run.noun }}; these raise them most, by a logistic regression \
on the training samples. The rarest {{ run.noun }} stands first. A word that should not matter, such as a name or a \
date, is worth a look.</p>
<div class="scroll"><table class="small" id="words"><thead><tr>{% if several %}<th scope="col">column</th>{% endif %}\
<th scope="col">{{ run.noun }}</th><th scope="col">words that speak for it</th></tr></thead>
<tbody>
{% for row in rows %}
<tr>{% if several %}<td>{{ one_line(row.column, 40) }}</td>{% endif %}\
<th scope="row">{{ one_line(row.label, 40) }}</th>\
<td class="words">{% for word in row.words[:most] %}<span>{{ one_line(word, 40) }}</span> {% endfor %}</td></tr>
{% endfor %}
</tbody></table></div>
"""


def section(run: StoredRun) -> Section | None:
    """Return the words of each class, the rarest class first; None for a run without free text."""
    counts = dict(zip(run.record.classes, run.record.train_counts, strict=False))
    rows = sorted(run.gallery.words, key=lambda each: (each.column, counts.get(each.label, 0)))[:MOST_ROWS]
    if not rows:
        return None
    several = len({row.column for row in rows}) > 1
    said = fill(TEMPLATE, run=run, rows=rows, several=several, one_line=one_line, most=MOST_WORDS)
    return Section("Words", "Words that speak for a class", said)
