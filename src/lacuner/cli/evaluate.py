"""``lacuner evaluate``."""

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from lacuner.cli.console import print_json, say, track
from lacuner.cli.options import DataFormat, Device, Json, ModelPath, Strict
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.files import refuse_overwriting


def evaluate(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Annotated data.", show_default=False)],
    errors: Annotated[
        Path | None,
        typer.Option(
            help="Write each missed, spurious, wrong-label and wrong-boundary entity as JSON Lines.", show_default=False
        ),
    ] = None,
    nested: Annotated[
        bool, typer.Option("--nested", help="Score entities that overlap better ones, too, for nested annotation.")
    ] = False,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Leave out less probable entities.")] = 0.0,
    device: Device = None,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Exact-match precision, recall and F1, as conlleval counts them.

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
