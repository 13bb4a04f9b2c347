"""Three-valued annotation: a span is an entity, known not to be one, or unknown."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Protocol, TypeVar

OUTSIDE = "O"
"""The label of a span that is no entity; always label id 0."""
_NO_TOKENS: frozenset[int] = frozenset()


class Source(StrEnum):
    """Kinds of annotation sources. Files may name others, which are kept as plain strings."""

    HUMAN = "human"
    DICTIONARY = "dictionary"
    REVIEWER = "reviewer"
    MODEL = "model"


class Fields(Mapping[str, Any]):
    """Unknown fields of a record, passed through: an immutable, picklable mapping."""

    __slots__ = ("_fields",)

    def __init__(self, extra: Mapping[str, Any]) -> None:
        self._fields = dict(extra)

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __hash__(self) -> int:
        return hash(frozenset(self._fields))

    def __repr__(self) -> str:
        return repr(self._fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze_fields, (self._fields,)


NO_FIELDS = Fields({})


def freeze_fields(extra: Mapping[str, Any]) -> Fields:
    """An immutable copy of the fields."""
    if isinstance(extra, Fields):
        return extra
    return Fields(extra) if extra else NO_FIELDS


class HasOffsets(Protocol):
    """Anything with offsets ``[start, end)``."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


