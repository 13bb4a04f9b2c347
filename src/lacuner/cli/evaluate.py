"""``lacuner evaluate``."""

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.console import print_json, say, track
from lacuner.cli.help import OUTPUT
from lacuner.cli.options import (
    DataFormat,
    Device,
    DictionaryFile,
    IgnoreCase,
    Json,
    MinScore,
    NamesLabel,
    Strict,
    read_dictionary,
    refuse_mixing,
)
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.files import STANDARD_INPUT, refuse_overwriting
from lacuner.errors import ConfigError
from lacuner.storage import try_writing

if TYPE_CHECKING:
    from lacuner.evaluation import Scores
    from lacuner.evaluation.comparison import DictionaryComparison, Pairs


def evaluate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder of a trained model, or its name on the Hugging Face hub. To evaluate only a "
            "--dictionary, omit the model.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="Completely annotated data.", show_default=False)
    ] = None,
    errors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all errors to this file as JSON Lines: missed and spurious entities, wrong labels, "
            "and wrong boundaries.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    nested: Annotated[
        bool,
        typer.Option(
            "--nested", help="Also predict entities that overlap higher-scoring ones.", rich_help_panel=OUTPUT
        ),
    ] = False,
    min_score: MinScore = 0.0,
    dictionary: DictionaryFile = None,
    label: NamesLabel = None,
    ignore_case: IgnoreCase = False,
    device: Device = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Evaluate a model: exact-match precision, recall and F1, as computed by conlleval.

    With --dictionary, evaluates the model alone, the dictionary alone, and both together; without MODEL, the dictionary only.

    Example: `lacuner evaluate model test.conll --errors errors.jsonl`
    """
    from lacuner.evaluation import score_entities
    from lacuner.evaluation.comparison import combine_pairs, compare_with_dictionary, match_corpus
    from lacuner.recognizer import Recognizer

    folder, file = (None, model) if data is None else (model, data)
    if folder is None and (dictionary is None or file.is_dir()):
        raise ConfigError("DATA is missing — give the model and the data: lacuner evaluate MODEL DATA")
    if errors is not None:
        refuse_mixing(errors, json, "--errors")
        read = {"the data": file, "a file of the model": folder, "the dictionary": dictionary}
        refuse_overwriting(errors, {what: [path] for what, path in read.items()}, "--errors")
        if str(errors) != STANDARD_INPUT:
            try_writing(errors)
    names = read_dictionary(dictionary, ignore_case, strict, label)
    recognizer = None if folder is None else Recognizer.from_pretrained(str(folder), device)
    corpus = Corpus.read(file, data_format, strict, "words" if recognizer is None else recognizer.split)
    listed = () if names is None else names.labels
    if not corpus.labels:
        say(f"warning: No entity is annotated in {file}, so there is nothing to find: recall and F1 say nothing.")
    elif recognizer is not None:
        for unknown in sorted(set(corpus.labels) - set(recognizer.labels)):
            missed = (
                "only the dictionary finds its entities" if unknown in listed else "all its entities count as missed"
            )
            say(f"warning: The model does not know the label {unknown}; {missed}.")
    for unused in sorted(set(listed) - set(corpus.labels)):
        say(f"warning: The label {unused} of the dictionary is not in the data; all its matches count as wrong.")

    matches = match_corpus(names, corpus, ignore_case) if names else None
    if recognizer is None:
        assert matches is not None
        pairs: Pairs = list(zip(corpus, matches, strict=True))
    else:
        pairs = list(track(recognizer.predict_pairs(corpus, nested, min_score), "sentences", len(corpus)))
    scores: Scores | DictionaryComparison = score_entities(pairs)
    if recognizer is not None and matches is not None:
        scores = compare_with_dictionary(pairs, matches, nested)
        pairs = combine_pairs(pairs, matches, nested)
        if min_score:
            say(f"--min-score {min_score:g} also applies to the model alone.")
    if errors:
        _write_mistakes(errors, pairs)
    if json:
        print_json(scores.as_dict())
    else:
        print(scores.table())


def _write_mistakes(path: Path, pairs: "Pairs") -> None:
    from lacuner.evaluation.mistakes import find_mistakes

    with open_for_writing(path) as file:
        mistakes = list(find_mistakes(pairs))
        file.writelines(dumps(mistake, ensure_ascii=False) + "\n" for mistake in mistakes)
    say(f"{len(mistakes):,} mistakes are listed in {path}.")
