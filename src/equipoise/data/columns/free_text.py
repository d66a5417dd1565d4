"""Columns of free text: learnt and encoded by n-grams and by the embeddings of a sentence encoder."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.naive_bayes import MultinomialNB

from equipoise.data.columns.encoding import Column, Compact, EncodingTools, Halves, LearningTools
from equipoise.data.columns.guess_kind import INDICATOR_SHARE, ColumnGuess
from equipoise.data.columns.sentence_encoder import chosen_encoder
from equipoise.data.columns.sentence_features import SentenceFeatures
from equipoise.data.columns.text_features import TextFeatures
from equipoise.data.columns.texts import as_words, texts_or_none, without_blanks
from equipoise.wording import counted


def learn_text(guess: ColumnGuess, values: Any, notes: list[str], using: LearningTools) -> Column | None:
    """Fit the n-gram features of free text and, with a sentence encoder, those of its embeddings."""
    words, y = as_words(values), using.y
    texts = texts_or_none(words)
    found, encoder = TextFeatures.fit(texts, y), chosen_encoder(using.text_encoder, len(texts))
    sentences = None if encoder is None else SentenceFeatures.fit(texts, y, encoder, progress=using.progress)
    if found is None and sentences is None:
        notes.append(f"{guess.name}: ignored, no two of its texts share a word.")
        return None
    missing = int(words.isna().sum())
    column = Column(
        guess.name, "text", 0.0, 0 < INDICATOR_SHARE * len(words) <= missing, (), False, text=found, sentences=sentences
    )
    by = "by n-grams" if sentences is None else f"by {'n-grams and ' * bool(found)}the sentence encoder {encoder}"
    width = len(column.outputs) - column.indicator
    notes.append(f"{guess.name}: free text ({guess.reason}), encoded as {counted(width, 'column')} {by}.")
    if found is not None and found.scores and y is not None and y.ndim == 1:
        classes, counts = np.unique(y, return_counts=True)
        rare, two = int(counts.argmin()), len(found.scores) == 1
        speaking = found.speaking_for(0 if two else rare, against=two and rare == 0)
        if speaking:
            notes.append(f"{guess.name}: words that speak for {str(classes[rare])!r}: {', '.join(speaking)}.")
    if missing:
        notes.append(f"{guess.name}: {counted(missing, 'missing text')} treated as empty.")
    return column


def encode_text(values: Any, column: Column, out: NDArray[np.floating[Any]], using: EncodingTools) -> Compact:
    """Write free text into ``out`` (rows, outputs)."""
    words = as_words(without_blanks(values))
    texts, start = texts_or_none(words), 0
    for each in (column.text, column.sentences):
        if each is not None:
            made = each.transform(texts) if using.trained is None else each.transform_training(texts, *using.trained)
            out[:, start : start + made.shape[1]] = made
            start += made.shape[1]
    if column.indicator:
        out[:, -1] = words.isna()
    return Compact(column)


def rank_by_words(texts: list[str], rare: NDArray[np.bool_], halves: Halves) -> NDArray[np.float64]:
    """Return the log probability of a class by naive Bayes on the words of the other half, (rows,)."""
    x = HashingVectorizer(alternate_sign=False, n_features=2**16, norm=None, binary=True).transform(texts)
    score = np.zeros(len(rare))
    for fit, rest in halves:
        score[rest] = MultinomialNB().fit(x[fit], rare[fit]).predict_log_proba(x[rest])[:, 1]
    return score
