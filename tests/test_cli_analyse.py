import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from lacuner import Corpus
from lacuner.cli import main
from lacuner.cli.analyse import analyse

KINDS = ["missampling", "uncertainty", "o-values", "bound", "sparsity"]
QUICK = [
    "--set", "encoder.vectors=none", "--set", "encoder.hidden=16", "--set", "training.batch_tokens=64",
    "--set", "training.encoder_learning_rate=0.01", "--set", "training.head_learning_rate=0.01",
]  # fmt: skip


@pytest.fixture
def run(run):
    """As everywhere, but with ``analyse`` before the arguments."""
    return partial(run, "analyse")


@pytest.fixture
def files(toy, tmp_path, monkeypatch):
    """``gold.conll``, ``masked.conll``, and ``hidden.jsonl`` as ``lacuner mask`` writes it; the test runs beside them."""
    monkeypatch.chdir(tmp_path)
    toy.write("gold.conll")
    arguments = ["mask", "gold.conll", "--probability", "0.5", "--out", "masked.conll", "--hidden", "hidden.jsonl"]
    monkeypatch.setattr(sys, "argv", ["lacuner", *arguments])
    with pytest.raises(SystemExit):
        main()
    return tmp_path


def gone() -> int:
    return len(Path("hidden.jsonl").read_text().splitlines())


@pytest.mark.parametrize("kind", KINDS)
def test_every_analysis_has_help_with_an_example(run, kind):
    code, out, _ = run(kind, "--help")
    assert code == 0
    assert f"Example: lacuner analyse {kind}" in " ".join(out.split())


def test_the_documentation_shows_every_analysis_and_no_other():
    text = (Path(__file__).parents[1] / "docs" / "analysis.md").read_text(encoding="utf-8")
    names = {command.name or command.callback.__name__ for command in analyse.registered_commands}
    assert names == set(KINDS) == set(re.findall(r"\blacuner analyse ([a-z-]+)", text))


