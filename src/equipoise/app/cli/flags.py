"""Options shared by several commands."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.app.runs.run_options import TrainOptions
from equipoise.errors import InvalidInputError
from equipoise.estimators.training_options import declared


def _check_abstain(share: float | None) -> float | None:
    if share is not None and not 0 < share < 1:
        raise InvalidInputError(f"--abstain is a share above 0 and below 1, such as 0.1, got {share}.")
    return share


def check_weights(weights: str | Path | None) -> None:
    """Raise an error if a file of weights does not exist."""
    if weights is not None and not Path(weights).exists():
        raise InvalidInputError(
            f"there is no file {str(weights)!r}; give the path of a file with weights for the backbone."
        )


def check_data(source: str) -> None:
    """Raise an error if unlabelled data do not exist."""
    from equipoise.data.sources import NAMED_SETS

    if source != "-" and not Path(source).expanduser().exists() and source not in NAMED_SETS:
        raise InvalidInputError(f"there is no file or folder {source!r}; check the path.")


def training_flag(name: str) -> Any:
    """Return typer's description of a training option, as declared by its field in :class:`TrainOptions`."""
    field = next(each for each in fields(TrainOptions) if each.name == name)
    found = declared(field)
    if field.default is MISSING:
        return typer.Argument(metavar=name.upper(), help=found.help)
    low, high = (found.least, found.most) if found.whole else (None, None)
    return typer.Option(*found.flags, help=found.help, metavar=found.metavar, min=low, max=high)


Human = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Flag the most uncertain samples for human review: this share of samples like those held out or labelled.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="CSV with names as they are, also such as a spreadsheet takes for formulae.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Target = Annotated[str | None, training_flag("target")]
Labels = Annotated[Path | None, training_flag("labels")]
Drop = Annotated[str | None, training_flag("drop")]
Keep = Annotated[str | None, training_flag("keep")]
Kind = Annotated[str | None, training_flag("kind")]
TextEncoder = Annotated[str | None, training_flag("text_encoder")]
Prior = Annotated[
    str | None,
    typer.Option(
        help="The class prior where the model is used: natural (as in training), balanced, estimate (from these data), "
        "'a=0.2,b=0.8' or a .json file. Probabilities and classes are then the most probable there; without it "
        "probabilities are natural, and the class is decided as the method aims at, all equally common by default."
    ),
]
Abstain = Annotated[
    float | None,
    typer.Option(
        callback=_check_abstain,
        help="Allowed error rate of each class: 0.1 gives sets that hold the true class in 90 % of the cases.",
    ),
]
