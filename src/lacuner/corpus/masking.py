"""Hiding entities on purpose, to measure what gaps cost and how much of it a method wins back."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lacuner.corpus.sentence import Entity, Sentence


def mask_sentences(
    sentences: Iterable[Sentence], probability: float, seed: int
) -> Iterator[tuple[Sentence, tuple[Entity, ...]]]:
    """Each sentence with its entities hidden with ``probability``, and the hidden ones.

    Whether an entity is hidden depends on the seed, the number of its sentence, its words and its label through SHA-256, and
    on nothing else: the same on every platform, and what is hidden at 0.5 stays hidden at 0.7. A sentence that was complete
    no longer is.
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"a probability lies between 0 and 1; {probability} does not")
    for index, sentence in enumerate(sentences):
        drawn = [(entity, _draw(seed, index, entity) < probability) for entity in sentence.entities]
        kept = tuple(entity for entity, is_hidden in drawn if not is_hidden)
        hidden = tuple(entity for entity, is_hidden in drawn if is_hidden)
        yield replace(sentence, entities=kept, complete=False, unknown_tokens=frozenset()), hidden


def _draw(seed: int, index: int, entity: Entity) -> float:
    key = f"{seed}\0{index}\0{entity.start}\0{entity.end}\0{entity.label}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") / 2**64
