import json
import os
import re
import subprocess
import sys

import pytest
import torch

from growth import assert_linear
from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.cli.mask import _hidden_records
from lacuner.cli.progress import TerminalObserver
from lacuner.evaluation import Scores
from lacuner.methods.registry import registry
from lacuner.training.settings import parse_assignments, resolve_settings
from lacuner.version import __version__

QUICK = [
    "--set", "encoder.vectors=none", "--set", "encoder.hidden=16", "--set", "training.batch_tokens=64",
    "--set", "training.encoder_learning_rate=0.01", "--set", "training.head_learning_rate=0.01",
    "--set", "head=product",
]  # fmt: skip


@pytest.mark.parametrize(("precision", "said"), [("bf16", "transformer in bf16"), ("fp32", "transformer")])
def test_a_precision_other_than_the_usual_one_is_said(run, files, toy_bert, precision, said):
    arguments = ["--encoder", toy_bert, "--method", "full", "--epochs", 1, "--set", f"training.precision={precision}"]
    code, _, log = run("train", files / "train.conll", "--out", files / "model", *arguments)
    assert code == 0, log
    assert f"Method full, encoder {said}, head width." in log
    assert Recognizer.from_pretrained(files / "model").settings.training.precision == precision


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict", "inspect", "mask", "methods", "demo"])
def test_every_verb_has_help_with_an_example(run, verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert f"Example: lacuner {verb}" in " ".join(out.split())


def test_the_version(run):
    assert run("--version")[:2] == (0, f"lacuner {__version__}\n")


def test_the_whole_way_from_files_to_predictions(run, files):
    train, dev, out = files / "train.conll", files / "dev.jsonl", files / "model"
    code, output, log = run(
        "train", train, "--dev", dev, "--out", out, "--method", "full", "--epochs", 30, "--json", *QUICK
    )
    assert code == 0, log
    report = json.loads(output)
    assert report.keys() == {"dev", "best_epoch", "epochs", "seconds", "model"}
    assert report["dev"].keys() == {"precision", "recall", "f1"}
    assert report["dev"]["f1"] > 0.9
    assert report["model"] == str(out)
    assert "words/s" in log

    code, output, _ = run("evaluate", out, dev, "--json", "--errors", files / "errors.jsonl")
    scores = json.loads(output)
    assert {"precision", "recall", "f1", "support", "labels"} <= scores.keys()
    assert scores["labels"]["PER"].keys() == {"precision", "recall", "f1", "support"}
    assert scores["f1"] == pytest.approx(report["dev"]["f1"])
    assert (files / "errors.jsonl").exists()
    assert "micro" in run("evaluate", out, dev)[1]

    (files / "raw.txt").write_text("Grace Hopper moved to Oslo .\n\nAda moved to Jena .\n", encoding="utf-8")
    code, output, log = run("predict", out, files / "raw.txt")
    records = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    assert [[e["text"] for e in record["entities"]] for record in records] == [
        ["Grace Hopper", "Oslo"],
        [],
        ["Ada", "Jena"],
    ]
    assert records[0]["entities"][1].items() >= {"start": 22, "end": 26, "label": "LOC"}.items()

    code, _, _ = run("predict", out, files / "raw.txt", train, dev, "--out", files / "found.conll")
    assert code == 0
    assert Corpus.read(files / "found.conll")[0].entities[0].label == "PER"
    assert len(Corpus.read(files / "found.conll")) == 2 + 25 + 25

    code, output, _ = run("predict", out, train, "--format", "jsonl")
    assert json.loads(output.splitlines()[0])["entities"][0].items() >= {"start": 0, "end": 1, "text": "Ada"}.items()


def test_predict_keeps_what_else_a_record_holds(run, files, model_folder):
    (files / "in.jsonl").write_text('{"id": 7, "text": "Ada moved to Oslo .", "meta": {"a": 1}}\n')
    code, output, _ = run("predict", model_folder, files / "in.jsonl")
    assert code == 0
    assert json.loads(output).items() >= {"id": 7, "meta": {"a": 1}}.items()


def test_predict_reads_words_without_tags_and_standard_input(run, files, model_folder, monkeypatch):
    (files / "words.conll").write_text("Ada\nmoved\nto\nOslo\n.\n")
    code, output, _ = run("predict", model_folder, files / "words.conll")
    assert code == 0
    assert json.loads(output)["tokens"][0] == "Ada"
    code = f"import sys; sys.argv = ['lacuner', 'predict', {str(model_folder)!r}, '-']; from lacuner.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], input="Ada moved to Oslo .", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "Ada moved to Oslo ."


def test_several_processes_predict_what_one_predicts(files, model_folder):
    texts = [f"Grace Hopper moved to Oslo , {number} times ." for number in range(1500)]
    (files / "raw.txt").write_text("".join(f"{text}\n" for text in texts))
    outputs = []
    for workers in ("1", "2"):
        command = [sys.executable, "-m", "lacuner", "predict", str(model_folder), "raw.txt", "train.conll"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, "--workers", workers], cwd=files, env=environment, capture_output=True, check=True
        )
        outputs.append(done.stdout)
    assert outputs[0].count(b"\n") == 1525
    assert outputs[0] == outputs[1]


