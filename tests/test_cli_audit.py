import json
from pathlib import Path

import numpy as np
import pytest

from lacuner import Corpus
from lacuner.audit.audit import Audit, audit_corpus
from lacuner.corpus import Entity, Sentence
from lacuner.errors import ConfigError, TrainingError
from lacuner.training.settings import RunSettings, resolve_settings

PEOPLE = ("Ada", "Grace", "Kurt", "Emmy", "Alan", "Mary")
PLACES = ("Oslo", "Jena", "Turin", "Paris", "Lyon", "Bern")
SETTINGS = {
    "encoder.vectors": "none", "encoder.hidden": "16", "training.batch_tokens": "64", "training.epochs": "25",
    "training.encoder_learning_rate": "0.01", "training.head_learning_rate": "0.01", "head": "product",
}  # fmt: skip


def quick() -> RunSettings:
    return resolve_settings("uniform", None, SETTINGS)


FORGOTTEN = set(np.random.default_rng(1).permutation(108)[:30].tolist())


def town(number: int, forgotten: bool = False) -> Sentence:
    """Somebody moves somewhere; the person may have been forgotten."""
    words = (PEOPLE[number % 6], ("moved", "went", "came")[number // 36], "to", PLACES[number // 6 % 6], ".")
    both = (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))
    return Sentence(words, both[1:] if forgotten else both)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus([town(number, number in FORGOTTEN) for number in range(108)])


@pytest.fixture(scope="module")
def audit(corpus: Corpus) -> Audit:
    return audit_corpus(corpus, quick(), folds=2)


def test_forgotten_entities_are_found_first(corpus: Corpus, audit: Audit) -> None:
    forgotten = {(number, 0, 1, "PER") for number in FORGOTTEN}
    first = {(f.sentence, f.start, f.end, f.label) for f in audit.findings[: len(forgotten)]}
    assert len(first & forgotten) >= 24
    assert audit.findings[0].kind == "missing"
    assert audit.findings[0].text in PEOPLE


def test_about_as_many_are_said_to_be_missing_as_are(audit: Audit) -> None:
    assert audit.estimate.total == pytest.approx(30, rel=0.4)
    assert audit.estimate.low <= audit.estimate.total <= audit.estimate.high


def test_an_audit_that_is_read_is_the_one_that_was_written(audit: Audit, tmp_path: Path) -> None:
    audit.write(tmp_path)
    known = Audit.read(tmp_path)
    assert known.corpus.sentences == audit.corpus.sentences
    assert [f.as_dict() for f in known.findings] == [f.as_dict() for f in audit.findings]
    assert known.estimate.as_dict() == audit.estimate.as_dict()
    assert known.about == audit.about


def test_a_fold_that_is_done_is_not_done_again(corpus: Corpus, audit: Audit, tmp_path: Path) -> None:
    trained = []

    def stop_at_the_second(title: str) -> None:
        trained.append(title)
        if title == "fold 2/2" and len(trained) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit_corpus(corpus, quick(), folds=2, folder=tmp_path, observer=stop_at_the_second)
    again = audit_corpus(corpus, quick(), folds=2, folder=tmp_path, observer=stop_at_the_second)
    assert trained == ["fold 1/2", "fold 2/2", "fold 2/2"]
    assert [f.as_dict() for f in again.findings] == [f.as_dict() for f in audit.findings]


def test_other_labels_make_another_audit(corpus: Corpus, tmp_path: Path) -> None:
    trained: list[str] = []
    few = Corpus(corpus[:24])
    settings = resolve_settings("uniform", None, SETTINGS | {"training.epochs": "1"})
    for known in (few, Corpus([town(1), *few[1:]])):
        audit_corpus(known, settings, folds=2, folder=tmp_path, observer=trained.append)
    assert len(trained) == 4


def test_without_any_entity_there_is_nothing_to_learn_from() -> None:
    with pytest.raises(TrainingError, match="no entity is annotated"):
        audit_corpus(Corpus([Sentence(("nothing",))]), quick())
    with pytest.raises(ConfigError, match="two at least"):
        audit_corpus(Corpus([town(1)]), quick(), folds=1)
    with pytest.raises(TrainingError, match="no annotated entity is left"):
        audit_corpus(Corpus([town(1)]), quick(), folds=2)


def test_the_command_writes_a_folder_to_read_and_to_import(run, corpus: Corpus, tmp_path: Path) -> None:
    data, out = tmp_path / "train.conll", tmp_path / "audit"
    strange = Sentence(("<script>", "met", "Ada", "&", "Zoë"), (Entity(2, 3, "PER"),))
    Corpus([*corpus, strange]).write(data)
    settings = [text for key, value in SETTINGS.items() for text in ("--set", f"{key}={value}")]
    code, output, log = run("audit", data, "--out", out, "--folds", 2, "--json", *settings)
    assert code == 0, log
    figures = json.loads(output)
    assert figures["estimated_missing"].keys() == {"total", "low", "high", "labels", "annotated_share"}
    assert figures["estimated_missing"]["labels"].keys() == {"LOC", "PER"}
    found = [json.loads(line) for line in (out / "findings.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(found) == figures["findings"] > 0
    assert {"sentence", "start", "end", "label", "probability", "kind", "text"} <= found[0].keys()
    assert [f["probability"] for f in found] == sorted((f["probability"] for f in found), reverse=True)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert not (out / "folds").exists()
    for name in ("label-studio.json", "doccano.jsonl", "prodigy.jsonl", "argilla.json"):
        assert (out / "exports" / name).stat().st_size > 0
    (out / "review.sqlite").touch()
    code, _, log = run("audit", data, "--out", out, *settings)
    assert code == 2
    assert "has a review of an earlier audit" in log


def test_a_model_that_is_there_already_may_judge(run, files: Path, model_folder: Path, tmp_path: Path) -> None:
    Corpus(
        [Sentence(s.tokens) if number % 3 == 0 else s for number, s in enumerate(Corpus.read(files / "dev.jsonl"))]
    ).write(tmp_path / "gaps.jsonl")
    code, output, log = run(
        "audit", tmp_path / "gaps.jsonl", "-o", tmp_path / "out", "--recognizer", model_folder, "--json"
    )
    assert code == 0, log
    assert json.loads(output)["findings"] >= 5
    assert Audit.read(tmp_path / "out").about["folds"] is None
    code, _, log = run("audit", files / "dev.jsonl", "-o", tmp_path / "o", "--recognizer", model_folder, "--epochs", 2)
    assert code != 0
    assert "--recognizer is trained already" in log


def test_a_tagger_may_judge_too(corpus: Corpus) -> None:
    settings = {key: value for key, value in SETTINGS.items() if key != "head"}
    audit = audit_corpus(corpus, resolve_settings("eer", None, settings | {"balance.ratio": "0.4"}), folds=2)
    forgotten = {(number, 0, 1, "PER") for number in FORGOTTEN}
    first = {(f.sentence, f.start, f.end, f.label) for f in audit.findings[: len(forgotten)]}
    assert len(first & forgotten) >= 15
