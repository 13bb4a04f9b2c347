"""The built-in sample: English sentences written for Lacuner (news, business, sport, science, travel), completely labeled."""

from importlib.resources import as_file, files
from typing import Literal

from lacuner.corpus import Corpus

Split = Literal["train", "dev", "test"]


def read_sample(split: Split) -> Corpus:
    """One part of the sample, with the labels PER, LOC, ORG and MISC."""
    with as_file(files(__name__) / f"{split}.conll") as path:
        return Corpus.read(path)


def read_names() -> list[tuple[str, str]]:
    """A list of names and their labels that covers only part of the training sentences' entities."""
    text = (files(__name__) / "names.tsv").read_text(encoding="utf-8")
    return [(name, label) for name, _, label in (line.partition("\t") for line in text.splitlines())]