def test_a_model_that_is_not_there_is_said_whoever_loads_it(files):
    for workers in ("1", "2"):
        command = [sys.executable, "-m", "lacuner", "predict", "absent", "train.conll", "--out", "o.jsonl"]
        command += ["--workers", workers]
        done = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.startswith("there is no folder absent")
        assert not (files / "o.jsonl").exists()


def test_a_prediction_takes_the_place_of_what_was_annotated(run, files, model_folder):
    records = [
        {"text": "nothing", "label": [[0, 7, "PER"]], "complete": True},
        {"tokens": ["Ada", "moved", "to", "Oslo", "."], "non_entities": [[0, 1]], "entities": []},
    ]
    (files / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run("predict", model_folder, files / "in.jsonl", "--out", files / "out.jsonl")[0] == 0
    nothing, found = Corpus.read(files / "out.jsonl")
    assert (nothing.entities, nothing.complete) == ((), False)
    assert {entity.source for entity in found.entities} == {"model"}


def test_files_with_other_endings_are_texts(run, files, model_folder):
    (files / "page.html").write_text("Ada moved to Oslo .")
    code, output, _ = run("predict", model_folder, files / "page.html")
    assert code == 0
    assert json.loads(output)["text"] == "Ada moved to Oslo ."


def test_nested_entities_do_not_fit_tags(run, files, model_folder):
    code, _, log = run("predict", model_folder, files / "train.conll", "--nested", "--format", "conll")
    assert code == 2
    assert "--format jsonl" in log


def test_data_without_entities_cannot_measure_a_model(run, files, model_folder):
    (files / "none.conll").write_text("it\tO\nrained\tO\n")
    code, _, log = run("evaluate", model_folder, files / "none.conll")
    assert code == 0
    assert f"warning: No entity is annotated in {files / 'none.conll'}" in " ".join(log.split())


def test_nested_entities_are_scored_where_they_are_asked_for(run, files, model_folder, monkeypatch):
    nested = (Entity(0, 3, "ORG"), Entity(2, 3, "LOC"))
    Corpus([Sentence(("University", "of", "Oslo"), nested)]).write(files / "nested.jsonl")

    def predict_pairs(recognizer, corpus, nested, min_score):
        return ((sentence, sentence.entities[: 2 if nested else 1]) for sentence in corpus)

    monkeypatch.setattr(Recognizer, "predict_pairs", predict_pairs)
    flat = json.loads(run("evaluate", model_folder, files / "nested.jsonl", "--json")[1])
    both = json.loads(run("evaluate", model_folder, files / "nested.jsonl", "--nested", "--json")[1])
    assert (flat["recall"], both["recall"]) == (0.5, 1.0)
    assert (flat["support"], both["support"]) == (2, 2)


def test_inspect_counts(run, files):
    code, output, _ = run("inspect", files / "train.conll", "--json")
    assert code == 0
    report = json.loads(output)
    assert report.items() >= {"sentences": 25, "entities": 50, "labels": {"LOC": 25, "PER": 25}}.items()
    assert "sentences" in run("inspect", files / "train.conll")[1]


def test_inspect_counts_one_as_one_and_says_no_width_of_nothing(run, files):
    (files / "none.conll").write_text("it\tO\nrained\tO\n")
    assert "entities            0\n" in run("inspect", files / "none.conll")[1]
    (files / "one.conll").write_text("Ada\tB-PER\n")
    assert "entities            1   at most 1 word wide; 1 cover 99 %\n" in run("inspect", files / "one.conll")[1]


def test_mask_hides_the_same_entities_again_and_inspect_sees_them(run, files):
    train, masked, hidden = files / "train.conll", files / "masked.conll", files / "hidden.jsonl"
    arguments = ["mask", train, "--probability", "0.5", "--seed", "7", "--out", masked, "--hidden", hidden]
    assert run(*arguments)[0] == 0
    before = masked.read_bytes(), hidden.read_bytes()
    assert run(*arguments)[0] == 0
    assert (masked.read_bytes(), hidden.read_bytes()) == before
    gone = [json.loads(line) for line in hidden.read_text().splitlines()]
    report = json.loads(run("inspect", masked, "--gold", train, "--json")[1])
    assert report["gold"]["missing"] == len(gone) == 50 - report["entities"]
    assert report["gold"]["precision"] == 1.0
    assert gone[0].keys() == {"sentence", "start", "end", "label", "text"}


def test_the_hidden_entities_of_a_long_sentence_are_shown_in_time_that_is_linear():
    def prepare(size):
        sentence = Sentence(("Ada",) * size, text="Ada " * size)
        hidden = [Entity(word, word + 1, "PER") for word in range(size)]
        return lambda: list(_hidden_records(0, sentence, hidden))

    assert_linear(prepare, 200)


def test_mask_can_write_to_standard_output(run, files):
    code, output, _ = run("mask", files / "train.conll", "--probability", "0", "--out", "-")
    assert code == 0
    assert output == (files / "train.conll").read_text()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["annotate", "train.conll", "--dictionary", "names.tsv", "--out", "-"], "--out"),
        (["convert", "train.conll", "-", "--to", "jsonl"], "OUT"),
        (["mask", "train.conll", "--probability", "1", "--out", "-"], "--out"),
        (["merge", "train.conll", "dev.jsonl", "--out", "-"], "--out"),
        (["review", "audit", "--export", "-"], "--export"),
        (["evaluate", "MODEL", "dev.jsonl", "--errors", "-"], "--errors"),
    ],
)
def test_figures_are_never_printed_among_the_data(run, files, model_folder, monkeypatch, arguments, option):
    (files / "names.tsv").write_text("Ada\tPER\n")
    (files / "MODEL").symlink_to(model_folder)
    monkeypatch.chdir(files)
    code, output, log = run(*arguments, "--json")
    assert (code, output) == (2, "")
    assert f"--json and {option} both write to standard output — write the data to a file" in " ".join(log.split())


