import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lacuner import Corpus
from lacuner.cli import app
from lacuner.corpus import Entity
from lacuner.errors import ConfigError, DataError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "names.tsv").write_text(
        "Ada Lovelace\tPER\nTurin\tLOC\nParis\tLOC\nParis\tPER\nNobody\tPER\nbroken\n", encoding="utf-8"
    )
    (tmp_path / "raw.txt").write_text("Ada Lovelace left Paris for Turin.\nADA LOVELACE sleeps.\n", encoding="utf-8")
    return tmp_path


def run(*arguments: str | Path):
    return CliRunner().invoke(app, ["annotate", *map(str, arguments)], catch_exceptions=False)


def test_text_and_names_become_a_corpus(files: Path) -> None:
    result = run(files / "raw.txt", "--dictionary", files / "names.tsv", "--out", files / "out.jsonl")
    assert result.exit_code == 0
    corpus = Corpus.read(files / "out.jsonl")
    assert [sentence.entities for sentence in corpus] == [(Entity(0, 2, "PER"), Entity(5, 6, "LOC")), ()]
    assert corpus[0].text == "Ada Lovelace left Paris for Turin."
    assert not any(sentence.complete for sentence in corpus)


def test_figures_are_one_json_value(files: Path) -> None:
    arguments = [
        "-d",
        files / "names.tsv",
        "-o",
        files / "out.conll",
        "--ignore-case",
        "--ambiguous",
        "first",
        "--json",
    ]
    found = json.loads(run(files / "raw.txt", *arguments).stdout)
    assert found["sentences"] == 2
    assert found["entities"] == 4
    assert found["labels"] == {"LOC": 2, "PER": 2}
    assert (found["ambiguous"], found["never_matched"], found["names"]) == (1, 1, 5)
    assert found["most_frequent"][0] == {"surface": "Ada Lovelace", "label": "PER", "matches": 2}
    assert len(Corpus.read(files / "out.conll")) == 2


def test_names_that_were_never_found_are_written(files: Path) -> None:
    run(files / "raw.txt", "-d", files / "names.tsv", "-o", files / "out.jsonl", "--unmatched", files / "never.tsv")
    assert "Nobody\tPER\n" in (files / "never.tsv").read_text(encoding="utf-8")
    assert "Turin" not in (files / "never.tsv").read_text(encoding="utf-8")


def test_what_the_input_knows_better_is_counted(files: Path) -> None:
    (files / "known.jsonl").write_text('{"tokens": ["Turin"], "complete": true}\n', encoding="utf-8")
    arguments = [files / "known.jsonl", "-d", files / "names.tsv", "-o", files / "out.jsonl"]
    assert "1 matches contradict the annotation of the input and are left out." in run(*arguments).stderr
    assert json.loads(run(*arguments, "--json").stdout)["contradictions"] == 1


def test_names_with_several_labels_are_not_among_those_that_were_never_found(files: Path) -> None:
    arguments = [files / "raw.txt", "-d", files / "names.tsv", "-o", files / "out.jsonl"]
    result = run(*arguments, "--unmatched", files / "never.tsv")
    assert (files / "never.tsv").read_text(encoding="utf-8") == "Nobody\tPER\n"
    assert "1 names have several labels: they are not matched (--ambiguous).\n1 of 5 names were never" in result.stderr


@pytest.mark.parametrize(
    ("option", "name", "what"),
    [
        ("--unmatched", "raw.txt", "an input"),
        ("--unmatched", "names.tsv", "the dictionary"),
        ("--unmatched", "stop.txt", "the stop list"),
        ("--unmatched", "out.jsonl", "the output"),
        ("--out", "names.tsv", "the dictionary"),
        ("--out", "stop.txt", "the stop list"),
        ("--out", "raw.txt", "an input"),
        ("--out", "link.jsonl", "an input"),
    ],
)
def test_nothing_is_written_over_what_is_read(files: Path, option: str, name: str, what: str) -> None:
    (files / "stop.txt").write_text("turin\n", encoding="utf-8")
    (files / "link.jsonl").symlink_to(files / "raw.txt")
    before = {path: path.read_text(encoding="utf-8") for path in files.iterdir()}
    arguments = ["-d", files / "names.tsv", "--stop", files / "stop.txt", "-o", files / "out.jsonl"]
    with pytest.raises(DataError, match=f"{name}: {option} would overwrite {what} — give it another name"):
        run(files / "raw.txt", *arguments, option, files / ".." / files.name / name)
    assert {path: path.read_text(encoding="utf-8") for path in files.iterdir()} == before


