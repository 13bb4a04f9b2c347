import json
import logging

import pytest

from growth import assert_linear
from lacuner import Corpus, Entity, Sentence
from lacuner.analysis.hidden import annotated_spans, hidden_against_gold, read_hidden
from lacuner.errors import DataError

WORDS = ("Ada", "Lovelace", "met", "Bob")
GOLD = Sentence(WORDS, (Entity(0, 2, "PER"), Entity(3, 4, "PER")))


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_an_entity_is_hidden_if_exactly_its_span_has_no_label():
    train = [
        Sentence(WORDS, (Entity(3, 4, "PER"),)),
        Sentence(WORDS, (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))),  # another border hides, another label does not
        GOLD,
    ]
    assert hidden_against_gold(train, [GOLD] * 3, "gold") == [{(0, 2)}, {(0, 2)}, set()]


def test_a_span_with_two_labels_is_one_place():
    assert annotated_spans(Sentence(WORDS, (Entity(0, 2, "PER"), Entity(0, 2, "ORG")))) == {(0, 2)}


@pytest.mark.parametrize("other", [[GOLD], [GOLD, Sentence(("Another",))]])
def test_other_sentences_are_refused(other):
    with pytest.raises(DataError, match=r"gold\.conll: .* — compare annotations of the same sentences"):
        hidden_against_gold([GOLD, GOLD], other, "gold.conll")


def test_what_mask_writes_is_what_gold_tells(toy, tmp_path):
    masked = toy.mask(0.5, seed=3)
    records = [
        {"sentence": index, "start": e.start, "end": e.end, "label": e.label, "text": gold.text_of(e.start, e.end)}
        for index, (gold, ours) in enumerate(zip(toy, masked, strict=True))
        for e in gold.entities
        if e not in ours.entities
    ]
    found = read_hidden(write(tmp_path / "hidden.jsonl", *records), masked)
    assert sum(map(len, found)) == len(records) > 10
    assert found == hidden_against_gold(masked, toy, "gold")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"start": 0, "end": 2, "label": "PER"}, r'hidden.jsonl:1: "sentence" must be a whole number — give the file'),
        ({"sentence": True, "start": 0, "end": 2, "label": "PER"}, '"sentence" must be a whole number'),
        ({"sentence": 1, "start": 0, "end": 2, "label": "PER"}, "there is no sentence 1 in the training data"),
        ({"sentence": -1, "start": 0, "end": 2, "label": "PER"}, "there is no sentence -1"),
        ({"sentence": 0, "start": 3, "end": 9, "label": "PER"}, "is not in sentence 0"),
        ({"sentence": 0, "start": 0, "end": 2, "label": "PER", "text": "Alan Turing"}, "is not in sentence 0"),
        ({"sentence": 0, "start": 2, "end": 2, "label": "PER"}, "is not an entity"),
    ],
)
def test_a_file_that_does_not_belong_to_the_data_is_refused(tmp_path, record, message):
    with pytest.raises(DataError, match=message):
        read_hidden(write(tmp_path / "hidden.jsonl", record), Corpus((Sentence(WORDS),)))


def test_what_is_annotated_all_the_same_is_not_hidden(tmp_path, caplog):
    path = write(tmp_path / "hidden.jsonl", {"sentence": 0, "start": 3, "end": 4, "label": "LOC"})
    with caplog.at_level(logging.WARNING):
        assert read_hidden(path, Corpus((GOLD,))) == [frozenset()]
    assert "1 entities" in caplog.text


def test_the_hidden_entities_of_a_long_sentence_are_read_in_time_that_is_linear(tmp_path):
    def prepare(size):
        words = ("Ada",) * size
        records = [{"sentence": 0, "start": n, "end": n + 1, "label": "PER", "text": "Ada"} for n in range(0, size, 2)]
        path = write(tmp_path / f"hidden-{size}.jsonl", *records)
        train = Corpus(
            (Sentence(words, tuple(Entity(n, n + 1, "PER") for n in range(1, size, 2)), text=" ".join(words)),)
        )
        return lambda: read_hidden(path, train)

    assert len(prepare(10)()[0]) == 5
    assert_linear(prepare, 200)
