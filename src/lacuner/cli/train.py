"""``lacuner train``."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.console import number_of, print_json, say, set_up_logging
from lacuner.cli.help import DATA, TRAINING
from lacuner.cli.options import (
    DataFormat,
    Device,
    Encoder,
    Epochs,
    Json,
    NamesLabel,
    Set,
    Strict,
    TrustOption,
    files_of,
    parse_trust,
    read_dictionary,
)
from lacuner.corpus import Corpus, Sentence
from lacuner.corpus.as_corpus import same_text as merge_same_text
from lacuner.corpus.as_corpus import several_texts
from lacuner.corpus.corpus import labels_of, merge, stream_sentences
from lacuner.corpus.files import STANDARD_INPUT, ReadingReport, refuse_overwriting
from lacuner.corpus.merging import count_shared, source_names
from lacuner.corpus.tokenize import Splitting
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.evaluation.comparison import DictionaryChoice
    from lacuner.matching.dictionary import Dictionary
    from lacuner.recognizer import Recognizer

logger = logging.getLogger(__name__)

_SHOWN = 12
"""Labels that are listed."""
_MIN_SHARED = 0.1
"""Fraction of a file whose sentences are in another one, too, from which both may be label sets of one text."""


def train(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRAIN...", help="Training data. Whatever is unlabeled counts as unknown.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Output folder for the model.", show_default=False)
    ],
    dev: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Development data for selecting the best epoch.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Training method, which decides how unlabeled spans are used; `lacuner methods` lists them.",
            show_default="lacuner",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    encoder: Encoder = None,
    trusted: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Completely annotated training data: whatever is unlabeled is not an entity. Can be repeated.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    epochs: Epochs = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="Random seed; the same seed gives the same model.", show_default="1", rich_help_panel=TRAINING
        ),
    ] = None,
    settings: Set = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file with settings.", show_default=False, rich_help_panel=TRAINING),
    ] = None,
    dev_incomplete: Annotated[
        bool,
        typer.Option(
            "--dev-incomplete",
            help="The development data is incomplete as well: select by the PU estimate (recall² / fraction "
            "of predictions) instead of F1.",
            rich_help_panel=DATA,
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run with the same --out.")] = False,
    partial_labels: Annotated[
        bool,
        typer.Option(
            "--partial-labels",
            help="Each training file was annotated only with the labels that occur in it.",
            rich_help_panel=DATA,
        ),
    ] = False,
    same_text: Annotated[
        bool,
        typer.Option(
            "--same-text",
            help="The training files annotate the same text by several sources: merge them and keep the "
            "sources of each label.",
            rich_help_panel=DATA,
        ),
    ] = False,
    trust: TrustOption = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            "-d",
            metavar="FILE",
            help="Dictionary that the labels come from. After training, its scores on the development data "
            "are shown, alone and with the model.",
            show_default="names with the source dictionary in TRAIN",
            rich_help_panel=DATA,
        ),
    ] = None,
    label: NamesLabel = None,
    device: Device = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of processes on this machine that train the model together, with the same batches "
            "and random draws as one.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Train up to N of a method's auxiliary models (teachers, voters, an ensemble) at a time.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    streaming: Annotated[
        bool,
        typer.Option(
            "--streaming",
            help="Read the training data from disk, one batch at a time, for a corpus that does not fit in memory.",
            rich_help_panel=TRAINING,
        ),
    ] = False,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Train a model on incomplete annotation.

    Example: `lacuner train distant.conll --dev dev.conll --out model`, or with labels from two sources
    `lacuner train dict.conll llm.conll --same-text --dev dev.conll --out model`
    """
    given_options = dict(locals())
    if workers > 1:
        from lacuner.training.launch import launched_processes

        if processes > 1 or (launched_processes() or 1) > 1:
            raise ConfigError("--workers and --processes share the same cores — give only one of them")
    if processes > 1:
        from lacuner.training.launch import launched_processes, run_together

        if launched_processes() != processes:
            with _explaining_interruption():
                run_together(partial(_train_as_one_of_several, given_options), processes)
            return

    from lacuner.cli.progress import TerminalObserver
    from lacuner.encoders.device import find_device
    from lacuner.encoders.processes import Processes
    from lacuner.matching.dictionary import Dictionary
    from lacuner.model_folder import is_model_folder
    from lacuner.recognizer import Recognizer
    from lacuner.training.progress import describe_dev
    from lacuner.training.settings import parse_assignments, read_config, resolve_settings

    read = {"training data": [*data, *(trusted or ())], "the dev data": [dev], "the config": [config]}
    refuse_overwriting(out, read | {"the dictionary": [dictionary]})
    _check_trusted(data, trusted or [])
    overrides: dict[str, Any] = parse_assignments(settings or ())
    given = {"training.epochs": epochs, "training.seed": seed, "training.metric": "pu" if dev_incomplete else None}
    overrides |= {key: value for key, value in given.items() if value is not None}
    resolved = resolve_settings(method, encoder, overrides, read_config(config) if config else None)
    refuse_overwriting(out, {"what the encoder is loaded from": files_of(resolved.encoder)})
    split: Splitting = "words" if resolved.split == "auto" else resolved.split
    weights = _check_same_text(data, same_text, trust)
    if streaming and same_text:
        raise ConfigError(
            "--streaming reads one sentence at a time, and --same-text compares files — merge them first (lacuner merge)"
        )
    names_of_files = source_names(data) if same_text else [source_names([path])[0] for path in data]
    read_streaming = partial(_stream, data, data_format, strict, split, partial_labels)
    corpora = [] if streaming else [Corpus.read(path, data_format, strict, split) for path in data]
    if partial_labels:
        corpora = [corpus.with_annotated_labels(corpus.labels) for corpus in corpora]
    dev_corpus = Corpus.read(dev, data_format, strict, split) if dev else None
    trusted_corpus = merge(Corpus.read(path, data_format, strict, split) for path in trusted) if trusted else None
    names = read_dictionary(dictionary, strict=strict, label=label)
    if dev_corpus is None:
        chosen = "there is neither a threshold nor an ensemble, " if resolved.training.fit_threshold else ""
        logger.warning(f"There is no --dev data: {chosen}all epochs are run, and the last one is kept.")
    if is_model_folder(out) and not resume:
        logger.warning("%s exists; it will be replaced at the end of training.", out)
    if dictionary and (dev_corpus is None or resolved.training.metric == "pu"):
        logger.warning("--dictionary has no effect: it is compared with the model on complete dev data only.")
    precision = "" if resolved.training.precision == "fp32" else f" in {resolved.training.precision}"
    say(f"Method {resolved.method.name}, encoder {resolved.encoder.name}{precision}, head {resolved.method.head.name}.")
    train_data: Corpus | Iterator[Sentence]
    if streaming:
        train_data = read_streaming()
    else:
        named = list(zip(names_of_files, corpora, strict=True))
        if not same_text:
            _warn_of_label_sets(corpora)
        train_data = merge_same_text(dict(named), weights) if same_text else several_texts(named)
        say(f"Training data: {_contents(train_data)}.")
    for what, corpus in (("Trusted data", trusted_corpus), ("Dev data", dev_corpus)):
        if corpus is not None:
            say(f"{what}: {_contents(corpus)}.")
    is_main = Processes.join(find_device(device)).is_main
    observer = TerminalObserver(metric=resolved.training.metric) if is_main else None
    with _explaining_interruption():
        model = Recognizer.train(
            train_data,
            dev_corpus,
            trusted=trusted_corpus,
            settings=resolved,
            out=out,
            resume=resume,
            streaming=streaming,
            workers=workers,
            device=device,
            progress=False,
            observer=observer,
        )
    record = model.record
    if not is_main:
        return
    choice = None
    if dev_corpus is not None and resolved.training.metric != "pu":
        if names is None and not (streaming and STANDARD_INPUT in map(str, data)):
            names = Dictionary.of_annotation(read_streaming() if streaming else train_data)
        choice = None if names is None else _compare_with_dictionary(model, dev_corpus, names)
    if record.dev and record.dev["support"] and not record.dev["f1"]:
        logger.warning(
            "The model finds none of the entities in the dev data: train longer (--epochs) or on more sentences, "
            "and check that both files have the same labels (lacuner inspect)."
        )
    if json:
        keys = ("precision", "recall", "f1", *(["pu_estimate"] if dev_incomplete else []))
        scores = record.dev and {key: record.dev[key] for key in keys}
        result: dict[str, Any] = {"dev": scores, "best_epoch": record.best_epoch, "epochs": len(record.history)}
        result |= {"seconds": record.seconds, "model": str(out)}
        print_json(result | ({} if choice is None else {"dictionary": choice.as_dict()}))
        return
    best = f" ({describe_dev(record.dev, resolved.training.metric)})" if record.dev else ""
    say(f"The model of epoch {record.best_epoch}{best} is in {out}, after {record.seconds:,.0f} seconds.")
    if choice is not None:
        say(_describe(choice, out, dictionary, label))


