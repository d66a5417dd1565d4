"""A Sphinx extension for what this site adds: offline formulae, links to examples, tables that fit a phone."""

import re
import textwrap
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from sphinx.application import Sphinx

EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(?:(README)\.md|([\w/]+)\.py)\)")
"""A link to an example in the repository: the site has a page of the gallery for it."""
BESIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:tests|src|benchmarks)/[^)\s]*\)")
"""A link to another file beside docs/: the site keeps only its words."""
SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
"""A figure and its deviation, which belong on one line."""
PERCENT = re.compile(r"(?<=\d) (?=%)")
"""The space between a figure and its percent sign, where no line may break."""
SENTENCE = 60
"""Characters from which a table's cell holds text rather than a figure."""
EXAMPLES = [
    f"plot_{name}.py" for name in ("toy_boundary", "digits", "table", "comparison", "custom_loop", "abstention")
]
"""The gallery, in the order of its README."""
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
"""Sphinx's form of an alias of ``autodoc_type_aliases``."""
COLUMNS = 100
"""Longest line of what a command prints: longer sentences are wrapped."""


class ExampleOrder:
    """Sort the gallery from the simplest example to the most special; recipes follow by name.

    Args:
        folder: of the examples, which sphinx-gallery passes.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Return the place of an example."""
        return (EXAMPLES.index(name) if name in EXAMPLES else len(EXAMPLES)), name


def mathml(formula: str, *, display: bool) -> str:
    """Convert a formula to MathML, which every browser draws without a script."""
    from latex2mathml.converter import convert

    found = convert(" ".join(formula.split()), display="block" if display else "inline")
    ElementTree.fromstring(found)  # refuse malformed output
    return found


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    writer.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="formula">{mathml(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


def prepare_source(_: Sphinx, name: str, source: list[str]) -> None:
    """Point links at pages of the site, and keep a figure and its deviation together."""
    if name.startswith("gallery"):
        return
    up = "../" * name.count("/")
    text = EXAMPLE.sub(lambda m: f"]({up}gallery/{'index' if m[1] else m[2]}.rst)", source[0])
    source[0] = SPREAD.sub("\u00a0±\u00a0", BESIDE.sub(r"\1", text))


def wrapped(line: str) -> str:
    """Wrap a printed sentence below its own indentation; a line of a table stays whole."""
    if len(line) <= COLUMNS or re.search("[\u2500-\u257f]", line):
        return line
    return textwrap.fill(line, COLUMNS, subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2))


def mark_nodes(_: Sphinx, tree: nodes.document, __: str) -> None:
    """Mark tables of sentences, which stack on a phone, and options and percentages, which must not break."""
    for block in tree.findall(nodes.literal_block):
        if block.get("language") == "text":
            block.rawsource = "\n".join(wrapped(line) for line in block.astext().split("\n"))
            block[:] = [nodes.Text(block.rawsource)]
    for table in tree.findall(nodes.table):
        cells = [len(entry.astext()) for entry in table.findall(nodes.entry)]
        if cells and max(cells) >= SENTENCE:
            table["classes"].append("stacked")
    for literal in tree.findall(nodes.literal):
        if re.fullmatch(r"-\S{1,24}", literal.astext()):
            literal["classes"].append("option")
    for text in list(tree.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.raw)) and PERCENT.search(text):
            text.parent.replace(text, nodes.Text(PERCENT.sub("\u00a0", text)))


def skip_member(_: Sphinx, __: str, name: str, *___: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator for metadata routing."""
    return True if re.fullmatch(r"[sg]et_\w+_request|get_metadata_routing", name) else None


def plain_aliases(_: Sphinx, *found: Any) -> tuple[str | None, str | None]:
    """Show an alias of types by its name, which Sphinx wraps in its own class within a union."""
    signature, returned = (part and ALIAS.sub(r"\1", part) for part in found[-2:])
    return signature, returned


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("source-read", prepare_source)
    app.connect("doctree-resolved", mark_nodes)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-signature", plain_aliases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
