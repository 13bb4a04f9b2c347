"""Spelling variants of names, and their possible tokenizations."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from lacuner.corpus.tokenize import LETTER_RUN, cut_words

_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_DASH = re.compile(rf"\s*[{_DASHES}]\s*")
_APOSTROPHES = "'\u2019\u02bc\u2018"
_APOSTROPHE = re.compile(f"[{_APOSTROPHES}]")
_ALIKE = {sign: alike[0] for alike in (_DASHES, _APOSTROPHES) for sign in alike[1:]}
_ABBREVIATION = re.compile(r"\b(?:\w\.){2,}")
_STOP = re.compile(r"(?<=\w)\.(?=\s|,|$)")
_COMMA = re.compile(r"\s*,\s*")
_AND = re.compile(r"\s*&\s*")
_MOST_HYPHENATED = 3
"""Maximum number of words joined by hyphens."""
Words = tuple[str, ...]


def cut(surface: str, characters: bool = False) -> set[Words]:
    """Possible tokenizations of a name by other tools.

    >>> sorted(cut("Al-Qaeda"))
    [('Al', '-', 'Qaeda'), ('Al-Qaeda',)]
    """
    if characters:
        unspaced = "".join(surface.split())
        return {tuple(together(unspaced)), tuple(together(unspaced, surface))}
    if surface.isascii() and surface.replace(" ", "").isalpha():  # tokenized in the same way by all tools
        return {tuple(surface.split())}
    return {tuple(surface.split()), cut_words(surface)}


def runs(text: str) -> list[str]:
    """Split into runs of letters and digits, and single other characters, including letters of scripts without spaces.

    >>> runs("买iPhone手机!")
    ['买', 'iPhone', '手', '机', '!']
    """
    found: list[str] = []
    position = 0
    for run in LETTER_RUN.finditer(text):
        found.extend(text[position : run.start()])
        found.append(run[0])
        position = run.end()
    found.extend(text[position:])
    return found


def together(characters: Sequence[str], text: str | None = None) -> Sequence[str]:
    """Join runs of letters and digits that are adjacent in the text, or in the list if there is no text.

    >>> together("买iPhone15", "买iPhone 15")
    ['买', 'iPhone', '15']
    """
    joined = "".join(characters)
    if not LETTER_RUN.search(joined) or len(joined) != len(characters):
        return characters
    words = runs(joined) if text is None else list(chain.from_iterable(map(runs, text.split())))
    return words if text is None or sum(map(len, words)) == len(characters) else characters


def same_signs(text: str) -> str:
    """Normalize dashes and apostrophes, preserving the length.

    >>> same_signs("Al–Qaeda’s")
    "Al-Qaeda's"
    """
    if not text.isascii():
        for sign, usual in _ALIKE.items():
            text = text.replace(sign, usual)
    return text


def spellings(surface: str) -> set[str]:
    """The name and its variants with different punctuation.

    >>> sorted(spellings("Al-Qaeda"))
    ['Al Qaeda', 'Al-Qaeda', 'AlQaeda']
    >>> sorted(spellings("U.S. Steel"))
    ['U.S. Steel', 'U.S.-Steel', 'US Steel', 'US-Steel']
    """
    found = {surface}
    for rule in (_dashes, _abbreviations, _commas, _ands, _apostrophes):
        found |= {form for known in found for form in rule(known)}
    return {" ".join(form.split()) for form in found if form.strip()}


def _dashes(surface: str) -> Iterator[str]:
    if _DASH.search(surface):
        yield from (_DASH.sub(tie, surface) for tie in ("-", " ", ""))
    elif 1 < len(surface.split()) <= _MOST_HYPHENATED:
        yield "-".join(surface.split())


def _abbreviations(surface: str) -> Iterator[str]:
    joined = _ABBREVIATION.sub(lambda found: found[0].replace(".", ""), surface)
    yield from (joined, _STOP.sub("", joined))


def _commas(surface: str) -> Iterator[str]:
    yield _COMMA.sub(" ", surface)


def _ands(surface: str) -> Iterator[str]:
    if "&" in surface:
        yield from (_AND.sub(tie, surface) for tie in (" & ", "&", " and "))
    elif " and " in surface:
        yield surface.replace(" and ", " & ")


def _apostrophes(surface: str) -> Iterator[str]:
    if _APOSTROPHE.search(surface):
        yield from (_APOSTROPHE.sub(sign, surface) for sign in ("'", "\u2019", "\u2018", ""))
