"""``lacuner export``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lacuner.cli.console import print_json, say
from lacuner.cli.help import DATA
from lacuner.cli.options import DataFormat, Json, ModelPath, Strict
from lacuner.corpus import Corpus
from lacuner.corpus.files import refuse_overwriting


def export(
    model: ModelPath,
    check: Annotated[
        Path,
        typer.Option(
            metavar="DEV",
            help="Annotated data for checking that F1 does not drop.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Output folder for the model.", show_default=False)
    ],
    backend: Annotated[
        Literal["onnx", "onnx-int8"],
        typer.Option(metavar="NAME", help="Backend that runs the encoder: `onnx` (float32) or `onnx-int8`."),
    ] = "onnx-int8",
    allow_loss: Annotated[float, typer.Option(min=0, help="Maximum loss of F1, in points.")] = 0.2,
    nested: Annotated[
        bool, typer.Option("--nested", help="Also count entities that overlap higher-scoring ones.")
    ] = False,
    data_format: DataFormat = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Export a model to ONNX for faster inference on CPUs, and check that F1 does not drop.

    Requires a Hugging Face encoder and `pip install onnx onnxscript onnxruntime`. The output is a regular model folder:
    `predict`, `evaluate` and Python load it like any other. It cannot be trained further.

    Example: `lacuner export model --check dev.conll --out fast`
    """
    from lacuner.inference.backends import check_convertible
    from lacuner.recognizer import Recognizer

    refuse_overwriting(out, {"the model itself": [model], "the data": [check]})
    recognizer = Recognizer.from_pretrained(str(model), "cpu")
    check_convertible(recognizer.model)
    corpus = Corpus.read(check, data_format, strict, recognizer.split)
    say(f"Exporting to {backend}; this takes a minute.")
    report = recognizer.export(out, corpus, backend, allow_loss=allow_loss, nested=nested)
    if not report.before.f1:
        say(f"warning: F1 on {check} is 0 before the export, so it cannot show what the export costs.")
    if json:
        print_json(report.as_dict() | {"out": str(out)})
    else:
        print(report)
        say(f"Written: {out}")
