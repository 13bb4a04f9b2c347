from collections import Counter

import pytest

from lacuner.corpus import Corpus
from lacuner.sample import read_names, read_sample

LABELS = ("LOC", "MISC", "ORG", "PER")
SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def parts() -> dict[str, Corpus]:
    return {split: read_sample(split) for split in SPLITS}


def names_in(corpus):
    return [(sentence.text_of(e.start, e.end), e.label) for sentence in corpus for e in sentence.entities]


def test_there_are_sentences_enough_to_train_and_measure(parts):
    assert sum(len(corpus) for corpus in parts.values()) >= 500
    assert len(parts["train"]) > len(parts["test"]) > 100
    assert len(parts["dev"]) > 100


@pytest.mark.parametrize("split", SPLITS)
def test_every_part_has_all_four_labels_many_times(parts, split):
    assert parts[split].labels == LABELS
    assert min(parts[split].statistics().labels.values()) >= 50


@pytest.mark.parametrize("split", SPLITS)
def test_nothing_in_the_sample_has_to_be_mended(parts, split):
    assert not parts[split].report.counts
    assert not parts[split].statistics().overlapping_entities


def test_no_sentence_stands_twice(parts):
    counts = Counter(tuple(map(str.lower, sentence.tokens)) for corpus in parts.values() for sentence in corpus)
    assert [words for words, count in counts.items() if count > 1] == []


def test_the_name_list_covers_a_part_of_the_training_entities_only(parts):
    listed, present = set(read_names()), names_in(parts["train"])
    for label in LABELS:
        of_label = [name for name in present if name[1] == label]
        assert 0.2 < sum(name in listed for name in of_label) / len(of_label) < 0.8


def test_the_name_list_is_tidy():
    names = read_names()
    assert len(set(names)) == len(names)
    assert all(name and name == name.strip() and label in LABELS for name, label in names)


def test_the_test_part_holds_names_that_training_does_not_show(parts):
    seen, present = set(names_in(parts["train"])), names_in(parts["test"])
    assert 0.2 < sum(name not in seen for name in present) / len(present) < 0.9
