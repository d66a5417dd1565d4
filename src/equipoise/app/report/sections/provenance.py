"""Provenance: a run's command, options, versions and notes."""

from typing import Any

from equipoise.app.output_files import one_line
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun
from equipoise.wording import duration, method_name

OPTIONS = (
    *("data", "target", "labels", "group", "test", "test_labels"),
    *("model", "method", "backbone", "weights", "freeze", "epochs", "seed"),
)
OF_NETWORK = ("method", "epochs")
"""Options that do not concern a blend."""
TEMPLATE = """\
{% if about.command %}<pre><code>{{ about.command }}</code></pre>{% endif %}
<div class="three">
<dl class="facts">{{ facts(about.options) }}\
{% if about.seconds %}{{ facts({"time": about.seconds}) }}{% endif %}</dl>
<dl class="facts">{{ facts(about.versions) }}</dl>
{% if about.notes %}<div><h3>Notes</h3><ul>\
{% for note in about.notes %}<li>{{ note }}</li>{% endfor %}</ul></div>{% endif %}
</div>
"""


def section(run: StoredRun) -> Section:
    """Return how the run was made."""
    return Section("How it was made", "How it was made", fill(TEMPLATE, about=provenance(run)))


def provenance(run: StoredRun) -> dict[str, Any]:
    """Return command, versions, options that were set, and the run's notes, all as text."""
    about = run.record
    options, settings = about.options, about.settings
    left_out = OF_NETWORK if run.is_blend else ()
    chosen = {name: options[name] for name in OPTIONS if options.get(name) is not None and name not in left_out}
    chosen |= {name: settings[name] for name in ("epochs", "batch_size", "learning_rate") if name in settings}
    return {
        "command": one_line(about.command, 2000),
        "seconds": "" if about.seconds is None else duration(about.seconds),
        "versions": {one_line(name): one_line(value) for name, value in about.versions.items()},
        "options": {one_line(name).replace("_", " "): one_line(value) for name, value in chosen.items()},
        "notes": [one_line(note, 600) for note in about.notes],
        "method": _blend_name(run) if run.is_blend else method_name(one_line(options.get("method", ""))),
        "data": one_line(options.get("data", "")),
    }


def _blend_name(run: StoredRun) -> str:
    names = [one_line(part.name) for part in run.record.blend or ()]
    return names[0] if len(names) == 1 else f"blend of {', '.join(names)}"
