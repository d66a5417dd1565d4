"""docs/gallery.md and docs/images/gallery/ from examples/plot_*.py: what each says of itself, and what it draws.

python benchmarks/gallery_page.py             # runs every example
python benchmarks/gallery_page.py --missing   # runs those that have no picture yet, and writes the page
"""

import ast
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES, PICTURES, PAGE = ROOT / "examples", ROOT / "docs/images/gallery", ROOT / "docs/gallery.md"
INTRODUCTION = """# Gallery

Each of these is a script of its own in `examples/`; the pictures are what it draws. One is run by
`python examples/plot_digits.py`; `python benchmarks/gallery_page.py` runs all and writes this page.
"""


def scripts() -> list[Path]:
    """Every example, by name."""
    return sorted(EXAMPLES.glob("plot_*.py"))


def picture(script: Path) -> Path:
    """What a script draws."""
    return PICTURES / f"{script.stem.removeprefix('plot_')}.png"


def said(script: Path) -> tuple[str, str]:
    """A script's heading and the paragraphs below it; its command is left out, for the page has one."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    heading, *rest = text.split("\n\n")
    return " ".join(heading.split()), "\n\n".join(part for part in rest if not part.startswith("    "))


def section(script: Path) -> list[str]:
    """Its heading, picture, words and code."""
    heading, words = said(script)
    shown = f"![{heading}](images/gallery/{picture(script).name})"
    return [f"## {heading.rstrip('.')}\n", f"{shown}\n", f"{words}\n", folded(script)]


def folded(script: Path) -> str:
    """Its code, to be unfolded."""
    name = script.relative_to(ROOT).as_posix()
    return f'??? example "{name}"\n    ```py\n    --8<-- "{name}"\n    ```\n'


def recipe(script: Path) -> list[str]:
    """An adapter: no picture."""
    heading, words = said(script)
    return [f"### {heading.rstrip('.')}\n", f"{words}\n" if words else "", folded(script)]


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for script in scripts():
        parts += section(script)
    adapters = sorted((EXAMPLES / "adapters").glob("*.py"))
    if adapters:
        parts += [
            "## In other libraries\n",
            "The loss and the curriculum inside another trainer; none is a dependency.\n",
        ]
        for script in adapters:
            parts += recipe(script)
    return "\n".join(part for part in parts if part)


def main() -> None:
    """Draw and write."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for script in scripts():
        if "--missing" not in sys.argv or not picture(script).exists():
            runpy.run_path(str(script))["main"](PICTURES)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
