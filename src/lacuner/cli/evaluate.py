"""``lacuner evaluate``."""

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from lacuner.cli.console import print_json, say, track
from lacuner.cli.help import OUTPUT
from lacuner.cli.options import DataFormat, Device, Json, MinScore, ModelPath, Strict
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.files import refuse_overwriting


def evaluate(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Completely annotated data.", show_default=False)],
    errors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every error as JSON Lines: missed and spurious entities, wrong labels, wrong boundaries.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    nested: Annotated[
        bool,
        typer.Option("--nested", help="Also predict entities that overlap more probable ones.", rich_help_panel=OUTPUT),
    ] = False,
    min_score: MinScore = 0.0,
    device: Device = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Score a model: exact-match precision, recall and F1, as conlleval counts them.

    Example: `lacuner evaluate model test.conll --errors errors.jsonl`
    """
    from lacuner.evaluation import score_entities
    from lacuner.evaluation.mistakes import find_mistakes
    from lacuner.recognizer import Recognizer

    if errors is not None:
        refuse_overwriting(errors, {"the data": [data], "a file of the model": [model]}, "--errors")
    recognizer = Recognizer.from_pretrained(model, device)
    corpus = Corpus.read(data, data_format, strict, recognizer.split)
    for label in sorted(set(corpus.labels) - set(recognizer.labels)):
        say(f"warning: The model does not know the label {label}; all its entities count as missed.")

    pairs = list(track(recognizer.predict_pairs(corpus, nested, min_score), "sentences", len(corpus)))
    scores = score_entities(pairs)
    if errors:
        with open_for_writing(errors) as file:
            mistakes = list(find_mistakes(pairs))
            file.writelines(dumps(mistake, ensure_ascii=False) + "\n" for mistake in mistakes)
        say(f"{len(mistakes):,} mistakes are listed in {errors}.")
    if json:
        print_json(scores.as_dict())
    else:
        print(scores.table())
