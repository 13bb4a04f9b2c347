"""Texts → passages → entities: the prediction code of the recognizer, the command line, servers and training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.tokenize import Passage, Splitting, split_passages, split_words
from lacuner.encoders.processes import ALONE, Processes
from lacuner.inference.backends import Backend, TorchBackend
from lacuner.inference.combination import combine
from lacuner.inference.passages import MAX_PASSAGE, SearchPassages, collect, passages_of
from lacuner.inference.prediction import Prediction, Text
from lacuner.matching.matcher import Matcher
from lacuner.models.model import Model, batches_of, evaluating

_READ_AHEAD = 1024
"""Texts sorted by length at a time, which limits the memory for a stream."""


def find_entities(
    model: Model,
    sentences: Sequence[Sequence[str]],
    nested: bool = False,
    min_score: float = 0.0,
    backend: Backend | None = None,
    processes: Processes = ALONE,
) -> list[list[Entity]]:
    """Find the entities of sentences, in word offsets; long sentences are split into passages.

    Args:
        model: a trained model.
        sentences: their words.
        nested: keep entities that overlap better ones.
        min_score: minimum probability.
        backend: computes the word vectors; by default the model's own encoder.
        processes: processes to divide the work between; each of them gets all entities.
    """
    backend = backend or TorchBackend(model)
    passages = SearchPassages.of(sentences)
    found: dict[int, list[Entity]] = {}
    with evaluating(model):
        for chosen, tokens in processes.own(batches_of(model, passages.tokens, passages.filled)):
            entities = model.entities(backend.encode(tokens), nested, min_score)
            found |= zip(chosen, entities, strict=True)
    found = processes.merge(found)
    return passages.collect(found.get(index, []) for index in range(len(passages.tokens)))


def predict_pairs(
    model: Model,
    corpus: Iterable[Sentence],
    nested: bool = False,
    min_score: float = 0.0,
    backend: Backend | None = None,
    dictionary: Matcher | None = None,
) -> Iterator[tuple[Sentence, list[Entity]]]:
    """Yield each sentence with the entities found by the model, and by the dictionary if given; streaming."""
    sentences = iter(corpus)
    while chunk := list(islice(sentences, _READ_AHEAD)):
        words = [sentence.tokens for sentence in chunk]
        found = find_entities(model, words, nested, min_score, backend)
        if dictionary is not None:
            matches = dictionary.entities(words, [sentence.text for sentence in chunk])
            found = [combine(*pair, nested) for pair in zip(matches, found, strict=True)]
        yield from zip(chunk, found, strict=True)


def predict_texts(
    model: Model,
    texts: Iterable[Text],
    split: Splitting = "words",
    nested: bool = False,
    min_score: float = 0.0,
    backend: Backend | None = None,
    dictionary: Matcher | None = None,
) -> Iterator[Prediction]:
    """Yield the entities of each text found by the model, and by the dictionary if given; streaming, in constant memory.

    Offsets are in characters for raw text, in words for tokenized text.
    """
    remaining, labels = iter(texts), model.labels[1:]
    while chunk := list(islice(remaining, _READ_AHEAD)):
        documents = [_Document.of(text, split) for text in chunk]
        parts = [part for document in documents for part in document.parts()]
        remaining_parts = iter(find_entities(model, parts, nested, min_score, backend))
        matches: list[list[Entity]] = [[] for _ in documents]
        if dictionary is not None:
            matches = dictionary.entities(
                [document.words for document in documents], [_raw_text(text) for text in chunk]
            )
        for text, document, names in zip(chunk, documents, matches, strict=True):
            found = collect(document.passages, list(islice(remaining_parts, len(document.passages))))
            yield Prediction(document.located(combine(names, found, nested)), text, labels)


def _raw_text(text: Text) -> str | None:
    return text if isinstance(text, str) else text.text if isinstance(text, Sentence) else None


def _words_of(text: Sequence[str]) -> tuple[str, ...]:
    if isinstance(text, Iterable) and not isinstance(text, bytes | Mapping):
        words = tuple(text)
        if all(isinstance(word, str) for word in words):
            return words
    raise TypeError(f"a text is a string, a Sentence, or a list of words, but not {repr(text)[:60]}")


@dataclass(frozen=True)
class _Document:
    """A text to predict: its words and passages, and the mapping back to the text."""

    words: Sequence[str]
    passages: Sequence[Passage]
    text: str | None = None
    offsets: Sequence[tuple[int, int]] = ()

    @classmethod
    def of(cls, text: Text, split: Splitting) -> "_Document":
        if not isinstance(text, str):
            given = text.tokens if isinstance(text, Sentence) else _words_of(text)
            return cls(given, passages_of(given))
        offsets = split_words(text, split)
        words = [text[start:end] for start, end in offsets]
        return cls(words, split_passages(text, offsets, MAX_PASSAGE), text, offsets)

    def parts(self) -> Iterator[Sequence[str]]:
        return (self.words[passage.begin : passage.end] for passage in self.passages)

    def located(self, entities: Iterable[Entity]) -> list[Entity]:
        """The same entities with their text, and with offsets into the raw text if given."""
        return [self._located(entity) for entity in entities]

    def _located(self, entity: Entity) -> Entity:
        if self.text is None:
            return replace(entity, text=" ".join(self.words[entity.start : entity.end]))
        start, end = self.offsets[entity.start][0], self.offsets[entity.end - 1][1]
        return replace(entity, start=start, end=end, text=self.text[start:end])
