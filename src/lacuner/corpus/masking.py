"""Masking: hiding entities at random, to measure the cost of incomplete annotation and how much of it a method recovers."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lacuner.corpus.sentence import Entity, Sentence, SourceAnnotation


def mask_sentences(
    sentences: Iterable[Sentence], probability: float, seed: int
) -> Iterator[tuple[Sentence, tuple[Entity, ...]]]:
    """Yield each sentence with its entities masked with ``probability``, and the masked ones.

    Masking is a deterministic SHA-256 hash of the seed, the sentence index, the words and the label: identical on every
    platform, and nested, so that what is masked at 0.5 is masked at 0.7, too. Each source's annotation is masked as well.
    Sentences are no longer complete.
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"a probability lies between 0 and 1; {probability} does not")
    for index, sentence in enumerate(sentences):
        drawn = [(entity, _draw(seed, index, entity) < probability) for entity in sentence.entities]
        kept = tuple(entity for entity, is_hidden in drawn if not is_hidden)
        by_source = tuple(_mask_source(said, probability, seed, index) for said in sentence.by_source)
        hidden = tuple(entity for entity, is_hidden in drawn if is_hidden)
        masked = replace(sentence, entities=kept, complete=False, unknown_tokens=frozenset(), by_source=by_source)
        yield masked, hidden


def _mask_source(said: SourceAnnotation, probability: float, seed: int, index: int) -> SourceAnnotation:
    kept = tuple(entity for entity in said.entities if _draw(seed, index, entity) >= probability)
    return replace(said, entities=kept, complete=False, unknown_tokens=frozenset())


def _draw(seed: int, index: int, entity: Entity) -> float:
    key = f"{seed}\0{index}\0{entity.start}\0{entity.end}\0{entity.label}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") / 2**64
