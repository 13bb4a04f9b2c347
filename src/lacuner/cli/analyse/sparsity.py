"""``lacuner analyse sparsity``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.analyse.shared import Fewest, FigureFile, check_figure, draw, frequent_only
from lacuner.cli.console import print_json, track
from lacuner.cli.options import DataFormat, Json, Strict
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import ReadingReport

if TYPE_CHECKING:
    from lacuner.analysis.sparsity import SparsityRow

Data = Annotated[Path, typer.Argument(metavar="DATA", help="Annotated data; - is standard input.", show_default=False)]


def sparsity(
    data: Data,
    fewest: Fewest = 20,
    figure: FigureFile = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Have sentences fewer entities than the square root of their length? The bound on missampling assumes it.

    Example: `lacuner analyse sparsity gold.conll --figure sparsity.png`
    """
    from lacuner.analysis.hidden import annotated_places
    from lacuner.analysis.sparsity import share_of_sparse_sentences, sparsity_by_length

    check_figure(figure)
    report = ReadingReport(strict=strict)
    sentences = track(stream_sentences(data, data_format, report), "sentences")
    everything = sparsity_by_length((len(sentence), len(annotated_places(sentence))) for sentence in sentences)
    report.log()
    rows = frequent_only(everything, fewest, data)
    count, share = sum(row.sentences for row in everything), share_of_sparse_sentences(everything)
    if json:
        print_json({"sentences": count, "sparse": share, "lengths": [row.as_dict() for row in rows]})
    else:
        print(_sparsity_table(rows))
        print(f"\nOf all {count:,} sentences {share:.1%} have at most √n entities. The bar is 1.6 variances long.")
    draw(figure, lambda figures: figures.sparsity_figure(rows, share))


def _sparsity_table(rows: "Sequence[SparsityRow]") -> str:
    lines = ["words  sentences   mean  variance           bar     √n   at most √n"]
    for row in rows:
        low, high = row.bar
        line = f"{row.length:5}  {row.sentences:9,}  {row.mean:5.2f}  {row.variance:8.2f}  {low:5.2f} … {high:4.2f}"
        lines.append(f"{line}  {row.root:5.2f}  {row.sparse / row.sentences:10.1%}")
    return "\n".join(lines)