def test_gold_labels_are_read_as_strictly_as_the_others(run, files):
    (files / "gold.conll").write_text("Ada\tO\nsleeps\tI-PER\nin\tB-LOC\n")
    (files / "mine.conll").write_text("Ada\tB-PER\nsleeps\tO\nin\tB-LOC\n")
    code, output, _ = run("inspect", files / "mine.conll", "--gold", files / "gold.conll", "--json")
    assert (code, json.loads(output)["repairs"]) == (0, {"repaired tags": 1})
    assert run("inspect", files / "mine.conll", "--gold", files / "gold.conll", "--strict")[0] == 1


def test_with_gold_labels_inspect_says_whether_wrong_ones_are_slips(run, files):
    (files / "gold.conll").write_text("Ada\tB-PER\n\nada\tB-PER\n\nReuters\tO\n\nReuters\tO\n")
    (files / "mine.conll").write_text("Ada\tB-LOC\n\nada\tB-PER\n\nReuters\tB-ORG\n\nReuters\tB-ORG\n")
    arguments = ("inspect", files / "mine.conll", "--gold", files / "gold.conll")
    found = json.loads(run(*arguments, "--json")[1])["gold"]["wrong_names"]
    assert found == {"wrong": 3, "always": 2, "once": 1, "sometimes": 0}
    shown = run(*arguments)[1]
    assert "of 3 wrong labels" in shown
    assert re.search(r"always +2 +66\.7%", shown)


def test_methods_are_listed_with_their_parameters(run):
    code, output, _ = run("methods", "--json")
    listed = {method["name"]: method for method in json.loads(output)}
    assert code == 0
    assert {"full", "uniform"} <= listed.keys()
    assert listed["uniform"].keys() >= {"name", "level", "paper", "parameters"}
    assert listed["uniform"]["level"] == "span"
    assert listed["uniform"]["parameters"]["negatives.ratio"] == 0.35
    assert "negatives.ratio" in run("methods", "uniform")[1]


