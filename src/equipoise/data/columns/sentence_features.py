"""Free text as numbers by meaning: linear maps of a pretrained encoder's embeddings."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from equipoise.data.columns.log_odds import MOST_SCORES, LogOdds, out_of_fold, score_names
from equipoise.data.columns.sentence_encoder import TOKENS, SentenceEncoder, load_encoder, longest_text
from equipoise.data.labels import label_array
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError

MOST_DIMENSIONS, MOST_SIZE = 50, 8192
"""Principal components of the embeddings, and numbers of an embedding."""
STRENGTH = 10.0
"""C of the logistic regression."""
Texts = Sequence[str | None]


class SentenceFeatures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The features learnt from the embeddings of a column of texts.

    Args:
        encoder: its name or folder.
        fingerprint: of its weights.
        tokens: of a text that are read.
        size: of an embedding.
        dimensions: principal components.
        scores: the classes or attributes with log-odds, as for n-grams.
        maps: both linear maps, float32 as bytes, (dimensions + scores, size).
        offsets: of each output.
    """

    encoder: Annotated[str, Meta(min_length=1, max_length=4096)]
    fingerprint: Annotated[str, Meta(max_length=100)]
    tokens: Annotated[int, Meta(ge=1, le=TOKENS[0])]
    size: Annotated[int, Meta(ge=1, le=MOST_SIZE)]
    dimensions: Annotated[int, Meta(ge=0, le=MOST_DIMENSIONS)]
    scores: Annotated[tuple[str, ...], Meta(max_length=MOST_SCORES)]
    maps: bytes
    offsets: Annotated[tuple[float, ...], Meta(max_length=MOST_DIMENSIONS + MOST_SCORES)]

    @classmethod
    def fit(
        cls, texts: Texts, y: ArrayLike | None, encoder: str, *, progress: Progress | None = None
    ) -> "SentenceFeatures":
        """Fit to texts; missing ones are None.

        Args:
            y: labels (texts,), or a 0/1 matrix (texts, attributes); None learns no log-odds.
            encoder: a name or a folder; what is not on this machine is downloaded.
            progress: called as embeddings are made.
        """
        loaded, tokens = load_encoder(encoder, download=True), longest_text(len(texts))
        x = loaded.embed(texts, tokens=tokens, progress=progress)
        centre = x.mean(0)
        dimensions = min(MOST_DIMENSIONS, max(1, len(x) // 10), loaded.size)
        _, vectors = np.linalg.eigh((x - centre).T.astype(np.float64) @ (x - centre))
        maps = vectors.T[::-1][:dimensions]
        offsets = -maps @ centre
        labels = None if y is None else label_array(y)
        scores = () if labels is None else score_names(labels)
        if labels is not None and scores:
            model = LogOdds(x, labels, labels, STRENGTH)
            maps, offsets = np.concatenate((maps, model.maps)), np.concatenate((offsets, model.offsets))
        packed = bytes(maps.astype("<f4").tobytes())
        return cls(
            encoder, loaded.fingerprint, tokens, loaded.size, dimensions, scores, packed, tuple(offsets.tolist())
        )

    @property
    def sound(self) -> bool:
        """True if the parts are consistent, as those of an untrusted file may not be."""
        outputs = self.dimensions + len(self.scores)
        if not outputs or len(self.maps) != 4 * outputs * self.size or len(self.offsets) != outputs:
            return False
        return bool(np.isfinite(self._maps).all() and np.isfinite(self.offsets).all())

    @property
    def outputs(self) -> list[str]:
        """Suffixes of the output columns of a text."""
        named = [f"meaning {number}" for number in range(1, self.dimensions + 1)]
        return named + [f"meaning for {name}" for name in self.scores]

    @property
    def _maps(self) -> NDArray[np.float32]:
        return np.frombuffer(self.maps, dtype="<f4").reshape(-1, self.size)

    def transform(self, texts: Texts) -> NDArray[np.float32]:
        """Return a row for each text, (texts, outputs); a missing one is empty."""
        return self._mapped(self._embed(texts))

    def transform_training(self, texts: Texts, y: ArrayLike, groups: ArrayLike | None = None) -> NDArray[np.float32]:
        """Transform the training texts, with cross-fitted log-odds."""
        x = self._embed(texts)
        found = self._mapped(x)
        honest = out_of_fold(x, y, groups, STRENGTH) if self.scores else None
        if honest is not None:
            found[:, self.dimensions :] = honest
        return found

    def _mapped(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(x @ self._maps.T + np.array(self.offsets, dtype=np.float32), dtype=np.float32)

    def _embed(self, texts: Texts) -> NDArray[np.float32]:
        return self._loaded().embed(texts, tokens=self.tokens)

    def _loaded(self) -> SentenceEncoder:
        found = load_encoder(self.encoder)
        if found.fingerprint != self.fingerprint or found.size != self.size:
            raise InvalidInputError(
                f"the text encoder {self.encoder} has other weights than the one the model was trained with; restore "
                "that one, or train again."
            )
        return found
