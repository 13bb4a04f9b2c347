"""Several label sets over the same text, on the command line."""

import json
from pathlib import Path

import pytest

from lacuner import Corpus, Recognizer
from lacuner.corpus import Entity, Sentence
from lacuner.errors import TrainingError


@pytest.fixture
def seen(monkeypatch) -> list[Corpus]:
    """The corpora that training would have begun with."""
    corpora: list[Corpus] = []

    def stop(corpus, *others):
        corpora.append(corpus)
        raise TrainingError("stopped")

    monkeypatch.setattr("lacuner.recognizer.prepare_passages", stop)
    return corpora


@pytest.fixture
def label_sets(tmp_path: Path) -> Path:
    (tmp_path / "dict.conll").write_text("Ada B-PER\nleft O\nNew B-LOC\nYork I-LOC\nTimes O\n\nx O\n")
    (tmp_path / "llm.conll").write_text("Ada B-PER\nleft O\nNew B-ORG\nYork I-ORG\nTimes I-ORG\n\nx O\n")
    return tmp_path


def test_sources_survive_to_training_with_or_without_a_merged_file(run, label_sets: Path, seen, monkeypatch) -> None:
    monkeypatch.chdir(label_sets)
    code, _, log = run("train", "dict.conll", "llm.conll", "--same-text", "--trust", "llm=2", "--out", "m")
    assert (code, "stopped" in log, "1 entities are outvoted" in log) == (1, True, True), log
    arguments = ["merge", "dict.conll", "llm.conll", "--trust", "llm=2", "--out", "both.jsonl", "--json"]
    code, out, log = run(*arguments)
    assert code == 0, log
    assert json.loads(out)["outvoted"] == 1
    run("train", "both.jsonl", "--out", "m")
    assert [s.entities for s in seen[0]] == [(Entity(0, 1, "PER"), Entity(2, 5, "ORG")), ()]
    assert [[said.source for said in s.by_source] for s in seen[0]] == [["dict", "llm"]] * 2
    assert list(seen[1]) == list(seen[0])


def test_a_file_whose_entities_name_their_sources_needs_no_option(run, tmp_path: Path, seen) -> None:
    said = [
        {"start": 0, "end": 1, "label": "PER", "source": "dict"},
        {"start": 1, "end": 2, "label": "X", "source": "llm"},
    ]
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": ["Ada", "left"], "entities": said}) + "\n")
    run("train", tmp_path / "a.jsonl", "--out", tmp_path / "m")
    assert [each.source for each in seen[0][0].by_source] == ["dict", "llm"]


