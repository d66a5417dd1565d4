r"""Free text as numbers: word and character n-grams weighed by TF-IDF, brought down to a few columns.

Two linear maps reduce the n-grams of a text: a truncated SVD, which knows no labels, and logistic regression, whose
log-odds for each class keep what the SVD loses. The training rows get log-odds from models that have not seen them, so
that whatever is fitted on these columns can trust them.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from equipoise.data.labels import label_array
from equipoise.data.splits import stratified_folds
from equipoise.errors import Muted

WORDS: dict[str, Any] = {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"(?u)\w+|[^\w\s]"}
CHARACTERS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 5)}
"""Which n-grams are counted: words and signs by one and two, characters within a word by two to five."""
MOST_TERMS = 20_000
"""N-grams kept of either sort, the most frequent."""
MOST_DIMENSIONS, MOST_SCORES = 50, 100
"""Of the SVD; and classes or attributes of which each has a column of log-odds, for more there are none."""
LEARNT_FROM, FITTED_TO = 20_000, 50_000
"""Texts that n-grams, and the log-odds, are learnt from, drawn evenly from more."""
MOST_CHARACTERS = 10**7
"""Of all texts together that n-grams are learnt from."""
LONGEST = 5_000
"""Characters of a text that are read; what comes later is left out."""
FOLDS = 5
STRENGTH = 10.0
"""C of the logistic regression."""

Term = Annotated[str, Meta(max_length=100)]
Terms = Annotated[tuple[Term, ...], Meta(max_length=MOST_TERMS)]
Texts = Sequence[str | None]
_unsettled = Muted(r"(?s).*lbfgs failed to converge")


class TextFeatures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was learnt from the texts of a column.

    Args:
        words, characters: the n-grams, in the order of what follows.
        weights: the inverse document frequency of each, float32 as bytes.
        dimensions: of the SVD.
        scores: the classes or attributes with log-odds; of two classes the second, of none where no labels were given.
        maps: both linear maps, float16 as bytes, (dimensions + scores, n-grams).
        offsets: of the log-odds.
    """

    words: Terms
    characters: Terms
    weights: bytes
    dimensions: Annotated[int, Meta(ge=1, le=MOST_DIMENSIONS)]
    scores: Annotated[tuple[str, ...], Meta(max_length=MOST_SCORES)]
    maps: bytes
    offsets: Annotated[tuple[float, ...], Meta(max_length=MOST_SCORES)]

    @classmethod
    def fit(cls, texts: Texts, y: ArrayLike | None = None) -> "TextFeatures | None":
        """Learn from texts, None where there is none; return None where no two of them share an n-gram.

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
        model = _LogOdds(found.counts([texts[row] for row in rows]), labels[rows], labels)
        both = _packed(np.concatenate((maps, model.maps)))
        return cls(words, characters, weights, dimensions, scores, both, model.offsets)

    @property
    def sound(self) -> bool:
        """Tell whether the parts fit each other, as they may not in a file that anyone may have written."""
        terms = len(self.words) + len(self.characters)
        outputs = self.dimensions + len(self.scores)
        if not terms or len(self.weights) != 4 * terms or len(self.maps) != 2 * terms * outputs:
            return False
        if len(self.offsets) != len(self.scores) or any(len(set(t)) < len(t) for t in (self.words, self.characters)):
            return False
        finite = all(np.isfinite(part).all() for part in (self._weights, self._maps, self.offsets))
        return finite and bool((self._weights > 0).all())

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that a text becomes, to stand behind that of its own."""
        return [f"text {number}" for number in range(1, self.dimensions + 1)] + [f"for {name}" for name in self.scores]

    @property
    def _weights(self) -> NDArray[np.float32]:
        return np.frombuffer(self.weights, dtype="<f4")

    @property
    def _maps(self) -> NDArray[np.float16]:
        return np.frombuffer(self.maps, dtype="<f2").reshape(self.dimensions + len(self.scores), -1)

    def counts(self, texts: Texts) -> Any:
        """Return the weighed n-grams of each text, a sparse matrix (texts, n-grams)."""
        given = ["" if text is None else text[:LONGEST] for text in texts]
        if not given:
            return csr_matrix((0, len(self.words) + len(self.characters)), dtype=np.float32)
        parts, start = [], 0
        for options, terms in ((WORDS, self.words), (CHARACTERS, self.characters)):
            if terms:
                made = _vectorizer(options, vocabulary={term: place for place, term in enumerate(terms)})
                made.idf_ = self._weights[start : start + len(terms)]
                parts.append(made.transform(given))
                start += len(terms)
        return csr_matrix(hstack(parts), dtype=np.float32)

    def transform(self, texts: Texts) -> NDArray[np.float32]:
        """Return a row a text, (texts, outputs); a missing one is empty."""
        return self._mapped(self.counts(texts))

    def _mapped(self, counts: Any) -> NDArray[np.float32]:
        found = np.asarray(counts @ self._maps.astype(np.float32).T, dtype=np.float32)
        found[:, self.dimensions :] += np.array(self.offsets, dtype=np.float32)
        return found

    def transform_training(self, texts: Texts, y: ArrayLike, groups: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return :meth:`transform` of the texts learnt from, the log-odds of each by models that have not seen it.

        Args:
            y: their labels.
            groups: rows of one group are never on both sides, (texts,).
        """
        counts, labels = self.counts(texts), label_array(y)
        found = self._mapped(counts)
        members = len(labels) if groups is None else len(np.unique(np.asarray(groups)))
        if not self.scores or members < 2:
            return found
        for fit, rest in stratified_folds(labels, min(FOLDS, members), seed=0, groups=groups, allow_missing=True):
            model = _LogOdds(
                counts[fit[:: -(-len(fit) // FITTED_TO)]], labels[fit[:: -(-len(fit) // FITTED_TO)]], labels
            )
            found[rest, self.dimensions :] = counts[rest] @ model.maps.T.astype(np.float32) + model.offsets
        return found

    def speaking_for(self, place: int, *, against: bool = False, most: int = 5) -> list[str]:
        """Return the words with the largest log-odds for the class or attribute at a place among ``scores``.

        Args:
            against: those with the smallest instead: of two classes, they speak for the first.
        """
        each = self._maps[self.dimensions + place, : len(self.words)].astype(np.float32) * (-1 if against else 1)
        best = np.argsort(-each, kind="stable")
        return [self.words[term] for term in best if each[term] > 0 and self.words[term].isalpha()][:most]


def _terms(texts: list[str], options: dict[str, Any]) -> tuple[tuple[str, ...], NDArray[np.float32], Any]:
    """Return the n-grams of one sort that two texts share, their weights, and the weighed n-grams of each text."""
    made = _vectorizer(options, min_df=2, max_features=MOST_TERMS)
    try:
        counts = made.fit_transform(texts)
    except ValueError:  # there is none
        return (), np.zeros(0, dtype=np.float32), csr_matrix((len(texts), 0), dtype=np.float32)
    return tuple(made.get_feature_names_out().tolist()), made.idf_, counts


def score_names(labels: NDArray[Any]) -> tuple[str, ...]:
    """Return what there are log-odds for: each class, of two the second, or each attribute; nothing of too many."""
    if labels.dtype.kind == "f" and not (labels == np.floor(labels)).all():  # no classes
        return ()
    if labels.ndim == 2:
        found = [str(place) for place in range(labels.shape[1])]
    else:
        classes = [str(label) for label in np.unique(labels).tolist()]
        found = classes[1:] if len(classes) <= 2 else classes
    return tuple(found) if len(found) <= MOST_SCORES else ()


class _LogOdds:
    """Logistic regression of labels on n-grams: ``maps`` (scores, n-grams) and ``offsets`` for all of the classes."""

    def __init__(self, counts: Any, labels: NDArray[Any], every: NDArray[Any]) -> None:
        size = len(score_names(every))
        self.maps: NDArray[np.float64] = np.zeros((size, counts.shape[1]))
        offsets = np.zeros(size)
        targets = labels.T if labels.ndim == 2 else [labels]
        for place, target in enumerate(targets):
            classes = np.unique(target)
            if len(classes) < 2:
                continue
            with _unsettled:
                model = LogisticRegression(C=STRENGTH, max_iter=100).fit(counts, target)
            if labels.ndim == 2 or size == 1:
                self.maps[place], offsets[place] = model.coef_[0], model.intercept_[0]
                continue
            maps, own = model.coef_, model.intercept_
            if len(classes) == 2:  # of more, which the other rows have
                maps, own = np.concatenate((-maps, maps)), np.concatenate((-own, own))
            places = np.searchsorted(np.unique(every), classes)
            offsets[:] = own.min() - 1  # of a class that is not here
            self.maps[places], offsets[places] = maps, own
        self.offsets = tuple(offsets.tolist())


def _packed(maps: NDArray[Any]) -> bytes:
    limit = float(np.finfo(np.float16).max)
    return bytes(np.clip(maps, -limit, limit).astype("<f2").tobytes())


def _vectorizer(options: dict[str, Any], **more: Any) -> Any:
    return TfidfVectorizer(lowercase=True, sublinear_tf=True, dtype=np.float32, **options, **more)
