"""Token-level methods as users meet them: from Python, and from the command line."""

import json
import re
from dataclasses import replace

import pytest
import torch

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.errors import ConfigError
from lacuner.methods.registry import registry
from lacuner.models.tag_model import TagModel
from lacuner.training.settings import resolve_settings, settings_from_dict
from tiny_taggers import QUICK

TAGGERS = ("crf", "eer", "partial-crf", "token", "two-step", "weighted-partial-crf")


def arguments_of(settings: dict[str, object]) -> list[str]:
    return [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]


def entities(found: list[Entity]) -> list[tuple[str | None, str]]:
    return [(entity.text, entity.label) for entity in found]


SENTENCE = "Grace Hopper moved to New York ."
NAMES = [("Grace Hopper", "PER"), ("New York", "LOC")]


# Learning.


@pytest.mark.parametrize("method", TAGGERS)
def test_every_tagger_learns_what_is_annotated(toy, method):
    settings = QUICK | ({"stage.epochs": 1, "stage.fraction": 0.02} if method == "two-step" else {})
    trusted = None if method in ("eer", "two-step", "weighted-partial-crf") else toy
    model = Recognizer.train(toy, toy, method=method, trusted=trusted, epochs=12, settings=settings)
    assert isinstance(model.model, TagModel)
    assert model.evaluate(toy).f1 > 0.9
    found = model.predict(SENTENCE)
    assert entities(found) == NAMES
    assert all(0 < entity.score <= 1 and entity.source == "model" for entity in found)
    assert [SENTENCE[entity.start : entity.end] for entity in found] == [text for text, _ in NAMES]


@pytest.mark.parametrize("scheme", ["bioes", "bio2", "io"])
@pytest.mark.parametrize("angle", [False, True])
@pytest.mark.parametrize("method", ["token", "crf", "two-step"])
def test_every_head_learns_in_every_scheme(toy, method, angle, scheme):
    settings = QUICK | {"head.angle": angle, "head.scheme": scheme}
    settings |= {"stage.fraction": 0.02, "stage.epochs": 1} if method == "two-step" else {}
    model = Recognizer.train(toy, toy, method=method, epochs=12, settings=settings)
    assert model.evaluate(toy).f1 > 0.8
    assert model.model.tags.scheme == scheme
    assert (model.model.head.corners is not None) == angle


@pytest.mark.parametrize("head", ["softmax", "crf"])
@pytest.mark.parametrize(
    "parts",
    [
        {"unlabeled": "marginalize", "sampling": "spans"},
        {"unlabeled": "marginalize", "sampling": "spans", "sampling.label": "O", "sampling.max_width": 2},
        {"unlabeled": "marginalize", "regularizer": "entity-ratio"},
        {"unlabeled": "marginalize", "stage": "tag-weights", "stage.rounds": 1},
        {"unlabeled": "marginalize", "stage": "tag-weights", "stage.hard": True, "sampling": "spans"},
        {"unlabeled": "outside", "stage": "o-values", "stage.epochs": 1, "stage.removed": "marginalize"},
        {
            "unlabeled": "outside",
            "stage": "o-values",
            "stage.epochs": 1,
            "sampling": "spans",
            "regularizer": "entity-ratio",
        },
    ],
)
def test_parts_can_be_put_together(toy, head, parts):
    model = Recognizer.train(toy, method="crf", epochs=1, settings=QUICK | {"head": head, **parts})
    assert len(model.predict([sentence.tokens for sentence in toy])) == len(toy)
    assert all(parameter.isfinite().all() for parameter in model.model.parameters())


def test_one_word_of_a_label_that_nobody_annotated_is_no_problem():
    corpus = Corpus([Sentence(("Ada",), (Entity(0, 1, "PER"),)), Sentence(("sleeps",))])
    for method in ("token", "crf", "eer", "two-step"):
        model = Recognizer.train(corpus, corpus, method=method, epochs=2, settings=QUICK)
        assert isinstance(model.predict("Ada"), list)
        assert model.predict("") == []


def test_gaps_cost_a_tagger_recall_that_partial_annotation_does_not(toy):
    """Half of the names are never annotated; a few sentences are, completely."""
    masked = Corpus(tuple(replace(s, entities=s.entities[number % 2 : number % 2 + 1]) for number, s in enumerate(toy)))
    trusted = toy[:5]
    naive, partial = (
        Recognizer.train(masked[5:], method=method, trusted=trusted, epochs=12, settings=QUICK).evaluate(toy)
        for method in ("crf", "partial-crf")
    )
    assert partial.recall > naive.recall + 0.1


