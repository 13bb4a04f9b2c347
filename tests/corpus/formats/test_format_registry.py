"""Formats of ours, and one that somebody else publishes as a package."""

import json
from pathlib import Path

import pytest

from installing import install, lacuner
from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.formats import registry
from lacuner.corpus.formats.format import Format
from lacuner.corpus.formats.registry import all_formats, format_of, get_format, guess_format
from lacuner.errors import DataError

GROUP = "lacuner.formats"
PLUGIN = '''
"""Sentences as word/LABEL pairs, one sentence a line."""

from lacuner.corpus.formats.format import Format
from lacuner.corpus.sentence import Entity, Sentence


def read(path, report, options):
    for line in open(path, encoding="utf-8"):
        pairs = [pair.rpartition("/") for pair in line.split()]
        entities = [Entity(i, i + 1, label) for i, (_, _, label) in enumerate(pairs) if label != "O"]
        yield Sentence(tuple(word for word, _, _ in pairs), tuple(entities))


def write(sentences, file, options):
    for sentence in sentences:
        labels = {entity.start: entity.label for entity in sentence.entities}
        file.write(" ".join(f"{word}/{labels.get(i, 'O')}" for i, word in enumerate(sentence.tokens)) + "\\n")


FORMATS = [Format("slashes", (".slashes",), read, write, cannot_hold=frozenset({"complete"}))]
'''


def test_a_format_of_a_package_is_read_and_written_by_its_ending_or_name(tmp_path: Path) -> None:
    packages = install(tmp_path / "installed", "slash_format", PLUGIN, GROUP)
    (tmp_path / "gold.slashes").write_text("Ada/PER left/O\nTurin/LOC\n")
    done = lacuner("inspect", tmp_path / "gold.slashes", "--json", packages=packages)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"] == {"LOC": 1, "PER": 1}
    (tmp_path / "gold").write_text("Ada/PER left/O\nTurin/LOC\n")
    masked = tmp_path / "masked.slashes"
    done = lacuner(
        "mask", tmp_path / "gold", "--format", "slashes", "--probability", 1, "--out", masked, packages=packages
    )
    assert done.returncode == 0, done.stderr
    assert masked.read_text() == "Ada/O left/O\nTurin/O\n"


def test_it_is_written_by_several_processes_and_what_it_cannot_hold_is_said(tmp_path: Path) -> None:
    packages = install(tmp_path / "installed", "slash_format", PLUGIN, GROUP)
    (tmp_path / "texts.jsonl").write_text('{"text": "Ada left"}\n{"tokens": ["Bo"], "complete": true}\n')
    (tmp_path / "names.tsv").write_text("Ada\tPER\n")
    out = tmp_path / "out.slashes"
    done = lacuner(
        "annotate", tmp_path / "texts.jsonl", "--dictionary", tmp_path / "names.tsv", "--out", out, "--workers", 2,
        packages=packages,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "Ada/PER left/O\nBo/O\n"
    assert "out.slashes does not hold that a sentence is complete, of 1 sentences: its format cannot." in done.stderr


BROKEN = {
    "an import that fails": ("import a_package_that_nobody_has", "a_package_that_nobody_has"),
    "a name that is taken": (PLUGIN.replace('"slashes"', '"jsonl"'), "two formats are called 'jsonl'"),
    "an ending that is taken": (PLUGIN.replace('".slashes"', '".conll"'), "both have the ending '.conll'"),
    "something else in the list": ("FORMATS = ['slashes']", "'slashes' in FORMATS is no Format"),
}


@pytest.mark.parametrize(("code", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_reported_where_it_might_be_needed(code: str, reason: str, tmp_path: Path) -> None:
    packages = install(tmp_path / "installed", "broken_format", code, GROUP)
    done = lacuner("inspect", tmp_path / "gold.slashes", packages=packages)
    assert done.returncode == 1
    assert "broken_format" in done.stderr
    assert reason in " ".join(done.stderr.split())
    (tmp_path / "gold.conll").write_text("Ada\tB-PER\n")
    done = lacuner("inspect", tmp_path / "gold.conll", packages=packages)
    assert (done.returncode, done.stderr) == (0, "")


def test_ours_are_there() -> None:
    assert {"argilla", "conll", "doccano", "jsonl", "label_studio", "prodigy"} <= all_formats().keys()
    assert get_format("conll").read is not None


@pytest.mark.parametrize("name", ["argilla", "label_studio"])
def test_a_format_that_can_only_be_written_says_so(name: str, tmp_path: Path) -> None:
    Corpus([Sentence(("Ada",), (Entity(0, 1, "PER"),))]).write(tmp_path / "a.json", name)
    with pytest.raises(DataError) as raised:
        Corpus.read(tmp_path / "a.json", name)
    assert f"the format {name} can be written, but not read — choose conll, doccano, jsonl or prodigy" in str(
        raised.value
    )


def test_a_format_that_can_only_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"pages": Format("pages"), "jsonl": get_format("jsonl")}
    monkeypatch.setattr(registry, "_own", lambda: own)
    with pytest.raises(DataError, match=r"the format pages can be read, but not written — choose .*jsonl"):
        Corpus([]).write(tmp_path / "a.json", "pages")


def test_what_a_format_cannot_hold_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.json"
    one = Sentence(("New York",), (Entity(0, 1, "LOC", source="human"),), complete=True)
    Corpus([one, Sentence(("Ada",), complete=True)]).write(path, "label_studio")
    assert caplog.messages == [
        f"{path} does not hold where words begin and end, of 1 sentences: its format cannot.",
        f"{path} does not hold that a sentence is complete, of 2 sentences: its format cannot.",
        f"{path} does not hold sources of entities, of 1 sentences: its format cannot.",
    ]
    caplog.clear()
    Corpus([one]).write(path, "jsonl")
    assert not caplog.messages


def test_the_longest_ending_tells_and_a_name_is_no_ending() -> None:
    assert guess_format("a.json.gz") is get_format("jsonl")
    assert guess_format(".jsonl") is None
    assert guess_format("data.xml") is None


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(DataError, match="there is no format 'xml' — choose argilla, conll, doccano, jsonl, "):
        format_of("a.conll", "xml")
