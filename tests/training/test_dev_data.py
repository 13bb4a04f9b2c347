"""What is said about dev data before a model is selected on it."""

from dataclasses import replace

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.training.dev_data import count_repeated, labels_that_dev_lacks, remarks_on_dev


def other_words(corpus: Corpus) -> Corpus:
    """As many sentences with the same labels, and no word in common."""
    return Corpus(tuple(replace(s, tokens=tuple(f"x{token}" for token in s.tokens)) for s in corpus))


def test_nothing_is_said_about_ordinary_dev_data(toy):
    assert not list(remarks_on_dev(toy, other_words(toy)))


def test_labels_of_a_dictionary_are_no_measure_unless_somebody_says_that_they_have_gaps(toy):
    def from_dictionary(sentence):
        return replace(sentence, entities=tuple(replace(e, source="dictionary") for e in sentence.entities))

    dev = Corpus(tuple(map(from_dictionary, other_words(toy))))
    (remark,) = remarks_on_dev(toy, dev)
    assert remark.startswith("All labels of the dev data are from a dictionary")
    assert "--dev-incomplete" in remark
    assert not list(remarks_on_dev(toy, dev, has_gaps=True))
    assert not list(remarks_on_dev(toy, dev.as_complete()))
    assert not list(remarks_on_dev(toy, Corpus((*dev, *other_words(toy)))))


def test_a_label_with_another_name_in_the_dev_data_is_missed_on_both_sides(toy):
    remarks = list(remarks_on_dev(toy, other_words(toy).rename_labels({"PER": "PERSON"})))
    assert [remark.split(";")[0].split(":")[0] for remark in remarks] == [
        "The label PERSON is in the dev data only",
        "The label PER is in the training data only",
    ]


def test_a_label_that_is_rare_may_be_missing_from_the_dev_data(toy):
    rare = toy + Corpus((Sentence(("Euro",), (Entity(0, 1, "MISC"),)),))
    assert labels_that_dev_lacks(rare, toy) == []
    assert labels_that_dev_lacks(rare + rare.rename_labels({"PER": "MISC"}), toy) == ["MISC"]


def test_a_label_that_nobody_looked_for_is_not_missing(toy):
    people = Corpus(tuple(replace(s, entities=s.entities[:1]) for s in toy))
    assert labels_that_dev_lacks(toy, people) == ["LOC"]
    assert labels_that_dev_lacks(toy, people.with_annotated_labels(["PER"])) == []


def test_dev_sentences_from_the_training_data_are_counted_from_a_fifth_on(toy):
    dev = toy[:2] + other_words(toy[:8])
    assert count_repeated(toy, dev) == 2
    assert "2 of 10 dev sentences are also in the training data" in " ".join(remarks_on_dev(toy, dev))
    assert not list(remarks_on_dev(toy, toy[:1] + other_words(toy[:8])))
