"""Saved models on the Hugging Face Hub: pushed with their card, and read back as from a folder."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import InvalidInputError, InvalidStateError, reason
from equipoise.storage.run_files import MEMBERS, MODEL, MODEL_CARD, MODEL_RECORD

if TYPE_CHECKING:
    from equipoise.estimators.calibrated_classifier import CalibratedClassifier

FILES = (MODEL_RECORD, MODEL, MODEL_CARD, f"{MEMBERS}/*")
"""All that a saved model consists of; nothing else is uploaded or downloaded."""


def push_model(model: "CalibratedClassifier", repo_id: str, *, private: bool, revision: str | None) -> str:
    """Upload a model to a repository of the Hub, created if missing, and return the commit's URL."""
    api = _hub().HfApi()
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        try:
            api.create_repo(repo_id, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo_id,
                folder_path=folder,
                revision=revision,
                allow_patterns=list(FILES),
                commit_message=f"Save {type(model).__name__}",
            )
        except _failures() as error:
            raise InvalidStateError(
                f"{repo_id} cannot be written ({reason(error)}); check its name, or log in with `hf auth login`."
            ) from error
    return str(commit.commit_url)


def fetch_model(repo_id: str, *, revision: str | None) -> Path:
    """Download a saved model, or take it from the Hub's cache, and return its folder."""
    try:
        return Path(_hub().snapshot_download(repo_id, revision=revision, allow_patterns=list(FILES)))
    except _failures() as error:
        raise InvalidInputError(
            f"{repo_id} cannot be read from the Hub ({reason(error)}); check its name, or log in with `hf auth login`."
        ) from error


def _failures() -> tuple[type[Exception], ...]:
    errors = _hub().errors
    return (errors.HfHubHTTPError, errors.HFValidationError, errors.LocalEntryNotFoundError, OSError)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise InvalidInputError("the Hub needs huggingface_hub; run: pip install 'equipoise[hub]'") from None
    return huggingface_hub
