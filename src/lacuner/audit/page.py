"""The report of an audit as one self-contained HTML file: no network, no other files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from lacuner.audit.finding import Finding
from lacuner.corpus import OUTSIDE, Entity, Sentence, Span
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.overlaps import OverlapIndex

if TYPE_CHECKING:
    from lacuner.audit.audit import Audit
    from lacuner.audit.model import Estimate

_MAX_SHOWN = 300
"""Findings of each label that the page shows; ``findings.jsonl`` has all of them."""
_AROUND = 256
"""Words to either side of a finding that the page shows with it."""
_COLORS = 8
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --faint: #666; --line: #ddd; --soft: #f5f5f4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --paper: #16181b; --faint: #a0a0a0; --line: #3a3d42; --soft: #202327; }
}
* { box-sizing: border-box }
body { font: 17px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 60rem;
  padding: 1.5rem 1rem 4rem }
h1 { font-size: 1.6rem; line-height: 1.2 } h2 { margin-top: 2.5rem; font-size: 1.25rem }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
nav a { margin-right: .8rem }
a { color: inherit }
ol { list-style: none; padding: 0 }
li { padding: .7rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere }
.about { color: var(--faint); font-size: .9rem; display: block }
mark, .known { border-radius: .25rem; padding: .05rem .2rem; color: #111 }
mark { outline: 2px solid currentColor; font-weight: 600 }
.known { background: #ddd } .old { text-decoration: line-through }
sup { font-size: .65em; margin-left: .2em; font-weight: 400 }
.l0 mark, mark.l0 { background: #9ad1f5 } mark.l1 { background: #ffc2a1 } mark.l2 { background: #a8e0bf }
mark.l3 { background: #f2c4dc } mark.l4 { background: #fbe08a } mark.l5 { background: #cfc7f5 }
mark.l6 { background: #d8e39a } mark.l7 { background: #e3cdb4 } mark.none { background: #ccc }
"""


def write_page(path: Path, audit: "Audit") -> None:
    """Write the report."""
    with open_for_writing(path) as file:
        file.writelines(_page(audit))


def _confidence(estimate: "Estimate") -> str:
    """What the number means."""
    if not estimate.at_least:
        return f"Between {estimate.low:,.0f} and {estimate.high:,.0f} are missing, with 95 % confidence."
    return (
        f"The best guess is {estimate.total:,.0f}. Most are names that are annotated nowhere, as where a dictionary made "
        "the labels. Such names may be harder to find than those that it has, so there can be more."
    )


def _page(audit: "Audit") -> Iterator[str]:
    labels = sorted({finding.label for finding in audit.findings}, key=lambda label: (label == OUTSIDE, label))
    color = {label: "none" if label == OUTSIDE else f"l{number % _COLORS}" for number, label in enumerate(labels)}
    shown = cache(lambda index: _ShownSentence.of(audit.corpus[index]))
    estimate = audit.estimate
    name = escape(str(audit.about.get("corpus", "the corpus")))
    yield "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n"
    yield "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
    yield f"<title>Audit of {name}</title>\n<style>{_STYLE}</style>\n<main>\n"
    how_many = f"At least {estimate.low:,.0f}" if estimate.at_least else f"About {estimate.total:,.0f}"
    yield f"<h1>{how_many} entities seem to be missing in {name}</h1>\n"
    yield (
        f"<p>{audit.about['entities']:,} are annotated in {audit.about['sentences']:,} sentences, about "
        f"{estimate.annotated_share:.0%} of all. {_confidence(estimate)}</p>\n"
    )
    yield "<table><thead><tr><th>label<th>annotated<th>missing<th>between<th>and<th>listed below</thead><tbody>\n"
    for label, (total, low, high) in estimate.labels.items():
        known = sum(entity.label == label for sentence in audit.corpus for entity in sentence.entities)
        listed = sum(finding.label == label for finding in audit.findings)
        yield (f"<tr><td>{escape(label)}<td>{known:,}<td>{total:,.0f}<td>{low:,.0f}<td>{high:,.0f}<td>{listed:,}\n")
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
            yield f"<li>{_sentence(sentence, finding, color[label])}"
            yield f"<span class=about>{_about(sentence, finding)}</span>\n"
        yield "</ol></section>\n"
    yield "</main>\n</html>\n"


def _title(label: str) -> str:
    return "Annotated, but perhaps not an entity" if label == OUTSIDE else escape(label)


@dataclass(frozen=True)
class _ShownSentence:
    """A sentence with what is looked up for each of its findings."""

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
        old = f"; annotated: “{escape(words)}” {escape(finding.annotated.label)}"
    kind = {"missing": "missing", "label": "another label", "boundary": "other boundaries"}[finding.kind]
    kind = "no entity" if finding.label == OUTSIDE else kind
    return f"{finding.probability:.0%} · {kind}{old} · sentence {finding.sentence + 1:,}"


def _sentence(sentence: _ShownSentence, finding: Finding, color: str) -> str:
    """The sentence with the finding marked and the annotated entities highlighted; of a very long one, what is around it."""
    window = Span(max(0, finding.start - _AROUND), min(len(sentence.offsets), finding.end + _AROUND))
    opening: dict[int, str] = defaultdict(str)
    closing: dict[int, str] = defaultdict(str)
    end = 0
    for entity in sentence.entities.all(window):  # one that overlaps another gets its label only
        if window.start <= entity.start and entity.end <= window.end and not entity.overlaps(finding):
            opening[entity.start] += "<span class=known>" if entity.start >= end else ""
            closing[entity.end - 1] += f"<sup>{escape(entity.label)}</sup>" + ("</span>" if entity.start >= end else "")
            end = max(end, entity.end)
    opening[finding.start] += f"<mark class={color}>"
    closing[finding.end - 1] += f"<sup>{escape(finding.label)}</sup></mark>"
    return "".join(_pieces(sentence, window, opening, closing))


def _pieces(
    sentence: _ShownSentence, window: Span, opening: Mapping[int, str], closing: Mapping[int, str]
) -> Iterator[str]:
    text, offsets = sentence.text, sentence.offsets
    position = offsets[window.start][0] if window.start else 0
    yield "… " if window.start else ""
    for word in range(window.start, window.end):
        start, end = offsets[word]
        yield escape(text[position:start]) + opening.get(word, "") + escape(text[start:end]) + closing.get(word, "")
        position = end
    yield escape(text[position:]) if window.end == len(offsets) else " …"
