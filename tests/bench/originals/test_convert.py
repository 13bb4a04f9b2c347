import os
from pathlib import Path

import pytest

from lacuner.bench.originals.convert import DISTRIBUTIONS, Outcome, Status, convert, find_distribution
from lacuner.bench.originals.distribution import Target, count, labeled
from lacuner.errors import ConfigError, DataError

RESUME = find_distribution("resume")
FILE = "高 B-NAME\n山 E-NAME\n\n"
NAMES = [target.name for target in RESUME.targets]


def statuses(outcomes: list[Outcome]) -> list[str]:
    return [str(outcome.status) for outcome in outcomes]


def test_what_cannot_be_made_is_said_and_the_rest_is_made(originals, tmp_path: Path) -> None:
    folder = originals({"LatticeLSTM/ResumeNER/dev.char.bmes": FILE})
    outcomes = list(convert(RESUME, folder, tmp_path / "deep" / "out"))
    assert statuses(outcomes) == ["missing", "made", "missing"]
    assert outcomes[0].reason == "needs ResumeNER/train.char.bmes of https://github.com/jiesutd/LatticeLSTM"
    assert os.listdir(tmp_path / "deep" / "out") == ["dev.conll"]


def test_every_missing_original_of_a_file_is_named(originals, tmp_path: Path) -> None:
    outcomes = list(convert(find_distribution("conll03"), originals({}), tmp_path / "out"))
    assert {outcome.status for outcome in outcomes} == {Status.MISSING}
    assert outcomes[0].reason == (
        "needs data/conll03/train-ds.json of https://github.com/xuuuluuu/ds_ner,"
        " data/conll/train_text.txt of https://github.com/yumeng5/RoSTER"
    )
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_there_is_kept_unless_it_is_to_be_replaced(originals, tmp_path: Path) -> None:
    folder = originals({f"LatticeLSTM/ResumeNER/{split}.char.bmes": FILE for split in ("train", "dev", "test")})
    mine = tmp_path / "dev.conll"
    mine.write_text("mine\tO\n\n")
    outcomes = list(convert(RESUME, folder, tmp_path))
    assert statuses(outcomes) == ["made", "kept", "made"]
    assert outcomes[1].counts == {"sentences": 1, "tokens": 1, "entities": 0}
    assert mine.read_text() == "mine\tO\n\n"
    assert statuses(list(convert(RESUME, folder, tmp_path, force=True))) == ["made", "made", "made"]
    assert mine.read_text() == "高\tB-NAME\n山\tI-NAME\n\n"


def test_an_original_is_never_overwritten(originals, tmp_path: Path) -> None:
    folder = originals({"LatticeLSTM/ResumeNER/dev.char.bmes": FILE})
    original = folder / "LatticeLSTM" / "ResumeNER" / "dev.char.bmes"
    (tmp_path / "dev.conll").symlink_to(original)
    outcome = list(convert(RESUME, folder, tmp_path, force=True))[1]
    assert outcome.status == "failed"
    assert "would overwrite an original" in outcome.reason
    assert original.read_text() == FILE


def test_a_broken_original_does_not_keep_the_others_from_being_made(originals, tmp_path: Path) -> None:
    files = {f"LatticeLSTM/ResumeNER/{split}.char.bmes": FILE for split in ("train", "test")}
    folder = originals(files | {"LatticeLSTM/ResumeNER/dev.char.bmes": "高 B-NAME\n山\n\n"})
    outcomes = list(convert(RESUME, folder, tmp_path / "out"))
    assert statuses(outcomes) == ["made", "failed", "made"]
    assert "dev.char.bmes:2: one column only" in outcomes[1].reason
    assert sorted(os.listdir(tmp_path / "out")) == ["test.conll", "train.gold.conll"]


def test_counts_that_differ_from_the_checked_ones_are_told(originals, tmp_path: Path) -> None:
    outcome = list(convert(RESUME, originals({"LatticeLSTM/ResumeNER/dev.char.bmes": FILE}), tmp_path / "out"))[1]
    assert outcome.differences == [
        "expected 463 sentences, found 1", "expected 13890 tokens, found 2", "expected 1497 entities, found 1",
    ]  # fmt: skip


def test_nothing_is_said_about_the_counts_of_a_file_that_holds_what_it_should() -> None:
    target = Target("dev.conll", (), list, labeled(1, 2, 3))
    assert Outcome(target, Status.MADE, labeled(1, 2, 3)).differences == []
    assert Outcome(target, Status.MISSING, {}).differences == []


def test_folders_and_corpora_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent: there is no such folder — clone the repositories"):
        list(convert(RESUME, tmp_path / "absent", tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"there is no corpus 'conll' — the corpora are ec, news, conll03, "):
        find_distribution("conll")


def test_a_file_that_cannot_be_written_is_named(originals, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    outcome = list(convert(RESUME, originals({"LatticeLSTM/ResumeNER/dev.char.bmes": FILE}), tmp_path / "out"))[1]
    assert "out/dev.conll: it cannot be written (File exists) — check the folder" in outcome.reason


def test_no_corpus_makes_a_file_twice() -> None:
    for distribution in DISTRIBUTIONS.values():
        names = [target.name for target in distribution.targets]
        assert len(names) == len(set(names)), distribution.name


@pytest.mark.data
@pytest.mark.parametrize(
    ("corpus", "target"),
    [(name, target) for name, distribution in DISTRIBUTIONS.items() for target in distribution.targets],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_the_table_of_counts_is_right(data_folder: Path, corpus: str, target: Target) -> None:
    path = data_folder / corpus / target.name
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    assert count(path) == target.expected


@pytest.mark.data
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_labels_of_a_corpus_are_those_that_are_listed(data_folder: Path, name: str) -> None:
    from lacuner import Corpus

    path = data_folder / name / "test.conll"
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    assert set(Corpus.read(path).labels) <= set(DISTRIBUTIONS[name].labels)
