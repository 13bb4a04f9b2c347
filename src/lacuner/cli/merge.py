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
        typer.Argument(
            metavar="DATA...", help="Two or more files with annotations of the same text.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output file.", show_default=False)],
    partial_labels: Annotated[
        bool,
        typer.Option(
            "--partial-labels",
            help="Each file was annotated only with the labels that occur in it.",
            rich_help_panel=DATA,
        ),
    ] = False,
    trust: TrustOption = None,
    ties: Annotated[
        Literal["all", "first"],
        typer.Option(
            metavar="CHOICE",
            help="If different labels tie, keep `all` of them (each may be right) or that of the `first` file.",
            rich_help_panel=DATA,
        ),
    ] = "all",
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Merge several annotations of the same text into one, and keep the source of each label.

    Sentences are matched by their words. The source of an entity is its own, or else its file name without the extension;
    where sources agree, the entity has both (`human+model`). Where sources disagree, the majority wins, and JSON Lines keeps
    the annotation of each source (`by_source`). `lacuner train --same-text` does the same.

    Example: `lacuner merge persons.conll places.conll --partial-labels --out both.jsonl`
    """
    if len(data) < 2:
        raise ConfigError("merge needs two or more files — to convert a single file, use lacuner convert")
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
        what = f"{error.what}; in total, {spans} have different labels with tied votes, all of which are kept"
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
    say(f"{out}: {sentences} with {entities}, {found.agreed:,} from several sources.")
    for warning in found.warnings():
        say(f"warning: {warning}")