def test_python_takes_label_sets_by_name(seen) -> None:
    one, other = Sentence(("Ada",), (Entity(0, 1, "PER"),)), Sentence(("Ada",))
    with pytest.raises(TrainingError, match="stopped"):
        Recognizer.train({"dict": [one], "llm": [other]}, same_text=True)
    with pytest.raises(TrainingError, match="stopped"):
        Recognizer.train([Corpus([one]), Corpus([other])], same_text=True, trust={"source 1": 2})
    assert [[said.source for said in corpus[0].by_source] for corpus in seen] == [
        ["dict", "llm"],
        ["source 1", "source 2"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "dict.conll", "--same-text", "--out", "m"], "--same-text needs two or more files"),
        (["train", "dict.conll", "--trust", "dict=2", "--out", "m"], "--trust applies to several annotations"),
        (["train", "dict.conll", "llm.conll", "--same-text", "--trust", "dict", "--out", "m"], "write SOURCE=NUMBER"),
        (["merge", "dict.conll", "llm.conll", "--trust", "x=2", "--out", "m.jsonl"], "choose one of: dict, llm"),
        (["merge", "dict.conll", "dict.conll", "--out", "m.jsonl"], "dict.conll is given twice"),
    ],
)
def test_options_that_make_no_sense_are_refused(run, label_sets: Path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(label_sets)
    code, _, log = run(*arguments)
    assert (code, message in log) == (2, True), log


@pytest.mark.parametrize("apart", [True, False])
def test_inspect_shows_who_agrees_with_whom_and_with_gold(run, label_sets: Path, apart, monkeypatch) -> None:
    monkeypatch.chdir(label_sets)
    run("merge", "dict.conll", "llm.conll", "--out", "both.jsonl")
    if not apart:
        entities = [[0, 1, "PER", "dict+llm"], [2, 4, "LOC", "dict"], [2, 5, "ORG", "llm"]]
        named = [dict(zip(("start", "end", "label", "source"), entity, strict=True)) for entity in entities]
        words = {"tokens": ["Ada", "left", "New", "York", "Times"], "entities": named}
        Path("both.jsonl").write_text(json.dumps(words) + "\n" + '{"tokens": ["x"], "entities": []}\n')
    code, out, log = run("inspect", "both.jsonl", "--gold", "dict.conll", "--json")
    assert code == 0, log
    agreement = json.loads(out)["agreement"]
    (pair,) = agreement["pairs"]
    assert (pair["sources"], pair["sentences"], pair["common"], pair["f1"]) == (["dict", "llm"], 2, 1, 0.5)
    assert pair["boundaries"][0]["example"] == ["New York", "New York Times"]
    assert [agreement["gold"][source]["f1"] for source in ("dict", "llm")] == [1.0, 0.5]
    code, out, _ = run("inspect", "both.jsonl", "--gold", "dict.conll")
    assert "dict / llm: 2 sentences, 2 and 2 entities, 1 in common, F1 0.50" in out
    assert "each source against gold" in out


def test_a_reviewer_is_compared_with_gold_and_not_with_what_was_corrected(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    reviewed = [{"start": 0, "end": 1, "label": "PER", "source": "reviewer"}, {"start": 2, "end": 3, "label": "LOC"}]
    record = {"tokens": ["Ada", "left", "Turin"], "entities": reviewed}
    Path("reviewed.jsonl").write_text(json.dumps(record) + "\n")
    code, out, log = run("inspect", "reviewed.jsonl")
    assert (code, "sources     1 from reviewer" in out, "agreement" in out) == (0, True, False), log
    code, out, _ = run("inspect", "reviewed.jsonl", "--gold", "reviewed.jsonl")
    assert (code, "agreement" in out, "each source against gold" in out) == (0, False, True)


def test_inspect_says_nothing_about_agreement_where_there_is_one_source(run, label_sets: Path) -> None:
    assert "agreement" not in json.loads(run("inspect", label_sets / "dict.conll", "--json")[1])


def test_a_merge_that_a_format_cannot_hold_says_how_many_votes_are_equal_and_who_may_decide(
    run, tmp_path: Path
) -> None:
    for name, label in (("dict", "LOC"), ("llm", "ORG")):
        (tmp_path / f"{name}.conll").write_text(f"Turin B-{label}\n\nOslo B-{label}\nis O\n\nAda B-PER\n")
    arguments = ["merge", tmp_path / "dict.conll", tmp_path / "llm.conll", "--out", tmp_path / "out.conll"]
    code, _, log = run(*arguments)
    assert code == 1
    assert "in total, 2 spans have different labels with tied votes" in log
    assert "give --ties first" in log
    code, _, log = run(*arguments, "--ties", "first")
    assert code == 0, log
    assert [e.label for s in Corpus.read(tmp_path / "out.conll") for e in s.entities] == ["LOC", "LOC", "PER"]


def test_label_sets_of_one_text_are_noticed_where_they_would_be_two_texts(run, label_sets: Path, seen) -> None:
    """The model would learn both of two labels that contradict each other."""
    files = [label_sets / "dict.conll", label_sets / "llm.conll"]
    _, _, log = run("train", *files, "--out", label_sets / "m")
    assert "2 sentences are in several of the training files, 1 of them with different labels" in log
    assert "give --same-text" in log
    _, _, log = run("train", *files, "--same-text", "--out", label_sets / "m")
    assert "several of the training files" not in log


def test_a_file_that_is_given_twice_is_no_second_source(run, label_sets: Path, seen) -> None:
    file = label_sets / "dict.conll"
    _, _, log = run("train", file, file, "--out", label_sets / "m")
    assert "sentences are in several of the training files, always with the same labels" in log
    assert "--same-text" not in log


def test_files_that_have_a_heading_in_common_are_different_texts(run, tmp_path: Path, seen) -> None:
    for name in ("a", "b"):
        own = "".join(f"{name}{number} O\n\n" for number in range(20))
        (tmp_path / f"{name}.conll").write_text(f"Ada B-PER\n\n{own}")
    _, _, log = run("train", tmp_path / "a.conll", tmp_path / "b.conll", "--out", tmp_path / "m")
    assert "several of the training files" not in log