def test_methods_lists_every_kind_of_part(run):
    code, output, _ = run("methods")
    assert code == 0
    spans, words = (
        dict(line.split(maxsplit=1) for line in part.partition("\n\n")[0].strip().splitlines())
        for part in output.split("--set KIND=NAME:")[1:]
    )
    assert spans.keys() == {"head", "negatives", "positives", "loss", "contrast", "inference", "stage", "teacher"}
    assert spans["teacher"] == spans["stage"] == "distillation, folds, none"
    assert words.keys() == {"head", "unlabeled", "sampling", "loss", "regularizer", "stage"}
    assert words["head"] == "crf, entity-and-type, one-vs-rest, softmax"
    assert words["stage"] == "distillation, ensemble, entity-confidence, folds, o-values, tag-weights, voters, none"
    assert set(registry().methods) <= {line.split()[0] for line in output.splitlines() if line}


@pytest.mark.parametrize("name", sorted(registry().methods))
def test_what_a_method_prints_can_be_set(run, name):
    code, output, _ = run("methods", name)
    assert code == 0
    shown = dict(line.split()[:2] for line in output.splitlines() if line.startswith("  "))
    code, output, _ = run("methods", name, "--json")
    assert code == 0
    (method,) = json.loads(output)
    assert method.keys() == {"name", "level", "paper", "summary", "parameters"}
    level = registry().method(name).level
    assert (method["name"], method["level"]) == (name, level)
    assert shown == {key: str(value) for key, value in method["parameters"].items()}
    assert set(registry().method(name).kinds()) <= shown.keys()
    given = parse_assignments(f"{key}={value}" for key, value in method["parameters"].items())
    own = name in ("autoner", "mrc", "roster")  # a class of its own
    plain = name if own else {"span": "full", "token": "crf"}[level]
    assert resolve_settings(plain, overrides=given).method.model_dump(exclude=set(PAPER)) == (
        resolve_settings(name).method.model_dump(exclude=set(PAPER))
    )
    assert resolve_settings(plain, overrides=given).training == resolve_settings(name).training


def test_training_says_what_it_reads_and_warns_of_a_model_that_finds_nothing(run, files):
    arguments = ["train", files / "train.conll", "--dev", files / "train.conll", "--method", "uniform", "--epochs", 1]
    code, _, log = run(*arguments, *QUICK, "--out", files / "m")
    assert code == 0, log
    assert "Training data: 25 sentences, 50 entities (PER 25, LOC 25)." in log
    assert "Dev data: 25 sentences, 50 entities (PER 25, LOC 25)." in log
    assert "25 of 25 dev sentences are also in the training data" in log
    assert "The model finds none of the entities in the dev data" in log


@pytest.mark.parametrize(("metric", "best"), [("f1", [True, True, True]), ("pu", [True, False, False])])
def test_the_best_so_far_is_the_best_by_what_is_chosen_by(capsys, metric, best):
    observer = TerminalObserver(metric=metric)
    observer.stage_started("")
    for epoch, (correct, predicted) in enumerate([(56, 60), (71, 100), (72, 100)], 1):
        observer.epoch_started(epoch, 3, 100)
        dev = Scores(correct, predicted, 100).as_dict()
        observer.epoch_ended({"epoch": epoch, "loss": 1.0, "dev": dev, "words_per_second": 10})
    assert ["best so far" in line for line in capsys.readouterr().err.splitlines()] == best


PAPER = ("name", "paper", "summary", "training")
"""What a method says about itself; the rest is what it does."""


