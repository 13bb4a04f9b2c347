"""``lacuner analyse sparsity``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.analyse import shared
from lacuner.cli.console import print_json, track
from lacuner.cli.options import DataFormat, Json, Strict
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import ReadingReport

if TYPE_CHECKING:
    from lacuner.analysis.sparsity import SparsityRow

Data = Annotated[Path, typer.Argument(metavar="DATA", help="Annotated data; - is standard input.", show_default=False)]


def sparsity(
    data: Data,
    min_count: shared.MinCount = 20,
    figure: shared.FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Measure how many sentences of n words have at most √n entities, as the bound on missampling assumes.

    Example: `lacuner analyse sparsity gold.conll --figure sparsity.png`
    """
    from lacuner.analysis.hidden import annotated_spans
    from lacuner.analysis.sparsity import fraction_of_sparse_sentences, sparsity_by_length

    shared.check_figure(figure)
    report = ReadingReport(strict=strict)
    sentences = track(stream_sentences(data, data_format, report), "sentences")
    everything = sparsity_by_length((len(sentence), len(annotated_spans(sentence))) for sentence in sentences)
    report.log()
    rows = shared.frequent_only(everything, min_count, data)
    count, sparse = sum(row.sentences for row in everything), fraction_of_sparse_sentences(everything)
    if json:
        print_json({"sentences": count, "sparse": sparse, "lengths": [row.as_dict() for row in rows]})
    else:
        print(_sparsity_table(rows))
        print(f"\nOf all {count:,} sentences {sparse:.1%} have at most √n entities. The bar is 1.6 variances long.")
    shared.draw(figure, lambda figures: figures.sparsity_figure(rows, sparse))


def _sparsity_table(rows: "Sequence[SparsityRow]") -> str:
    lines = ["words  sentences   mean  variance           bar     √n   at most √n"]
    for row in rows:
        low, high = row.bar
        line = f"{row.length:5}  {row.sentences:9,}  {row.mean:5.2f}  {row.variance:8.2f}  {low:5.2f} … {high:4.2f}"
        lines.append(f"{line}  {row.root:5.2f}  {row.sparse / row.sentences:10.1%}")
    return "\n".join(lines)
