"""``lacuner convert``, ``split`` and ``merge``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lacuner import Corpus, Sentence
from lacuner.cli import app
from lacuner.corpus import Entity
from lacuner.errors import ConfigError, DataError


def run(*arguments: object):
    return CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = []
    for number in range(60):
        lines += ["-DOCSTART-\tO", ""] if number % 3 == 0 else []
        lines += [f"Ada{number}\tB-PER", "left\tO", "Turin\tB-LOC" if number % 2 else "it\tO", ""]
    (tmp_path / "data.conll").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "data.conll"


def test_a_file_is_written_in_another_format_and_back(data: Path) -> None:
    result = run("convert", data, data.with_name("new.jsonl"))
    assert ": 60 sentences with 90 entities." in result.stderr
    run("convert", data.with_name("new.jsonl"), data.with_name("again.conll"))
    assert data.with_name("again.conll").read_text(encoding="utf-8") == data.read_text(encoding="utf-8")


def test_what_the_new_format_cannot_hold_is_said(tmp_path: Path) -> None:
    sentence = Sentence(("Ada", "left"), (Entity(0, 1, "PER", source="human"),), complete=True)
    Corpus((sentence,)).write(tmp_path / "a.jsonl")
    result = run("convert", tmp_path / "a.jsonl", tmp_path / "b.json", "--to", "spacy_tuples", "--json")
    assert json.loads(result.stdout)["losses"] == {"that a sentence is complete": 1, "sources of entities": 1}
    assert (tmp_path / "b.json").exists()


def test_formats_and_tags_can_be_chosen(data: Path) -> None:
    out = data.with_name("new")
    run("convert", data, out, "--to", "conll", "--scheme", "bioes", "--from", "conll")
    assert "Ada0\tS-PER\n" in out.read_text(encoding="utf-8")


def test_nothing_is_converted_over_its_own_input_or_out_of_nothing(data: Path) -> None:
    with pytest.raises(DataError, match="OUT would overwrite its own input"):
        run("convert", data, data)
    empty = data.with_name("empty.jsonl")
    empty.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"empty\.jsonl: it contains no sentences"):
        run("convert", empty, data.with_name("new.jsonl"))
    assert not data.with_name("new.jsonl").exists()
    with pytest.raises(DataError, match="the name does not tell the format"):
        run("convert", data, data.with_name("new.xyz"))


def test_documents_of_column_files_are_divided_and_written_as_they_were(data: Path) -> None:
    out = data.with_name("parts")
    result = run("split", data, "--dev", 0.1, "--test", 0.2, "--seed", 1, "--out", out)
    assert "20 documents, each in one part." in result.stderr
    parts = {name: (out / f"{name}.conll").read_text(encoding="utf-8") for name in ("train", "dev", "test")}
    assert {name: part.count("-DOCSTART-") for name, part in parts.items()} == {"train": 14, "dev": 2, "test": 4}
    lines = sorted(line for part in parts.values() for line in part.splitlines())
    assert lines == sorted(data.read_text(encoding="utf-8").splitlines())
    again = data.with_name("again")
    run("split", data, "--dev", 0.1, "--test", 0.2, "--seed", 1, "--out", again)
    assert {name: (again / f"{name}.conll").read_text(encoding="utf-8") for name in parts} == parts


def test_what_came_out_of_a_division_is_said(data: Path) -> None:
    out = data.with_name("parts")
    figures = json.loads(run("split", data, "--dev", 0.25, "--out", out, "--to", "jsonl", "--json").stdout)
    assert (figures["sentences"], figures["documents"], figures["cut_documents"]) == (60, 20, 0)
    assert {name: part["sentences"] for name, part in figures["parts"].items()} == {"train": 45, "dev": 15}
    assert figures["parts"]["dev"]["file"] == str(out / "dev.jsonl")
    assert len(Corpus.read(out / "dev.jsonl")) == 15
    with pytest.raises(DataError, match="it already exists"):
        run("split", data, "--dev", 0.25, "--out", out)
    with pytest.raises(ConfigError, match="--dev: a fraction lies between 0 and 1"):
        run("split", data, "--dev", 25, "--out", data.with_name("other"))
    assert not data.with_name("other").exists()


def test_annotations_of_the_same_text_become_one(tmp_path: Path) -> None:
    words = ("Ada", "left", "Turin")
    Corpus((Sentence(words, (Entity(0, 1, "PER"),)), Sentence(("x",)))).write(tmp_path / "persons.conll")
    places = (Entity(0, 1, "LOC"), Entity(2, 3, "LOC", source="human"))
    Corpus((Sentence(words, places),)).write(tmp_path / "places.jsonl")
    out = tmp_path / "both.jsonl"
    arguments = ["merge", tmp_path / "persons.conll", tmp_path / "places.jsonl", "--out", out, "--partial-labels"]
    result = run(*arguments)
    assert "warning: 1 spans have different labels" in result.stderr
    assert "warning: 1 of the 2 sentences are not in places." in result.stderr
    corpus = Corpus.read(out)
    assert {(e.label, e.start, e.source) for e in corpus[0].entities} == {
        ("PER", 0, "persons"),
        ("LOC", 0, "places"),
        ("LOC", 2, "human"),
    }
    assert [sentence.annotated_labels for sentence in corpus] == [{"PER", "LOC"}, {"PER"}]
    figures = json.loads(run(*arguments, "--json").stdout)
    assert (figures["sentences"], figures["entities"], figures["conflicts"]) == (2, 3, 1)
    assert figures["files"]["places"] == {"sentences": 1, "entities": 2, "missing": 1}


def test_a_merge_needs_several_files(data: Path) -> None:
    with pytest.raises(ConfigError, match="two or more files"):
        run("merge", data, "--out", data.with_name("new.conll"))
    with pytest.raises(ConfigError, match="is given twice"):
        run("merge", data, data, "--out", data.with_name("new.conll"))
    with pytest.raises(DataError, match="--out would overwrite an input"):
        run("merge", data, data, "--out", data)
