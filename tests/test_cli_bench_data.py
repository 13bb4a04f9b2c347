import json
import re
from functools import partial
from pathlib import Path

import pytest

from lacuner.bench.originals.convert import DISTRIBUTIONS

PARTS = {"train.gold.conll", "train.human.conll", "train.distant.conll"}
FILE = "高 B-NAME\n山 E-NAME\n\n"


@pytest.fixture
def bench_data(run, monkeypatch):
    """Runs ``lacuner bench data`` with these arguments."""
    monkeypatch.delenv("LACUNER_DATA", raising=False)
    return partial(run, "bench", "data")


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    folder = tmp_path / "originals" / "LatticeLSTM" / "ResumeNER"
    folder.mkdir(parents=True)
    (folder / "dev.char.bmes").write_text(FILE)
    return tmp_path / "originals"


def test_files_are_made_below_the_folder_of_the_datasets(bench_data, clones: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("LACUNER_DATA", str(tmp_path / "data"))
    code, out, err = bench_data("resume", "--from", clones)
    assert (tmp_path / "data" / "resume" / "dev.conll").read_text() == "高\tB-NAME\n山\tI-NAME\n\n"
    made, missing = out.splitlines()[1], out.splitlines()[0]
    assert made == (
        "made     dev.conll              1 sentences, 2 tokens, 1 entities;"
        " expected 463 sentences, found 1; expected 13890 tokens, found 2; expected 1497 entities, found 1"
    )
    assert missing.startswith("missing  train.gold.conll       needs ResumeNER/train.char.bmes of https://github.com/")
    assert err == f"License: not stated.\n1 of 3 files are in {tmp_path / 'data' / 'resume'}.\n"
    assert code == 1, "the counts differ"


def test_files_may_be_made_anywhere_and_are_not_replaced_unless_told(bench_data, clones: Path, tmp_path: Path) -> None:
    out = tmp_path / "elsewhere"
    out.mkdir()
    (out / "dev.conll").write_text("mine\tO\n\n")
    _, answer, err = bench_data("resume", "--from", clones, "--out", out, "--json")
    assert json.loads(answer)[1] == {
        "file": "dev.conll",
        "status": "kept",
        "counts": {"sentences": 1, "tokens": 1, "entities": 0},
        "expected": {"sentences": 463, "tokens": 13890, "entities": 1497},
        "reason": None,
    }
    assert f"1 of 3 files are in {out}, 1 of them unchanged; --force overwrites them." in err
    assert (out / "dev.conll").read_text() == "mine\tO\n\n"
    bench_data("resume", "--from", clones, "--out", out, "--force")
    assert (out / "dev.conll").read_text() == "高\tB-NAME\n山\tI-NAME\n\n"


def test_all_is_well_where_the_counts_are_those_expected(bench_data, tmp_path: Path, clones: Path, monkeypatch) -> None:
    from dataclasses import replace

    corpus = DISTRIBUTIONS["resume"]
    targets = tuple(replace(t, expected={"sentences": 1, "tokens": 2, "entities": 1}) for t in corpus.targets)
    monkeypatch.setitem(DISTRIBUTIONS, "resume", replace(corpus, targets=targets))
    code, out, _ = bench_data("resume", "--from", clones, "--out", tmp_path)
    assert code == 0
    assert "expected" not in out


def test_nothing_made_is_a_failure(bench_data, tmp_path: Path) -> None:
    code, out, err = bench_data("weibo", "--from", tmp_path, "--out", tmp_path / "out")
    assert code == 1
    assert [line.split()[0] for line in out.splitlines()] == ["missing"] * 3
    assert "0 of 3 files" in err


def test_every_corpus_is_listed_with_its_source_its_license_and_what_is_there(bench_data, tmp_path: Path) -> None:
    (tmp_path / "resume").mkdir()
    (tmp_path / "resume" / "dev.conll").write_text("")
    code, out, _ = bench_data("--data", tmp_path)
    assert code == 0
    assert (
        "resume: Chinese, résumés of executives\n"
        "  labels   CONT EDU LOC NAME ORG PRO RACE TITLE\n"
        "  license  not stated\n"
        "  from     https://github.com/jiesutd/LatticeLSTM (24d17f4; license: not stated)\n"
        f"  files    1 of 3 in {tmp_path / 'resume'}; missing: train.gold.conll test.conll\n"
    ) in out
    assert f"  files    0 of 3 in {tmp_path / 'weibo'}\n" in out
    code, out, _ = bench_data("--data", tmp_path, "--json")
    listed = {one["name"]: one for one in json.loads(out)}
    assert list(listed) == list(DISTRIBUTIONS)
    assert listed["resume"]["files"] == {"train.gold.conll": False, "dev.conll": True, "test.conll": False}
    assert listed["conll03"]["repositories"][0] == {
        "url": "https://github.com/xuuuluuu/ds_ner",
        "commit": "b52e0c5",
        "license": "not stated",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["conll"], 2, "there is no corpus 'conll' — the corpora are ec, news,"),
        (["ec"], 2, "give the folder of the original files with --from FOLDER"),
        (
            ["ec", "--from", "."],
            2,
            "give an output folder with --out FOLDER, or set LACUNER_DATA to the folder of the datasets",
        ),
        (["ec", "--from", "absent", "--out", "out"], 1, "absent: there is no such folder — clone the repositories"),
        (["--from", "."], 2, "--from, --out and --force need the name of a corpus"),
    ],
)
def test_what_is_missing_in_a_command_is_said(bench_data, arguments: list[str], code: int, message: str) -> None:
    ended, _, err = bench_data(*arguments)
    assert (ended, message in err) == (code, True), err


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_page_about_the_corpora_has_every_source_file_and_command(name: str) -> None:
    page = (Path(__file__).parents[1] / "docs" / "corpora.md").read_text(encoding="utf-8")
    section = next(part for part in page.split("\n## ") if part.startswith(f"{name}\n"))
    corpus = DISTRIBUTIONS[name]
    assert f"lacuner bench data {name} --from originals" in section
    for repository in corpus.repositories:
        assert repository.name in section
        assert f"| [{repository.name}]({repository.url}) | `{repository.commit}` | {repository.license} |" in page
    for target in corpus.targets:
        numbers = " | ".join(f"{number:,}" for number in target.expected.values())
        assert f"| `{target.name}` | {numbers} |" in section, target.name
    for label in corpus.labels:
        assert f"`{label}`" in section


