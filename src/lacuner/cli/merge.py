"""``lacuner merge``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lacuner.cli.console import number_of, print_json, say, track
from lacuner.cli.help import DATA
from lacuner.cli.options import DataFormat, Json, Strict, TrustOption, check_inputs, parse_trust, refuse_mixing
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.files import ReadingReport, refuse_overwriting
from lacuner.corpus.formats.registry import format_of, guess_format
from lacuner.corpus.merging import Layer, merge_layers, source_names
from lacuner.errors import ConfigError, DataError

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
    trust: TrustOption = None,
    ties: Annotated[
        Literal["all", "first"],
        typer.Option(
            metavar="CHOICE",
            help="Of different labels with as many votes, keep `all` (each may be right), or that of the `first` file.",
            rich_help_panel=DATA,
        ),
    ] = "all",
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Merge several annotations of the same text into one, and keep who said what.

    Sentences are matched by their words. Each entity has its own source, or else the name of its file without ending; where
    sources agree, both (`human+model`). Where they contradict each other, the majority decides, and JSON Lines keep what
    each of them said (`by_source`). `lacuner train --same-text` does the same.

    Example: `lacuner merge persons.conll places.conll --partial-labels --out both.jsonl`
    """
    if len(data) < 2:
        raise ConfigError("merge needs two or more files — lacuner convert writes one in another format")
    refuse_mixing(out, json)
    check_inputs(data)
    refuse_overwriting(out, {"an input": data})
    written = (guess_format(out) or format_of(data[0], data_format)).name
    report = ReadingReport(strict=strict)
    layers = []
    weights = parse_trust(trust)
    for name, path in zip(source_names(data), data, strict=True):
        corpus = Corpus(tuple(track(stream_sentences(path, data_format, report), f"sentences of {name}")))
        layers.append(Layer(name, corpus.with_annotated_labels(corpus.labels) if partial_labels else corpus))
    report.log()
    merged, found = merge_layers(layers, weights, ties)
    try:
        write_sentences(track(merged, "sentences", len(merged)), out, written)
    except DataError as error:
        if not found.tied:
            raise
        spans = number_of(found.tied, "span")
        what = f"{error.what}; {spans} in all have different labels with as many votes, and all of these are kept"
        remedy = "give --ties first to keep that of the first file, weigh the votes (--trust), or write JSON Lines"
        raise DataError(what, remedy, error.path, error.line) from None
    _show(layers, found, out, json)


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
    sentences, entities = number_of(found.sentences, "sentence"), number_of(found.entities, "entity")
    say(f"{out}: {sentences} with {entities}, {found.agreed:,} of several sources.")
    for warning in found.warnings():
        say(f"warning: {warning}")