@pytest.mark.parametrize("name", ["no/such/folder.tsv", "", "x" * 300])
def test_a_file_that_cannot_be_written_is_noticed_before_anything_is_read(files: Path, name: str) -> None:
    (files / "names.tsv").write_text("", encoding="utf-8")
    before = set(files.iterdir())
    arguments = ["-d", files / "names.tsv", "-o", files / "out.jsonl", "--unmatched", files / name]
    with pytest.raises(DataError) as caught:
        run(files / "raw.txt", *arguments)
    assert "the list contains no name" not in str(caught.value)
    assert set(files.iterdir()) == before


def test_a_stopped_name_is_stopped_in_every_spelling(files: Path) -> None:
    (files / "names.tsv").write_text("U.S.\tLOC\n", encoding="utf-8")
    (files / "stop.txt").write_text("US\n", encoding="utf-8")
    (files / "raw.txt").write_text("the US and the U.S. too\n", encoding="utf-8")
    out = files / "out.jsonl"
    run(files / "raw.txt", "-d", files / "names.tsv", "-o", out, "--variants", "--stop", files / "stop.txt")
    assert Corpus.read(out)[0].entities == (Entity(4, 5, "LOC"),)


@pytest.fixture
def chinese(files: Path) -> Path:
    with (files / "names.tsv").open("a", encoding="utf-8") as file:
        file.write("邓小平\tPER\niPhone 手机\tPRODUCT\n")
    (files / "zh.txt").write_text("邓小平买iPhone手机\n", encoding="utf-8")
    (files / "en.conll").write_text("Turin\tO\nsleeps\tO\n", encoding="utf-8")
    return files


def test_each_file_is_split_in_its_own_way(chinese: Path) -> None:
    inputs = [chinese / name for name in ("raw.txt", "zh.txt", "zh.txt", "en.conll")]
    result = run(*inputs, "-d", chinese / "names.tsv", "-o", chinese / "out.jsonl", "--json")
    found = Corpus.read(chinese / "out.jsonl")
    assert [sentence.entities for sentence in found][2:] == [
        *[(Entity(0, 3, "PER"), Entity(4, 7, "PRODUCT"))] * 2,
        (Entity(0, 1, "LOC"),),
    ]
    assert json.loads(result.stdout)["labels"] == {"LOC": 2, "PER": 3, "PRODUCT": 2}
    assert result.stderr.count("zh.txt: most of it has no spaces between words, so it is split into characters") == 1


def test_words_that_are_cut_already_stay_as_they_are(chinese: Path) -> None:
    arguments = ["-d", chinese / "names.tsv", "-o", chinese / "out.jsonl", "--split", "characters"]
    result = run(chinese / "en.conll", *arguments)
    assert "en.conll: the input is already split into words; --split has no effect on it." in result.stderr
    assert Corpus.read(chinese / "out.jsonl")[0].entities == (Entity(0, 1, "LOC"),)


def test_columns_of_characters_are_told_apart(chinese: Path) -> None:
    (chinese / "zh.conll").write_text("邓\tO\n小\tO\n平\tO\n", encoding="utf-8")
    result = run(chinese / "zh.conll", "-d", chinese / "names.tsv", "-o", chinese / "out.jsonl")
    assert "zh.conll: its words are single characters, so names are split into characters, too.\n" in result.stderr
    assert "--split" not in result.stderr


def test_names_can_be_stopped(files: Path) -> None:
    (files / "stop.txt").write_text("turin\n", encoding="utf-8")
    out = files / "out.jsonl"
    run(files / "raw.txt", "-d", files / "names.tsv", "-o", out, "--stop", files / "stop.txt")
    assert [sentence.entities for sentence in Corpus.read(out)] == [(Entity(0, 2, "PER"),), ()]
    with pytest.raises(ConfigError, match="remove all names"):
        run(files / "raw.txt", "-d", files / "names.tsv", "-o", out, "--min-length", "50")


