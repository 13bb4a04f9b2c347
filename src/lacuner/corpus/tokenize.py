"""Tokenization of raw text. A model stores its tokenization, so that it always sees words like those it was trained on."""

import pickle
import re
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple, get_args

Splitting = Literal["words", "whitespace", "characters", "single-characters"]
SPLITTINGS: tuple[Splitting, ...] = get_args(Splitting)
CHARACTER_SPLITTINGS: frozenset[Splitting] = frozenset({"characters", "single-characters"})
"""Tokenizations that split a text without spaces into characters."""

_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W\d_{_CJK}]"
_MARK = (  # combining marks that \w does not match, of scripts that spell words with them; joiners; variants
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]"
)
_WORD = re.compile(
    rf"""
      [{_CJK}]{_MARK}*                                # a Chinese or Japanese character is a word
    | (?:{_LETTER}\.){{2,}}                           # U.S.  e.g.
    | \d+(?:[.,:]\d+)*(?:{_LETTER}|{_MARK})*          # 1,250.75  12:30  3rd
    | ['’](?:s|re|ve|ll|d|m|t)\b                      # the clitic of  Ada's  we'll
    | (?:{_LETTER}|{_MARK}|[\d_])+                    # words; a hyphen parts them, so that no entity ends inside a word
    | \S{_MARK}*                                      # punctuation, symbols, emoji: one each
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NON_SPACE = re.compile(r"\S+")
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
"""Scripts without spaces between words: Thai to Burmese, Khmer, Japanese, Chinese."""
_ONE_UNSPACED = re.compile(f"[{_UNSPACED}]")
_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
"""Accents and signs that belong to the preceding letter."""
_RUN = rf"[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{_MARKS}])+"
LETTER_RUN = re.compile(_RUN)
"""Two or more adjacent letters and digits of a script with spaces: ``iPhone15``."""
_CHARACTER = re.compile(rf"{_RUN}|\S")
_PATTERNS = {"words": _WORD, "whitespace": _NON_SPACE, "characters": _CHARACTER}
_SHORT, _REMEMBERED = 40, 500_000
"""Maximum length of cached strings between two spaces, and maximum size of the cache."""
_GATHERED = frozenset({4096, 8192, 16384, 32768, 65536})
"""Sizes of the cache at which its strings are copied to adjacent memory."""
_FULL_STOPS, _CLOSING = "。！？", "\"'”’»)]」』》）】"
_SINGLE = 0.995
"""Minimum fraction of tokens that are single characters or letter runs, in a text tokenized into characters."""


def is_unspaced(character: str) -> bool:
    """Whether the character is of a script without spaces between words, such as Chinese, Japanese or Thai."""
    return _ONE_UNSPACED.match(character) is not None


def is_mostly_unspaced(text: str) -> bool:
    """Whether most letters are of a script without spaces between words; a run of other letters counts once."""
    return _are_mostly_unspaced([text])


def _are_mostly_unspaced(texts: Iterable[str]) -> bool:
    unspaced = letters = 0
    for text in texts:
        found = [run[0] for run in _CHARACTER.findall(text) if run[0].isalpha()]
        unspaced += sum(map(is_unspaced, found))
        letters += len(found)
    return 2 * unspaced > letters


def guess_splitting(sentences: Iterable[Sequence[str]]) -> Splitting:
    """Guess the tokenization that produces words like those of these sentences; never ``whitespace``.

    >>> guess_splitting([["他", "买", "iPhone"]]), guess_splitting([list("他买iPhone")]), guess_splitting([["Ada", "left"]])
    ('characters', 'single-characters', 'words')
    """
    cut = sentences if isinstance(sentences, Sequence) else list(sentences)
    words = sum(map(len, cut))
    single = sum(len(word) == 1 for sentence in cut for word in sentence)
    if not words or words == len(cut):
        return "words"
    if single >= _SINGLE * words:
        parted = sum(_is_parted(*pair) for sentence in cut for pair in pairwise(sentence))
        return "single-characters" if parted > words - single else "characters"
    kept = sum(len(word) == 1 or LETTER_RUN.fullmatch(word) is not None for sentence in cut for word in sentence)
    if kept < _SINGLE * words or not _are_mostly_unspaced(map(" ".join, cut)):
        return "words"
    return "characters" if kept >= sum(len(cut_words(word)) == 1 for sentence in cut for word in sentence) else "words"


def _is_parted(word: str, following: str) -> bool:
    """Whether ``characters`` would have kept these two characters in one word."""
    return len(word) == len(following) == 1 and LETTER_RUN.fullmatch(word + following) is not None


def split_words(text: str, how: Splitting = "words") -> list[tuple[int, int]]:
    """Character offsets ``[start, end)`` of the words of ``text``.

    ``words``: Unicode words, single CJK characters, single punctuation marks. ``whitespace``: separated by whitespace only.
    ``characters``: every non-space character, but runs of letters and digits of scripts with spaces are one word.
    ``single-characters``: every non-space character.

    >>> [text[a:b] for text in ["Ada's 2,500 円札."] for a, b in split_words(text)]
    ['Ada', "'s", '2,500', '円', '札', '.']
    >>> [text[a:b] for text in ["买iPhone15手机"] for a, b in split_words(text, "characters")]
    ['买', 'iPhone15', '手', '机']
    """
    if how == "single-characters":
        return [(i, i + 1) for i, character in enumerate(text) if not character.isspace()]
    return [match.span() for match in _PATTERNS[how].finditer(text)]


def cut_words(text: str, how: Splitting = "words") -> tuple[str, ...]:
    """The words of ``text`` without offsets, which is many times faster, thanks to a cache.

    >>> cut_words("Ada's 2,500 円札.")
    ('Ada', "'s", '2,500', '円', '札', '.')
    """
    if how == "words":  # words contain no spaces
        return tuple(chain.from_iterable(map(_pieces.__getitem__, text.split())))
    if how == "characters":
        return tuple(_CHARACTER.findall(text))
    return tuple(text.split() if how == "whitespace" else "".join(text.split()))


class _Pieces(dict[str, tuple[str, ...]]):
    """Cache of the words between two spaces, for short strings."""

    def __missing__(self, between: str) -> tuple[str, ...]:
        words = tuple(_WORD.findall(between))
        if len(between) <= _SHORT:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[between] = (between,) if words == (between,) else words  # one string instead of two equal ones
            if len(self) in _GATHERED:
                self._gather()
        return words

    def _gather(self) -> None:
        """Copy all strings to adjacent memory.

        They were created among those of a text, in whatever memory was free. Where that is fragmented, as after the import of
        Ray, the processor's caches hold fewer of them, and annotation takes a tenth longer.
        """
        copied = pickle.loads(pickle.dumps(dict(self)))
        self.clear()
        self.update(copied)


_pieces = _Pieces()


class Passage(NamedTuple):
    """Words ``[begin, end)`` processed together; entities that begin in ``[own_begin, own_end)`` are taken from here."""

    begin: int
    end: int
    own_begin: int
    own_end: int


def split_passages(text: str, offsets: Sequence[tuple[int, int]], longest: int) -> list[Passage]:
    """Split a long text into passages of at most ``longest`` words, so that whole documents can be processed.

    A passage ends with a sentence or a paragraph. A longer sentence is covered by overlapping passages, so that no name is
    cut.
    """
    passages: list[Passage] = []
    begin, count = 0, len(offsets)
    ends = sentence_ends(text, offsets) if count > longest else []
    for end in [*ends, count]:
        if passages and end - passages[-1].begin <= longest and passages[-1].own_begin == passages[-1].begin:
            passages[-1] = Passage(passages[-1].begin, end, passages[-1].own_begin, end)
        else:
            passages += _overlapping(begin, end, longest)
        begin = end
    return passages


def sentence_ends(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Indices of the words that follow the end of a sentence or paragraph."""
    return [word for word in range(1, len(offsets)) if _ends_sentence(text, offsets, word)]


def _overlapping(begin: int, end: int, longest: int) -> list[Passage]:
    """Passages over one sentence; adjacent ones overlap by a third."""
    shared = longest // 3
    starts = [begin]
    while end - starts[-1] > longest:
        starts.append(starts[-1] + longest - shared)
    owned = [begin, *(start + shared // 2 for start in starts[1:]), end]
    return [
        Passage(start, min(start + longest, end), owned[number], owned[number + 1])
        for number, start in enumerate(starts)
    ]


def _ends_sentence(text: str, offsets: Sequence[tuple[int, int]], word: int) -> bool:
    """Whether a sentence or paragraph ends before ``word``; closing quotes and brackets belong to it."""
    gap = text[offsets[word - 1][1] : offsets[word][0]]
    if gap.count("\n") > 1:
        return True
    position = offsets[word - 1][1]  # after the last character of the sentence, if it is one
    while position > 0 and text[position - 1] in _CLOSING:
        position -= 1
    last = text[position - 1 : position]
    if last in _FULL_STOPS:
        return bool(last) and not (text[offsets[word][0]] in _CLOSING and not gap)
    if last not in ".!?…؟۔।" or not gap or text[offsets[word][0]].islower():
        return False
    if last != ".":
        return True
    while offsets[word - 1][0] >= position:  # words that are closing quotes only
        word -= 1
    before = text[offsets[word - 1][0] : position - 1]
    if not before and word > 1:
        before = text[offsets[word - 2][0] : offsets[word - 2][1]]
    return len(before) > 3 or before.islower() or before.isdigit()  # neither "Dr." nor "J."
