"""``lacuner inspect``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lacuner.cli.console import print_json, track
from lacuner.cli.options import DataFormat, Json, Strict
from lacuner.corpus import Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.statistics import Gaps, Statistics, aligned
from lacuner.evaluation import ScoreCounts, Scores


def inspect(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Annotated data; - is standard input.", show_default=False)
    ],
    gold: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Gold annotation of the same sentences, to compare DATA with.", show_default=False
        ),
    ] = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Count sentences, labels, span widths and gaps; with gold annotation, what is missing or wrong.

    Example: `lacuner inspect distant.conll --gold gold.conll`
    """
    report = ReadingReport(strict=strict)
    sentences = track(stream_sentences(data, data_format, report), "sentences")
    scores, gaps = ScoreCounts(), Gaps()

    def compared() -> Iterator[Sentence]:
        if gold is None:
            yield from sentences
            return
        for ours, theirs in aligned(sentences, stream_sentences(gold, data_format, report), gold):
            scores.add(theirs, ours.entities)
            gaps.add(ours, theirs)
            yield ours

    statistics = Statistics.count(compared())
    quality = None if gold is None else (scores.scores(), gaps)
    result: dict[str, Any] = statistics.as_dict() | {"repairs": dict(report.counts)}
    if quality:
        result["gold"] = quality[0].as_dict() | vars(gaps)
    report.log()
    if json:
        print_json(result)
        return
    print(_describe(statistics))
    if quality:
        print(_describe_quality(*quality))


def _describe(statistics: Statistics) -> str:
    s = statistics
    words = s.tokens / s.sentences if s.sentences else 0
    lines = [
        f"sentences   {s.sentences:>9,}   {s.sentences_without_entities:,} without entities, {s.repeated_sentences:,} repeated",
        f"words       {s.tokens:>9,}   {words:.1f} a sentence, {max(s.lengths, default=0):,} in the longest",
        f"entities    {s.entities:>9,}   at most {s.width_covering(1.0)} words wide; {s.width_covering(0.99)} cover 99 %",
        f"sparsity    {s.sparsity:>9.2f}   entities of a sentence / √words; negative sampling wants it well below 1",
    ]
    lines += [f"  {label:<9} {count:>9,}   {count / s.entities:.1%}" for label, count in s.labels.most_common()]
    notes = {
        "complete": f"{s.complete_sentences:,} sentences are complete: what has no label is no entity",
        "partial": f"{s.partially_labeled_sentences:,} sentences were searched for some labels only",
        "rejected": f"{s.non_entities:,} spans are known not to be entities",
        "sources": ", ".join(f"{count:,} from {source}" for source, count in s.sources.most_common()),
        "overlaps": f"{s.overlapping_entities:,} entities overlap their neighbour",
        "empty": f"{s.empty_sentences:,} sentences have no words",
    }
    facts = {
        "complete": s.complete_sentences, "partial": s.partially_labeled_sentences, "rejected": s.non_entities,
        "sources": len(s.sources), "overlaps": s.overlapping_entities, "empty": s.empty_sentences,
    }  # fmt: skip
    return "\n".join(lines + [f"{name:<11} {notes[name]}" for name, count in facts.items() if count])


def _describe_quality(scores: Scores, gaps: Gaps) -> str:
    total = scores.support
    rows = {
        "correct": gaps.correct,
        "missing": gaps.missing,
        "wrong label": gaps.wrong_label,
        "wrong boundary": gaps.wrong_boundary,
    }
    lines = ["", "against gold", scores.table(), "", f"of {total:,} gold entities"]
    lines += [f"  {name:<15} {count:>8,}   {count / total if total else 0:.1%}" for name, count in rows.items()]
    return "\n".join([*lines, f"labels that touch no gold entity: {gaps.spurious:,}"])
