"""``lacuner analyse bound``."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.analyse import shared
from lacuner.cli.console import print_json, track
from lacuner.cli.options import DataFormat, Json, Strict
from lacuner.corpus import Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import ReadingReport
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.analysis.bound import BoundRow, SentenceCounts

_SHOWN_LENGTHS = (2, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)


def bound(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", help="Annotated data. Without it, the theoretical curve is shown.", show_default=False
        ),
    ] = None,
    min_count: shared.MinCount = 20,
    ratio: Annotated[float, typer.Option(help="λ: negatives per word of a sentence.")] = 0.35,
    missing: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Assumed fraction of entities that are not annotated.", show_default="the worst case"
        ),
    ] = None,
    gold: shared.Gold = None,
    figure: shared.FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Compare the probability that uniform sampling draws no hidden entity with the paper's bound.

    Example: `lacuner analyse bound masked.conll --gold gold.conll --figure bound.png`
    """
    from lacuner.analysis import bound as theory

    shared.check_figure(figure)
    if not 0 < ratio < float("inf"):
        raise ConfigError(f"--ratio {ratio:g}: the number of negatives per word must be above 0; 0.35 is usual")
    if gold is not None and (missing is not None or data is None):
        raise ConfigError("--gold goes with DATA and without --missing; leave one of them out")
    if data is None:
        fraction = 1.0 if missing is None else missing
        assumption = f"√n entities, {'all' if fraction == 1 else f'{fraction:.0%}'} of them hidden"
        rows = theory.theoretical_curve(range(1, _SHOWN_LENGTHS[-1] + 1), ratio, fraction)
        shown = [row for row in rows if row.length in _SHOWN_LENGTHS]
    else:
        if missing == 1:
            raise ConfigError("--missing 1: then DATA would have no label at all; give a smaller fraction")
        counts, assumption = _count_sentences(data, gold, missing, data_format, strict)
        everything = theory.bound_by_length(counts, ratio)
        rows = shown = shared.frequent_only(everything, min_count, data)
    start = theory.first_informative_length(ratio)
    notes = [f"For sentences with fewer than {start} words the bound is 0 or less and gives no information."]
    unproved = [row.length for row in rows if not (row.vacuous or theory.bound_is_proved(row.length, ratio))]
    if unproved:
        notes.append(f"With λ = {ratio:g} its proof does not hold for n = {unproved[0]} to {unproved[-1]}.")
    result: dict[str, Any] = {"ratio": ratio, "assumption": assumption, "informative_from": start}
    if data is not None:
        dense, exhausted = (sum(getattr(row, name) for row in everything) for name in ("dense", "exhausted"))
        sentences, overall = sum(row.sentences for row in everything), theory.mean_probability(everything)
        result |= {"sentences": sentences, "exact": overall, "dense": dense, "exhausted": exhausted}
        notes.insert(0, f"In {overall:.1%} of all {sentences:,} sentences, an epoch samples no hidden entity.")
        notes += [f"Sentences with more than √n entities, which the bound does not cover: {dense:,}."] * (dense > 0)
        notes += [f"Sentences with fewer spans than requested, so that all are sampled: {exhausted:,}."] * (
            exhausted > 0
        )
    if json:
        print_json(result | {"lengths": [row.as_dict() for row in rows]})
    else:
        print(f"λ = {ratio:g}; {assumption}\n")
        print(_bound_table(shown))
        print("\n" + "\n".join(notes))
    shared.draw(figure, lambda figures: figures.bound_figure(rows, ratio, assumption))


def _count_sentences(
    data: Path, gold: Path | None, missing: float | None, data_format: DataFormat, strict: bool
) -> "tuple[list[SentenceCounts], str]":
    """``n``, ``m`` and ``ŷ`` of every sentence, and where ``ŷ`` comes from."""
    from lacuner.analysis.bound import SentenceCounts, as_many_as_allowed, with_assumed_fraction
    from lacuner.analysis.hidden import annotated_spans, hidden_against_gold

    report = ReadingReport(strict=strict)
    sizes: list[tuple[int, int]] = []

    def counted() -> Iterator[Sentence]:
        for sentence in track(stream_sentences(data, data_format, report), "sentences"):
            sizes.append((len(sentence), len(annotated_spans(sentence))))
            yield sentence

    if gold is not None:
        hidden = hidden_against_gold(counted(), stream_sentences(gold, data_format, report), gold)
        counts = [SentenceCounts(n, m, len(spans)) for (n, m), spans in zip(sizes, hidden, strict=True)]
        assumption = "hidden: what the gold labels have and the data lacks"
    else:
        for _ in counted():
            pass
        if missing is None:
            counts, assumption = [as_many_as_allowed(n, m) for n, m in sizes], "up to √n entities in all"
        else:
            counts, assumption = with_assumed_fraction(sizes, missing), f"{missing:.0%} of all entities assumed hidden"
    report.log()
    return counts, assumption


def _bound_table(rows: "Sequence[BoundRow]") -> str:
    real = rows[0].sentences > 0
    lines = [("words  " + "sentences  " * real) + "negatives  annotated  hidden   exact   bound"]
    for row in rows:
        line = f"{row.length:5}  " + f"{row.sentences:9,}  " * real
        line += f"{row.negatives:9}  {row.annotated:9.2f}  {row.hidden:6.2f}  {row.exact:.4f}"
        lines.append(line + ("       –" if row.vacuous else f"  {row.bound:.4f}"))
    return "\n".join(lines)
