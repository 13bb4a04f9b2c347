import subprocess
import sys
from dataclasses import replace

import pytest

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.errors import ConfigError
from lacuner.inference import passages
from lacuner.sample import read_sample

TINY = {"encoder.vectors": "none", "encoder.word_size": 8, "encoder.hidden": 8, "training.batch_tokens": 96}


@pytest.fixture(scope="module")
def train() -> Corpus:
    return read_sample("train")[:18]


@pytest.fixture(scope="module")
def dev() -> Corpus:
    return read_sample("dev")[:7]


def trained(train, dev, out, **options) -> tuple[bytes, list[float]]:
    """The model's bytes, and the losses of its epochs."""
    options = {"method": "uniform", "epochs": 2, "settings": TINY} | options
    model = Recognizer.train(train, dev, out=out, **options)
    return (out / "model.safetensors").read_bytes(), [record["loss"] for record in model.record.history]


@pytest.mark.parametrize("method", ["lacuner", "scl-rai", "eer", "bnpu", "bond"])
def test_the_model_is_the_same_bit_by_bit(train, dev, tmp_path, method):
    options = {"method": method, "settings": TINY | ({"stage": "none"} if method == "lacuner" else {})}
    whole = trained(train, dev, tmp_path / "whole", **options)
    streamed = trained(iter(train), dev, tmp_path / "streamed", streaming=True, **options)
    assert streamed == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["streamed", "whole"], "nothing else is left"


def test_models_that_are_trained_first_are_the_same_too(train, dev, tmp_path):
    whole = trained(train, dev, tmp_path / "whole", method="lacuner")
    streamed = trained(iter(train), dev, tmp_path / "streamed", method="lacuner", streaming=True, workers=2)
    assert streamed == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["streamed", "whole"]


def test_teachers_learn_from_trusted_sentences_which_are_in_memory(train, dev, tmp_path):
    settings = TINY | {"teacher.min_entities": 3, "teacher.folds": 2}
    options = {"method": "lacuner", "settings": settings, "trusted": dev}
    whole = trained(train, dev, tmp_path / "whole", **options)
    assert trained(iter(train), dev, tmp_path / "streamed", streaming=True, **options) == whole


def test_trusted_sentences_and_passages_of_long_ones_are_the_same_too(train, dev, tmp_path, monkeypatch):
    monkeypatch.setattr(passages, "MAX_PASSAGE", 12)
    train.write(tmp_path / "train.conll")
    options = {"trusted": dev, "method": "full"}
    whole = trained(tmp_path / "train.conll", dev, tmp_path / "whole", **options)
    streamed = trained(tmp_path / "train.conll", dev, tmp_path / "streamed", streaming=True, **options)
    assert streamed == whole


def test_an_interrupted_run_may_be_resumed_with_or_without_streaming(train, dev, tmp_path):
    from lacuner.training.loop import Observer

    class Stop(Observer):
        def epoch_ended(self, record):
            raise KeyboardInterrupt

    whole = trained(train, dev, tmp_path / "whole")
    for before, after in ((True, False), (False, True)):
        with pytest.raises(KeyboardInterrupt):
            trained(train, dev, tmp_path / "model", streaming=before, observer=Stop())
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model.training", "whole"]
        assert trained(train, dev, tmp_path / "model", streaming=after, resume=True) == whole
        (tmp_path / "model").rename(tmp_path / "away")
        subprocess.run(["rm", "-r", tmp_path / "away"], check=True)


def with_sources(corpus: Corpus, *sources: str) -> Corpus:
    named = zip(corpus, sources * len(corpus), strict=False)
    return Corpus([replace(s, entities=[replace(e, source=source) for e in s.entities]) for s, source in named])


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"method": "selective"}, {}, "negatives=selected looks at all training data while it trains"),
        ({"method": "roster"}, {}, "looks at all training data while it trains"),
        ({"method": "two-step"}, {}, r"trains other models first \(exploration\)"),
        (
            {"settings": TINY | {"stage": "none", "teacher.train_on": "all"}},
            {},
            r"trains other models first \(teacher\)",
        ),
        ({"same_text": True}, {}, "merge them first"),
        ({"out": None}, {}, "give out, too"),
        ({}, {"sources": ("one", "two")}, r"several sources \(one, two\)"),
    ],
)
def test_what_needs_all_data_in_memory_is_refused_in_a_sentence(train, dev, tmp_path, options, change, message):
    data = with_sources(train, *change.get("sources", ("one",)))
    arguments = {"settings": TINY, "epochs": 1, "out": tmp_path / "model", "streaming": True} | options
    with pytest.raises(ConfigError, match=message):
        Recognizer.train(data, dev, **arguments)


def test_one_source_is_no_reason_to_refuse(train, dev, tmp_path):
    trained(with_sources(train, "dictionary"), dev, tmp_path / "model", streaming=True)


PEAK = """
import re, sys
from pathlib import Path
from lacuner import Entity, Recognizer, Sentence

count, streaming, out = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3]
small = {"encoder.vectors": "none", "encoder.word_size": 2, "encoder.hidden": 2, "encoder.character_filters": 2}
small |= {"head": "product", "head.hidden": 2, "head.max_span_width": 1, "training.batch_tokens": 800}
# New words every time, as a reader makes them.
data = (Sentence(tuple(f"word{number % 50}" for number in range(200)), (Entity(0, 1, "X"),)) for _ in range(count))
Recognizer.train(data if streaming else list(data), method="uniform", epochs=1, settings=small, out=out, streaming=streaming)
print(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
def test_memory_hardly_grows_with_the_corpus(tmp_path):
    def peak(count: int, streaming: bool) -> float:
        command = [sys.executable, "-c", PEAK, str(count), str(streaming), str(tmp_path / "model")]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024

    streamed = peak(2_000, True)
    assert streamed - peak(400, True) < 5, "megabytes"
    assert peak(2_000, False) - streamed > 12, "what the sentences themselves need"


def test_texts_without_words_are_left_out_as_always(dev, tmp_path):
    train = [Sentence(("Ada", "left"), (Entity(0, 1, "PER"),)), Sentence(())] * 3
    whole = trained(train, dev, tmp_path / "whole", method="full")
    assert trained(train, dev, tmp_path / "streamed", method="full", streaming=True) == whole
