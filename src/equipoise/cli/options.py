"""Options that several commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Target = Annotated[
    str | None, typer.Option(help="The table's column with the label; several, with commas, are 0/1 labels.")
]
Labels = Annotated[Path | None, typer.Option(help="A table of file,label for images not sorted into folders.")]