@pytest.mark.parametrize("stage", ["folds", "tag-weights"])
def test_a_tagger_can_have_a_teacher(toy, stage):
    """Models of trusted sentences, or of the other half, say what the words of the rest may be."""
    masked = toy[8:].mask(0.5, seed=1)
    settings = QUICK | {"stage": stage, "stage.folds": 2, "unlabeled": "marginalize"}
    settings |= {"stage.min_entities": 4} if stage == "folds" else {"stage.rounds": 1}
    model = Recognizer.train(masked, toy, method="partial-crf", trusted=toy[:8], epochs=10, settings=settings)
    assert model.evaluate(toy).f1 > 0.8


@pytest.mark.parametrize("method", ["token", "crf"])
def test_a_threshold_can_be_fitted_for_a_tagger(toy, tmp_path, method):
    masked = toy.mask(0.6, seed=2)
    settings = QUICK | {"training.fit_threshold": True}
    model = Recognizer.train(masked, toy, method=method, epochs=8, settings=settings, out=tmp_path / "m")
    threshold = model.model.threshold.item()
    assert threshold < 0, "where most names have no tag, O is too sure of itself"
    fitted = model.evaluate(toy)
    tokens = [sentence.tokens for sentence in toy]
    assert Recognizer.from_pretrained(tmp_path / "m").predict(tokens) == model.predict(tokens)
    model.model.threshold.zero_()
    assert fitted.f1 > model.evaluate(toy).f1


# Saving.


@pytest.mark.parametrize("method", ["token", "two-step"])
def test_a_loaded_tagger_predicts_the_same(toy, tmp_path, method):
    settings = QUICK | {"head.angle": True, "head.scheme": "bio2"}
    model = Recognizer.train(toy, toy, method=method, epochs=4, settings=settings, out=tmp_path / "m")
    loaded = Recognizer.from_pretrained(tmp_path / "m")
    assert loaded.settings == model.settings
    tokens = [sentence.tokens for sentence in toy]
    one, other = (m.predict(tokens) for m in (model, loaded))
    assert one == other
    assert [e.score for found in one for e in found] == [e.score for found in other for e in found]
    weights = model.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in loaded.model.state_dict().items())


def test_removed_words_stand_in_the_model_folder_and_survive_loading_and_saving(toy, tmp_path):
    odd = "Tu\u2028rin\x85"  # characters at which some take a line to end
    corpus = Corpus((*toy, Sentence(("Ada", "saw", odd), (Entity(0, 1, "PER"),))))
    settings = QUICK | {"stage.fraction": 0.9, "stage.epochs": 1}
    model = Recognizer.train(corpus, method="two-step", epochs=1, settings=settings, out=tmp_path / "m")
    removed = model.record.reports["removed"]
    untagged = sum(len(s) - sum(e.end - e.start for e in s.entities) for s in corpus)
    assert len(removed) == -(-untagged * 9 // 10)
    assert odd in {record["text"] for record in removed}
    with (tmp_path / "m" / "removed.jsonl").open(encoding="utf-8", newline="\n") as file:
        assert [json.loads(line) for line in file] == list(removed)
    assert removed[0].keys() == {"sentence", "token", "o_value", "text", "context"}
    loaded = Recognizer.from_pretrained(tmp_path / "m")
    assert loaded.record.reports == {"removed": removed}
    loaded.save_pretrained(tmp_path / "again")
    names = ("removed.jsonl", "config.json", "model.safetensors")
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()


def test_a_method_without_stages_leaves_no_reports(toy, tmp_path):
    model = Recognizer.train(toy, method="crf", epochs=1, settings=QUICK, out=tmp_path / "m")
    assert model.record.reports == Recognizer.from_pretrained(tmp_path / "m").record.reports == {}
    assert not (tmp_path / "m" / "removed.jsonl").exists()


@pytest.mark.parametrize("name", ["../removed", "a b", "", "Removed"])
def test_a_report_whose_name_leads_elsewhere_is_refused(toy, tmp_path, name):
    Recognizer.train(toy[:5], method="crf", epochs=1, settings=QUICK, out=tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"reports": [name]}), encoding="utf-8")
    with pytest.raises(Exception, match=r"config\.json is damaged: reports"):
        Recognizer.from_pretrained(tmp_path / "m")


# What makes no sense is refused.


@pytest.mark.parametrize(("method", "more"), [("partial-crf", {}), ("token", {"unlabeled": "marginalize"})])
def test_a_tagger_that_cannot_learn_what_is_no_entity_is_refused(toy, method, more):
    reason = r"cannot learn what is not an entity: no sentence is complete — .*--trusted.*sampling=spans"
    with pytest.raises(ConfigError, match=rf"{method} {reason}"):
        Recognizer.train(toy, method=method, epochs=1, settings=QUICK | more)


