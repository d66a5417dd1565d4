"""Options of a training command, from the command line or a file: TOML, or another run's ``run.json``."""

import difflib
import sys
import types
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from equipoise.app.decision_options import DecisionOptions
from equipoise.data.columns.chosen_columns import ChosenColumns
from equipoise.errors import InvalidInputError, did_you_mean, readable, reason
from equipoise.estimators.training_options import TrainingOptions
from equipoise.options import check_options, documented, flag_of, option
from equipoise.registry_names import HUGGING_FACE, TIMM, backbone_names, model_names

OUT = "out"
"""The one key besides the options: the run's folder."""
MOST = 10**300
LONGEST_TOML, MOST_DOTS = 2**16, 100
"""Most characters of an options file, and most dots in a line: a key's parts take memory quadratic in their number."""
NETWORK, AUTO = "network", "auto"
"""Values of ``--model``: this library's network alone, and the blend of all families."""
NETWORK_OPTIONS = tuple(each.name for each in fields(TrainingOptions))
"""Options that apply only to the network."""
NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@documented
@dataclass
class RunOptions(TrainingOptions, DecisionOptions):
    """All options of ``equipoise train``, as plain values that ``run.json`` stores unchanged.

    Args:

    >>> RunOptions("patients.csv", target="died", seed=1).as_dict()["method"]
    'uncertainty_margin'
    """

    data: str = option(
        MISSING, "A table (CSV, Excel, JSON lines, Parquet, npz), an image folder or archive, or a data set's name."
    )
    stream: bool | None = option(
        None,
        "Read a Parquet table in parts while training, or into memory.",
        detail="A file or a folder of files. By default, tables that would fill a quarter of the free memory are read "
        "in parts.",
        flags=("--stream/--in-memory",),
    )
    target: str | None = option(None, "The label column; several, separated by commas, are 0/1 labels.")
    labels: str | None = option(None, "A table of file,label for images not sorted into folders.", metavar="<path>")
    group: str | None = option(None, "Column of groups, such as patients, that stay on one side of the split.")
    drop: str | None = option(None, "Columns to leave out, separated by commas.", metavar="<columns>")
    keep: str | None = option(None, "The only columns to learn from, separated by commas.", metavar="<columns>")
    kind: str | None = option(
        None,
        "Set the kind of columns: notes=text,zip=category.",
        detail="One of number, date, category, text, image, identifier and constant; other columns are guessed.",
        metavar="<column=kind>",
    )
    id: str | None = option(
        None, "Column that identifies the rows: ignored by the model, copied to predictions.", metavar="<column>"
    )
    time: str | None = option(
        None,
        "Column of dates or numbers: train on the earlier rows, test on the latest.",
        detail="The model also uses it as a feature, unless ``--drop`` excludes it.",
        metavar="<column>",
    )
    text_encoder: str | None = option(
        None,
        "Sentence encoder for free text, a name or folder, used beside n-grams; none for n-grams only.",
        detail="``sentence-transformers`` loads it. The default is all-MiniLM-L6-v2 if the extra ``text`` is installed "
        "and there are up to 20,000 rows.",
        metavar="<name>",
    )
    test: str | None = option(None, "Data to score on; default: hold out a part.")
    test_labels: str | None = option(
        None, "A table of file,label for the images of --test; default --labels.", metavar="<path>"
    )
    model: str | None = option(
        None,
        f"{AUTO}, {', '.join(model_names())}, or MODULE:OBJECT for your own classifier.",
        detail="``auto``, the default for tables, blends a network, a random forest, extra trees and gradient "
        "boosting; ``network``, the default for images and wherever an option of the network is set, is the network "
        "of ``UncertaintyBalancedClassifier``. All others are cross-fitted by ``BalancedClassifier``.",
        metavar="<name>",
    )
    test_share: float = option(0.2, "Share of the samples held out for scoring.", above=0, below=1)
    backbone: str | None = option(
        None,
        f"For images: {', '.join(backbone_names())}, {TIMM}NAME or {HUGGING_FACE}NAME_OR_FOLDER.",
        detail="A name in ``equipoise.models.BACKBONES``, or a network of timm or Hugging Face with its weights. The "
        "default is EfficientNet-Lite0 if ``equipoise[images]`` is installed.",
    )
    weights: str | None = option(None, "Pretrained weights for the backbone (.pth, .safetensors).", metavar="<path>")
    freeze: bool | None = option(
        None,
        "Freeze the backbone, or fine-tune it.",
        detail="Frozen, two layers are trained on its features, which are cached; the default for pretrained weights. "
        "Fine-tuned, it learns at a tenth of the learning rate of the layers behind it.",
        flags=("--freeze/--fine-tune",),
    )
    size: int | None = option(None, "Resize images to a square of this side.", least=8, whole=True)
    augment: bool = option(
        True, "Augment images at random while training.", detail="Crop and colour, and a flip of colour images."
    )
    seed: int = option(0, "Seed of the split and of every other random choice.", least=0, most=2**32 - 1, whole=True)

    def __post_init__(self) -> None:
        """Raise an error for options that would otherwise fail only after the data are read, or never."""
        flags = {each.name: flag_of(each) for each in fields(self)}
        check_options(self, called=flags.__getitem__)
        foreign = self.backbone is None or self.backbone.startswith((TIMM, HUGGING_FACE))
        if not foreign and self.backbone not in backbone_names():
            names = ", ".join(backbone_names())
            raise InvalidInputError(
                f"--backbone must be one of {names}, {TIMM}NAME or {HUGGING_FACE}NAME, got {self.backbone!r}"
                f"{did_you_mean(str(self.backbone), backbone_names())}"
            )
        self._check_model()
        self.decision()
        for name in ("test", "group"):
            if self.time is not None and getattr(self, name) is not None:
                raise InvalidInputError(f"--time and --{name} both choose the rows to hold out; leave one of them out.")
        if self.test_labels is not None and self.test is None:
            raise InvalidInputError("--test-labels requires --test; give both, or leave it out.")

    @property
    def of_network(self) -> list[str]:
        """The network's options that differ from their defaults, as flags.

        >>> RunOptions("patients.csv", epochs=5).of_network
        ['--epochs']
        """
        return [flag_of(each) for each in fields(TrainingOptions) if getattr(self, each.name) != each.default]

    def _check_model(self) -> None:
        if self.model is None or self.model == NETWORK:
            return
        if self.model not in (AUTO, *model_names()) and ":" not in self.model:
            names = ", ".join((AUTO, *model_names()))
            hint = did_you_mean(self.model, (AUTO, NETWORK, *model_names()))
            raise InvalidInputError(f"--model must be one of {names} or MODULE:OBJECT, got {self.model!r}{hint}")
        if self.of_network:
            raise InvalidInputError(
                f"{self.of_network[0]} is an option of the network, and --model is {self.model}; leave one of them out."
            )

    @property
    def columns(self) -> ChosenColumns:
        """The user's choices for a table's columns.

        >>> RunOptions("churn.csv", drop="closed_on").columns.left(["age", "closed_on"])
        ['age']
        """
        return ChosenColumns(self.drop, self.keep, self.kind, self.id)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for ``run.json``."""
        return asdict(self)


def read_config(path: Path) -> dict[str, Any]:
    """Read options by name, each checked for type; dashes in names count as underscores."""
    content, known = _content(path), {field.name for field in fields(RunOptions)}
    if isinstance(content.get("options"), dict) and path.suffix.lower() == ".json":  # a run's own record
        content = content["options"]
    else:
        known |= {OUT}  # a run's record names no folder, and a stranger's must not
    types_of = get_type_hints(RunOptions) | {OUT: str}
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}."
            raise InvalidInputError(f"{path} has an unknown option {key!r}; {hint}")
        found[name] = _checked(value, types_of[name], f"{path}: {key}")
    return found


def _content(path: Path) -> dict[str, Any]:
    from equipoise.app.run_folder import LARGEST_RECORD  # imports numpy, which --help need not wait for
    from equipoise.storage.files import read_plain
    from equipoise.storage.size_limits import parse_json

    with readable(f"the options in {path}", "check the path"):
        text = read_plain(path, most_bytes=LARGEST_RECORD).decode()
    try:
        content = parse_json(text) if path.suffix.lower() == ".json" else _toml(text)
    except (ValueError, RecursionError) as error:  # both decoders' errors are ValueErrors
        raise InvalidInputError(f"{path} is not valid TOML or JSON ({reason(error)}); correct it.") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path} must hold options by name; write an object in braces.")
    return content


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if len(text) > LONGEST_TOML:
        raise ValueError(f"it has {len(text):,} characters, more than the limit of {LONGEST_TOML:,}")
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {MOST_DOTS} dots")
    return tomllib.loads(text)


def _checked(value: Any, kind: Any, where: str) -> Any:
    """Return the value if it has its option's type; a whole number counts as a number."""
    several = get_origin(kind) in (Union, types.UnionType)
    allowed = get_args(kind) if several else (kind,)
    if value is None and types.NoneType in allowed:
        return None
    wanted = next(one for one in allowed if one is not types.NoneType)
    wanted = str if get_origin(wanted) is Literal else wanted
    if isinstance(value, int) and abs(value) >= MOST:  # beyond what a float holds and Python prints
        raise InvalidInputError(f"{where} is a number of more than 300 digits; write a smaller one.")
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        nested = isinstance(value, dict | list)  # may contain what Python cannot print
        found = f"a {'table' if isinstance(value, dict) else 'list'}" if nested else repr(value)
        raise InvalidInputError(f"{where} must be {NAMES[wanted]}, got {found}.")
    return value
