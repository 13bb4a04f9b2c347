"""Estimate of how many matches ignoring case would add, on a sample of the stream, because matching all of it is too slow."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from lacuner.corpus import Sentence
from lacuner.corpus.tokenize import Splitting
from lacuner.matching.annotation import annotate_sentences, cut_into_words
from lacuner.matching.dictionary import Dictionary
from lacuner.matching.matcher import Matcher

_FEW = 5000
"""Maximum number of names to search for a second time; or a tenth of the dictionary, if more."""


class SpreadSample:
    """A sample spread evenly over a stream of unknown length, up to a maximum size.

    Every text is kept at first; when there are too many, every second one is dropped, and only every second of the following
    is kept, and so on.

    Args:
        max_characters: of all kept texts, unless a single one has more.

    Attributes:
        texts: the kept texts.
    """

    def __init__(self, max_characters: int = 200_000) -> None:
        self.texts: list[str | Sentence] = []
        self._max_characters = max_characters
        self._characters = 0
        self._step = 1

    def watch(self, texts: Iterable[str | Sentence]) -> Iterator[str | Sentence]:
        """Pass texts through, and keep some."""
        for number, text in enumerate(texts):
            if number % self._step == 0:
                self.texts.append(text)
                self._characters += _characters(text)
                while self._characters > self._max_characters and len(self.texts) > 1:
                    self.texts = self.texts[::2]
                    self._characters = sum(map(_characters, self.texts))
                    self._step *= 2
            yield text


@dataclass(frozen=True)
class CaseEstimate:
    """Additional entities if case is ignored.

    Attributes:
        more: number of entities; negative if names that differ in case only have several labels, and so are not matched.
        words: size of the sample.
    """

    more: int = 0
    words: int = 0

    def scaled_to(self, words: int) -> int:
        """Extrapolate to a text of this many words."""
        return round(self.more * words / self.words) if self.words else 0

    def __add__(self, other: "CaseEstimate") -> "CaseEstimate":
        return CaseEstimate(self.more + other.more, self.words + other.words)


def estimate_ignoring_case(matcher: Matcher, texts: Sequence[str | Sentence], split: Splitting) -> CaseEstimate | None:
    """Estimate how many more entities a matcher would find if it ignored case; None if that would take too long."""
    sentences = [cut_into_words(text, split) for text in texts]
    max_names = max(_FEW, len(matcher.dictionary) // 10)
    occurring = matcher.dictionary.occurring_in(sentences, matcher.characters, matcher.variants)
    names = Dictionary(tuple(islice(occurring, max_names + 1)))
    if len(names) > max_names:
        return None
    (_, exact), (_, ignoring) = (annotate_sentences(m, sentences) for m in (matcher, matcher.ignoring_case(names)))
    return CaseEstimate(ignoring.matches - exact.matches, exact.words)


def _characters(text: str | Sentence) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text.tokens))
