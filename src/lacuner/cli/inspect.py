"""``lacuner inspect``."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lacuner.cli.console import number_of, print_json, track
from lacuner.cli.options import DataFormat, Json, Strict
from lacuner.corpus import Sentence, Source
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import STANDARD_INPUT, ReadingReport
from lacuner.corpus.sources import UNNAMED, named_sources, with_sources_apart
from lacuner.corpus.statistics import Gaps, Statistics, aligned, labels_alike
from lacuner.evaluation import ScoreCounts, Scores
from lacuner.evaluation.agreement import Agreement
from lacuner.evaluation.consistency import WrongNames


def inspect(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Annotated data; - is standard input.", show_default=False)
    ],
    gold: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Gold annotation of the same sentences to compare DATA with.", show_default=False
        ),
    ] = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Count sentences, labels, span widths and gaps; with gold annotation, also missing and wrong labels.

    If several sources annotated the data, shows their agreement with each other and with the gold annotation.

    Example: `lacuner inspect distant.conll --gold gold.conll`
    """
    report = ReadingReport(strict=strict)
    scores, gaps, names, sources = ScoreCounts(), Gaps(), WrongNames(), _Sources()
    kept = None
    if STANDARD_INPUT in (str(data), str(gold)):  # which cannot be read twice
        kept = list(_pairs(data, gold, data_format, report))

    def compared() -> Iterator[Sentence]:
        for ours, theirs in kept if kept is not None else _pairs(data, gold, data_format, report):
            if theirs is not None:
                scores.add(theirs, ours.entities)
                gaps.add(ours, theirs)
                names.add(theirs, ours.entities)
            sources.add(ours)
            yield ours

    statistics = Statistics.count(compared())
    quality = None if gold is None else (scores.scores(), gaps, names.as_dict())
    agreement = None
    if sources.can_be_compared(with_gold=gold is not None):
        agreement = sources.agreement(kept if kept is not None else _pairs(data, gold, data_format, ReadingReport()))
    result: dict[str, Any] = statistics.as_dict() | {"repairs": dict(report.counts)}
    if quality:
        result["gold"] = quality[0].as_dict() | vars(gaps) | {"wrong_names": quality[2]}
    if agreement:
        result["agreement"] = agreement.as_dict()
    report.log()
    if json:
        print_json(result)
        return
    print(_describe(statistics))
    if quality:
        print(_describe_quality(*quality))
    if agreement:
        print(agreement.table())


class _Sources:
    """The sources of a file, collected while it is read the first time, and compared when it is read again."""

    def __init__(self) -> None:
        self._named: dict[str, None] = {}
        self._apart: set[str] = set()

    def add(self, sentence: Sentence) -> None:
        self._apart.update(said.source for said in sentence.by_source)
        self._named |= named_sources([sentence])

    def can_be_compared(self, with_gold: bool) -> bool:
        """Whether there are several; of two, a reviewer can only be compared with gold annotation."""
        sources = self._apart | self._named.keys()
        return len(sources if with_gold else sources - {Source.REVIEWER}) > 1

    def agreement(self, pairs: Iterable[tuple[Sentence, Sentence | None]]) -> Agreement:
        agreement, named = Agreement(), list(self._named)
        for ours, theirs in pairs:
            agreement.add(with_sources_apart(ours, UNNAMED, named) if named else ours, theirs)
        return agreement


def _pairs(
    data: Path, gold: Path | None, data_format: str | None, report: ReadingReport
) -> Iterator[tuple[Sentence, Sentence | None]]:
    """Sentences of a file, each with its gold annotation if there is one."""
    sentences = track(stream_sentences(data, data_format, report), "sentences")
    if gold is None:
        yield from ((sentence, None) for sentence in sentences)
    else:
        yield from aligned(sentences, stream_sentences(gold, data_format, report), gold)


def _describe(statistics: Statistics) -> str:
    s = statistics
    words = s.tokens / s.sentences if s.sentences else 0
    alike = labels_alike(s.labels)
    lines = [
        f"sentences   {s.sentences:>9,}   {s.sentences_without_entities:,} without entities, {s.repeated_sentences:,} repeated",
        f"words       {s.tokens:>9,}   {words:.1f} per sentence, {max(s.lengths, default=0):,} in the longest",
        f"entities    {s.entities:>9,}{_describe_widths(s)}",
        f"sparsity    {s.sparsity:>9.2f}   entities per sentence / √words; negative sampling needs it well below 1",
    ]
    lines += [f"  {label:<9} {count:>9,}   {count / s.entities:.1%}" for label, count in s.labels.most_common()]
    notes = {
        "complete": f"{number_of(s.complete_sentences, 'sentence')} complete: unlabeled spans are not entities",
        "partial": f"{number_of(s.partially_labeled_sentences, 'sentence')} annotated for some labels only",
        "rejected": f"{number_of(s.non_entities, 'span')} known not to be an entity",
        "sources": ", ".join(f"{count:,} from {source}" for source, count in s.sources.most_common()),
        "overlaps": f"{number_of(s.overlapping_entities, 'entity')} overlapping a neighbor",
        "empty": f"{number_of(s.empty_sentences, 'sentence')} without words",
        "alike": "; ".join(map(" and ".join, alike)) + ": labels that differ only in case",
    }
    facts = {
        "complete": s.complete_sentences, "partial": s.partially_labeled_sentences, "rejected": s.non_entities,
        "sources": len(s.sources), "overlaps": s.overlapping_entities, "empty": s.empty_sentences,
        "alike": len(alike),
    }  # fmt: skip
    return "\n".join(lines + [f"{name:<11} {notes[name]}" for name, count in facts.items() if count])


def _describe_widths(statistics: Statistics) -> str:
    if not statistics.entities:
        return ""
    widest = number_of(statistics.width_covering(1.0), "word")
    return f"   at most {widest} wide; {statistics.width_covering(0.99)} cover 99 %"


def _describe_quality(scores: Scores, gaps: Gaps, names: dict[str, int]) -> str:
    total = scores.support
    rows = {
        "correct": gaps.correct,
        "missing": gaps.missing,
        "wrong label": gaps.wrong_label,
        "wrong boundary": gaps.wrong_boundary,
    }
    lines = ["", "against gold", scores.table(), "", f"of {total:,} gold entities"]
    lines += [f"  {name:<15} {count:>8,}   {count / total if total else 0:.1%}" for name, count in rows.items()]
    lines.append(f"labels that overlap no gold entity: {gaps.spurious:,}")
    if names["wrong"]:
        notes = {
            "always": "the name nearly always has this wrong label: a model learns it",
            "once": "the name has this label only once",
            "sometimes": "the name with this label is right elsewhere: a model can tell",
        }
        lines += ["", f"of {names['wrong']:,} wrong labels"]
        lines += [
            f"  {kind:<15} {names[kind]:>8,}   {names[kind] / names['wrong']:.1%}   {note}"
            for kind, note in notes.items()
        ]
    return "\n".join(lines)