def _contents(corpus: Corpus) -> str:
    """How much there is, and of which labels: a misspelled one is seen before the training, not after it."""
    counts = Counter(entity.label for sentence in corpus for entity in sentence.entities)
    labels = ", ".join(f"{label} {count:,}" for label, count in counts.most_common(_SHOWN))
    more = f" and {len(counts) - _SHOWN} other labels" if len(counts) > _SHOWN else ""
    sizes = f"{number_of(len(corpus), 'sentence')}, {number_of(counts.total(), 'entity')}"
    return f"{sizes} ({labels}{more})" if counts else sizes


def _stream(
    paths: list[Path], data_format: str | None, strict: bool, split: Splitting, partial_labels: bool
) -> Iterator[Sentence]:
    """The sentences of files, one after the other; none of them is kept."""
    for path in paths:
        labels = frozenset(labels_of(stream_sentences(path, data_format, split=split))) if partial_labels else None
        report = ReadingReport(strict=strict)
        for sentence in stream_sentences(path, data_format, report, split=split):
            unsaid = labels is not None and sentence.annotated_labels is None
            yield replace(sentence, annotated_labels=labels) if unsaid else sentence
        report.log()


@contextmanager
def _explaining_interruption() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("Interrupted. Run the same command with --resume to continue after the last complete epoch.")
        raise


