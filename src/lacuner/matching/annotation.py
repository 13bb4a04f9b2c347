"""Read texts, cut them into words, and annotate them with the names of a dictionary."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import accumulate, chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lacuner.corpus import Entity, Sentence, Source, Span
from lacuner.corpus.corpus import format_of_texts, sentence_from_text, stream_sentences
from lacuner.corpus.documents import cut_into_sentences
from lacuner.corpus.files import STANDARD_INPUT, FileRange, FileState, ReadingReport, is_url, state_of
from lacuner.corpus.overlaps import OverlapIndex
from lacuner.corpus.ranges import lines_of, until_error
from lacuner.corpus.tokenize import CHARACTER_SPLITTINGS, Splitting, cut_words, guess_splitting, is_mostly_unspaced
from lacuner.matching.entry import Entry
from lacuner.matching.matcher import Matcher

_LOOKED_AT = 200
"""Texts that decide how others are cut into words."""


@dataclass
class AnnotationReport:
    """What was found.

    Attributes:
        texts: read.
        cut: those of them that were cut into sentences.
        sentences: written.
        words: read.
        labels: matches of each label.
        unlabeled: matches of names that may have several labels.
        kept: entities that the input had already; nothing is found that overlaps them.
        contradictions: matches where the input says that there is no such entity; they are left out.
        phrases: names without a label that were found; their words are unknown.
        inside_phrases: matches that are left out, because they are a part of such a name.
        used: how often each name of the dictionary was found, whether it became an entity or not; by its number.
        written: how often each of them became an entity.
        alike: names that are spelled like these.
        losses: what the format of the output could not hold, in how many sentences.
    """

    texts: int = 0
    cut: int = 0
    sentences: int = 0
    words: int = 0
    phrases: int = 0
    inside_phrases: int = 0
    kept: int = 0
    contradictions: int = 0
    unlabeled: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    used: Counter[int] = field(default_factory=Counter)
    written: Counter[int] = field(default_factory=Counter)
    alike: set[int] = field(default_factory=set)
    losses: Counter[str] = field(default_factory=Counter)

    def add(self, other: "AnnotationReport") -> None:
        """Count what another has counted."""
        self.texts += other.texts
        self.cut += other.cut
        self.sentences += other.sentences
        self.words += other.words
        self.phrases += other.phrases
        self.inside_phrases += other.inside_phrases
        self.kept += other.kept
        self.contradictions += other.contradictions
        self.unlabeled += other.unlabeled
        self.labels.update(other.labels)
        self.used.update(other.used)
        self.written.update(other.written)
        self.alike |= other.alike
        self.losses.update(other.losses)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "AnnotationReport":
        """What :meth:`as_dict` has described."""
        numbered = {
            key: Counter({int(number): times for number, times in content[key].items()}) for key in ("used", "written")
        }
        others = {"labels": Counter(content["labels"]), "losses": Counter(content["losses"])}
        return cls(**{**content, **others, **numbered, "alike": set(content["alike"])})

    @property
    def matches(self) -> int:
        return sum(self.labels.values())

    def most_frequent(self, entries: Sequence[Entry], count: int) -> list[tuple[Entry, int]]:
        """The names that became an entity most often: where wrong ones hide."""
        order = sorted(self.written.items(), key=lambda item: (-item[1], item[0]))[:count]
        return [(entries[number], times) for number, times in order]

    def never_found(self, matcher: Matcher) -> Iterator[Entry]:
        """Names that were searched for and are nowhere."""
        others = self.used.keys() | self.alike | matcher.dropped
        return (entry for number, entry in enumerate(matcher.dictionary.entries) if number not in others)


def _plain(value: int | Counter[Any] | set[int]) -> Any:
    return sorted(value) if isinstance(value, set) else value


class TextSource(NamedTuple):
    """The texts of a file.

    Attributes:
        texts: one after the other; sentences where words are there already.
        split: how texts become words.
        characters: whether words are single characters then.
        cut_already: whether there are words that ``split`` does not change.
    """

    texts: Iterator[str | Sentence]
    split: Splitting
    characters: bool
    cut_already: bool


def read_texts(
    path: str | Path,
    format: str | None = None,
    split: Splitting | Literal["auto"] = "auto",
    report: ReadingReport | None = None,
    range: FileRange | None = None,
) -> TextSource:
    """Texts of a file, one a line, or sentences, from words in columns or JSON Lines; streamed.

    The first of them tell how to cut. The file may be one that can be read only once.

    Args:
        path: the file.
        format: its format, if the name does not tell.
        split: how raw text becomes words.
        report: counts what is repaired.
        range: which part of the file is read; by default all. The beginning of the file tells how to cut all its parts.
    """
    chosen = format or format_of_texts(path)
    report = report if report is not None else ReadingReport()
    first: Splitting = "words" if split == "auto" else split
    if range is not None:
        choice = _look_at(path, state_of(path), chosen, split)
        own = choice[0] if chosen == "jsonl" else first
        texts = _stream(path, chosen, own, report, range)
        return TextSource(map(_as_characters, texts) if choice[0] != own else texts, *choice)
    if chosen == "jsonl" and split == "auto" and _can_be_read_again(path):
        ahead = stream_sentences(path, chosen, ReadingReport(), split=first)
        choice = _choose_split(list(islice(ahead, _LOOKED_AT)), split)
        return TextSource(stream_sentences(path, chosen, report, split=choice[0]), *choice)
    texts = _stream(path, chosen, first, report)
    begin = list(islice(texts, _LOOKED_AT))
    choice = _choose_split([cut_into_words(text, first) for text in begin], split)
    texts = chain(begin, texts)
    return TextSource(map(_as_characters, texts) if choice[0] != first else texts, *choice)


def _stream(
    path: str | Path, format: str, split: Splitting, report: ReadingReport, range: FileRange | None = None
) -> Iterator[str | Sentence]:
    if format == "text":
        return (line for _, line in lines_of(path, range) if line.strip())
    return stream_sentences(path, format, report, tagged=False, split=split, range=range)


@lru_cache(maxsize=8)  # a worker reads many parts of a file
def _look_at(
    path: str | Path, state: FileState, format: str, split: Splitting | Literal["auto"]
) -> tuple[Splitting, bool, bool]:
    first: Splitting = "words" if split == "auto" else split
    texts = islice(until_error(_stream(path, format, first, ReadingReport())), _LOOKED_AT)
    return _choose_split([cut_into_words(text, first) for text in texts], split)


def _can_be_read_again(path: str | Path) -> bool:
    """Whether opening it a second time shows its beginning again."""
    if is_url(path):
        return True
    return str(path) != STANDARD_INPUT and Path(path).is_file() and not str(path).startswith("/dev/")


def _choose_split(sample: Sequence[Sentence], split: Splitting | Literal["auto"]) -> tuple[Splitting, bool, bool]:
    """How texts become words, whether words are characters then, and whether some are words already."""
    first: Splitting = "words" if split == "auto" else split
    raw = [sentence for sentence in sample if _was_cut(sentence, first)]
    words = [sentence.tokens for sentence in raw or sample]
    if split == "auto" and raw and is_mostly_unspaced(" ".join(chain.from_iterable(words))):
        first = "characters"
    found = first if raw and first != "whitespace" else guess_splitting(words)
    return first, found in CHARACTER_SPLITTINGS, len(raw) < len(sample)


def _was_cut(sentence: Sentence, split: Splitting) -> bool:
    """Whether its words are those that its text has when it is cut in this way."""
    return sentence.text is not None and sentence.tokens == cut_words(sentence.text, split)


def _as_characters(text: str | Sentence) -> str | Sentence:
    """A sentence that was cut into words, now cut into characters; its spans stay where they are in the text.

    Where a span begins or ends inside of adjacent letters, the sentence stays as it is.
    """
    if isinstance(text, str) or text.text is None or not _was_cut(text, "words"):
        return text
    tokens = cut_words(text.text, "characters")
    before = [0, *accumulate(map(len, text.tokens))]  # where words begin, in characters that are no spaces
    after = {place: number for number, place in enumerate([0, *accumulate(map(len, tokens))])}
    spans: list[Entity | Span] = [*text.entities, *text.non_entities]
    unknown = [(before[word], before[word + 1]) for word in text.unknown_tokens]
    if not all(before[border] in after for span in spans for border in (span.start, span.end)) or not all(
        border in after for pair in unknown for border in pair
    ):
        return text
    return replace(
        text,
        tokens=tokens,
        entities=tuple(replace(e, start=after[before[e.start]], end=after[before[e.end]]) for e in text.entities),
        non_entities=tuple(
            replace(s, start=after[before[s.start]], end=after[before[s.end]]) for s in text.non_entities
        ),
        unknown_tokens=frozenset(index for start, end in unknown for index in range(after[start], after[end])),
    )


def cut_into_words(text: str | Sentence, split: Splitting) -> Sentence:
    """A text as a sentence; what is one already stays as it is."""
    return sentence_from_text(text, split) if isinstance(text, str) else text


def annotate_sentences(
    matcher: Matcher, sentences: Sequence[Sentence], phrases: Matcher | None = None
) -> tuple[list[Sentence], AnnotationReport]:
    """The sentences with the names of the dictionary as entities; everything else in them stays unknown.

    Args:
        matcher: finds the names.
        sentences: to annotate.
        phrases: finds names without a label. Their words are marked as unknown, unless they are in an entity.
    """
    words, texts = [sentence.tokens for sentence in sentences], [sentence.text for sentence in sentences]
    report = AnnotationReport(
        texts=len(sentences),
        sentences=len(sentences),
        words=sum(map(len, words)),
        kept=sum(len(s.entities) for s in sentences),
    )
    annotated = list(sentences)
    spellings: list[int] = []
    labels: list[str] = []
    written: list[int] = []
    made: dict[tuple[int, Entity], int] = {}
    for row, matches in groupby(zip(*matcher.find(words, texts), strict=True), key=itemgetter(0)):
        sentence = sentences[row]
        taken = {word for entity in sentence.entities for word in range(entity.start, entity.end)}
        rejected = {(span.start, span.end) for span in sentence.non_entities}
        entities = []
        for _, start, end, label, spelling in matches:
            spellings.append(spelling)
            if taken and not taken.isdisjoint(range(start, end)):
                continue
            if label is None:
                report.unlabeled += 1
                continue
            if (start, end) in rejected or (
                sentence.complete and label not in sentence.unannotated_labels(start, end, (label,))
            ):
                report.contradictions += 1
                continue
            labels.append(label)
            written.append(spelling)
            entities.append(Entity(start, end, label, source=Source.DICTIONARY))
            if phrases is not None:
                made[row, entities[-1]] = spelling
        if entities:
            annotated[row] = replace(sentence, entities=(*sentence.entities, *entities))
    report.labels.update(labels)
    for spelling, times in Counter(spellings).items():
        name, *alike = matcher.names(spelling)
        report.used[name] += times
        report.alike.update(alike)
    counts = Counter(written)
    if phrases is not None:
        for row, matches in groupby(zip(*phrases.find(words, texts), strict=True), key=itemgetter(0)):
            spans = [(start, end) for _, start, end, _, _ in matches]
            before, annotated[row] = annotated[row], _with_phrases(sentences[row], annotated[row], spans, report)
            counts.subtract(made[row, entity] for entity in set(before.entities).difference(annotated[row].entities))
    for spelling, times in counts.items():
        if times:
            report.written[matcher.names(spelling)[0]] += times
    return annotated, report


def cut_documents(sentences: Sequence[Sentence], min_words: int, report: AnnotationReport) -> list[Sentence]:
    """The sentences of texts with more than ``min_words`` words, and the others as they are."""
    found: list[Sentence] = []
    for text in sentences:
        parts = cut_into_sentences(text) if len(text) > min_words else [text]
        report.cut += len(parts) > 1
        found += parts
    report.sentences += len(found) - len(sentences)
    return found


def _with_phrases(
    given: Sentence, annotated: Sentence, spans: Sequence[tuple[int, int]], report: AnnotationReport
) -> Sentence:
    """The longest name counts: a phrase around matches takes their place, and leaves what it overlaps otherwise."""
    matched = OverlapIndex(annotated.entities)
    before = set(given.entities)
    rejected = {(span.start, span.end) for span in given.non_entities}
    dropped: set[Entity] = set()
    unknown: set[int] = set(annotated.unknown_tokens)
    for start, end in spans:
        if given.complete or (start, end) in rejected:
            report.contradictions += 1
            continue
        touched = matched.all(Span(start, end))
        inside = [e for e in touched if start <= e.start and e.end <= end and (e.start, e.end) != (start, end)]
        if len(inside) == len(touched) and before.isdisjoint(touched):
            dropped.update(touched)
            touched = []
        left = set(range(start, end)).difference(*(range(entity.start, entity.end) for entity in touched))
        report.phrases += bool(left)
        unknown |= left
    report.inside_phrases += len(dropped)
    report.labels -= Counter(entity.label for entity in dropped)
    kept = tuple(entity for entity in annotated.entities if entity not in dropped)
    return replace(annotated, entities=kept, unknown_tokens=frozenset(unknown))
