"""The blend: its classifiers, their weights, and how they were fitted."""

from equipoise.app.output_files import one_line
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun

TEMPLATE = """\
<p>{{ "Each classifier" if parts|length > 1 else "The classifier" }} was fitted {{ parts[0].members }} times, each \
time without another part of the training samples, and a new sample gets the mean of these members. Every training \
sample was predicted by members that were not fitted to it: {% if parts|length > 1 %}the weights of the blend, \
{% endif %}the uncertainty of each {{ run.noun }}, its margin and the calibration of the probabilities come from these \
predictions.</p>
<table class="small" id="blend"><thead><tr><th scope="col">classifier</th>{{ heads("weight", "members") }}</tr></thead>
<tbody>
{% for part in parts %}
<tr><th scope="row">{{ one_line(part.name) }}</th>\
<td class="n barred">{{ part.weight|percent }}{{ bar(part.weight) }}</td>\
{{ n(part.members|whole) }}</tr>
{% endfor %}
</tbody></table>
"""


def section(run: StoredRun) -> Section | None:
    """Return the classifiers and their weights; None for a network."""
    parts = run.record.blend
    if not parts:
        return None
    return Section("Model", "What the model is made of", fill(TEMPLATE, run=run, parts=parts, one_line=one_line))