@pytest.mark.parametrize(
    ("trusted", "more"),
    [
        (True, {}),
        (False, {"sampling": "spans", "sampling.label": "O"}),
        (False, {"regularizer": "entity-ratio"}),
        (False, {"stage": "tag-weights", "stage.rounds": 1}),
    ],
)
def test_it_is_not_refused_where_something_says_what_is_no_entity(toy, trusted, more):
    complete = toy[6:8] if trusted else None
    Recognizer.train(toy[:6], method="partial-crf", trusted=complete, epochs=1, settings=QUICK | more)


def test_rejected_spans_alone_do_not_say_that_a_word_is_in_no_entity(toy):
    corpus = Corpus((replace(toy[0], non_entities=(Span(1, 2), Span(1, 3))), *toy[1:6]))
    with pytest.raises(ConfigError, match="cannot learn what is not an entity"):
        Recognizer.train(corpus, method="partial-crf", epochs=1, settings=QUICK)


@pytest.mark.parametrize(
    ("method", "key", "value", "reason"),
    [
        (
            "crf",
            "training.nested",
            True,
            "training.nested is set, but crf tags words: it is for span-level methods only",
        ),
        (
            "two-step",
            "training.width_quantile",
            0.99,
            "training.width_quantile is set, but two-step tags words: it is for span-level methods only",
        ),
        (
            "crf",
            "negatives",
            "uniform",
            "negatives is set, but crf is a token-level method and has none; it consists of",
        ),
        ("eer", "teacher.folds", 3, "teacher is set, but eer is a token-level method and has none"),
        ("uniform", "stage", "o-values", "there is no stage 'o-values'; choose distillation, folds"),
        (
            "crf",
            "loss",
            "cross-entropy",
            "there is no loss 'cross-entropy'; choose bnpu, conf-mpu, curriculum, likelihood",
        ),
        ("full", "sampling.ratio", 0.1, "sampling is set, but full is a span-level method and has none"),
        ("crf", "head", "product", "there is no head 'product'; choose crf, entity-and-type, one-vs-rest, softmax"),
        ("uniform", "head", "crf", "there is no head 'crf'; choose"),
        ("crf", "unlabeled", "none", "unlabeled=none: no method of this kind does without; choose"),
        ("crf", "head.scheme", "iob1", r"head.scheme='iob1'"),
        ("crf", "sampling.ratio", 0.3, "sampling.ratio is set, but the method has no sampling; set sampling=NAME, too"),
    ],
)
def test_settings_of_the_other_level_are_refused_with_a_sentence(method, key, value, reason):
    with pytest.raises(ConfigError) as error:
        resolve_settings(method, overrides={key: value})
    assert reason in str(error.value)


@pytest.mark.parametrize(("key", "value"), [("training.nested", False), ("training.width_quantile", "none")])
def test_settings_that_are_switched_off_are_no_problem(key, value):
    assert resolve_settings("crf", overrides={key: value}).method.name == "crf"


def test_a_width_in_a_settings_file_is_refused_too():
    with pytest.raises(ConfigError, match=r"training\.width_quantile is set, but crf tags words"):
        resolve_settings("crf", config={"training": {"width_quantile": 0.9}})


@pytest.mark.parametrize("method", TAGGERS)
def test_settings_of_a_tagger_survive_json(method):
    settings = resolve_settings(method)
    assert settings_from_dict(json.loads(settings.model_dump_json())) == settings


def test_entities_that_overlap_are_counted_and_the_wider_ones_learned(toy, caplog):
    sentences = [
        replace(s, entities=(*s.entities, Entity(s.entities[-1].start - 1, s.entities[-1].end, "LOC")))
        for s in toy[:10]
    ]
    corpus = Corpus((*sentences, *toy[10:20]))
    Recognizer.train(corpus, method="crf", epochs=1, settings=QUICK)
    assert "10 of 50 entities overlap others; a tagger cannot learn them (a span-level method can)." in caplog.text
    caplog.clear()
    Recognizer.train(toy, method="crf", epochs=1, settings=QUICK)
    assert "overlap" not in caplog.text


def test_a_span_with_two_labels_is_not_lost(toy, caplog):
    corpus = Corpus((replace(toy[0], entities=(*toy[0].entities, Entity(0, 1, "LOC"))), *toy[1:5]))
    Recognizer.train(corpus, method="crf", epochs=1, settings=QUICK)
    assert "overlap" not in caplog.text


# The command line.


