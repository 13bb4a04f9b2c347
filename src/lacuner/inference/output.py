"""Output formats of predictions: JSON Lines, columns, an HTML page, or text with brackets around entities."""

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

from rich.color import ColorSystem

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.corpus import sentence_from_text
from lacuner.corpus.display.colors import Palette
from lacuner.corpus.display.markup import END_PAGE, begin_page, escaped, tag, text_block
from lacuner.corpus.display.terminal import bracketed
from lacuner.corpus.formats.conll import write_conll
from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.formats.jsonl import without_annotation
from lacuner.corpus.formats.records import SENTENCE_KEYS, entity_to_record
from lacuner.corpus.tokenize import Splitting
from lacuner.inference.prediction import shown_text

OutputFormat = Literal["jsonl", "conll", "html", "text"]
_PAGE_STYLE = """
ol { padding: 0; margin: 0; list-style: none }
li { display: flex; gap: .8rem; padding: .35rem 0; border-bottom: 1px solid var(--line) }
li > .text { flex: 1; min-width: 0 }
.count { order: 1; color: var(--faint); font-size: .75rem; text-decoration: none }
"""


class PredictionInput(NamedTuple):
    """A text, or a tokenized sentence, and the record that contained it."""

    text: str | Sentence
    record: dict[str, Any]


@dataclass
class PredictionReport:
    """Counts of inputs and predictions.

    Attributes:
        texts: texts read.
        entities: entities found in them.
        from_dictionary: of these, matches of a dictionary.
        without_words: texts that a column file cannot represent.
        with_fields: records with fields that the output omits.
        labels: entities of each label; 0 for labels that were not found.
    """

    texts: int = 0
    entities: int = 0
    from_dictionary: int = 0
    without_words: int = 0
    with_fields: int = 0
    labels: Counter[str] = field(default_factory=Counter)

    def add(self, other: "PredictionReport") -> None:
        """Add the counts of another report."""
        self.texts += other.texts
        self.entities += other.entities
        self.from_dictionary += other.from_dictionary
        self.without_words += other.without_words
        self.with_fields += other.with_fields
        self.labels.update(other.labels)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "PredictionReport":
        """Inverse of :meth:`as_dict`."""
        return cls(**{**content, "labels": Counter(content["labels"])})


@dataclass(frozen=True)
class OutputOptions:
    """How to write predictions.

    Attributes:
        format: output format.
        title: of an HTML page.
        colors: color system of text output; ``None``: no colors.
    """

    format: OutputFormat = "jsonl"
    title: str = "Entities"
    colors: ColorSystem | None = None

    def beginning(self) -> str:
        """Output before the first text."""
        if self.format != "html":
            return ""
        head = f'<h1>{escaped(self.title)}</h1>\n<p class="about"><a href="#summary">Entities by label</a></p>\n'
        return f"{begin_page(self.title, _PAGE_STYLE)}{head}<ol>\n"

    def end(self, report: PredictionReport) -> str:
        """Output after the last text. The counts of a page are here, because those of a stream are only known at its end."""
        if self.format != "html":
            return ""
        palette = Palette.of(report.labels)
        rows = "".join(
            f"<tr><td>{tag(label, palette)}</td><td>{count:,}</td></tr>\n"
            for label, count in sorted(report.labels.items())
        )
        counted = f"{report.entities:,} entities in {report.texts:,} texts"
        table = f"<table>\n<thead><tr><th>label</th><th>entities</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
        return f'</ol>\n<section id="summary">\n<h2>{counted}</h2>\n{table if rows else ""}</section>\n{END_PAGE}'

    def writer(self, labels: Iterable[str], split: Splitting) -> "TextWriter":
        """Create a writer for texts of a model with these labels and this tokenization."""
        if self.format == "jsonl":
            return _JsonLines()
        if self.format == "conll":
            return _Columns(split)
        palette = Palette.of(labels)
        return _Page(palette) if self.format == "html" else _Brackets(palette, self.colors)


class TextWriter(Protocol):
    """Formats texts one by one."""

    def write(self, number: int, item: PredictionInput, entities: Sequence[Entity], report: PredictionReport) -> str:
        """Format a text with its entities, and count what cannot be shown.

        Args:
            number: of the text, counted from 1.
            item: the text.
            entities: its entities.
            report: updated with counts.
        """
        ...


class _JsonLines:
    def write(self, number: int, item: PredictionInput, entities: Sequence[Entity], report: PredictionReport) -> str:
        record = without_annotation(item.record)
        record["entities"] = [entity_to_record(entity) for entity in entities]
        return to_line(record)


@dataclass(frozen=True)
class _Columns:
    split: Splitting

    def write(self, number: int, item: PredictionInput, entities: Sequence[Entity], report: PredictionReport) -> str:
        sentence = tagged_sentence(item, entities, self.split)
        report.without_words += not sentence.tokens
        text = io.StringIO()
        write_conll([sentence] if sentence.tokens else [], text)
        return text.getvalue()


@dataclass(frozen=True)
class _Page:
    palette: Palette

    def write(self, number: int, item: PredictionInput, entities: Sequence[Entity], report: PredictionReport) -> str:
        report.with_fields += _has_other_fields(item)
        text, marks = shown_text(item.text, entities)
        count = f'<a class="count" href="#t{number}">{number:,}</a>'
        return f'<li id="t{number}">{count}{text_block(text, marks, self.palette)}</li>\n'


@dataclass(frozen=True)
class _Brackets:
    palette: Palette
    colors: ColorSystem | None

    def write(self, number: int, item: PredictionInput, entities: Sequence[Entity], report: PredictionReport) -> str:
        report.with_fields += _has_other_fields(item)
        return bracketed(*shown_text(item.text, entities), self.palette, self.colors) + "\n"


def _has_other_fields(item: PredictionInput) -> bool:
    return not (without_annotation(item.record).keys() <= SENTENCE_KEYS)


def tagged_sentence(item: PredictionInput, entities: Iterable[Entity], split: Splitting) -> Sentence:
    """The words of an input with its predicted entities, and the unknown fields of its record."""
    text = item.text
    if isinstance(text, str):
        words = sentence_from_text(text, split)
        first = {start: index for index, (start, _) in enumerate(words.offsets())}
        last = {end: index + 1 for index, (_, end) in enumerate(words.offsets())}
        entities = [replace(e, start=first[e.start], end=last[e.end]) for e in entities]
        text = words
    tagged = tuple(replace(entity, source=None, text=None, score=None) for entity in entities)
    extra = {key: value for key, value in without_annotation(item.record).items() if key not in SENTENCE_KEYS}
    return Sentence(text.tokens, tagged, extra=extra)
