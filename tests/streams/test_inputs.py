from pathlib import Path

import fsspec
import pytest

from lacuner.errors import DataError
from lacuner.streams.inputs import expand, matches_files, stands_for, with_states
from lacuner.streams.shards import Shard, cut_all, group_shards, read_shard


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "deep/c.jsonl", ".hidden", "_manifest.json", "_summaries/x.txt", "deep/.x/y.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(f"{name}\n")
    return tmp_path


@pytest.fixture
def store():
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


def test_a_folder_stands_for_its_files_in_order(folder: Path) -> None:
    assert expand([folder]) == [folder / "a.txt", folder / "b.txt", folder / "deep" / "c.jsonl"]
    assert expand([folder / "b.txt", "-"]) == [folder / "b.txt", Path("-")]


def test_a_pattern_stands_for_the_files_that_it_fits(folder: Path) -> None:
    assert expand([f"{folder}/*.txt"]) == [folder / "a.txt", folder / "b.txt"]
    assert expand([f"{folder}/**/*.jsonl"]) == [folder / "deep" / "c.jsonl"]
    assert expand([f"{folder}/[a]*"]) == [folder / "a.txt"]
    with pytest.raises(DataError, match=r"no file fits the pattern — check it"):
        expand([f"{folder}/*.conll"])


def test_a_name_with_signs_of_a_pattern_is_a_file_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("")
    assert expand([f"{tmp_path}/a[1].txt"]) == [tmp_path / "a[1].txt"]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file — check the path"):
        expand([tmp_path / "absent.txt"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="there is no file in the folder"):
        expand([tmp_path / "empty"])


def test_a_folder_that_is_a_corpus_stays_one(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("Ada")
    (tmp_path / "x.ann").write_text("")
    assert expand([tmp_path]) == [tmp_path]


def test_a_folder_or_a_pattern_stands_for_files_that_are_not_there_yet(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for argument in (folder, ".", f"{folder}/", "deep", "de*", "**/*.jsonl", "deep/out/*", "d*/o[tu]*"):
        assert stands_for(argument, "deep/out/part-00000.jsonl"), argument
    for argument in ("**/*.txt", "*.jsonl", "b.txt", "deep/c.jsonl", "../*.jsonl", "-", "memory://deep/"):
        assert not stands_for(argument, "deep/out/part-00000.jsonl"), argument
    for hidden in ("deep/_out/part-00000.jsonl", ".out/part-00000.jsonl"):
        assert not stands_for(".", hidden)
        assert not stands_for("*", hidden)
    assert stands_for("memory://in/", "memory://in/out/part-00000.jsonl")
    assert stands_for("memory://in/*/*.jsonl", "memory://in/out/part-00000.jsonl")
    assert not stands_for("memory://in", "memory://inside/part-00000.jsonl")


def test_a_sentence_is_no_pattern(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert matches_files("*.txt")
    assert not matches_files("Is [Ada] here?")
    assert not matches_files("Ada \0 *")
    assert not matches_files("a.txt")


def test_urls_are_files_folders_and_patterns_too(store) -> None:
    for name in ("in/b.txt", "in/a.txt", "in/_x/y.txt", "in/deep/c.txt"):
        store.pipe(f"/{name}", b"Ada\nTurin\n")
    assert expand(["memory://in/a.txt"]) == ["memory:///in/a.txt"]
    assert expand(["memory://in/"]) == [f"memory:///in/{name}" for name in ("a.txt", "b.txt", "deep/c.txt")]
    assert expand(["memory://in/*.txt"]) == [f"memory:///in/{name}" for name in ("a.txt", "b.txt")]
    for url in ("memory://in/absent.txt", "memory://in/*.conll"):
        with pytest.raises(DataError, match="there is no such file — check the URL"):
            expand([url])
    shards = cut_all(with_states(expand(["memory://in/*.txt"])), 3)
    assert [line for shard in shards for line in read_shard(shard)] == ["Ada", "Turin"] * 2
    assert len(shards) == 8


def test_files_are_cut_only_if_they_are_large(folder: Path) -> None:
    files = with_states([folder / "a.txt", folder / "b.txt"])
    assert cut_all(files, 6) == [Shard(folder / name, 0, 6, "file") for name in ("a.txt", "b.txt")]
    assert [(shard.begin, shard.unit) for shard in cut_all(files[:1], 4)] == [(0, "line"), (4, "line")]


def test_small_shards_are_grouped_and_every_one_is_in_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [5, 5, 20, 3, 3, 3, 3, 10, 1]
    shards = [Shard(f"{number}.txt", 0, size, "file") for number, size in enumerate(sizes)]
    batches = list(group_shards(shards, 10))
    assert [len(batch.shards) for batch in batches] == [2, 1, 3, 1, 1, 1]
    assert [batch.first for batch in batches] == [0, 2, 3, 6, 7, 8]
    assert [shard for batch in batches for shard in batch.shards] == shards
    monkeypatch.setattr("lacuner.streams.shards._MAX_SHARDS", 2)
    assert max(len(batch.shards) for batch in group_shards(shards, 10**6)) == 2
