"""Formats of ours, and one that somebody else publishes as a package."""

import gzip
import json
from pathlib import Path

import pytest

from installing import install, lacuner
from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.corpus import write_sentences
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
    assert "out.slashes: the format cannot store that a sentence is complete (lost in 1 sentences)." in done.stderr


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
    assert {"argilla", "conll", "doccano", "gliner", "jsonl", "label_studio", "prodigy"} <= all_formats().keys()
    assert get_format("conll").read is not None


def test_a_format_that_can_only_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"pages": Format("pages", write=lambda *_: None), "jsonl": get_format("jsonl")}
    monkeypatch.setattr(registry, "_own", lambda: own)
    with pytest.raises(DataError, match=r"the format pages can be written, but not read — choose .*jsonl"):
        Corpus.read(tmp_path / "a.json", "pages")


def test_a_format_that_can_only_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"pages": Format("pages"), "jsonl": get_format("jsonl")}
    monkeypatch.setattr(registry, "_own", lambda: own)
    with pytest.raises(DataError, match=r"the format pages can be read, but not written — choose .*jsonl"):
        Corpus([]).write(tmp_path / "a.json", "pages")


def test_what_a_format_cannot_hold_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.json"
    one = Sentence(("New York",), (Entity(0, 1, "LOC", source="human"),), complete=True)
    Corpus([one, Sentence(("Ada",), unknown_tokens={0})]).write(path, "doccano")
    assert caplog.messages == [
        f"{path}: the format cannot store where words begin and end (lost in 1 sentences).",
        f"{path}: the format cannot store sources of entities (lost in 1 sentences).",
        f"{path}: the format cannot store unknown words (lost in 1 sentences).",
    ]
    caplog.clear()
    Corpus([one]).write(path, "jsonl")
    assert not caplog.messages


def test_the_longest_ending_tells_and_a_name_is_no_ending() -> None:
    assert guess_format("a.json.gz") is get_format("jsonl")
    assert guess_format(".jsonl") is None
    assert guess_format("data.html") is None


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        DataError, match="there is no format 'xml' — choose answers, argilla, bioc, brat, conll, conllu, "
    ):
        format_of("a.conll", "xml")


def _write_bytes(sentences, file, options):
    file.write(b"\xff\x00")
    file.writelines(" ".join(sentence.tokens).encode("utf-16-le") for sentence in sentences)


def _write_files(sentences, folder, options):
    for number, sentence in enumerate(sentences):
        (folder / f"{number}.words").write_text(" ".join(sentence.tokens))


def _read_files(path, report, options):
    for file in sorted(Path(path).glob("*.words")):
        yield Sentence(tuple(file.read_text().split()))


@pytest.fixture
def other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {
        "jsonl": get_format("jsonl"),
        "bytes": Format("bytes", (".bytes",), write_binary=_write_bytes, cannot_hold=frozenset({"complete"})),
        "files": Format("files", read=_read_files, write_folder=_write_files, folder_files=("*.words",)),
    }
    monkeypatch.setattr(registry, "_own", lambda: own)
    monkeypatch.setattr(registry, "_installed", lambda: own)


WORDS = Corpus([Sentence(("Ada", "left"), complete=True), Sentence(("Turin",))])


@pytest.mark.usefixtures("other_kinds")
def test_a_binary_format_writes_bytes_that_may_be_packed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    WORDS.write(tmp_path / "a.bytes")
    WORDS.write(tmp_path / "a.bytes.gz")
    wanted = b"\xff\x00" + "Ada leftTurin".encode("utf-16-le")
    assert (tmp_path / "a.bytes").read_bytes() == wanted
    assert gzip.decompress((tmp_path / "a.bytes.gz").read_bytes()) == wanted
    assert "the format cannot store that a sentence is complete (lost in 1 sentences)" in caplog.text


@pytest.mark.usefixtures("other_kinds")
def test_a_binary_format_is_written_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    WORDS.write("-", "bytes")
    assert capfdbinary.readouterr().out.startswith(b"\xff\x00A")


@pytest.mark.usefixtures("other_kinds")
def test_a_folder_is_read_and_written_and_known_by_its_files(tmp_path: Path) -> None:
    WORDS.write(tmp_path / "new", "files")
    assert [sentence.tokens for sentence in Corpus.read(tmp_path / "new")] == [("Ada", "left"), ("Turin",)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


@pytest.mark.usefixtures("other_kinds")
def test_a_folder_with_something_in_it_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    WORDS.write(tmp_path / "mine", "files")
    (tmp_path / "mine" / "0.words").write_text("mine")
    with pytest.raises(DataError, match="mine: it already exists and would be overwritten — give a new name"):
        WORDS.write(tmp_path / "mine", "files")
    assert (tmp_path / "mine" / "0.words").read_text() == "mine"
    with pytest.raises(DataError, match="standard output"):
        WORDS.write("-", "files")
    with pytest.raises(DataError, match="none: the folder does not exist — create it first"):
        WORDS.write(tmp_path / "none" / "new", "files")


@pytest.mark.usefixtures("other_kinds")
def test_a_folder_that_could_not_be_filled_is_not_there(tmp_path: Path) -> None:
    def sentences():
        yield WORDS[0]
        raise DataError("no more", "stop")

    with pytest.raises(DataError, match="no more"):
        write_sentences(sentences(), tmp_path / "new", "files")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("other_kinds")
def test_a_folder_that_tells_nothing_is_refused_with_what_would_tell(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing in the folder tells the format — give .* one of: \*\.words"):
        Corpus.read(tmp_path)


@pytest.mark.usefixtures("other_kinds")
def test_what_is_no_text_is_not_written_piece_by_piece() -> None:
    with pytest.raises(DataError, match="the format bytes cannot be written incrementally"):
        registry.writer_of("a.bytes")
    assert not get_format("bytes").line_based
    with pytest.raises(ValueError, match="more than one writer"):
        Format("both", write=lambda *_: None, write_binary=lambda *_: None)
