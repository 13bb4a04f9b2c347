"""Tagging schemes: conversion between tag sequences and entities, detection, and repair."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from lacuner.corpus.sentence import OUTSIDE, Entity

Scheme = Literal["io", "iob1", "bio2", "bioes", "bmes", "bilou"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
UNKNOWN_TAGS = frozenset({"-", "?"})
NO_TAG = "_"
"""CoNLL-U's empty value, which means neither outside nor unknown."""

_PREFIXED = re.compile(r"([BIESMLUW])[-_](.+)", re.DOTALL)
_BARE_PREFIX = re.compile(r"[BI]|[BIESMLUW][-_]")
_COMMENT = re.compile(r"\s#")
_ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S"}
_LETTERS: dict[Scheme, tuple[str, str, str, str]] = {  # begin, inside, end, single
    "io": ("I", "I", "I", "I"),
    "iob1": ("I", "I", "I", "I"),
    "bio2": ("B", "I", "I", "B"),
    "bioes": ("B", "I", "E", "S"),
    "bmes": ("B", "M", "E", "S"),
    "bilou": ("B", "I", "L", "U"),
}
_MARKS_END = frozenset({"bioes", "bmes", "bilou"})


class Repair(NamedTuple):
    """A tag that violated its scheme, and how it was repaired."""

    token_index: int
    what: str


class Decoded(NamedTuple):
    """The entities of a tag sequence, its repairs, and the unknown tokens."""

    entities: list[Entity]
    repairs: list[Repair]
    unknown: frozenset[int]


class TagError(ValueError):
    """A tag that cannot be repaired; ``index`` is that of its word."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(what)
        self.index = index


def detect_scheme(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Detect the scheme of ``sequences``.

    ``M`` indicates BMES, ``L`` or ``U`` BILOU, ``E`` or ``S`` BIOES. With only ``B`` and ``I``, entities that begin with
    ``I`` indicate IOB1, no ``B`` at all IO. Tags without a prefix (``PER``) are IO.
    """
    letters: set[str] = set()
    prefixed = bare = fresh_b = fresh_i = 0
    for tags in sequences:
        previous = None
        for tag in tags:
            match = _PREFIXED.fullmatch(tag)
            label = match[2] if match else None
            if match:
                prefixed += 1
                letters.add(match[1])
                if label != previous:
                    fresh_b += match[1] == "B"
                    fresh_i += match[1] == "I"
            elif tag != OUTSIDE and tag not in UNKNOWN_TAGS:
                bare += 1
            previous = label
    if bare > prefixed:
        return "io"
    if letters & {"M", "W"}:
        return "bmes"
    if letters & {"L", "U"}:
        return "bilou"
    if letters & {"E", "S"}:
        return "bioes"
    if "B" not in letters and "I" in letters:
        return "io"
    return "iob1" if fresh_i > fresh_b else "bio2"


def decode_tags(tags: Sequence[str], scheme: Scheme) -> Decoded:
    """Decode ``tags`` to entities, repairing invalid sequences like conlleval, by starting an entity where necessary.

    ``-`` and ``?`` mean that the word is unknown. In IO, a label may have no prefix, and ``B`` begins an entity: IOB1 looks
    like IO as long as no two entities are adjacent.
    """
    entities: list[Entity] = []
    repairs: list[Repair] = []
    unknown = set()
    ends_marked = scheme in _MARKS_END
    start, label = -1, ""

    def close(index: int) -> None:
        nonlocal start
        if start >= 0:
            entities.append(Entity(start, index, label))
            if ends_marked:
                repairs.append(Repair(index - 1, f"the {label} entity here is not closed; it ends here"))
        start = -1

    for index, tag in enumerate(tags):
        if tag == OUTSIDE or tag in UNKNOWN_TAGS:
            close(index)
            if tag != OUTSIDE:
                unknown.add(index)
            continue
        role, tag_label = _parse(tag, index, scheme)
        continues = start >= 0 and tag_label == label
        if role == "I" and continues:
            continue
        if role == "E":
            if continues:
                entities.append(Entity(start, index + 1, label))
                start = -1
            else:
                close(index)
                repairs.append(Repair(index, f"{tag} ends an entity that never began; it is one word long now"))
                entities.append(Entity(index, index + 1, tag_label))
            continue
        close(index)
        if role == "S":
            entities.append(Entity(index, index + 1, tag_label))
            continue
        if role == "I" and scheme not in ("io", "iob1"):
            repairs.append(Repair(index, f"{tag} continues nothing; an entity begins here now"))
        start, label = index, tag_label
    close(len(tags))
    return Decoded(entities, repairs, frozenset(unknown))


def encode_tags(
    entities: Iterable[Entity], length: int, scheme: Scheme = "bio2", unknown: Iterable[int] = ()
) -> list[str]:
    """Encode non-overlapping ``entities`` as tags of ``length`` words.

    In IO, adjacent entities of the same label are merged, as the scheme cannot separate them.
    """
    begin, inside, end, single = _LETTERS[scheme]
    tags = [OUTSIDE] * length
    for index in unknown:
        tags[index] = "?"
    previous = None
    for entity in sorted(entities):
        if previous is not None and entity.start < previous.end:
            raise ValueError(f"{previous} and {entity} overlap; tags can only hold entities that do not")
        width = entity.end - entity.start
        letters = [single] if width == 1 else [begin, *[inside] * (width - 2), end]
        if scheme == "iob1" and previous is not None and (previous.end, previous.label) == (entity.start, entity.label):
            letters[0] = "B"
        tags[entity.start : entity.end] = [f"{letter}-{entity.label}" for letter in letters]
        previous = entity
    return tags


def label_of(tag: str) -> str | None:
    """The label of a prefixed tag; ``None`` if it has no prefix."""
    match = _PREFIXED.fullmatch(tag)
    return match[2] if match else None


def holds_comment(tag: str) -> bool:
    """Whether a comment follows the tag; labels do not contain a number sign after a space."""
    return _COMMENT.search(tag) is not None


def _parse(tag: str, index: int, scheme: Scheme) -> tuple[str, str]:
    if tag == NO_TAG:
        raise TagError(index, f"the tag {tag!r} says neither O (no entity) nor ? (unknown)")
    if holds_comment(tag):
        raise TagError(index, f"a comment follows the tag: {tag[:60]!r}")
    match = _PREFIXED.fullmatch(tag)
    if scheme == "io" and _BARE_PREFIX.fullmatch(tag):
        raise TagError(index, f"the tag {tag!r} has no label; it should be one such as {tag[0]}-PER")
    if match and match[2] == OUTSIDE and (scheme != "io" or match[1] in "BI"):
        raise TagError(index, f"the tag {tag!r} has O as its label")
    if scheme == "io":
        return (match[1], match[2]) if match and match[1] in "BI" else ("I", tag)
    if not match:
        raise TagError(index, f"the tag {tag!r} is neither O nor a prefix and a label such as B-PER")
    return _ROLES[match[1]], match[2]
