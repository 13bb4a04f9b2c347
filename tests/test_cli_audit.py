import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacuner
from lacuner import Corpus, Recognizer
from lacuner.audit.audit import Audit, audit_corpus, check_folder
from lacuner.audit.folder import AuditFolder
from lacuner.corpus import Entity, Sentence
from lacuner.errors import ConfigError, TrainingError
from lacuner.review.review import Review
from lacuner.training.settings import RunSettings, resolve_settings

SOURCE = Path(lacuner.__file__).parents[1]
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


def test_folds_that_are_trained_at_a_time_find_the_same(corpus: Corpus, audit: Audit, tmp_path: Path) -> None:
    shown: list[str] = []
    again = audit_corpus(corpus, quick(), folds=2, folder=tmp_path, observer=shown.append, workers=2)
    assert [f.as_dict() for f in again.findings] == [f.as_dict() for f in audit.findings]
    assert again.summary() == audit.summary()
    assert shown == [], "models in other processes show nothing"


@pytest.mark.slow
def test_an_audit_that_is_killed_resumes_with_any_number_of_workers(corpus: Corpus, tmp_path: Path) -> None:
    corpus.write(tmp_path / "train.jsonl")
    settings = [text for key, value in SETTINGS.items() for text in ("--set", f"{key}={value}")]
    command = [
        sys.executable,
        "-m",
        "lacuner",
        "audit",
        "train.jsonl",
        "--method",
        "uniform",
        "--folds",
        "3",
        *settings,
    ]
    subprocess.run([*command, "--out", "whole"], cwd=tmp_path, env=_environment(), check=True, capture_output=True)
    two = [*command, "--out", "killed", "--workers", "2"]
    with subprocess.Popen(two, cwd=tmp_path, env=_environment(), stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "killed").rglob("fold-*.safetensors")) and time.monotonic() < deadline:
            time.sleep(0.02)
        running.kill()
    assert 1 <= len(list((tmp_path / "killed").rglob("fold-*.safetensors"))) < 3
    subprocess.run(two, cwd=tmp_path, env=_environment(), check=True, capture_output=True)
    for name in ("findings.jsonl", "summary.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


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
    with pytest.raises(ConfigError, match="at least two"):
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
    assert figures["estimated_missing"].keys() == {"total", "low", "high", "at_least", "labels", "annotated_share"}
    assert figures["estimated_missing"]["labels"].keys() == {"LOC", "PER"}
    found = [json.loads(line) for line in (out / "findings.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(found) == figures["findings"] > 0
    assert {"sentence", "start", "end", "label", "probability", "kind", "text"} <= found[0].keys()
    assert [f["probability"] for f in found] == sorted((f["probability"] for f in found), reverse=True)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert {path.name for path in out.iterdir()} == {
        "corpus.jsonl", "findings.jsonl", "summary.json", "report.html", "exports"
    }  # fmt: skip
    for name in ("label-studio.json", "doccano.jsonl", "prodigy.jsonl", "argilla.json"):
        assert (out / "exports" / name).stat().st_size > 0
    with Review(AuditFolder.open(out)) as review:
        check_folder(out, [data])  # nothing is decided yet
        review.decide("ada-12345678", 0, 0, "accept")
    code, _, log = run("audit", data, "--out", out, *settings)
    assert code == 2
    assert f"1 findings of the audit in {out} are already decided" in log


def test_a_model_that_is_there_already_may_judge(run, files: Path, model_folder: Path, tmp_path: Path) -> None:
    Corpus(
        [Sentence(s.tokens) if number % 3 == 0 else s for number, s in enumerate(Corpus.read(files / "dev.jsonl"))]
    ).write(tmp_path / "gaps.jsonl")
    code, output, log = run(
        "audit", tmp_path / "gaps.jsonl", "-o", tmp_path / "out", "--recognizer", model_folder, "--json"
    )
    assert code == 0, log
    assert json.loads(output)["findings"] >= 5
    assert "missed at random" not in log
    assert Audit.read(tmp_path / "out").about["folds"] is None
    code, _, log = run("audit", files / "dev.jsonl", "-o", tmp_path / "o", "--recognizer", model_folder, "--epochs", 2)
    assert code != 0
    assert "--recognizer is already trained" in log


def test_what_somebody_decides_while_an_audit_runs_is_not_written_over(
    run, files: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    Corpus([Sentence(s.tokens, s.entities[:1]) for s in Corpus.read(files / "dev.jsonl")]).write(
        tmp_path / "gaps.jsonl"
    )
    command = ("audit", tmp_path / "gaps.jsonl", "-o", out, "--recognizer", model_folder, "--min-probability", 0)
    assert run(*command)[0] == 0
    before = (out / "findings.jsonl").read_bytes()

    def review_meanwhile(*arguments: Any) -> Audit:
        with Review(AuditFolder.open(out)) as review:
            review.decide("ada-12345678", 0, 0, "reject")
        return audit_corpus(*arguments)

    monkeypatch.setattr("lacuner.audit.audit.audit_corpus", review_meanwhile)
    code, _, log = run(*command)
    assert code == 2
    assert "already decided" in log
    assert (out / "findings.jsonl").read_bytes() == before
    with Review(AuditFolder.open(out)) as review:
        assert review.view("ada-12345678", 0).status == "rejected"


def test_a_folder_where_an_audit_would_do_harm_is_refused(run, files: Path, model_folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "mine" / "corpus.jsonl"
    data.parent.mkdir()
    data.write_bytes((files / "dev.jsonl").read_bytes())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("Dear Ada", encoding="utf-8")
    for out, reason in (
        (data.parent, "is the folder of corpus.jsonl"),
        (tmp_path / "other", "does not contain an audit"),
        (data, "is a file"),
    ):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        code, _, log = run("audit", data, "-o", out, "--recognizer", model_folder)
        assert (code, reason in log) == (2, True), log
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    code, _, log = run("audit", "-", "-o", tmp_path / "new", "--recognizer", model_folder)
    assert (code, "an audit reads files" in log) == (2, True), log
    code, _, log = run("audit", data, "-o", tmp_path / "new", "--recognizer", model_folder, "--folds", 3)
    assert (code, "leave out --folds" in log) == (2, True), log


def test_a_label_that_a_model_does_not_know_is_no_reason_to_stop(
    run, corpus: Corpus, files: Path, model_folder: Path, tmp_path: Path
) -> None:
    typo = Sentence(("Kurt", "slept", "."), (Entity(0, 1, "PRE"),))
    few = resolve_settings("uniform", None, SETTINGS | {"training.epochs": "6"})
    audit = audit_corpus(Corpus([*corpus, typo]), few, folds=2)
    assert set(audit.estimate.labels) == {"LOC", "PER", "PRE"}
    Corpus([*Corpus.read(files / "dev.jsonl"), typo]).write(tmp_path / "typo.jsonl")
    code, _, log = run("audit", tmp_path / "typo.jsonl", "-o", tmp_path / "out", "--recognizer", model_folder)
    assert code == 0, log


def test_entities_whose_label_a_model_does_not_know_are_not_judged_and_that_is_said(
    run, files: Path, model_folder: Path, tmp_path: Path
) -> None:
    """They are no mistakes: the model could not have found them."""
    toy = Corpus.read(files / "dev.jsonl")
    known = Corpus([Sentence((*s.tokens, "Euro", "."), s.entities) for s in toy])
    more = Corpus([replace(s, entities=(*s.entities, Entity(len(s) - 2, len(s) - 1, "MISC"))) for s in known])
    for corpus, name in ((known, "known"), (more, "more")):
        corpus.write(tmp_path / f"{name}.jsonl")
    command = ("--recognizer", model_folder, "--min-probability", 0.01)
    code, _, log = run("audit", tmp_path / "known.jsonl", "-o", tmp_path / "one", *command)
    assert (code, "does not know" in log) == (0, False), log
    code, _, log = run("audit", tmp_path / "more.jsonl", "-o", tmp_path / "two", *command)
    assert code == 0, log
    assert "The model does not know MISC; such entities are left out of the audit." in log
    audit = Audit.read(tmp_path / "two")
    changed = [finding for finding in audit.findings if finding.annotated is not None]
    assert "MISC" not in {finding.label for finding in audit.findings}
    assert "MISC" not in {finding.annotated.label for finding in changed if finding.annotated is not None}
    assert audit.estimate.labels["MISC"][0] == 0
    sentence = more[0]
    judged = {(f.sentence, f.start, f.end) for f in audit.findings}
    assert (0, len(sentence) - 2, len(sentence) - 1) not in judged


def test_what_is_complete_in_part_may_have_gaps_elsewhere(model_folder: Path) -> None:
    recognizer = Recognizer.from_pretrained(model_folder)
    gold = [town(number) for number in range(36)]
    sought = Corpus([replace(s, entities=s.entities[:1], complete=True, annotated_labels={"PER"}) for s in gold])
    tagged = Corpus([replace(s, entities=s.entities[:1], complete=True, unknown_tokens={3}) for s in gold])
    whole = Corpus([replace(s, entities=s.entities[:1], complete=True) for s in gold])
    for corpus in (sought, tagged):
        audit = audit_corpus(corpus, recognizer, min_probability=0.0)
        assert {(f.start, f.end) for f in audit.findings if f.kind == "missing"} >= {(3, 4)}
        assert audit.estimate.total > 0
        if corpus is sought:
            assert audit.estimate.labels["PER"][0] == 0
        else:
            assert {(f.start, f.end) for f in audit.findings if f.kind == "missing"} == {(3, 4)}
    assert audit_corpus(whole, recognizer, min_probability=0.0).estimate.total == 0


def test_a_tagger_may_judge_too(corpus: Corpus) -> None:
    settings = {key: value for key, value in SETTINGS.items() if key != "head"}
    audit = audit_corpus(corpus, resolve_settings("eer", None, settings | {"regularizer.ratio": "0.4"}), folds=2)
    forgotten = {(number, 0, 1, "PER") for number in FORGOTTEN}
    first = {(f.sentence, f.start, f.end, f.label) for f in audit.findings[: len(forgotten)]}
    assert len(first & forgotten) >= 15


def test_labels_of_a_dictionary_are_said_to_be_missing_for_a_reason(
    run, files: Path, model_folder: Path, tmp_path: Path
) -> None:
    corpus = Corpus.read(files / "dev.jsonl")
    named = [replace(s, entities=tuple(replace(e, source="dictionary") for e in s.entities[:1])) for s in corpus]
    Corpus([replace(s, complete=False) for s in named]).write(tmp_path / "distant.jsonl")
    code, _, log = run("audit", tmp_path / "distant.jsonl", "-o", tmp_path / "out", "--recognizer", model_folder)
    assert code == 0, log
    assert "a dictionary misses the same names everywhere" in log
