"""HTML of a page: templates that escape everything, and number formats."""

import base64
import hashlib
import math
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from equipoise.wording import counted

SAME = 0.0005
"""Difference below which shares look equal when rounded to a tenth of a percent."""


@dataclass(frozen=True)
class Section:
    """A section of a page: its menu name, heading and content, and the data for the page's script."""

    menu: str
    title: str
    body: Markup
    data: dict[str, Any] = field(default_factory=dict)


def render(template: str, **content: Any) -> str:
    """Fill a page's template; its policy allows only its own script and style."""
    style, script = _asset("report.css"), _asset("report.js") + _asset("decide.js")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(**content, policy=policy, style=Markup(style), script=Markup(script))  # our own files  # nosec B704


def fill(template: str, **content: Any) -> Markup:
    """Fill a template for a part of a page: a short one as it is, or a file of ``templates/`` by its name."""
    found = _environment().get_template(template) if template.endswith(".j2") else _compiled(template)
    return Markup(found.render(content))  # the environment escapes  # nosec B704


@cache
def _compiled(template: str) -> jinja2.Template:
    return _environment().from_string(template)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"percent": percent, "points": points, "number": number, "whole": "{:,}".format}
    environment.filters["counted"] = counted
    macros = vars(environment.get_template("macros.html.j2").module)
    environment.globals |= {name: macro for name, macro in macros.items() if not name.startswith("_")}
    return environment


def percent(share: float | None) -> str:
    """Return a share in percent; a dash if it is unknown.

    >>> percent(0.1234), percent(float("nan")), percent(-0.01), percent(-0.0001)
    ('12.3%', '–', '−1.0%', '0.0%')
    """
    if share is None or math.isnan(share):
        return "–"
    return f"{share if abs(share) >= SAME else 0:.1%}".replace("-", "−")


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign.

    >>> points(0.0123), points(-0.5), points(0.0)
    ('+1.2', '−50.0', '0.0')
    """
    if math.isnan(difference):
        return "–"
    return f"{100 * difference:+.1f}".replace("-", "−") if abs(difference) >= SAME else "0.0"


def number(value: float | None, decimals: int = 2) -> str:
    """Return a number with two decimals, or with two digits if it is small; a dash if it is unknown.

    >>> number(1.234), number(float("nan")), number(0.00123), number(-2)
    ('1.23', '–', '0.0012', '−2.00')
    """
    if value is None or math.isnan(value):
        return "–"
    shown = f"{value:.2g}" if 0 < abs(value) < 0.01 else f"{value:,.{decimals}f}"
    return shown.replace("-", "−")


def _asset(name: str) -> str:
    return (resources.files("equipoise.app.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