def test_dev_data_with_gaps_is_judged_by_the_pu_estimate(run, files, toy):
    toy.mask(0.5).write(files / "gappy.conll")
    one_model = ("--set", "stage=none")
    arguments = ["train", files / "train.conll", "--dev", files / "gappy.conll", "--epochs", 3, *one_model, *QUICK]
    code, output, log = run(*arguments, "--dev-incomplete", "--json", "--out", files / "m")
    assert code == 0, log
    report = json.loads(output)
    assert report["dev"].keys() == {"precision", "recall", "f1", "pu_estimate"}
    scores = json.loads(run("evaluate", files / "m", files / "gappy.conll", "--json")[1])
    assert report["dev"]["pu_estimate"] == pytest.approx(scores["pu_estimate"])
    lines = [line for line in log.splitlines() if line.startswith("epoch")]
    assert len(lines) == 3
    assert all(" dev R " in line and " PU estimate " in line and " F1 " not in line for line in lines)
    history = [json.loads(line)["dev"] for line in (files / "m" / "metrics.jsonl").read_text().splitlines()]
    for number, (line, dev) in enumerate(zip(lines, history, strict=True)):
        assert f"PU estimate {100 * dev['pu_estimate']:.2f}" in line
        better = dev["pu_estimate"] > max((d["pu_estimate"] for d in history[:number]), default=-1)
        assert ("best so far" in line) == better
    code, _, log = run(*arguments, "--dev-incomplete", "--out", files / "n")
    assert code == 0
    assert "PU estimate" in log.splitlines()[-1]
    code, output, log = run(*arguments, "--json", "--out", files / "o")
    assert json.loads(output)["dev"].keys() == {"precision", "recall", "f1"}
    assert "PU estimate" not in log


def test_trusted_data_teaches_from_the_command_line(run, files, toy):
    toy[:8].write(files / "human.conll")
    code, output, log = run(
        "train", files / "train.conll", "--trusted", files / "human.conll", "--dev", files / "dev.jsonl", "--epochs", 2,
        "--set", "teacher=folds", "--set", "teacher.min_entities=10", "--set", "teacher.folds=2",
        "--set", "trusted.fraction=0.5", "--out", files / "m", "--json", *QUICK,
    )  # fmt: skip
    assert code == 0, log
    assert json.loads(output)["epochs"] == 2
    for stage in ("teacher 1/2  epoch  4/4", "teacher 2/2  epoch  4/4", "\nepoch  2/2"):
        assert stage in log


def test_partial_labels_say_what_was_looked_for(run, files, toy):
    people = Corpus(tuple(type(s)(s.tokens, s.entities[:1]) for s in toy))
    places = Corpus(tuple(type(s)(s.tokens, s.entities[1:]) for s in toy))
    people.write(files / "people.conll")
    places.write(files / "places.conll")
    code, output, log = run(
        "train", files / "people.conll", files / "places.conll", "--partial-labels", "--dev", files / "dev.jsonl",
        "--method", "full", "--epochs", 40, "--out", files / "both", "--json", *QUICK,
    )  # fmt: skip
    assert code == 0, log
    assert json.loads(output)["dev"]["f1"] > 0.9


