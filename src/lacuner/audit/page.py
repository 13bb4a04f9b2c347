"""The report of an audit as a self-contained HTML file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lacuner.audit.finding import Finding
from lacuner.corpus import OUTSIDE, Entity, Sentence, Span
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.display.colors import Palette
from lacuner.corpus.display.marks import Mark, marks_of
from lacuner.corpus.display.markup import END_PAGE, begin_page, escaped, text_block
from lacuner.corpus.overlaps import OverlapIndex

if TYPE_CHECKING:
    from lacuner.audit.audit import Audit
    from lacuner.audit.model import Estimate

_MAX_SHOWN = 300
"""Maximum number of findings per label on the page; ``findings.jsonl`` has all of them."""
_AROUND = 256
"""Words of context on either side of a finding."""
_STYLE = """
nav a { margin-right: .8rem }
ol { list-style: none; padding: 0 }
li { padding: .7rem 0; border-bottom: 1px solid var(--line); break-inside: avoid }
"""


def write_page(path: Path, audit: "Audit") -> None:
    """Write the report."""
    with open_for_writing(path) as file:
        file.writelines(_page(audit))


def _confidence(estimate: "Estimate") -> str:
    """Explain the estimate."""
    if not estimate.at_least:
        return f"Between {estimate.low:,.0f} and {estimate.high:,.0f} are missing, with 95 % confidence."
    return (
        f"The best estimate is {estimate.total:,.0f}. Most of them are names that are annotated nowhere, as in labels from a "
        "dictionary. Such names may be harder to find than those in the dictionary, so the true number may be higher."
    )


def _page(audit: "Audit") -> Iterator[str]:
    labels = sorted({finding.label for finding in audit.findings}, key=lambda label: (label == OUTSIDE, label))
    palette = Palette.of([*labels, *audit.corpus.labels])
    shown = cache(lambda index: _ShownSentence.of(audit.corpus[index]))
    estimate = audit.estimate
    name = str(audit.about.get("corpus", "the corpus"))
    how_many = f"At least {estimate.low:,.0f}" if estimate.at_least else f"About {estimate.total:,.0f}"
    yield begin_page(f"Audit of {name}", _STYLE)
    yield f"<h1>{how_many} entities seem to be missing in {escaped(name)}</h1>\n"
    yield (
        f"<p>{audit.about['entities']:,} are annotated in {audit.about['sentences']:,} sentences, about "
        f"{estimate.annotated_share:.0%} of all. {' '.join([_confidence(estimate), *audit.caveats])}</p>\n"
    )
    yield "<table><thead><tr><th>label<th>annotated<th>missing<th>between<th>and<th>listed below</thead><tbody>\n"
    for label, (total, low, high) in estimate.labels.items():
        known = sum(entity.label == label for sentence in audit.corpus for entity in sentence.entities)
        listed = sum(finding.label == label for finding in audit.findings)
        yield (f"<tr><td>{escaped(label)}<td>{known:,}<td>{total:,.0f}<td>{low:,.0f}<td>{high:,.0f}<td>{listed:,}\n")
    yield "</tbody></table>\n<nav aria-label='Labels'>"
    for number, label in enumerate(labels):
        yield f"<a href='#label-{number}'>{_title(label)}</a>"
    yield "</nav>\n"
    for number, label in enumerate(labels):
        found = [finding for finding in audit.findings if finding.label == label]
        yield f"<section id='label-{number}'><h2>{_title(label)}</h2>\n"
        if len(found) > _MAX_SHOWN:
            yield f"<p class=about>The first {_MAX_SHOWN} of {len(found):,}; findings.jsonl has all of them.</p>\n"
        yield "<ol>\n"
        for finding in found[:_MAX_SHOWN]:
            sentence = shown(finding.sentence)
            yield f"<li>{_sentence(sentence, finding, palette)}"
            yield f'<span class="about">{_about(sentence, finding)}</span>\n'
        yield "</ol></section>\n"
    yield END_PAGE


def _title(label: str) -> str:
    return "Annotated, but perhaps not an entity" if label == OUTSIDE else escaped(label)


@dataclass(frozen=True)
class _ShownSentence:
    """A sentence with precomputed lookups for its findings."""

    text: str
    offsets: Sequence[tuple[int, int]]
    entities: OverlapIndex[Entity]

    @classmethod
    def of(cls, sentence: Sentence) -> "_ShownSentence":
        return cls(sentence.raw_text, sentence.offsets(), OverlapIndex(sentence.entities))

    def text_of(self, span: Entity) -> str:
        return self.text[self.offsets[span.start][0] : self.offsets[span.end - 1][1]]


def _about(sentence: _ShownSentence, finding: Finding) -> str:
    old = ""
    if finding.annotated is not None:
        words = sentence.text_of(finding.annotated)
        old = f"; annotated: “{escaped(words)}” {escaped(finding.annotated.label)}"
    kind = {"missing": "missing", "label": "another label", "boundary": "other boundaries"}[finding.kind]
    kind = "no entity" if finding.label == OUTSIDE else kind
    return f"{finding.probability:.0%} · {kind}{old} · sentence {finding.sentence + 1:,}"


def _sentence(sentence: _ShownSentence, finding: Finding, palette: Palette) -> str:
    """The sentence with the finding highlighted, and the annotated entities; if it is very long, only the context."""
    window = Span(max(0, finding.start - _AROUND), min(len(sentence.offsets), finding.end + _AROUND))
    beside = [
        entity
        for entity in sentence.entities.all(window)
        if window.start <= entity.start and entity.end <= window.end and not entity.overlaps(finding)
    ]
    start, end = sentence.offsets[finding.start][0], sentence.offsets[finding.end - 1][1]
    marks = [Mark(start, end, finding.label, suggested=True), *marks_of(beside, sentence.offsets)]
    begin, before = (sentence.offsets[window.start][0], "… ") if window.start else (0, "")
    last, after = (sentence.offsets[window.end - 1][1], " …") if window.end < len(sentence.offsets) else (None, "")
    shift = len(before) - begin
    moved = [replace(mark, start=mark.start + shift, end=mark.end + shift) for mark in marks]
    return text_block(f"{before}{sentence.text[begin:last]}{after}", moved, palette)
