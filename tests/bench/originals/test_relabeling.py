import pytest

from lacuner import Corpus, Entity, Sentence
from lacuner.bench.originals.relabeling import cut_like, matched, renamed, with_entities_of
from lacuner.errors import DataError


def corpus(*sentences: tuple[str, list[tuple[int, int, str]]]) -> Corpus:
    return Corpus(
        tuple(Sentence(tuple(text.split()), tuple(Entity(*entity) for entity in found)) for text, found in sentences)
    )


def test_labels_that_are_not_named_stay_and_those_that_become_none_go() -> None:
    before = corpus(("Ada in Rome", [(0, 1, "PER"), (1, 2, "0"), (2, 3, "geoloc")]))
    assert (
        renamed(before, {"geoloc": "geo-loc", "0": None}).sentences
        == corpus(("Ada in Rome", [(0, 1, "PER"), (2, 3, "geo-loc")])).sentences
    )


def test_digits_may_have_become_zeros_in_either_original() -> None:
    words = corpus(("Room 12 , 0 left", []))
    assert with_entities_of(words, corpus(("Room 00 , 0 left", [(0, 2, "LOC")])))[0] == Sentence(
        ("Room", "12", ",", "0", "left"), (Entity(0, 2, "LOC"),)
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (corpus(("a b", [])), "one original has 2 sentences, the other 1"),
        (corpus(("a b", []), ("c x", [])), "sentence 2 is 'c d' in one original and 'c x' in the other"),
        (corpus(("a b", []), ("c", [])), "sentence 2 is 'c d' in one original and 'c' in the other"),
    ],
)
def test_labels_of_other_words_are_no_labels(labels: Corpus, message: str) -> None:
    with pytest.raises(DataError, match=f"^{message} — take both originals at the commits"):
        with_entities_of(corpus(("a b", []), ("c d", [])), labels)


def test_an_entity_loses_the_word_that_is_cut_off_and_vanishes_with_its_only_word() -> None:
    whole = corpus(("at New York", [(1, 3, "LOC")]), ("I like Rome", [(2, 3, "LOC")]))
    cut = cut_like(whole, corpus(("at New", []), ("I like", [])))
    assert cut.sentences == corpus(("at New", [(1, 2, "LOC")]), ("I like", [])).sentences


def test_a_sentence_of_one_word_is_joined_to_the_next() -> None:
    whole = corpus(("Ada", [(0, 1, "PER")]), ("saw New York", [(1, 3, "LOC")]), ("so what", []))
    cut = cut_like(whole, corpus(("Ada saw New", []), ("so", [])))
    assert cut.sentences == corpus(("Ada saw New", [(0, 1, "PER"), (2, 3, "LOC")]), ("so", [])).sentences


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (corpus(("a", []), ("x", [])), "sentence 2 is 'c d' in one original and 'x' in the other"),
        (corpus(("a", []), ("c", []), ("e", [])), "sentence 3 is '' in one original and 'e' in the other"),
        (corpus(("a", [])), "1 sentences at the end of one original are not in the other"),
    ],
)
def test_sentences_that_were_not_cut_this_way_are_refused(cut: Corpus, message: str) -> None:
    with pytest.raises(DataError, match=f"^{message} —"):
        cut_like(corpus(("a b", []), ("c d", [])), cut)


def test_sentences_are_found_by_their_words() -> None:
    labels = corpus(("x y", []), ("Ada left", [(0, 1, "PER")]))
    assert matched(corpus(("Ada left", [])), labels).sentences == corpus(("Ada left", [(0, 1, "PER")])).sentences
    with pytest.raises(DataError, match=r"^1 of 2 sentences have no human labels, the first is number 2 —"):
        matched(corpus(("Ada left", []), ("Bob left", [])), labels)