def test_settings_can_stand_in_a_file(run, files):
    (files / "run.toml").write_text(
        'method = "full"\n[training]\nepochs = 2\n[negatives]\nname = "uniform"\nratio = 0.5\n'
    )
    arguments = ["train", files / "train.conll", "--config", files / "run.toml", "--out", files / "m", "--json", *QUICK]
    assert json.loads(run(*arguments)[1])["epochs"] == 2
    settings = json.loads((files / "m" / "config.json").read_text())["settings"]
    assert settings["method"]["negatives"] == {"name": "uniform", "ratio": 0.5}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "absent.conll", "--out", "m"], 1, "absent.conll: No such file or directory — check the path"),
        (["train", "train.conll", "--out", "m", "--method", "magic"], 2, "there is no method 'magic'"),
        (["train", "train.conll", "--out", "m", "--set", "negatives.mu=1"], 2, "there is no setting negatives.mu"),
        (["train", "train.conll"], 2, "--out"),
        (["train", "train.conll", "--out", "m", "--dev-incomplete"], 2, "but there is none — give --dev"),
        (
            ["train", "train.conll", "--trusted", "./train.conll", "--out", "m"],
            2,
            "train.conll is given both as training data and as --trusted — give it once",
        ),
        (
            ["train", "train.conll", "--out", "m", "--set", "trusted.fraction=0.5"],
            2,
            "trusted.fraction=0.5 weighs complete sentences against others, but no sentence is complete — give both kinds",
        ),
        (["train", "train.conll", "--out", "m", "--set", "negatives.ratio=0"], 2, "negatives.ratio=0: input should be"),
        (
            ["train", "train.conll", "--out", "m", "--encoder", "./absent"],
            2,
            "the encoder './absent' cannot be loaded (there is no such folder)",
        ),
        (
            ["train", "train.conll", "--out", "m", "--encoder", "recurent"],
            2,
            "(did you mean recurrent?); give bert-word,",
        ),
        (
            ["train", ".", "--out", "m"],
            1,
            "m: --out lies in the folder ., into which this command",
        ),
        (["train", "broken.conll", "--out", "m"], 1, "broken.conll:2: one column only"),
        (["train", "data.xyz", "--out", "m"], 1, "the name does not tell the format"),
        (["evaluate", "absent", "dev.jsonl"], 1, "there is no folder absent"),
        (["mask", "train.conll", "--probability", "2", "--out", "x.conll"], 2, "less than or equal to 1"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_errors_are_one_sentence_without_a_traceback(run, files, monkeypatch, arguments, code, message):
    monkeypatch.chdir(files)
    (files / "broken.conll").write_text("Ada\tB-PER\nsleeps\n")
    (files / "data.xyz").write_text("Ada\tB-PER\n")
    got, _, log = run(*arguments)
    assert got == code
    assert message in " ".join(log.split())
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["mask", "train.conll", "--probability", "0.5", "--out", "./train.conll"],
            "--out would overwrite its own input",
        ),
        (["mask", "link.conll", "--probability", "0.5", "--out", "train.conll"], "--out would overwrite its own input"),
        (
            ["mask", "train.conll", "--probability", "1", "--out", "m.conll", "--hidden", "train.conll"],
            "--hidden would overwrite the input",
        ),
        (
            ["mask", "train.conll", "--probability", "1", "--out", "m.jsonl", "--hidden", "./m.jsonl"],
            "--hidden would overwrite the output",
        ),
        (["predict", "MODEL", "train.conll", "dev.jsonl", "--out", "dev.jsonl"], "--out would overwrite an input"),
        (["predict", "MODEL", "train.conll", "--out", "link.conll"], "--out would overwrite an input"),
        (
            ["predict", "MODEL", "train.conll", "--out", "MODEL/metrics.jsonl"],
            "--out would overwrite a file of the model",
        ),
        (["evaluate", "MODEL", "dev.jsonl", "--errors", "dev.jsonl"], "--errors would overwrite the data"),
        (
            ["evaluate", "MODEL", "dev.jsonl", "--errors", "MODEL/config.json"],
            "--errors would overwrite a file of the model",
        ),
        (["train", "train.conll", "--out", "../files"], "--out would overwrite training data"),
        (["train", "train.conll", "--dev", "dev.jsonl", "--out", "dev.jsonl"], "--out would overwrite the dev data"),
        (
            ["train", "train.conll", "--encoder", "bert", "--out", "bert"],
            "--out would overwrite what the encoder is loaded from",
        ),
    ],
)
def test_nothing_is_written_over_what_is_read(run, files, model_folder, monkeypatch, arguments, message):
    folder = files / "files"
    folder.mkdir()
    for name in ("train.conll", "dev.jsonl"):
        (files / name).rename(folder / name)
    (folder / "bert").mkdir()
    (folder / "link.conll").symlink_to("train.conll")
    monkeypatch.chdir(folder)
    (folder / "MODEL").symlink_to(model_folder)

    def contents():
        return {path: path.read_bytes() for path in [*folder.iterdir(), *model_folder.iterdir()] if path.is_file()}

    before = contents()
    code, _, log = run(*arguments)
    assert code == 1
    assert f"{message} — give it another name" in log
    assert contents() == before


def test_only_a_model_is_said_to_be_replaced(run, files):
    (files / "notes").mkdir()
    (files / "notes" / "todo.txt").write_text("mine")
    code, _, log = run("train", files / "train.conll", "--out", files / "notes")
    assert code == 1
    assert "exists and is not a model folder" in log
    assert "replaced" not in log


def test_a_folder_that_has_the_name_of_the_one_for_checkpoints_stops_training_before_it_begins(run, files):
    (files / "news.training").mkdir()
    (files / "news.training" / "slides.txt").write_text("years of work")
    (files / "file.training").write_text("years of work")
    for name in ("news", "file"):
        code, _, log = run("train", files / "train.conll", "--out", files / name, "--epochs", "1", *QUICK)
        assert code == 1
        assert f"{name}.training is where checkpoints would be kept, but it is not an unfinished training run" in log
        assert "epoch  1/1" not in log
        assert not (files / name).exists()
    assert (files / "news.training" / "slides.txt").read_text() == "years of work"
    assert (files / "file.training").read_text() == "years of work"


def test_debug_shows_the_traceback(run, files):
    _, _, log = run("train", files / "absent.conll", "--out", files / "m", "--debug")
    assert "Traceback" in log