def test_all_taggers_are_listed_with_their_level(run):
    code, output, _ = run("methods", "--json")
    listed = {method["name"]: method for method in json.loads(output)}
    assert code == 0
    assert {name for name, method in listed.items() if method["level"] == "token"} == {
        *TAGGERS,
        "autoner",
        "bnpu",
        "bond",
        "conf-mpu",
        "cupul",
        "roster",
    }
    assert (
        listed["two-step"]["parameters"].items()
        >= {
            "head": "crf",
            "head.angle": True,
            "sampling.ratio": 0.2,
            "stage": "o-values",
            "stage.fraction": 0.1,
            "regularizer": "none",
        }.items()
    )
    code, output, _ = run("methods")
    spans, words = output.split("Methods that tag words:")
    assert "Methods that score spans:" in spans
    for name, method in registry().methods.items():
        part, other = (words, spans) if method.level == "token" else (spans, words)
        assert any(line.split()[:1] == [name] for line in part.splitlines())
        assert method.summary in part
        assert method.summary not in other
    kinds = dict(line.split(maxsplit=1) for line in words.partition("KIND=NAME:")[2].strip().splitlines())
    assert kinds == {
        "head": "crf, entity-and-type, one-vs-rest, softmax",
        "unlabeled": "marginalize, outside",
        "sampling": "spans, none",
        "loss": "bnpu, conf-mpu, curriculum, likelihood, self-training, token-gce",
        "regularizer": "entity-ratio, none",
        "stage": "distillation, ensemble, entity-confidence, folds, o-values, tag-weights, voters, none",
    }


@pytest.mark.parametrize("method", TAGGERS)
def test_a_tagger_is_described_with_what_can_be_set(run, method):
    code, output, _ = run("methods", method)
    assert code == 0
    assert f"{method} (token level)" in output
    assert "head.scheme" in output


def test_a_tagger_goes_the_whole_way_from_files_to_predictions(run, files):
    out, dev = files / "model", files / "dev.jsonl"
    quick = arguments_of(QUICK | {"stage.fraction": 0.05, "stage.epochs": 1})
    code, output, log = run(
        "train",
        files / "train.conll",
        "--dev",
        dev,
        "--out",
        out,
        "--method",
        "two-step",
        "--epochs",
        12,
        "--json",
        *quick,
    )
    assert code == 0, log
    report = json.loads(output)
    assert report["dev"]["f1"] > 0.9
    assert "Method two-step, encoder recurrent, head crf." in log
    assert (out / "removed.jsonl").read_text(encoding="utf-8").count("\n") > 0
    assert "| method | `two-step`" in (out / "README.md").read_text(encoding="utf-8")

    scores = json.loads(run("evaluate", out, dev, "--json")[1])
    assert scores["f1"] == pytest.approx(report["dev"]["f1"])

    (files / "raw.txt").write_text(f"{SENTENCE}\n", encoding="utf-8")
    code, output, _ = run("predict", out, files / "raw.txt")
    assert code == 0
    assert [(e["text"], e["label"]) for e in json.loads(output)["entities"]] == NAMES

    code, _, log = run("predict", out, files / "raw.txt", "--nested")
    assert code == 2
    assert (
        "a tagger cannot find nested entities — train a span-level method (lacuner methods), or leave out --nested"
        in (" ".join(log.split()))
    )
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "partial-crf"], "partial-crf cannot learn what is not an entity"),
        (["--method", "crf", "--set", "negatives=uniform"], "negatives is set, but crf is a token-level method"),
        (
            ["--method", "uniform", "--set", "stage=o-values"],
            "there is no stage 'o-values'; choose distillation, folds",
        ),
        (["--method", "crf", "--set", "training.nested=true"], "it is for span-level methods only"),
        (["--method", "crf", "--set", "training.width_quantile=0.9"], "it is for span-level methods only"),
        (["--method", "two-step", "--set", "stage.fraction=2"], "stage.fraction=2: input should be less than 1"),
    ],
)
def test_errors_are_one_sentence_without_a_traceback(run, files, arguments, message):
    code, _, log = run("train", files / "train.conll", "--out", files / "m", *arguments)
    assert code == 2
    assert message in " ".join(log.split())
    assert "Traceback" not in log
    assert not (files / "m").exists()


@pytest.mark.parametrize(
    ("method", "settings", "reason"),
    [
        ("partial-crf", {"stage": "o-values"}, "cannot learn what is not an entity"),
        (
            "weighted-partial-crf",
            {"unlabeled": "outside"},
            "stage=tag-weights weighs the tags of untagged words, but unlabeled=outside",
        ),
        ("crf", {"stage": "tag-weights"}, "set unlabeled=marginalize, or stage=none"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(toy, small_settings, method, settings, reason):
    quick = {key: value for key, value in small_settings.items() if not key.startswith("head")}
    with pytest.raises(ConfigError, match=re.escape(reason)):
        Recognizer.train(toy, method=method, epochs=1, settings=quick | settings)
