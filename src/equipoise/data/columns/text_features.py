r"""Free text as numbers: word and character n-grams weighted by TF-IDF, reduced to a few columns.

Two linear maps reduce the n-grams of a text: a truncated SVD, which ignores the labels, and logistic regression, whose
log-odds for each class keep what the SVD loses. The log-odds of training rows are cross-fitted, so that a model fitted
on these columns does not overestimate them. The n-grams are learnt from a bounded number of texts. Where there are
more, all other words are hashed, so that the log-odds learn from them too.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from equipoise.data.columns.log_odds import FITTED_TO, MOST_SCORES, LogOdds, out_of_fold, score_names
from equipoise.data.labels import label_array

WORDS: dict[str, Any] = {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"(?u)\w+|[^\w\s]"}
CHARACTERS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 5)}
"""N-grams that are counted: one and two words or signs, two to five characters within a word."""
MOST_TERMS = 20_000
"""Number of most frequent n-grams kept of either kind."""
MOST_DIMENSIONS = 50
"""Largest number of dimensions of the SVD."""
LEARNT_FROM = 20_000
"""Most texts that n-grams are learnt from, drawn evenly."""
MOST_CHARACTERS = 10**7
"""Most characters, over all texts, that n-grams are learnt from."""
BUCKETS = 2**16
"""Columns that words beyond the n-grams are hashed into."""
LONGEST = 5_000
"""Characters of a text that are read; what comes later is left out."""
STRENGTH = 10.0
"""C of the logistic regression."""

Term = Annotated[str, Meta(max_length=100)]
Terms = Annotated[tuple[Term, ...], Meta(max_length=MOST_TERMS)]
Texts = Sequence[str | None]


class TextFeatures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The features learnt from the texts of a column.

    Args:
        words, characters: the n-grams, in the order of what follows; then come the buckets.
        weights: the inverse document frequency of each, float32 as bytes.
        dimensions: of the SVD.
        scores: the classes or attributes with log-odds; of two classes the second, of none where no labels were given.
        maps: both linear maps, float16 as bytes, (dimensions + scores, n-grams and buckets).
        offsets: of the log-odds.
        buckets: number of columns that all other words are hashed into.
    """

    words: Terms
    characters: Terms
    weights: bytes
    dimensions: Annotated[int, Meta(ge=1, le=MOST_DIMENSIONS)]
    scores: Annotated[tuple[str, ...], Meta(max_length=MOST_SCORES)]
    maps: bytes
    offsets: Annotated[tuple[float, ...], Meta(max_length=MOST_SCORES)]
    buckets: Annotated[int, Meta(ge=0, le=BUCKETS)] = 0

    @classmethod
    def fit(cls, texts: Texts, y: ArrayLike | None = None) -> "TextFeatures | None":
        """Fit to texts, missing ones being None; return None if no two of them share an n-gram.

        Args:
            y: labels (texts,), or a 0/1 matrix (texts, attributes); None learns no log-odds.
        """
        known = [text[:LONGEST] for text in texts if text is not None]
        step = max(-(-len(known) // LEARNT_FROM), -(-sum(map(len, known)) // MOST_CHARACTERS), 1)
        some = known[::step]
        (words, first, ours), (characters, second, theirs) = _terms(some, WORDS), _terms(some, CHARACTERS)
        matrix = csr_matrix(hstack([ours, theirs])) if some else csr_matrix((0, 0))
        dimensions = min(MOST_DIMENSIONS, max(1, len(some) // 10), min(matrix.shape) - 1)
        if dimensions < 1:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):  # texts that are all alike have no variance to explain
            maps = TruncatedSVD(dimensions, random_state=0).fit(matrix).components_
        weights = np.concatenate((first, second)).astype("<f4").tobytes()
        found = cls(words, characters, weights, dimensions, (), _packed(maps), ())
        labels = None if y is None else label_array(y)
        scores = () if labels is None else score_names(labels)
        if labels is None or not scores:
            return found
        rows = range(0, len(labels), -(-len(labels) // FITTED_TO))
        fitted = [texts[row] for row in rows]
        if step > 1:
            found = found._with_buckets(fitted)
        model = LogOdds(found.counts(fitted), labels[rows], labels, STRENGTH)
        both = _packed(np.concatenate((found._maps, model.maps)))
        return msgspec.structs.replace(found, scores=scores, maps=both, offsets=tuple(model.offsets.tolist()))

    def _with_buckets(self, texts: Texts) -> "TextFeatures":
        """Return these features with buckets for all other words, weighted by their frequency in some texts."""
        frequency = np.bincount(self._hashed(texts, BUCKETS).indices, minlength=BUCKETS)
        weights = 1 + np.log((1 + len(texts)) / (1 + frequency))
        return msgspec.structs.replace(
            self,
            weights=self.weights + weights.astype("<f4").tobytes(),
            maps=_packed(np.pad(self._maps, ((0, 0), (0, BUCKETS)))),
            buckets=BUCKETS,
        )

    def _hashed(self, texts: Texts, buckets: int) -> Any:
        """Return how often each text has other words than those learnt, a sparse matrix (texts, buckets)."""
        tokens, learnt = _vectorizer(WORDS | {"ngram_range": (1, 1)}).build_analyzer(), frozenset(self.words)

        def others(text: str | None) -> list[str]:
            return [token for token in tokens((text or "")[:LONGEST]) if token not in learnt]

        made = HashingVectorizer(n_features=buckets, analyzer=others, norm=None, alternate_sign=False, dtype=np.float32)
        return made.transform(texts)

    @property
    def sound(self) -> bool:
        """True if the parts are consistent, as those of an untrusted file may not be."""
        terms = len(self.words) + len(self.characters) + self.buckets
        outputs = self.dimensions + len(self.scores)
        if not terms or len(self.weights) != 4 * terms or len(self.maps) != 2 * terms * outputs:
            return False
        if len(self.offsets) != len(self.scores) or any(len(set(t)) < len(t) for t in (self.words, self.characters)):
            return False
        finite = all(np.isfinite(part).all() for part in (self._weights, self._maps, self.offsets))
        return finite and bool((self._weights > 0).all())

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that a text becomes, to append to the column's own."""
        return [f"text {number}" for number in range(1, self.dimensions + 1)] + [f"for {name}" for name in self.scores]

    @property
    def _weights(self) -> NDArray[np.float32]:
        return np.frombuffer(self.weights, dtype="<f4")

    @property
    def _maps(self) -> NDArray[np.float16]:
        return np.frombuffer(self.maps, dtype="<f2").reshape(self.dimensions + len(self.scores), -1)

    def counts(self, texts: Texts) -> Any:
        """Return the weighted n-grams of each text, a sparse matrix (texts, n-grams and buckets)."""
        given = ["" if text is None else text[:LONGEST] for text in texts]
        if not given:
            return csr_matrix((0, len(self._weights)), dtype=np.float32)
        parts, start = [], 0
        for options, terms in ((WORDS, self.words), (CHARACTERS, self.characters)):
            if terms:
                made = _vectorizer(options, vocabulary={term: place for place, term in enumerate(terms)})
                made.idf_ = self._weights[start : start + len(terms)]
                parts.append(made.transform(given))
                start += len(terms)
        if self.buckets:
            hashed = self._hashed(given, self.buckets)
            hashed.data = (1 + np.log(hashed.data)) * self._weights[start + hashed.indices]
            parts.append(normalize(hashed, copy=False))
        return csr_matrix(hstack(parts), dtype=np.float32)

    def transform(self, texts: Texts) -> NDArray[np.float32]:
        """Return one row per text, (texts, outputs); a missing one is empty."""
        return self._mapped(self.counts(texts))

    def _mapped(self, counts: Any) -> NDArray[np.float32]:
        found = np.asarray(counts @ self._maps.astype(np.float32).T, dtype=np.float32)
        found[:, self.dimensions :] += np.array(self.offsets, dtype=np.float32)
        return found

    def transform_training(self, texts: Texts, y: ArrayLike, groups: ArrayLike | None = None) -> NDArray[np.float32]:
        """Transform the training texts, with cross-fitted log-odds.

        Args:
            y: their labels.
            groups: rows of one group are never on both sides, (texts,).
        """
        counts = self.counts(texts)
        found = self._mapped(counts)
        honest = out_of_fold(counts, y, groups, STRENGTH) if self.scores else None
        if honest is not None:
            found[:, self.dimensions :] = honest
        return found

    def speaking_for(self, place: int, *, against: bool = False, most: int = 5) -> list[str]:
        """Return the words with the largest log-odds for the class or attribute at an index of ``scores``.

        Args:
            against: those with the smallest instead: of two classes, they speak for the first.
        """
        each = self._maps[self.dimensions + place, : len(self.words)].astype(np.float32) * (-1 if against else 1)
        best = np.argsort(-each, kind="stable")
        return [self.words[term] for term in best if each[term] > 0 and self.words[term].isalpha()][:most]


def _terms(texts: list[str], options: dict[str, Any]) -> tuple[tuple[str, ...], NDArray[np.float32], Any]:
    """Return the n-grams of one kind that at least two texts share, their weights, and each text's weighted n-grams."""
    made = _vectorizer(options, min_df=2, max_features=MOST_TERMS)
    try:
        counts = made.fit_transform(texts)
    except ValueError:  # there is none
        return (), np.zeros(0, dtype=np.float32), csr_matrix((len(texts), 0), dtype=np.float32)
    return tuple(made.get_feature_names_out().tolist()), made.idf_, counts


def _packed(maps: NDArray[Any]) -> bytes:
    limit = float(np.finfo(np.float16).max)
    return bytes(np.clip(maps, -limit, limit).astype("<f2").tobytes())


def _vectorizer(options: dict[str, Any], **more: Any) -> Any:
    return TfidfVectorizer(lowercase=True, sublinear_tf=True, dtype=np.float32, **options, **more)
