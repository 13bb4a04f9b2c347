"""Taggers that are made in a moment, and the slow truth about them: sums over all sequences of tags."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor

from lacuner.corpus import Entity, Sentence, Span
from lacuner.heads import TAG_HEADS
from lacuner.methods.method import TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.parts import Sampling
from lacuner.methods.token import Likelihood, Outside
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TagScheme, TagSet
from tiny_models import tiny_model

WORDS = ("Ada", "moved", "to", "Turin")
SENTENCES = (
    Sentence(WORDS, (Entity(0, 1, "PER"),)),
    Sentence(WORDS, (Entity(1, 3, "PER"),), (Span(0, 1),)),
    Sentence(WORDS[:3], (), (Span(1, 2),)),
    Sentence(WORDS, (Entity(3, 4, "PER"),), complete=True, unknown_tokens=frozenset({0, 1})),
    Sentence(WORDS[:1]),
    Sentence(WORDS[1:], complete=True),
    Sentence(WORDS[:2], (Entity(0, 2, "PER"),)),
)
"""Of every status that a word can have."""
QUICK = {
    "encoder.vectors": "none",
    "encoder.word_size": 16,
    "encoder.hidden": 16,
    "encoder.dropout": 0.1,
    "training.batch_tokens": 64,
    "training.encoder_learning_rate": 0.02,
    "training.head_learning_rate": 0.02,
}
"""Settings of a tagger that is trained in a moment."""
UNLABELED = {"outside": Outside(), "marginalize": Marginalize()}
Found = list[tuple[int, int, int]]


def tagger(
    head: str = "crf",
    scheme: TagScheme = "bio2",
    unlabeled: str = "outside",
    sampling: Sampling | None = None,
    labels: Sequence[str] = ("O", "PER"),
    angle: bool = False,
    **more: Any,
) -> tuple[TokenMethod, TagModel]:
    """A method, and a model of it in double precision without dropout."""
    method = TokenMethod(
        name="mine",
        paper="-",
        summary="-",
        head=TAG_HEADS[head](scheme=scheme, angle=angle),
        unlabeled=UNLABELED[unlabeled],
        sampling=sampling,
        **{"loss": Likelihood(), **more},
    )
    model = tiny_model(method, labels, WORDS).double()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.mul_(4)
    return method, model


@cache
def legal_sequences(tags: TagSet, length: int) -> tuple[list[tuple[int, ...]], list[Found]]:
    """All legal sequences of tags and their entities; those of the non-entity class have the number after the last."""
    named = TagSet(tags.scheme, (*tags.labels, "NON")) if tags.non_entity_class else tags
    sequences = [
        sequence
        for sequence in product(range(len(tags)), repeat=length)
        if tags.begins[sequence[0]] == 0
        and tags.ends[sequence[-1]] == 0
        and all(tags.steps[sequence[word - 1], sequence[word]] == 0 for word in range(1, length))
    ]
    return sequences, [named.read(sequence) for sequence in sequences]


def probable_sequences(
    model: TagModel, sentence: Sentence, threshold: float = 0.0
) -> tuple[list[tuple[int, ...]], list[Found], Tensor]:
    """All legal sequences, their entities and their probabilities; the threshold is added to the scores of ``O``."""
    with torch.no_grad():
        (decisions,) = model.decisions(model.encode([sentence.tokens]))
        steps, begins, ends = model.head.transition_scores, model.tags.begins.double(), model.tags.ends.double()
        if isinstance(getattr(model.head, "start_transitions", None), Tensor):
            begins, ends = begins + model.head.start_transitions, ends + model.head.end_transitions
    sequences, entities = legal_sequences(model.tags, len(sentence))
    scores = []
    for sequence in sequences:
        score = begins[sequence[0]] + ends[sequence[-1]]
        for word, tag in enumerate(sequence):
            score = score + decisions[word, tag] + (steps[sequence[word - 1], tag] if word else 0)
            score = score + (threshold if tag == 0 else 0)
        scores.append(score)
    return sequences, entities, torch.stack(scores).softmax(0)


def fits(
    sentence: Sentence, model: TagModel, unlabeled: str = "marginalize", drawn: Sequence[tuple[int, int]] = ()
) -> Callable[[Found], bool]:
    """Whether entities are what an annotation allows.

    Drawn spans are entities of the non-entity class, or no entity at all. A rejected word is no entity by itself, as far as the
    scheme has a tag for that; in IO it is in no entity at all.
    """
    annotated = {(e.start, e.end, model.labels.index(e.label)) for e in sentence.entities}
    taken = {word for start, end, _ in annotated for word in range(start, end)}
    known = set(taken)
    if sentence.complete:
        known |= set(range(len(sentence))) - sentence.unknown_tokens
    rejected = {span.start for span in sentence.non_entities if span.end - span.start == 1} - taken
    chosen = {word for start, end in drawn for word in range(start, end)}
    wanted = set(drawn) if model.tags.non_entity_class else set()
    number = len(model.labels)

    def is_drawn(start: int, end: int, others: set[tuple[int, int]]) -> bool:
        if model.tags.scheme == "bioes":
            return (start, end) in others
        return any(
            begin == start and end <= stop for begin, stop in others
        )  # it may be longer, and is none all the same

    def check(found: Found) -> bool:
        ordinary = {entity for entity in found if entity[2] < number}
        others = {(start, end) for start, end, label in found if label == number}
        words = {word for start, end, _ in ordinary - annotated for word in range(start, end)}
        covered = {word for start, end in others for word in range(start, end)}
        if not annotated <= ordinary or words & (known | chosen) or covered & known:
            return False
        if model.tags.scheme == "bioes" and rejected & {start for start, end, _ in ordinary if end - start == 1}:
            return False
        if unlabeled == "outside":
            return not words and others == wanted
        return all(is_drawn(*span, others) for span in wanted)

    def check_words(found: Found) -> bool:
        """In IO a word has a label, and that is all there is to say."""
        label_of = {word: label for start, end, label in found for word in range(start, end)}
        if any(label_of.get(word) != label for start, end, label in annotated for word in range(start, end)):
            return False
        others = {word: label for word, label in label_of.items() if word not in taken}
        if known & others.keys() or any(others.get(word, number) != number for word in rejected | chosen):
            return False
        as_non_entity = {word for start, end in wanted for word in range(start, end)}
        if unlabeled == "outside":
            return others == dict.fromkeys(as_non_entity, number)
        return (
            all(others.get(word) == number for word in as_non_entity) and not (chosen - as_non_entity) & others.keys()
        )

    return check_words if model.tags.scheme == "io" else check