def test_what_cannot_be_read_is_said_in_a_sentence(files: Path) -> None:
    (files / "empty.tsv").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="the list contains no name"):
        run(files / "raw.txt", "-d", files / "empty.tsv", "-o", files / "out.jsonl")
    with pytest.raises(DataError, match="there is no such file"):
        run(files / "missing.txt", "-d", files / "names.tsv", "-o", files / "out.jsonl")
    with pytest.raises(DataError, match=r"names.tsv:6: there is no tab"):
        run(files / "raw.txt", "-d", files / "names.tsv", "-o", files / "out.jsonl", "--strict")
    assert not (files / "out.jsonl").exists()


def test_standard_input_and_output_work(files: Path) -> None:
    command = [sys.executable, "-m", "lacuner", "annotate", "-", "-d", str(files / "names.tsv"), "-o", "-"]
    done = subprocess.run(command, input="Turin\n", capture_output=True, text=True, encoding="utf-8", check=True)
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["entities"] == [{"start": 0, "end": 1, "label": "LOC", "source": "dictionary"}]
    assert "1 entity in 1 sentence with 1 word" in done.stderr


def test_chinese_is_noticed_on_standard_input(chinese: Path) -> None:
    command = [sys.executable, "-m", "lacuner", "annotate", "-", "-d", str(chinese / "names.tsv"), "-o", "-"]
    done = subprocess.run(
        command, input="邓小平买iPhone手机\n", capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert [entity["end"] for entity in json.loads(done.stdout)["entities"]] == [3, 7]
    assert "standard input: most of it has no spaces between words" in done.stderr


def test_an_error_in_a_worker_ends_the_command_and_leaves_nothing_behind(files: Path) -> None:
    (files / "raw.jsonl").write_text('{"text": "Ada went"}\n{"text": ""}\n', encoding="utf-8")
    command = [sys.executable, "-m", "lacuner", "annotate", "raw.jsonl", "-d", "names.tsv", "-o", "out.conll"]
    before = set(files.iterdir())
    done = subprocess.run(
        [*command, "--workers", "2"],
        cwd=files,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "out.conll: sentence 2 has no words, which columns cannot show — write JSON Lines" in done.stderr
    assert set(files.iterdir()) == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize(("sent", "code"), [("SIGINT", {130, 1}), ("SIGKILL", {-9})])
def test_no_process_outlives_the_command(files: Path, sent: str, code: set[int]) -> None:
    hear = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # what runs in the background ignores it
    code_of_main = f"import signal; {hear}; from lacuner.cli import main; main()"
    options = ["annotate", "-", "-d", "names.tsv", "-o", "out.jsonl", "--workers", "2"]
    command = [sys.executable, "-c", code_of_main, *options]
    with subprocess.Popen(command, cwd=files, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"Ada\n" * 200_000)
        process.stdin.flush()
        process.send_signal(getattr(signal, sent))
        assert process.stderr.read().count(b"Traceback") == 0  # ends when every process has closed it
        assert process.wait() in code
    assert not (files / "out.jsonl").exists()


def test_what_ignoring_case_would_add_is_said_unless_case_is_ignored(files: Path) -> None:
    arguments = [files / "raw.txt", "-d", files / "names.tsv", "-o", files / "out.jsonl"]
    assert "--ignore-case would find 1 more entities (+50%)." in run(*arguments).stderr
    more = json.loads(run(*arguments, "--json").stdout)["more_with_ignore_case"]
    assert more == {"entities": 1, "tokens_searched": 11}
    result = run(*arguments, "--ignore-case", "--json")
    assert "more_with_ignore_case" not in json.loads(result.stdout)
    (files / "raw.txt").write_text("Turin sleeps.\n", encoding="utf-8")
    assert "--ignore-case would find no more entities." in run(*arguments).stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_ignoring_case_would_add_is_estimated_for_long_inputs(files: Path, workers: str) -> None:
    (files / "raw.txt").write_text("turin met Turin , again and again .\n" * 20_000, encoding="utf-8")
    arguments = [files / "raw.txt", "-d", files / "names.tsv", "-o", files / "out.jsonl", "--workers", workers]
    result = run(*arguments)
    assert "--ignore-case would find about 20,000 more entities (+100%), estimated from " in result.stderr
    searched = json.loads(run(*arguments, "--json").stdout)["more_with_ignore_case"]["tokens_searched"]
    assert 20_000 < searched < 80_000


def test_a_list_of_names_needs_only_a_label(files: Path) -> None:
    (files / "places.txt").write_text("Turin\nParis\n", encoding="utf-8")
    arguments = [files / "raw.txt", "-d", files / "places.txt", "-o", files / "out.jsonl"]
    with pytest.raises(
        DataError, match="there is only one column, so no label — give the label of all names with --label"
    ):
        run(*arguments)
    assert json.loads(run(*arguments, "--label", "LOC", "--json").stdout)["labels"] == {"LOC": 2}


def test_phrases_become_unknown_and_are_counted(files: Path) -> None:
    (files / "phrases.txt").write_text("left Paris\nsleeps\nTurin\n", encoding="utf-8")
    arguments = [
        files / "raw.txt",
        "-d",
        files / "names.tsv",
        "-o",
        files / "out.jsonl",
        "--phrases",
        files / "phrases.txt",
    ]
    result = run(*arguments)
    assert "2 phrases without a label were found; their words are marked as unknown." in result.stderr
    corpus = Corpus.read(files / "out.jsonl")
    assert [sentence.unknown_tokens for sentence in corpus] == [{2, 3}, {2}]
    assert corpus[0].entities == (Entity(0, 2, "PER"), Entity(5, 6, "LOC"))
    assert json.loads(run(*arguments, "--json", "--workers", "1").stdout)["phrases"] == 2
    with pytest.raises(DataError, match="--out would overwrite the phrases"):
        run(*arguments, "-o", files / "phrases.txt")


@pytest.mark.parametrize(("documents", "count"), [("auto", 101), ("split", 102), ("keep", 2)])
def test_long_texts_are_cut_into_sentences(files: Path, documents: str, count: int) -> None:
    text = "Ada Lovelace left. " * 100
    (files / "raw.txt").write_text(f"{text}\nTurin is here. Nobody is.\n", encoding="utf-8")
    arguments = [files / "raw.txt", "-d", files / "names.tsv", "-o", files / "out.jsonl", "--documents", documents]
    figures = json.loads(run(*arguments, "--json").stdout)
    corpus = Corpus.read(files / "out.jsonl")
    assert (len(corpus), figures["sentences"], figures["texts"]) == (count, count, 2)
    assert sum(len(sentence.entities) for sentence in corpus) == figures["entities"] == 102
    if documents != "keep":
        assert [sentence.extra["offset"] for sentence in corpus[:100]] == list(range(0, 1900, 19))
        (name,) = {sentence.extra["document"] for sentence in corpus[:100]}
        assert len(name) == 16


@pytest.mark.parametrize(
    ("text", "name", "tokens"),
    [
        ("張三は東京でiPhone15を買った。", "iPhone15", ("iPhone15",)),
        ("彼は東京タワーへ行った。", "東京タワー", tuple("東京タワー")),
        ("อาดาย้ายไปกรุงเทพเมื่อปี2026", "กรุงเทพ", tuple("กรุงเทพ")),
        ("انتقلت آدا لوفلايس إلى تورينو.", "آدا لوفلايس", ("آدا", "لوفلايس")),
        ("他在2026年买了Wi-Fi路由器。", "Wi-Fi", ("Wi", "-", "Fi")),
    ],
)
def test_names_are_found_in_scripts_with_and_without_spaces(files: Path, text: str, name: str, tokens) -> None:
    (files / "raw.txt").write_text(f"{text}\n", encoding="utf-8")
    (files / "names.tsv").write_text(f"{name}\tX\n", encoding="utf-8")
    run(files / "raw.txt", "-d", files / "names.tsv", "-o", files / "out.conll")
    (sentence,) = Corpus.read(files / "out.conll")
    (entity,) = sentence.entities
    assert sentence.tokens[entity.start : entity.end] == tokens
