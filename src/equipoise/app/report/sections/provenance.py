"""How it was made: a run's command, options, versions and notes."""

from typing import Any

from equipoise.app.report.markup import Section, fill
from equipoise.app.report.record import Record, shown
from equipoise.wording import method_name

OPTIONS = (
    *("data", "target", "labels", "group", "test", "test_labels"),
    *("method", "backbone", "weights", "freeze", "epochs", "seed"),
)
TEMPLATE = """\
{% if origin.command %}<pre><code>{{ origin.command }}</code></pre>{% endif %}
<div class="three">
<dl class="facts">{{ facts(origin.options) }}\
{% if origin.seconds %}{{ facts({"time": origin.seconds}) }}{% endif %}</dl>
<dl class="facts">{{ facts(origin.versions) }}</dl>
{% if origin.notes %}<div><h3>Noted on the way</h3><ul>\
{% for note in origin.notes %}<li>{{ note }}</li>{% endfor %}</ul></div>{% endif %}
</div>
"""


def section(record: Record) -> Section:
    """Return how the run was made."""
    return Section("How it was made", "How it was made", fill(TEMPLATE, origin=origin(record)))


def origin(record: Record) -> dict[str, Any]:
    """Return command, versions, options that were set, and what the run noted on the way; all as text."""
    about = record.record
    options, settings = about.options, about.settings
    told = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    told |= {name: settings[name] for name in ("epochs", "batch_size", "learning_rate") if name in settings}
    return {
        "command": shown(about.command, 2000),
        "seconds": _duration(about.seconds),
        "versions": {shown(name): shown(value) for name, value in about.versions.items()},
        "options": {shown(name).replace("_", " "): shown(value) for name, value in told.items()},
        "notes": [shown(note, 600) for note in about.notes],
        "method": method_name(shown(options.get("method", ""))),
        "data": shown(options.get("data", "")),
    }


def _duration(seconds: float | None) -> str:
    """
    >>> _duration(42.31), _duration(4230), _duration(None)
    ('42 s', '1 h 10 min', '')
    """
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
