"""Annotation of texts with the names of a dictionary: reading, tokenizing and matching."""

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
"""Number of texts examined to choose the tokenization."""


@dataclass
class AnnotationReport:
    """Counts of an annotation run.

    Attributes:
        texts: texts read.
        cut: those of them that were split into sentences.
        sentences: sentences written.
        words: words read.
        labels: matches of each label.
        unlabeled: matches of names with several possible labels.
        kept: entities already in the input; no match overlaps them.
        contradictions: matches omitted because the input rejects such an entity.
        phrases: matches of unlabeled phrases; their words are unknown.
        inside_phrases: matches omitted because they are part of a phrase.
        used: matches of each name of the dictionary, by its index, whether or not they became entities.
        written: entities from each name.
        alike: names with the same spelling as these.
        losses: what the output format could not represent, with the number of sentences.
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
        """Add the counts of another report."""
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
        """For JSON."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "AnnotationReport":
        """Inverse of :meth:`as_dict`."""
        numbered = {
            key: Counter({int(number): times for number, times in content[key].items()}) for key in ("used", "written")
        }
        others = {"labels": Counter(content["labels"]), "losses": Counter(content["losses"])}
        return cls(**{**content, **others, **numbered, "alike": set(content["alike"])})

    @property
    def matches(self) -> int:
        return sum(self.labels.values())

    def most_frequent(self, entries: Sequence[Entry], count: int) -> list[tuple[Entry, int]]:
        """The names that most often became entities, among which errors have the greatest effect."""
        order = sorted(self.written.items(), key=lambda item: (-item[1], item[0]))[:count]
        return [(entries[number], times) for number, times in order]

    def never_found(self, matcher: Matcher) -> Iterator[Entry]:
        """Names that were searched for, but never found."""
        others = self.used.keys() | self.alike | matcher.dropped
        return (entry for number, entry in enumerate(matcher.dictionary.entries) if number not in others)


def _plain(value: int | Counter[Any] | set[int]) -> Any:
    return sorted(value) if isinstance(value, set) else value


class TextSource(NamedTuple):
    """The texts of a file.

    Attributes:
        texts: strings, or sentences if the input is tokenized.
        split: how texts are tokenized.
        characters: whether tokens are then single characters.
        cut_already: whether there are tokenized texts that ``split`` does not change.
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
    """Read texts of a file, one per line, or sentences of a column or JSON Lines file; streaming.

    The tokenization is chosen from the first texts. The file may be readable only once.

    Args:
        path: the file.
        format: its format, if the name is not enough.
        split: how raw text is tokenized.
        report: counts repairs.
        range: the part of the file to read; all by default. The start of the file determines the tokenization of all parts.
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
    """Whether opening it a second time starts from the beginning again."""
    if is_url(path):
        return True
    return str(path) != STANDARD_INPUT and Path(path).is_file() and not str(path).startswith("/dev/")


def _choose_split(sample: Sequence[Sentence], split: Splitting | Literal["auto"]) -> tuple[Splitting, bool, bool]:
    """Choose the tokenization; also return whether tokens are characters, and whether some texts are already tokenized."""
    first: Splitting = "words" if split == "auto" else split
    raw = [sentence for sentence in sample if _was_cut(sentence, first)]
    words = [sentence.tokens for sentence in raw or sample]
    if split == "auto" and raw and is_mostly_unspaced(" ".join(chain.from_iterable(words))):
        first = "characters"
    found = first if raw and first != "whitespace" else guess_splitting(words)
    return first, found in CHARACTER_SPLITTINGS, len(raw) < len(sample)


def _was_cut(sentence: Sentence, split: Splitting) -> bool:
    """Whether its words are those that this tokenization of its text gives."""
    return sentence.text is not None and sentence.tokens == cut_words(sentence.text, split)


def _as_characters(text: str | Sentence) -> str | Sentence:
    """Re-tokenize a sentence into characters; its spans keep their position in the text.

    If a span boundary falls inside a run of letters, the sentence is returned unchanged.
    """
    if isinstance(text, str) or text.text is None or not _was_cut(text, "words"):
        return text
    tokens = cut_words(text.text, "characters")
    before = [0, *accumulate(map(len, text.tokens))]  # start of each word, counted in non-space characters
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
    """Tokenize a text; a sentence is returned unchanged."""
    return sentence_from_text(text, split) if isinstance(text, str) else text


def annotate_sentences(
    matcher: Matcher, sentences: Sequence[Sentence], phrases: Matcher | None = None
) -> tuple[list[Sentence], AnnotationReport]:
    """Annotate sentences with matches of the dictionary; everything else in them stays unknown.

    Args:
        matcher: finds the names.
        sentences: to annotate.
        phrases: finds unlabeled phrases. Their words are marked as unknown, except inside entities.
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
    """Split texts with more than ``min_words`` words into sentences, and return the others unchanged."""
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
    """Prefer the longest: a phrase replaces the matches inside it, but not those that it overlaps otherwise."""
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