def test_an_unexpected_error_says_what_was_worked_on(run, files, monkeypatch):
    monkeypatch.setattr("lacuner.streams.annotate.annotate_sentences", lambda *_: 1 // 0)
    (files / "names.tsv").write_text("Ada\tPER\n")
    arguments = [
        "annotate",
        files / "train.conll",
        "-d",
        files / "names.tsv",
        "-o",
        files / "out.jsonl",
        "--workers",
        1,
    ]
    code, _, log = run(*arguments)
    assert code == 1
    assert "ZeroDivisionError: " in log
    assert "(while working on texts 1 to 25) — this is a bug in Lacuner; --debug shows the traceback\n" in log


def test_broken_tags_are_counted_or_refused(run, files):
    (files / "bad.conll").write_text("Ada\tB-PER\nsleeps\tO\nin\tO\nTurin\tI-LOC\nOslo\tB-LOC\n")
    code, output, log = run("inspect", files / "bad.conll", "--json")
    assert code == 0
    assert json.loads(output)["repairs"] == {"repaired tags": 1}
    assert "repaired tags: 1" in log
    code, _, log = run("inspect", files / "bad.conll", "--strict")
    assert code == 1
    assert "bad.conll:4: I-LOC continues nothing" in log


def test_a_killed_run_can_be_resumed_from_the_command_line(files):
    script = f"""
import sys
from lacuner.training.loop import Observer
import lacuner.cli.progress as progress
class Kill(Observer):
    def __init__(self, title="", metric="f1"): pass
    def epoch_ended(self, record):
        if record["epoch"] == 2: import os; os._exit(9)
progress.TerminalObserver = Kill
sys.argv = ["lacuner", "train", {str(files / "train.conll")!r}, "--out", {str(files / "m")!r}, "--epochs", "4", *{QUICK!r}]
from lacuner.cli import main
main()
"""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, check=False)
    assert killed.returncode == 9
    assert not (files / "m").exists()
    command = [sys.executable, "-m", "lacuner", "train", str(files / "train.conll"), "--epochs", "4", *QUICK, "--json"]
    resumed = subprocess.run(
        [*command, "--resume", "--out", str(files / "m")], capture_output=True, text=True, env=environment, check=False
    )
    assert "Resuming after epoch 2" in resumed.stderr
    whole = subprocess.run([*command, "--out", str(files / "w")], capture_output=True, env=environment, check=False)
    assert whole.returncode == 0
    assert (files / "m" / "model.safetensors").read_bytes() == (files / "w" / "model.safetensors").read_bytes()


def test_help_does_not_wait_for_torch():
    code = "import sys; from lacuner.cli import app; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_device_that_is_not_there_is_refused_in_one_sentence(run, files, model_folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for verb in (("predict", model_folder, files / "dev.jsonl"), ("evaluate", model_folder, files / "dev.jsonl")):
        code, _, log = run(*verb, "--device", "cuda")
        assert (code, log.strip()) == (2, "the device 'cuda' is not available on this machine; give cpu")


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "absent.conll", "--out", "m"],
        ["evaluate", "absent", "absent.conll"],
        ["predict", "absent", "-"],
        ["audit", "absent.conll", "--out", "a"],
        ["demo"],
        ["bench", "distant", "--profile", "quick"],
        ["analyse", "missampling", "absent.conll"],
        ["analyse", "uncertainty", "absent.conll", "--dev", "absent.conll"],
        ["analyse", "o-values", "absent.conll"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_device_that_is_not_there_is_refused_by_every_verb_that_runs_a_model(run, arguments):
    code, output, log = run(*arguments, "--device", "cuda:9")
    assert code == 2
    assert output == ""
    assert log.strip() == "the device 'cuda:9' is not available on this machine; give cpu"


def test_a_command_runs_on_the_device_that_it_is_told(run, files, monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    arguments = ["train", files / "train.conll", "--epochs", 1, *QUICK, "--out", files / "on-cpu", "--device", "cpu"]
    code, _, log = run(*arguments)
    assert code == 0, log
    code, _, log = run("evaluate", files / "on-cpu", files / "train.conll", "--device", "cpu")
    assert code == 0, log
    code, _, log = run("audit", files / "train.conll", "--out", files / "a", "--epochs", 1, *QUICK, "--device", "cpu")
    assert code == 0, log
