"""The three-valued annotation: a span is an entity, known not to be one, or unknown."""

from collections.abc import Collection
from dataclasses import dataclass, field

OUTSIDE = "O"
"""The label of a span that is no entity; always label id 0."""
_NONE: frozenset[int] = frozenset()


def _check_offsets(start: int, end: int) -> None:
    if not 0 <= start < end:
        raise ValueError(f"a span needs 0 <= start < end, not [{start}, {end})")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Words ``[start, end)``; ``source`` says who decided about them (``"reviewer"``, …)."""

    start: int
    end: int
    source: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_offsets(self.start, self.end)


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Entity:
    """A labelled span ``[start, end)``, in words or, where it stands in raw text, in characters.

    Two entities are equal when start, end and label are. ``source`` (human, dictionary, reviewer, model), ``score`` and
    ``text`` travel along and do not take part in comparisons.
    """

    start: int
    end: int
    label: str
    text: str | None = field(default=None, compare=False)
    score: float | None = field(default=None, compare=False)
    source: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_offsets(self.start, self.end)
        if not self.label or self.label == OUTSIDE:
            raise ValueError(f"{self.label!r} cannot be the label of an entity")

    def __repr__(self) -> str:
        shown = [f"start={self.start}", f"end={self.end}", f"label={self.label!r}"]
        if self.text is not None:
            shown.append(f"text={self.text!r}")
        if self.score is not None:
            shown.append(f"score={self.score:.2f}")
        if self.source is not None:
            shown.append(f"source={self.source!r}")
        return f"Entity({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words and what is known about their spans.

    Args:
        tokens: the words.
        entities: annotated spans. A span with two labels may be either.
        non_entities: spans that somebody looked at and rejected.
        complete: what is not annotated is known not to be an entity.
        annotated_labels: only these labels were looked for; nothing is known about others. ``None``: all of them were.
        unknown_tokens: words about which nothing is known even if the sentence is complete (the tags ``-`` and ``?``
            of column files). A span that lies wholly inside them is unknown.
        text: the raw text, if the words were cut out of one.
    """

    tokens: tuple[str, ...]
    entities: tuple[Entity, ...] = ()
    non_entities: tuple[Span, ...] = ()
    complete: bool = False
    annotated_labels: frozenset[str] | None = None
    unknown_tokens: frozenset[int] = _NONE
    text: str | None = None

    def __post_init__(self) -> None:
        bare = self.entities == () == self.non_entities and self.annotated_labels is None
        if bare and type(self.tokens) is tuple and self.unknown_tokens is _NONE:
            return  # raw text, of which there may be a lot
        freeze = object.__setattr__
        if isinstance(self.tokens, str):
            raise TypeError("tokens is a sequence of words, not one text; Corpus.from_texts splits texts")
        if isinstance(self.annotated_labels, str):
            raise TypeError("annotated_labels is a set of labels, not one label")
        freeze(self, "tokens", tuple(self.tokens))
        if self.annotated_labels is not None:
            freeze(self, "annotated_labels", frozenset(self.annotated_labels))
        freeze(self, "unknown_tokens", frozenset(self.unknown_tokens))
        freeze(self, "entities", tuple(sorted(self.entities)))
        freeze(self, "non_entities", tuple(sorted(self.non_entities)))
        spans: list[Entity | Span] = [*self.entities, *self.non_entities]
        for span in spans:
            if span.end > len(self.tokens):
                raise ValueError(f"{span} ends behind the last of {len(self.tokens)} words")
        rejected = {(span.start, span.end) for span in self.non_entities}
        for entity in self.entities:
            if (entity.start, entity.end) in rejected:
                raise ValueError(f"{entity} is annotated and rejected at once")
        if any(not 0 <= index < len(self.tokens) for index in self.unknown_tokens):
            raise ValueError("unknown_tokens points outside the sentence")

    def __len__(self) -> int:
        return len(self.tokens)

    def possible_labels(self, start: int, end: int, labels: Collection[str]) -> frozenset[str]:
        """The labels out of ``labels`` and ``"O"`` that the span ``[start, end)`` may still have.

        One label: a positive. Only ``"O"``: a known negative. All: unknown.
        """
        annotated = frozenset(e.label for e in self.entities if (e.start, e.end) == (start, end))
        if annotated:
            return annotated
        if any((span.start, span.end) == (start, end) for span in self.non_entities):
            return frozenset({OUTSIDE})
        everything = frozenset(labels) | {OUTSIDE}
        if not self.complete or self.unknown_tokens.issuperset(range(start, end)):
            return everything
        return everything - self.looked_for(labels)

    def looked_for(self, labels: Collection[str]) -> frozenset[str]:
        """The labels out of ``labels`` that whoever annotated this sentence looked for."""
        return frozenset(labels) if self.annotated_labels is None else frozenset(labels) & self.annotated_labels

    def text_of(self, start: int, end: int) -> str:
        """The words ``[start, end)`` as they stand in the raw text, or joined by spaces."""
        if self.text is None:
            return " ".join(self.tokens[start:end])
        offsets = self.offsets()
        return self.text[offsets[start][0] : offsets[end - 1][1]]

    def offsets(self) -> list[tuple[int, int]]:
        """Where each word stands in :attr:`text` (or in the words joined by spaces), in characters."""
        found, position = [], 0
        for token in self.tokens:
            start = position if self.text is None else self.text.index(token, position)
            found.append((start, start + len(token)))
            position = start + len(token) + (self.text is None)
        return found