def _train_as_one_of_several(options: dict[str, Any]) -> None:
    """What each of the processes does that ``--processes`` starts."""
    set_up_logging()
    train(**options)


def _check_trusted(data: list[Path], trusted: list[Path]) -> None:
    """Refuse a file that is training data and trusted: its gaps would be no entities after all."""
    read = {path.resolve() for path in data if str(path) != STANDARD_INPUT}
    for path in trusted:
        if path.resolve() in read:
            raise ConfigError(
                f"{path} is given both as training data and as --trusted — give it once: as --trusted if it is complete"
            )


def _check_same_text(data: list[Path], same_text: bool, trust: list[str] | None) -> dict[str, float]:
    """The weights of sources; refuses options that make no sense without each other."""
    if trust and not same_text:
        raise ConfigError("--trust applies to several annotations of the same text — give these with --same-text")
    if same_text and len(data) < 2:
        raise ConfigError("--same-text needs two or more files, each with the labels of one source")
    return parse_trust(trust)


def _warn_of_label_sets(corpora: Sequence[Corpus]) -> None:
    """Annotations of one text by several sources contradict each other as training data, unless they are merged."""
    shared, different = count_shared(corpora)
    if shared and shared >= _MIN_SHARED * min(map(len, corpora)):
        remark = (
            f"{different:,} of them with different labels: if these are annotations of the same text by several sources, "
            "give --same-text."
            if different
            else "always with the same labels: each is learned as often as it is there. Is a file given twice?"
        )
        logger.warning(
            "%s in several of the training files, %s",
            "1 sentence is" if shared == 1 else f"{shared:,} sentences are",
            remark,
        )


def _compare_with_dictionary(model: "Recognizer", dev: Corpus, names: "Dictionary") -> "DictionaryChoice | None":
    """What the list that the labels come from reaches on dev data, alone and with the model; None if there is no list."""
    from lacuner.evaluation.comparison import choose_dictionary_use

    if not names.entries:
        return None
    nested = model.settings.training.nested
    return choose_dictionary_use(names, list(model.predict_pairs(dev, nested)), nested)


def _describe(choice: "DictionaryChoice", model: Path, dictionary: Path | None, label: str | None) -> str:
    """One sentence, and the command that reaches the best of it."""
    compared = choice.scores
    model_f1, list_f1, both_f1 = (100 * scores.f1 for scores in (compared.model, compared.dictionary, compared.both))
    about = [] if dictionary else [f"{choice.names:,} names found in the training data"]
    about += ["case ignored"] if choice.alone_ignores_case else []
    listed = f"dictionary alone ({', '.join(about)})" if about else "dictionary alone"
    text = f"F1 on the dev data: model {model_f1:.2f}, {listed} {list_f1:.2f}, both {both_f1:.2f}."
    if both_f1 <= max(model_f1, list_f1):
        return text
    options = [f"--dictionary {dictionary or 'NAMES.tsv'}", *([] if label is None else [f"--label {label}"])]
    options += ["--ignore-case"] if choice.ignore_case else []
    options += [f"--min-score {choice.min_score:g}"] if choice.min_score else []
    return f"{text} Both together: lacuner predict {model} INPUT {' '.join(options)}"