def quality_rows() -> list[list[str]]:
    page = (Path(__file__).parents[1] / "docs" / "corpora.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| `(train\.\S*conll)` \| (.+) \|$", page, re.MULTILINE)
    return [[corpus, file, *figures.split(" | ")] for corpus, file, figures in rows]


@pytest.mark.data
@pytest.mark.parametrize(("corpus", "file", "precision", "recall", "f1", "missing"), quality_rows())
def test_the_page_says_how_good_labels_are_as_inspect_does(
    data_folder: Path, run, corpus: str, file: str, precision: str, recall: str, f1: str, missing: str
) -> None:
    folder = data_folder / corpus
    if not (folder / file).is_file() or not (folder / "train.gold.conll").is_file():
        pytest.skip(f"there is no {corpus}/{file} with human labels")
    _, out, _ = run("inspect", folder / file, "--gold", folder / "train.gold.conll", "--json")
    gold = json.loads(out)["gold"]
    found = [gold["precision"], gold["recall"], gold["f1"]]
    assert [f"{100 * figure:.2f}" for figure in found] == [precision, recall, f1]
    assert f"{100 * gold['missing'] / gold['support']:.1f}" == missing


def test_the_page_says_of_every_distant_corpus_with_human_labels_how_good_it_is() -> None:
    told = {(row[0], row[1]) for row in quality_rows()}
    for corpus in DISTRIBUTIONS.values():
        names = {target.name for target in corpus.targets}
        others = {name for name in names if name.startswith("train.") and name.endswith("conll")} - PARTS
        if "train.gold.conll" in names:
            assert {(corpus.name, name) for name in others} <= told