@pytest.mark.parametrize("kind", ["bound", "sparsity"])
def test_the_tables_in_the_documentation_are_those_that_its_commands_print(run, sample, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    sample["train"].write("train.conll")
    sample["train"].mask(0.7, seed=1).write("masked.conll")
    page = (Path(__file__).parents[1] / "docs" / "analysis.md").read_text(encoding="utf-8")
    command = re.search(rf"^lacuner analyse ({kind} .*)$", page, re.MULTILINE)
    code, output, _ = run(*command[1].split())
    assert code == 0
    assert output in page
    assert Path(f"{kind}.png").exists()


def test_missampling_of_two_methods(run, files):
    code, output, log = run(
        "missampling", "masked.conll", "--hidden", "hidden.jsonl", "--dev", "gold.conll", "--epochs", 2, "--json",
        "--method", "uniform", "--method", "full", "--figure", "figure.svg", *QUICK,
    )  # fmt: skip
    assert code == 0, log
    report = json.loads(output)
    assert (report["sentences"], report["hidden"]) == (25, gone())
    assert list(report["methods"]) == ["uniform", "full"]
    for epochs in report["methods"].values():
        assert [epoch["epoch"] for epoch in epochs] == [1, 2]
    first = report["methods"]["full"][0]
    assert first.keys() == {"epoch", "negatives", "missampled", "rate", "pooled_rate", "ever_drawn", "dev_f1"}
    assert (first["missampled"], first["ever_drawn"]) == (gone(), 1.0)
    assert first["pooled_rate"] == gone() / first["negatives"]
    assert Path("figure.svg").read_text().startswith("<?xml")
    assert "words/s" in log


def test_the_table_says_which_rate_is_which(run, files):
    code, output, _ = run(
        "missampling", "masked.conll", "--gold", "gold.conll", "--method", "full", "--epochs", 1, *QUICK
    )
    assert code == 0
    assert output.startswith(f"{gone()} hidden entities in 25 sentences")
    assert "mean over the sentences" in output
    assert "whole corpus" in output
    assert "dev F1" not in output


def test_all_epochs_run_unless_patience_is_asked_for(run, files):
    arguments = ["missampling", "masked.conll", "--gold", "gold.conll", "--dev", "gold.conll", "--method", "uniform"]
    arguments += ["--epochs", 15, "--json", *QUICK]
    lengths = [
        len(json.loads(run(*arguments, *more)[1])["methods"]["uniform"])
        for more in ([], ["--set", "training.patience=1"])
    ]
    assert lengths[0] == 15 > lengths[1]


def test_the_uncertainty_experiment_over_seeds(run, files):
    arguments = [
        "uncertainty",
        "masked.conll",
        "--hidden",
        "hidden.jsonl",
        "--dev",
        "gold.conll",
        "--epochs",
        2,
        *QUICK,
    ]
    code, output, log = run(*arguments, "--seeds", "1,2", "--test", "gold.conll", "--json", "--figure", "figure.png")
    assert code == 0, log
    report = json.loads(output)
    assert list(report["bands"]) == ["top", "middle", "bottom"]
    assert report["seeds"] == [1, 2] == [run["seed"] for run in report["runs"]]
    assert report["ratio"] == 0.35
    for band, summary in report["bands"].items():
        scores = [run["bands"][band]["test_f1"] for run in report["runs"]]
        assert summary["test_f1"] == pytest.approx(sum(scores) / 2)
        assert summary["test_f1_deviation"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    entropies = [summary["uncertainty"] for summary in report["bands"].values()]
    assert entropies == sorted(entropies, reverse=True)
    assert "seed 2, bottom" in log
    assert Path("figure.png").exists()
    code, output, _ = run(*arguments)
    assert code == 0
    assert "top-k" in output
    assert "test F1" not in output


def test_o_values_of_both_decision_vectors_over_seeds(run, files):
    arguments = ["o-values", "masked.conll", "--hidden", "hidden.jsonl", "--epochs", 3, *QUICK]
    code, output, log = run(*arguments, "--seeds", "1,2", "--json", "--figure", "figure.svg")
    assert code == 0, log
    report = json.loads(output)
    assert list(report["decisions"]) == ["plain", "angle"]
    assert report["base_rate"] == report["hidden"] / report["words"]
    assert [(run["decision"], run["seed"]) for run in report["runs"]] == [
        ("plain", 1), ("plain", 2), ("angle", 1), ("angle", 2),
    ]  # fmt: skip
    for decision, epochs in report["decisions"].items():
        assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3]
        both = [run["epochs"][1]["average_precision"] for run in report["runs"] if run["decision"] == decision]
        assert epochs[1]["average_precision"] == pytest.approx(sum(both) / 2)
        assert epochs[1]["average_precision_deviation"] == pytest.approx(abs(both[0] - both[1]) / 2**0.5)
        assert len(epochs[1]["detection"]) == 8
    assert "seed 2, angle" in log
    assert Path("figure.svg").read_text().startswith("<?xml")

    code, output, _ = run(*arguments, "--seeds", "1,2")
    assert code == 0
    assert re.search(r"^ +plain +angle$", output, re.MULTILINE)
    assert re.search(r"^    3( +-?\d+\.\d\d +-?\d+\.\d\d +\d+\.\d ± \d+\.\d%){2}$", output, re.MULTILINE)
    assert "Means of 2 seeds" in output


def test_o_values_of_one_decision_vector(run, files):
    arguments = ["o-values", "masked.conll", "--gold", "gold.conll", "--method", "token", "--epochs", 3, *QUICK]
    code, output, log = run(*arguments, "--after", 9, "--seed", 2, "--set", "head.angle=true")
    assert code == 0, log
    report = json.loads(run(*arguments, "--seed", 2, "--set", "head.angle=true", "--json")[1])
    share = report["base_rate"]
    assert output.startswith(f"{report['hidden']} of {report['words']} untagged words belong to hidden entities;")
    assert f"at random would have a precision of {share:.1%}" in output
    assert list(report["decisions"]) == ["angle"]
    assert report["seeds"] == [2]
    assert "after epoch 3:" in output  # there are no nine
    assert "plain" not in output
    assert "seeds" not in output
    (last,) = (epochs[-1] for epochs in report["decisions"].values())
    found = last["detection"][5]
    assert f"10.00%  {found['picked']:6}    {found['precision']:9.1%}  {found['recall']:6.1%}" in output
    assert f"{last['hidden']:6.2f}  {last['outside']:7.2f}  {last['average_precision']:6.1%}" in output


def test_the_bound_in_theory_and_on_data(run, files):
    code, output, _ = run("bound", "--json", "--figure", "figure.png")
    theory = json.loads(output)
    assert code == 0
    assert (theory["ratio"], theory["informative_from"], len(theory["lengths"])) == (0.35, 4, 100)
    assert [row["vacuous"] for row in theory["lengths"][:4]] == [True, True, True, False]
    assert all(row["exact"] >= row["bound"] for row in theory["lengths"])

    code, output, _ = run("bound", "masked.conll", "--gold", "gold.conll", "--min-count", 1, "--json")
    real = json.loads(output)
    assert code == 0
    assert real["sentences"] == 25 == sum(row["sentences"] for row in real["lengths"])
    assert sum(row["hidden"] * row["sentences"] for row in real["lengths"]) == pytest.approx(gone())
    mean = sum(row["exact"] * row["sentences"] for row in real["lengths"]) / 25
    assert real["exact"] == pytest.approx(mean)

    code, output, _ = run("bound", "masked.conll", "--missing", 0.5, "--min-count", 1, "--ratio", 0.001)
    assert code == 0
    assert "50% of all entities assumed hidden" in output
    assert "its proof does not hold for n = 5 to 7" in output
    assert "up to √n entities" in run("bound", "masked.conll", "--min-count", 1)[1]
    assert "√n entities, all of them hidden" in run("bound")[1]
    assert "√n entities, 30% of them hidden" in run("bound", "--missing", 0.3)[1]


def test_sparsity(run, files):
    code, output, log = run("sparsity", "gold.conll", "--min-count", 6, "--json", "--figure", "figure.png")
    report = json.loads(output)
    assert code == 0
    assert (report["sentences"], report["sparse"]) == (25, 1.0)
    assert [row["length"] for row in report["lengths"]] == [5, 6]
    assert report["lengths"][0].items() >= {"mean": 2.0, "variance": 0.0, "bar": [2.0, 2.0]}.items()
    assert "1 lengths with fewer than 6 sentences are left out" in log
    assert "at most √n" in run("sparsity", "gold.conll", "--min-count", 1)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missampling", "masked.conll"], 2, "Give either --gold GOLD or --hidden FILE"),
        (["missampling", "masked.conll", "--gold", "gold.conll", "--hidden", "hidden.jsonl"], 2, "Give either"),
        (["missampling", "gold.conll", "--gold", "gold.conll"], 1, "gold.conll: no entity is hidden — give data"),
        (["missampling", "masked.conll", "--gold", "short.conll"], 1, "short.conll: the two files have different"),
        (["missampling", "masked.conll", "--hidden", "absent.jsonl"], 1, "absent.jsonl: No such file"),
        (["missampling", "masked.conll", "--hidden", "masked.conll"], 1, "masked.conll:1: not JSON"),
        (["missampling", "masked.conll", "--gold", "gold.conll", "--method", "magic"], 2, "there is no method 'magic'"),
        (["missampling", "masked.conll", "--gold", "gold.conll", "--set", "negatives.ratio=0.5"], 2,
         "top-neg: there is no setting negatives.ratio"),
        (["missampling", "masked.conll", "--gold", "gold.conll", "--figure", "a.gif"], 2, "figures end in .png or .svg"),
        (["uncertainty", "masked.conll", "--gold", "gold.conll"], 2, "--dev"),
        (["uncertainty", "masked.conll", "--gold", "gold.conll", "--dev", "gold.conll", "--seeds", "1,x"], 2,
         "--seeds 1,x: write whole numbers"),
        (["uncertainty", "masked.conll", "--gold", "gold.conll", "--dev", "gold.conll", "--set", "negatives=all"], 2,
         "negatives=all: the experiment takes"),
        (["bound", "--ratio", "0"], 2, "--ratio 0: the number of negatives"),
        (["bound", "--ratio", "nan"], 2, "--ratio nan: the number of negatives"),
        (["bound", "--gold", "gold.conll"], 2, "--gold goes with DATA"),
        (["bound", "masked.conll", "--gold", "gold.conll", "--missing", "0.5"], 2, "without --missing"),
        (["bound", "masked.conll", "--missing", "1"], 2, "--missing 1: then DATA would have no label"),
        (["bound", "masked.conll", "--gold", "short.conll"], 1, "short.conll: the two files have different"),
        (["bound", "masked.conll", "--min-count", "99"], 1, "masked.conll: no length has 99 sentences"),
        (["sparsity", "empty.conll"], 1, "empty.conll: the file contains no sentences"),
        (["o-values", "masked.conll"], 2, "Give either --gold GOLD or --hidden FILE"),
        (["o-values", "gold.conll", "--gold", "gold.conll"], 1, "gold.conll: no entity is hidden — give data"),
        (["o-values", "masked.conll", "--gold", "gold.conll", "--method", "uniform"], 2, "uniform scores spans"),
        (["o-values", "masked.conll", "--gold", "gold.conll", "--method", "two-step"], 2, "trains several models"),
        (["o-values", "masked.conll", "--gold", "gold.conll", "--set", "negatives.ratio=1"], 2, "token-level method"),
        (["o-values", "masked.conll", "--gold", "gold.conll", "--after", "0"], 2, "--after"),
        (["magic"], 2, "magic"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence_without_a_traceback(run, files, toy, arguments, code, message):
    toy[:3].write("short.conll")
    Path("empty.conll").write_text("")
    got, output, log = run(*arguments)
    assert got == code
    assert message in " ".join(log.replace("│", " ").split())
    assert "Traceback" not in log
    assert not output


def test_files_need_not_be_columns(run, files):
    Corpus.read("masked.conll").write("masked.jsonl")
    code, output, _ = run("bound", "masked.jsonl", "--gold", "gold.conll", "--min-count", 1, "--json")
    assert (code, json.loads(output)["sentences"]) == (0, 25)
