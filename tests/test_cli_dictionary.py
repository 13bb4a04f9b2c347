"""A list of names beside a model: ``predict``, ``evaluate`` and ``train`` with ``--dictionary``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lacuner import Corpus, Entity, Sentence
from lacuner.matching import Dictionary, Matcher
from lacuner.matching.annotation import annotate_sentences

QUICK = [
    "--method", "full", "--set", "encoder.vectors=none", "--set", "encoder.hidden=16", "--set", "training.batch_tokens=64",
    "--set", "training.encoder_learning_rate=0.01", "--set", "training.head_learning_rate=0.01", "--set", "head=product",
]  # fmt: skip


@pytest.fixture
def folder(files: Path) -> Path:
    (files / "names.tsv").write_text("Ada\tPER\nZürich\tLOC\nYork\tLOC\n", encoding="utf-8")
    (files / "raw.txt").write_text("ADA left Zürich .\nKurt moved to New York .\n", encoding="utf-8")
    return files


def found_in(output: str) -> list[list[tuple[str, str]]]:
    records = map(json.loads, output.splitlines())
    return [[(e["text"], e["source"]) for e in record["entities"]] for record in records]


def test_predict_finds_names_of_the_list_and_entities_of_the_model(run, folder, model_folder):
    arguments = ["predict", model_folder, folder / "raw.txt", "--dictionary", folder / "names.tsv"]
    code, output, log = run(*arguments, "--min-score", "0.5")
    assert code == 0
    first, second = found_in(output)
    assert ("Zürich", "dictionary") in first
    assert second == [("Kurt", "model"), ("New York", "model")]
    assert "1 of them from the dictionary" in log
    _, output, log = run(*arguments, "--ignore-case")
    assert {("ADA", "dictionary"), ("Zürich", "dictionary")} <= {*found_in(output)[0]}
    assert "2 of them from the dictionary" in log


def test_columns_hold_names_of_the_list_too(run, folder, model_folder):
    arguments = [folder / "raw.txt", "-d", folder / "names.tsv", "--out", folder / "out.conll"]
    assert run("predict", model_folder, *arguments)[0] == 0
    assert Entity(2, 3, "LOC") in Corpus.read(folder / "out.conll")[0].entities


def test_several_processes_find_the_names_that_one_finds(folder, model_folder):
    (folder / "many.txt").write_text("Kurt left Zürich for New York .\n" * 1500, encoding="utf-8")
    command = [sys.executable, "-m", "lacuner", "predict", str(model_folder), "many.txt", "-d", "names.tsv"]
    outputs = [
        subprocess.run(
            [*command, "--workers", workers],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for workers in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count("Zürich".encode()) >= 3000


def test_evaluate_scores_the_model_the_list_and_both(run, folder, model_folder):
    gold = Corpus([Sentence(("Ada", "left", "Zürich"), (Entity(0, 1, "PER"), Entity(2, 3, "LOC")))])
    gold.write(folder / "gold.jsonl")
    arguments = ["evaluate", model_folder, folder / "gold.jsonl", "--min-score", "0.5"]
    alone = json.loads(run(*arguments, "--json")[1])
    arguments += ["--dictionary", folder / "names.tsv"]
    scores = json.loads(run(*arguments, "--json")[1])
    assert scores["model"] == alone
    assert scores["dictionary"]["recall"] == scores["recall"] == 1.0
    assert {"precision", "recall", "f1", "support", "labels"} <= scores.keys()
    assert scores["labels"]["LOC"].keys() == {"precision", "recall", "f1", "support"}
    _, output, log = run(*arguments)
    assert [line.split()[0] for line in output.splitlines()[1:4]] == ["model", "dictionary", "both"]
    assert "--min-score 0.5 also applies to the model alone" in log


def test_errors_are_those_of_both_together(run, folder, model_folder):
    Corpus([Sentence(("nobody", "left", "Zürich"), (Entity(2, 3, "LOC"),))]).write(folder / "gold.jsonl")
    arguments = ["evaluate", model_folder, folder / "gold.jsonl", "--errors", folder / "errors.jsonl"]
    run(*arguments, "-d", folder / "names.tsv", "--min-score", "1")
    assert (folder / "errors.jsonl").read_text() == ""
    run(*arguments, "--min-score", "1")
    assert "missed" in (folder / "errors.jsonl").read_text()


def test_a_list_is_scored_without_a_model(run, folder):
    Corpus([Sentence(("ADA", "left", "Zürich"), (Entity(0, 1, "PER"), Entity(2, 3, "LOC")))]).write(
        folder / "gold.jsonl"
    )
    arguments = ["evaluate", folder / "gold.jsonl", "--dictionary", folder / "names.tsv", "--json"]
    assert json.loads(run(*arguments)[1])["recall"] == 0.5
    scores = json.loads(run(*arguments, "--ignore-case")[1])
    assert scores["recall"] == 1.0
    assert "model" not in scores


@pytest.mark.parametrize("names", [[], ["--dictionary", "names.tsv"]])
def test_evaluate_needs_data(run, folder, model_folder, monkeypatch, names):
    monkeypatch.chdir(folder)
    code, _, log = run("evaluate", model_folder, *names)
    assert (code, "DATA is missing" in log) == (2, True)


def test_labels_that_only_one_of_the_two_knows_are_said(run, folder, model_folder):
    (folder / "names.tsv").write_text("Acme\tORG\nZürich\tPLACE\n", encoding="utf-8")
    Corpus([Sentence(("Acme", "sleeps"), (Entity(0, 1, "ORG"),))]).write(folder / "gold.jsonl")
    _, output, log = run("evaluate", model_folder, folder / "gold.jsonl", "-d", folder / "names.tsv", "--json")
    assert "The model does not know the label ORG; only the dictionary finds its entities." in log
    assert "The label PLACE of the dictionary is not in the data" in log
    assert json.loads(output)["recall"] == 1.0


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_case_cannot_be_ignored_without_a_list_nor_a_list_be_empty(run, folder, model_folder, verb):
    code, _, log = run(verb, model_folder, folder / "train.conll", "--ignore-case")
    assert (code, "--dictionary" in log) == (2, True)
    (folder / "names.tsv").write_text("\n", encoding="utf-8")
    code, _, log = run(verb, model_folder, folder / "train.conll", "-d", folder / "names.tsv")
    assert (code, "the list contains no name" in log) == (1, True)


def test_the_list_is_not_overwritten(run, folder, model_folder):
    names = folder / "names.tsv"
    before = names.read_bytes()
    assert run("predict", model_folder, folder / "raw.txt", "-d", names, "--out", names, "--format", "jsonl")[0] != 0
    assert run("evaluate", model_folder, folder / "train.conll", "-d", names, "--errors", names)[0] != 0
    assert names.read_bytes() == before


@pytest.fixture
def distant(folder: Path, toy: Corpus) -> Path:
    """Training data that a list has annotated."""
    names = Dictionary.of([("Ada", "PER"), ("Turin", "LOC"), ("Oslo", "LOC")])
    bare = [Sentence(sentence.tokens) for sentence in toy]
    Corpus(tuple(annotate_sentences(Matcher(names), bare)[0])).write(folder / "distant.jsonl")
    return folder


def train(run, folder: Path, data: str, *options: object):
    return run("train", folder / data, "--out", folder / "model", "--epochs", 1, *QUICK, *options)


def test_training_on_labels_of_a_list_says_what_the_list_reaches(run, distant, toy):
    code, output, log = train(run, distant, "distant.jsonl", "--dev", distant / "dev.jsonl", "--json")
    assert code == 0, log
    report = json.loads(output)
    assert report.keys() == {"dev", "best_epoch", "epochs", "seconds", "model", "dictionary"}
    found = report["dictionary"]
    assert found["names"] == 3
    assert found["model"] == report["dev"]
    assert found["dictionary"]["recall"] == (5 + 5 + 5) / 50
    assert found["both"]["f1"] >= found["dictionary"]["f1"]
    _, _, log = train(run, distant, "distant.jsonl", "--dev", distant / "dev.jsonl")
    assert "dictionary alone (3 names found in the training data) 46.15" in log


def test_the_command_with_which_both_are_best_is_shown(run, folder, toy):
    """A model that knows the places only, and a list that knows the persons, in another case."""
    Corpus(tuple(Sentence(s.tokens, s.entities[1:]) for s in toy)).write(folder / "places.conll")
    people = ("ADA", "grace hopper", "ALAN", "Emmy Noether", "kurt")
    (folder / "names.tsv").write_text("".join(f"{name}\tPER\n" for name in people))
    arguments = ["--dev", folder / "dev.jsonl", "--dictionary", folder / "names.tsv", "--epochs", 30]
    _, _, log = train(run, folder, "places.conll", *arguments)
    assert "F1 on the dev data: model " in log
    assert "dictionary alone (case ignored) 66.67, both " in log
    command = f"lacuner predict {folder / 'model'} INPUT --dictionary {folder / 'names.tsv'} --ignore-case"
    assert f"Both together: {command}" in log


def test_other_training_data_says_nothing_about_lists(run, distant):
    code, output, log = train(run, distant, "train.conll", "--dev", distant / "dev.jsonl", "--json")
    assert (code, "dictionary" in json.loads(output), "dictionary" in log) == (0, False, False)
    for options in ([], ["--dev", distant / "dev.jsonl", "--dev-incomplete"]):
        code, output, _ = train(run, distant, "distant.jsonl", *options, "--json")
        assert (code, "dictionary" in json.loads(output)) == (0, False)


def test_a_list_that_cannot_be_compared_is_said(run, distant):
    _, _, log = train(run, distant, "distant.jsonl", "--dictionary", distant / "names.tsv")
    assert "--dictionary has no effect" in log
