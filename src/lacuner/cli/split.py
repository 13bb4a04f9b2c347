"""``lacuner split``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lacuner.cli.console import print_json, say, track
from lacuner.cli.help import OUTPUT
from lacuner.cli.options import DataFormat, Json, Strict, check_inputs
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import new_corpus_folder, stream_sentences, write_sentences
from lacuner.corpus.files import ReadingReport, name_of, refuse_overwriting
from lacuner.corpus.formats.registry import format_of, writable_format
from lacuner.corpus.split import divide, select

if TYPE_CHECKING:
    from lacuner.corpus.formats.format import Format
    from lacuner.corpus.split import Division


def split(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Annotated data; - is standard input.", show_default=False)
    ],
    dev: Annotated[
        float, typer.Option(metavar="X", help="Fraction of the data for dev, such as 0.1.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="New folder for the train, dev and test files.", show_default=False
        ),
    ],
    test: Annotated[
        float | None, typer.Option(metavar="X", help="Fraction of the data for test.", show_default="no test data")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; a different seed gives a different split.")] = 1,
    by: Annotated[
        Literal["auto", "document", "sentence"],
        typer.Option(
            metavar="CHOICE",
            help="Unit that is never split: `document` or `sentence`. `auto`: documents where they are known, "
            "unless so many share sentences that the sizes would be far off.",
        ),
    ] = "auto",
    data_format: DataFormat = None,
    to_format: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="NAME", help="Output format.", show_default="same as DATA", rich_help_panel=OUTPUT
        ),
    ] = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Split data into train, dev and test. The same seed gives the same split.

    Sentences with the same words always end up in the same part, and documents (fields such as document, doc_id or id, or
    -DOCSTART- lines) stay whole. Sizes are as close as possible to the requested ones, and label proportions are
    kept as far as that allows.

    Example: `lacuner split data.conll --dev 0.1 --test 0.1 --seed 1 --out parts`
    """
    check_inputs([data])
    refuse_overwriting(out, {"its own input": [data]})
    read = format_of(data, data_format)
    written = writable_format(data, to_format or read.name)
    report = ReadingReport(strict=strict)
    corpus = Corpus(tuple(track(stream_sentences(data, data_format, report), "sentences")), report)
    report.log()
    division = divide(corpus, {"dev": dev} | ({} if test is None else {"test": test}), seed, by)
    ending = _ending(data, read, written)
    with new_corpus_folder(out) as folder:
        parts = {name: Corpus(tuple(select(corpus, indices))) for name, indices in division.parts.items()}
        for name, part in parts.items():
            write_sentences(part, folder / f"{name}{ending}", written.name, name=out / f"{name}{ending}")
    files = {name: str(out / f"{name}{ending}") for name in parts}
    _show(parts, division, files, json)


def _ending(data: Path, read: "Format", written: "Format") -> str:
    """How the new files end: as the input does, if they have its format."""
    if written.write_folder is not None:
        return ""
    own = [ending for ending in read.endings if name_of(data).endswith(ending)]
    if written is read and (own or data.suffix):
        packed = ".gz" if data.name.lower().endswith(".gz") else ""
        return (max(own, key=len) if own else Path(name_of(data)).suffix) + packed
    return next(iter(written.endings), ".jsonl")


def _show(parts: dict[str, Corpus], division: "Division", files: dict[str, str], json: bool) -> None:
    counts = {name: part.statistics() for name, part in parts.items()}
    total = sum(map(len, parts.values()))
    labels = sorted({label for found in counts.values() for label in found.labels})
    if json:
        shown: dict[str, Any] = {
            name: {
                "file": files[name],
                "sentences": found.sentences,
                "tokens": found.tokens,
                "entities": found.entities,
                "labels": {label: found.labels[label] for label in labels},
            }
            for name, found in counts.items()
        }
        others = {"documents": division.documents, "cut_documents": division.cut, "repeated": division.repeated}
        print_json({"sentences": total} | others | {"parts": shown})
        return
    say(f"{'':<12}" + "".join(f"{name:>10} {'':>6}" for name in parts))
    rows = {
        "sentences": {name: found.sentences for name, found in counts.items()},
        "words": {name: found.tokens for name, found in counts.items()},
        "entities": {name: found.entities for name, found in counts.items()},
    }
    rows |= {f"  {label}": {name: found.labels[label] for name, found in counts.items()} for label in labels}
    for title, row in rows.items():
        whole = sum(row.values())
        cells = "".join(f"{count:>10,} {count / whole if whole else 0:>6.1%}" for count in row.values())
        say(f"{title:<12}{cells}")
    if division.documents:
        cut = f"; {division.cut:,} of them are in several parts" if division.cut else ", each in one part"
        say(f"{division.documents:,} documents{cut}.")
    if division.cut:
        say("warning: documents are split, because too many share sentences (--by document keeps them whole).")
    if division.repeated:
        say(f"{division.repeated:,} sentences repeat an earlier one and are in the same part.")
    say(f"Written: {', '.join(files.values())}")
