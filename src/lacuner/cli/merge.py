"""``lacuner merge``."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.console import print_json, say, track
from lacuner.cli.help import DATA
from lacuner.cli.options import DataFormat, Json, Strict, check_inputs
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.files import STANDARD_INPUT, ReadingReport, refuse_overwriting
from lacuner.corpus.formats.registry import format_of, guess_format
from lacuner.corpus.merging import Layer, merge_layers
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.corpus.merging import MergeReport


def merge(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA...", help="Annotations of the same text, two or more files.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.", show_default=False)],
    partial_labels: Annotated[
        bool,
        typer.Option(
            "--partial-labels",
            help="Each file was searched only for the labels that it has.",
            rich_help_panel=DATA,
        ),
    ] = False,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Merge several annotations of the same text into one, and keep who said what.

    Sentences are matched by their words. Each entity has its own source, or else the name of its file; where files agree,
    both (`human+model`). A span with different labels keeps all of them, with their sources, and is counted.

    Example: `lacuner merge persons.conll places.conll --partial-labels --out both.jsonl`
    """
    if len(data) < 2:
        raise ConfigError("merge needs two or more files — lacuner convert writes one in another format")
    check_inputs(data)
    refuse_overwriting(out, {"an input": data})
    written = (guess_format(out) or format_of(data[0], data_format)).name
    report = ReadingReport(strict=strict)
    layers = []
    for name, path in zip(_names(data), data, strict=True):
        corpus = Corpus(tuple(track(stream_sentences(path, data_format, report), f"sentences of {name}")))
        layers.append(Layer(name, corpus.with_annotated_labels(corpus.labels) if partial_labels else corpus))
    report.log()
    merged, found = merge_layers(layers)
    write_sentences(track(merged, "sentences", len(merged)), out, written)
    _show(layers, found, out, json)


def _names(paths: Sequence[Path]) -> list[str]:
    """What the files are called as sources: their names, or their paths where names are the same."""
    times = Counter(path.name for path in paths)
    names = [path.name if times[path.name] == 1 else str(path) for path in paths]
    names = ["standard input" if name == STANDARD_INPUT else name for name in names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{twice} is given twice")
    return names


def _show(layers: Sequence[Layer], found: "MergeReport", out: Path, json: bool) -> None:
    if json:
        files = {
            layer.name: {
                "sentences": len(layer.sentences),
                "entities": sum(len(sentence.entities) for sentence in layer.sentences),
                "missing": found.missing[layer.name],
            }
            for layer in layers
        }
        print_json({key: value for key, value in vars(found).items() if key != "missing"} | {"files": files})
        return
    say(f"{found.sentences:,} sentences with {found.entities:,} entities are in {out}.")
    say(f"{found.agreed:,} entities are in several files.")
    if found.conflicts:
        say(f"warning: {found.conflicts:,} spans have different labels; all are kept, and each may be the right one.")
    if found.rejected:
        say(f"warning: {found.rejected:,} entities are rejected in another file; they stay, with a field rejected_by.")
    if found.denied:
        say(f"warning: {found.denied:,} entities are no entity in a file that is complete; they stay.")
    if found.fields:
        say(f"warning: {found.fields:,} other fields have different values; those of the first file are kept.")
    for name, count in found.missing.items():
        say(f"warning: {count:,} of the {found.sentences:,} sentences are not in {name}.")
