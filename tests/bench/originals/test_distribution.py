from pathlib import Path

import pytest

from lacuner.bench.originals.distribution import Distribution, Repository, Target, count, labeled, lines

REPOSITORY = Repository("somebody/things", "abc1234")
FILE = REPOSITORY.file("data/train", "data/train.txt")


@pytest.mark.parametrize(
    "path",
    ["things/data/train", "things-main/data/train", "things-abc1234/data/train.txt", "data/train", "data/train.txt"],
)
def test_a_file_is_found_in_clones_in_unpacked_archives_and_in_the_folder_itself(originals, path: str) -> None:
    folder = originals({path: "", "otherthings/data/train": ""})
    assert FILE.find(folder) == folder / path


def test_a_clone_comes_before_an_archive_and_the_usual_name_before_others(originals) -> None:
    folder = originals({"things/data/train.txt": "", "things/data/train": "", "things-main/data/train": ""})
    assert FILE.find(folder) == folder / "things/data/train"


def test_a_file_that_is_not_there_is_not_found(originals) -> None:
    folder = originals({"otherthings/data/train": "", "things/data/train/inside": ""})
    assert FILE.find(folder) is None


def test_a_repository_is_listed_once_whatever_is_made_of_it() -> None:
    other = Repository("somebody/else", "def5678")
    targets = (
        Target("a", (FILE, other.file("x")), list, lines(1)),
        Target("b", (REPOSITORY.file("y"),), list, lines(1)),
    )
    corpus = Distribution("name", "about", "English", (), "none", targets)
    assert corpus.repositories == (REPOSITORY, other)
    assert [one.url for one in corpus.repositories] == [
        "https://github.com/somebody/things",
        "https://github.com/somebody/else",
    ]


def test_a_corpus_is_counted_in_entities_and_any_other_file_in_lines(tmp_path: Path) -> None:
    for name in ("train.conll", "raw.txt"):
        (tmp_path / name).write_text("Ada\tB-PER\nByron\tI-PER\nleft\tO\n\nBob\tB-PER\n\n")
    assert count(tmp_path / "train.conll") == labeled(2, 4, 2)
    assert count(tmp_path / "raw.txt") == lines(6)
