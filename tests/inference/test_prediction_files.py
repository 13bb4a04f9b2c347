import io
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lacuner import Corpus, Entity, Sentence
from lacuner.inference.files import predict_stream, read_inputs
from lacuner.inference.output import OutputOptions, PredictionInput, PredictionReport
from lacuner.streams.engine import LocalEngine


class Capitals:
    """Finds words with a capital: characters in raw text, words in sentences."""

    split = "words"
    labels = ("NAME", "THING")

    def predict(self, text: Iterable[Any], *, nested: bool = False, min_score: float = 0.0) -> list[list[Entity]]:
        return [self._find(each) for each in text]

    def _find(self, text: str | Sentence) -> list[Entity]:
        words, position = text.split() if isinstance(text, str) else text.tokens, 0
        found = []
        for index, word in enumerate(words):
            start = index if isinstance(text, Sentence) else text.index(word, position)
            end = start + (1 if isinstance(text, Sentence) else len(word))
            position = end
            if word[0].isupper():
                found.append(Entity(start, end, "NAME", text=word, score=0.5, source="model"))
        return found


def predicted(
    inputs: Iterable[PredictionInput], format: str = "jsonl", workers: int = 1
) -> tuple[str, PredictionReport]:
    out, options = io.StringIO(), OutputOptions(format)  # type: ignore[arg-type]
    report = predict_stream(Capitals, inputs, out, options, LocalEngine(workers))
    return out.getvalue(), report


@pytest.mark.parametrize(
    ("name", "content", "record"),
    [
        ("a.txt", "Ada sleeps\n", {"text": "Ada sleeps"}),
        ("a.jsonl", '{"id": 3, "text": "Ada sleeps", "label": [[0, 1, "X"]]}\n', {"id": 3, "text": "Ada sleeps"}),
        ("a.json", '[{"data": {"text": "Ada sleeps", "id": 3}}]', {"id": 3, "text": "Ada sleeps"}),
        ("b.json", '[{"tokenized_text": ["Ada", "sleeps"], "ner": [[0, 0, "X"]]}]', {"tokens": ["Ada", "sleeps"]}),
        ("a.conll", "Ada\tB-PER\nsleeps\tO\n", {"tokens": ["Ada", "sleeps"]}),
    ],
)
def test_a_result_is_written_beside_what_its_record_holds(
    tmp_path: Path, name: str, content: str, record: dict[str, Any]
) -> None:
    (tmp_path / name).write_text(content)
    text, report = predicted(read_inputs(tmp_path / name))
    found = json.loads(text)
    (entity,) = found.pop("entities")
    assert found == record
    assert entity["text"] == "Ada"
    assert entity["end"] == (1 if "tokens" in record else 3)
    assert report == PredictionReport(1, 1, labels=Counter(NAME=1, THING=0))


def test_columns_show_raw_text_as_words_and_leave_out_what_has_none(tmp_path: Path) -> None:
    inputs = [PredictionInput(text, {"text": text}) for text in ("Ada likes Turin", "", "no")]
    text, report = predicted(inputs, "conll")
    (tmp_path / "out.conll").write_text(text)
    found = Corpus.read(tmp_path / "out.conll")
    assert [sentence.entities for sentence in found] == [(Entity(0, 1, "NAME"), Entity(2, 3, "NAME")), ()]
    assert report == PredictionReport(3, 2, without_words=1, labels=Counter(NAME=2))


@pytest.mark.parametrize("format", ["jsonl", "conll", "html", "text"])
def test_several_processes_write_what_one_writes(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setattr("lacuner.inference.files._CHUNK", 7)
    inputs = [PredictionInput(f"Ada met nobody {number}", {"text": "", "id": number}) for number in range(60)]
    inputs += [PredictionInput(Sentence(("Ada", "slept"), extra={"id": 1}), {"tokens": ["Ada", "slept"]})] * 20
    assert predicted(inputs, format, 3) == predicted(inputs, format)


def test_an_answer_comes_before_the_next_question() -> None:
    out = io.StringIO()

    def inputs() -> Iterator[PredictionInput]:
        for number in range(3):
            until = time.monotonic() + 20
            while out.getvalue().count("\n") < number:
                assert time.monotonic() < until, "the text before this one is not answered"
                time.sleep(0.001)
            yield PredictionInput(f"Ada {number}", {"text": f"Ada {number}"})

    report = predict_stream(Capitals, inputs(), out, live=True)
    assert [json.loads(line)["text"] for line in out.getvalue().splitlines()] == ["Ada 0", "Ada 1", "Ada 2"]
    assert report.texts == 3
