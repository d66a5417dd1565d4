"""What the site needs beyond its configuration: formulae, examples, the pages of results, search without a server."""

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
DOCTEST = re.compile(r"^([ ]*)>>> .*(?:\n\1[ ]*\S.*)*", re.MULTILINE)
"""An example of a docstring, which Markdown would take for a quotation."""
SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
"""A figure and its deviation, which belong on one line."""
NAME = re.compile(r"(?<!</span>)<code>([^<]{21,})</code>")
"""Code within a sentence that may not fit on a line."""
OPTION = re.compile(r"(?<!</span>)<code>(-[^<]{1,24})</code>")
"""``--out``, perhaps with its value."""
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
        text = SPREAD.sub("\u00a0±\u00a0", text)
        return text.split("\n")


class Doctests(Preprocessor):
    """Examples of docstrings as code."""

    def run(self, lines: list[str]) -> list[str]:
        fenced = DOCTEST.sub(lambda m: f"{m[1]}```pycon\n{m[0]}\n{m[1]}```", "\n".join(lines))
        return fenced.split("\n")


class Formulae(Extension):
    """Examples before fenced code (25); formulae behind it and before HTML blocks (20)."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.preprocessors.register(Doctests(md), "doctests", 26)
        md.preprocessors.register(Docstrings(md), "docstrings", 24)


def result_pages(docs: Path) -> list[Any]:
    """The index, then what it links to in that order, all of the paper's tables where it names one; then the rest."""
    folder = docs / "results"
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", (folder / "index.md").read_text(encoding="utf-8"))
    tables = sorted((folder / "tables").glob("*.md"))
    pages = [folder / "index.md"]
    for name in linked:
        pages += tables if name.startswith("tables/") else [folder / name]
    pages += [*tables, *sorted(folder.glob("*.md"))]
    return [page.relative_to(docs).as_posix() for page in dict.fromkeys(pages)]


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Long names may be broken behind a dot, a stroke or a bracket; an option is not broken behind its hyphens."""
    html = OPTION.sub(r'<code class="option">\1</code>', html)
    return NAME.sub(lambda m: "<code>" + re.sub(r"([._/(,])(?=\w)", r"\1<wbr>", m[1]) + "</code>", html)


def on_config(config: Any) -> Any:
    docs = Path(config.docs_dir)
    config.nav = [
        {"Results": result_pages(docs)} if entry == {"Results": "results/"} else entry for entry in config.nav
    ]
    config.markdown_extensions.append(Formulae())
    # Search in a page that was opened as a file: a few lines of our own in place of a script from elsewhere.
    config.extra["polyfills"] = ["_site/worker.js"]
    return config