class _Interval:
    """Common base of spans and entities."""

    __slots__ = ()
    start: int
    end: int

    def overlaps(self, other: HasOffsets) -> bool:
        """Whether the two share a word."""
        return self.start < other.end and other.start < self.end

    def _check_offsets(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span needs 0 <= start < end, not [{self.start}, {self.end})")


@dataclass(frozen=True, slots=True, order=True)
class Span(_Interval):
    """Words ``[start, end)``; ``source`` is who decided about them (``"reviewer"``, …).

    Spans are compared by start and end only, not by ``source`` and ``extra`` (unknown fields of the record).
    """

    start: int
    end: int
    source: str | None = field(default=None, compare=False)
    extra: Mapping[str, Any] = field(default=NO_FIELDS, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_offsets()
        if self.extra is not NO_FIELDS:
            object.__setattr__(self, "extra", _checked_fields(self.extra, type(self)))


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Entity(_Interval):
    """A labeled span ``[start, end)``, in words or, in raw text, in characters.

    Entities are compared by start, end and label. ``source`` (a :class:`Source` or any other string), ``score``, ``text`` and
    ``extra`` (unknown fields of the record) are carried along, but not compared.
    """

    start: int
    end: int
    label: str
    text: str | None = field(default=None, compare=False)
    score: float | None = field(default=None, compare=False)
    source: str | None = field(default=None, compare=False)
    extra: Mapping[str, Any] = field(default=NO_FIELDS, compare=False)

    def __post_init__(self) -> None:
        self._check_offsets()
        if not self.label or self.label == OUTSIDE:
            raise ValueError(f"{self.label!r} cannot be the label of an entity")
        if self.extra is not NO_FIELDS:
            object.__setattr__(self, "extra", _checked_fields(self.extra, type(self)))

    @property
    def span(self) -> Span:
        """Its span, without the label."""
        return Span(self.start, self.end)

    def __repr__(self) -> str:
        shown = [f"start={self.start}", f"end={self.end}", f"label={self.label!r}"]
        if self.text is not None:
            shown.append(f"text={self.text!r}")
        if self.score is not None:
            shown.append(f"score={self.score:.2f}")
        if self.source is not None:
            shown.append(f"source={str(self.source)!r}")
        return f"Entity({', '.join(shown)})"


S = TypeVar("S", Entity, Span)


@dataclass(frozen=True, slots=True)
class SourceAnnotation:
    """All annotation of a sentence by one source; empty if the source found nothing.

    Args:
        source: its name; also the source of its entities and rejected spans.
        entities: annotated entities.
        non_entities: rejected spans.
        complete: nothing else is an entity.
        annotated_labels: the labels that it annotates. ``None``: all of them.
        unknown_tokens: words without information, even if it is complete.
        weight: its votes where sources contradict each other.
    """

    source: str
    entities: tuple[Entity, ...] = ()
    non_entities: tuple[Span, ...] = ()
    complete: bool = False
    annotated_labels: frozenset[str] | None = None
    unknown_tokens: frozenset[int] = _NO_TOKENS
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError("a source needs a name")
        if not 0 <= self.weight < float("inf"):
            raise ValueError(f"the weight of {self.source} must be a number that is not negative, not {self.weight:g}")
        freeze = object.__setattr__
        freeze(self, "entities", tuple(sorted(_of_source(entity, self.source) for entity in self.entities)))
        freeze(self, "non_entities", tuple(sorted(_of_source(span, self.source) for span in self.non_entities)))
        freeze(self, "unknown_tokens", frozenset(self.unknown_tokens))
        if self.annotated_labels is not None:
            freeze(self, "annotated_labels", frozenset(self.annotated_labels))


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words and the annotation of their spans.

    Sentences are compared by words, annotation, text and token offsets; ``extra`` is ignored, as it does not concern
    entities.

    Args:
        tokens: the words.
        entities: annotated spans. A span with two labels may have either.
        non_entities: rejected spans.
        complete: unannotated spans are known not to be entities.
        annotated_labels: only these labels were annotated; nothing is known about others. ``None``: all of them.
        unknown_tokens: words without information even if the sentence is complete (the tags ``-`` and ``?`` of column files).
            A span inside them is unknown.
        text: the raw text, if the words are tokens of one.
        token_offsets: ``(start, end)`` of each word in ``text``, in characters. Needed only if searching for the words in
            order would find other positions; otherwise ``None`` is stored.
        by_source: the annotation of each source, if there are several that may contradict each other; ``entities`` is then
            the result of merging them. A source that is missing did not annotate the sentence.
        extra: unknown fields of the record (``id``, ``meta``, …), passed through.
    """

    tokens: tuple[str, ...]
    entities: tuple[Entity, ...] = ()
    non_entities: tuple[Span, ...] = ()
    complete: bool = False
    annotated_labels: frozenset[str] | None = None
    unknown_tokens: frozenset[int] = _NO_TOKENS
    text: str | None = None
    token_offsets: tuple[tuple[int, int], ...] | None = None
    by_source: tuple[SourceAnnotation, ...] = ()
    extra: Mapping[str, Any] = field(default=NO_FIELDS, compare=False)

    def __post_init__(self) -> None:
        if self.extra is not NO_FIELDS:
            object.__setattr__(self, "extra", _checked_fields(self.extra, type(self)))
        if self.token_offsets is not None:
            object.__setattr__(self, "token_offsets", self._checked_offsets(self.token_offsets))
        bare = self.entities == () == self.non_entities and self.by_source == () and self.annotated_labels is None
        if bare and type(self.tokens) is tuple and self.unknown_tokens is _NO_TOKENS:
            return  # raw text, which may be large
        freeze = object.__setattr__
        if isinstance(self.tokens, str):
            raise TypeError("tokens is a sequence of words, not one text; Corpus.from_texts splits texts")
        if isinstance(self.annotated_labels, str):
            raise TypeError("annotated_labels is a set of labels, not one label")
        entities, non_entities = tuple(self.entities), tuple(self.non_entities)
        _check_members("entities", entities, Entity, "Entity(0, 1, 'PER')")
        _check_members("non_entities", non_entities, Span, "Span(0, 1)")
        freeze(self, "tokens", tuple(self.tokens))
        if self.annotated_labels is not None:
            freeze(self, "annotated_labels", frozenset(self.annotated_labels))
        freeze(self, "unknown_tokens", frozenset(self.unknown_tokens))
        freeze(self, "entities", tuple(sorted(entities)))
        freeze(self, "non_entities", tuple(sorted(non_entities)))
        freeze(self, "by_source", tuple(self.by_source))
        if len({said.source for said in self.by_source}) < len(self.by_source):
            raise ValueError("by_source has the same source twice")
        for said in self.statements():
            _check_annotation(said, len(self.tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    def statements(self) -> "tuple[Sentence | SourceAnnotation, ...]":
        """Everything that has entities: the sentence itself, and each source's annotation."""
        return self, *self.by_source

    def possible_labels(self, start: int, end: int, labels: Collection[str]) -> frozenset[str]:
        """The labels out of ``labels`` and ``"O"`` that the span ``[start, end)`` may have.

        One label: a positive. Only ``"O"``: a known negative. All: unknown.
        """
        annotated = frozenset(e.label for e in self.entities if (e.start, e.end) == (start, end))
        if annotated:
            return annotated
        if any((span.start, span.end) == (start, end) for span in self.non_entities):
            return frozenset({OUTSIDE})
        return self.unannotated_labels(start, end, labels)

    def unannotated_labels(self, start: int, end: int, labels: Collection[str]) -> frozenset[str]:
        """The same for a span that is neither annotated nor rejected, in time independent of the sentence."""
        everything = frozenset(labels) | {OUTSIDE}
        if not self.complete or self.unknown_tokens.issuperset(range(start, end)):
            return everything
        return everything - self.looked_for(labels)

    def looked_for(self, labels: Collection[str]) -> frozenset[str]:
        """The labels out of ``labels`` that were annotated in this sentence."""
        return frozenset(labels) if self.annotated_labels is None else frozenset(labels) & self.annotated_labels

    @property
    def raw_text(self) -> str:
        """The text that :meth:`offsets` refers to: :attr:`text`, or the words joined by spaces."""
        return " ".join(self.tokens) if self.text is None else self.text

    def text_of(self, start: int, end: int) -> str:
        """The words ``[start, end)`` as in the raw text, or joined by spaces."""
        return self._text_of(start, end, None if self.text is None else self.offsets())

    def texts_of(self, spans: Iterable[HasOffsets]) -> list[str]:
        """The text of each span, as in :meth:`text_of`, computing the offsets only once."""
        offsets = None if self.text is None else self.offsets()
        return [self._text_of(span.start, span.end, offsets) for span in spans]

    def _text_of(self, start: int, end: int, offsets: Sequence[tuple[int, int]] | None) -> str:
        if self.text is None or offsets is None:
            return " ".join(self.tokens[start:end])
        return self.text[offsets[start][0] : offsets[end - 1][1]]

    def _repr_html_(self) -> str:
        """Notebook display: the text with its entities."""
        from lacuner.corpus.display.colors import Palette
        from lacuner.corpus.display.markup import notebook_output, sentence_block

        return notebook_output([sentence_block(self, Palette.of(entity.label for entity in self.entities))])

    def offsets(self) -> list[tuple[int, int]]:
        """Character offsets of each word in :attr:`raw_text`: as given, or else found by searching for the words in order."""
        return self._found_offsets() if self.token_offsets is None else list(self.token_offsets)

    def _found_offsets(self) -> list[tuple[int, int]]:
        found, position = [], 0
        for token in self.tokens:
            start = position if self.text is None else self.text.index(token, position)
            found.append((start, start + len(token)))
            position = start + len(token) + (self.text is None)
        return found

    def _checked_offsets(self, given: Collection[Collection[int]]) -> tuple[tuple[int, int], ...] | None:
        """The offsets, unless they are those that a search would find anyway."""
        offsets = [(start, end) for start, end in given]
        if self.text is None:
            raise ValueError("token_offsets needs the text that the words come from")
        borders = [border for pair in offsets for border in pair]
        inside = not borders or (borders[0] >= 0 and borders[-1] <= len(self.text))
        if not inside or borders != sorted(borders) or any(start == end for start, end in offsets):
            raise ValueError("token_offsets must lie inside the text, in order, and hold at least one character each")
        if len(offsets) != len(self.tokens):
            raise ValueError(f"token_offsets has {len(offsets)} pairs for {len(self.tokens)} words")
        try:
            return None if offsets == self._found_offsets() else tuple(offsets)
        except ValueError:  # the words are spelled differently in the text
            return tuple(offsets)


def _check_members(name: str, members: Iterable[Any], kind: type[Any], example: str) -> None:
    for member in members:
        if not isinstance(member, kind):
            raise TypeError(f"{name} holds objects such as {example}, not {repr(member)[:60]}")


def _check_annotation(said: Sentence | SourceAnnotation, length: int) -> None:
    """Reject annotation that is invalid for a sentence of this length."""
    spans: list[Entity | Span] = [*said.entities, *said.non_entities]
    for span in spans:
        if span.end > length:
            raise ValueError(f"{span} ends after the last of {length} words")
    rejected = {(span.start, span.end) for span in said.non_entities}
    for entity in said.entities:
        if (entity.start, entity.end) in rejected:
            raise ValueError(f"{entity} is annotated and rejected at once")
    if any(not 0 <= index < length for index in said.unknown_tokens):
        raise ValueError("unknown_tokens points outside the sentence")


def _of_source(span: S, source: str) -> S:
    return span if span.source == source else replace(span, source=source)


def _checked_fields(extra: Mapping[str, Any], owner: type[Any]) -> Fields:
    own = sorted(field.name for field in fields(owner) if field.name in extra and field.name != "extra")
    if own:
        raise ValueError(f"extra holds {', '.join(map(repr, own))}, which every {owner.__name__} has by itself")
    return freeze_fields(extra)
