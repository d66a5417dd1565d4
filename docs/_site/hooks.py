"""What the site needs beyond its configuration: formulae, the pages of results, search without a server."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

DISPLAY = re.compile(r"^([ ]*)\.\. math::[ ]*(\S.*(?:\n\1[ ]+\S.*)*)", re.MULTILINE)
"""A ``.. math::`` of a docstring, and the lines that stand deeper than it."""
INLINE = re.compile(r":math:`([^`]+)`")
ROLE = re.compile(r":(?:class|func|data|meth|mod):`~?([\w.]+)`")
PRODUCT = re.compile(r"(?<=\w)\[(\w+)\]\(")
"""E[p](1 − p) is no link."""


OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:tests|examples|src|benchmarks)/[^)\s]*\)")
"""A link to a file beside docs/: for readers of the repository; the site has the words alone."""


def mathml(formula: str, *, display: bool) -> str:
    """A formula as every browser draws it, with nothing to fetch."""
    from latex2mathml.converter import convert

    source = " ".join(formula.split())
    found = convert(source, display="block" if display else "inline")
    ElementTree.fromstring(found)  # what is not well formed must not reach a page
    if not display:
        return found
    return f'<div class="formula">{found}</div>'


class Docstrings(Preprocessor):
    """The few words of reStructuredText that docstrings use; code blocks are out of the way by now."""

    def run(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        text = DISPLAY.sub(lambda m: f"\n{m[1]}{self.md.htmlStash.store(mathml(m[2], display=True))}\n", text)
        text = INLINE.sub(lambda m: self.md.htmlStash.store(mathml(m[1], display=False)), text)
        text = ROLE.sub(lambda m: f"`{m[1].rpartition('.')[2]}`", text)
        text = PRODUCT.sub(r"\\[\1\\](", text)
        return text.split("\n")


class Formulae(Extension):
    """Runs behind fenced code (25) and before HTML blocks (20)."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.preprocessors.register(Docstrings(md), "docstrings", 24)


def result_pages(docs: Path) -> list[Any]:
    """The index first, then the paper's tables, then the rest; each is called by its own heading."""
    folder = docs / "results"
    pages = [folder / "index.md", *sorted((folder / "tables").glob("*.md")), *sorted(folder.glob("*.md"))]
    return [page.relative_to(docs).as_posix() for page in dict.fromkeys(pages)]


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)


def on_config(config: Any) -> Any:
    docs = Path(config.docs_dir)
    config.nav = [
        {"Results": result_pages(docs)} if entry == {"Results": "results/"} else entry for entry in config.nav
    ]
    config.markdown_extensions.append(Formulae())
    # Search in a page that was opened as a file: a few lines of our own in place of a script from elsewhere.
    config.extra["polyfills"] = ["_site/worker.js"]
    return config
