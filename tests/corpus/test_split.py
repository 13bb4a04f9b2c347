from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.formats.conll import DOCUMENT_MARK
from lacuner.corpus.split import divide, documents_of, select
from lacuner.errors import ConfigError, DataError

TENTHS = {"dev": 0.1, "test": 0.1}


def sentence(number: int, labels: str = "", **extra: object) -> Sentence:
    words = (f"word{number}", *labels, "end")
    return Sentence(words, tuple(Entity(i, i + 1, label) for i, label in enumerate(labels, 1)), extra=extra)


CORPORA = st.lists(
    st.builds(
        lambda number, labels, document: sentence(number, labels, **({} if document is None else {"doc_id": document})),
        st.integers(0, 60),
        st.text("PL", max_size=2),
        st.none() | st.integers(0, 12),
    ),
    min_size=1,
    max_size=80,
)


@given(CORPORA, st.sampled_from(["auto", "sentence"]), st.integers(0, 5))
@settings(deadline=None)
def test_nothing_is_lost_or_there_twice_and_equal_sentences_are_together(corpus, unit, seed) -> None:
    try:
        division = divide(corpus, {"dev": 0.2, "test": 0.1}, seed, unit)
    except DataError:  # a part would be empty
        return
    assert sorted(index for indices in division.parts.values() for index in indices) == list(range(len(corpus)))
    assert all(list(indices) == sorted(indices) for indices in division.parts.values())
    parts: dict[tuple[str, ...], set[str]] = defaultdict(set)
    documents: dict[object, set[str]] = defaultdict(set)
    for name, indices in division.parts.items():
        for index in indices:
            parts[corpus[index].tokens].add(name)
            documents[corpus[index].extra.get("doc_id")].add(name)
    assert all(len(names) == 1 for names in parts.values())
    cut = sum(len(names) > 1 for document, names in documents.items() if document is not None)
    assert unit == "sentence" or division.cut == cut
    assert divide(corpus, {"dev": 0.2, "test": 0.1}, seed, unit) == division


@pytest.mark.parametrize("count", [20, 100, 1234])
def test_sizes_are_what_was_asked_if_no_sentence_is_there_twice(count: int) -> None:
    parts = divide([sentence(number) for number in range(count)], TENTHS, seed=3).parts
    tenth = round(count / 10)
    assert {name: len(indices) for name, indices in parts.items()} == {
        "train": count - 2 * tenth,
        "dev": tenth,
        "test": tenth,
    }


def test_labels_are_in_proportion() -> None:
    corpus = [sentence(n, "P" * (n % 2) + "L" * (n % 10 == 0) + "R" * (n % 50 == 0)) for n in range(1000)]
    parts = divide(corpus, TENTHS, seed=1).parts
    counts = {name: Counter(e.label for i in indices for e in corpus[i].entities) for name, indices in parts.items()}
    assert counts["dev"] == {"P": 50, "L": 10, "R": 2}
    assert counts["test"] == counts["dev"]


def test_another_seed_gives_another_division() -> None:
    corpus = [sentence(number) for number in range(100)]
    assert divide(corpus, TENTHS, seed=1).parts != divide(corpus, TENTHS, seed=2).parts


def test_documents_stay_whole_and_sizes_are_close() -> None:
    corpus = [sentence(n, "P" * (n % 3), document=n // 7) for n in range(700)]
    division = divide(corpus, TENTHS, seed=1)
    assert (division.documents, division.cut) == (100, 0)
    assert all(abs(len(division.parts[name]) - 70) <= 7 for name in ("dev", "test"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([{"document": 1}, {"document": "1"}, {"document": 2}], [True, False]),
        ([{"id": "a", "doc_id": 3}, {"id": "b", "doc_id": 3}, {"id": "c"}], [True, False]),
        ([{"meta": {"doc_id": "x"}}, {"meta": {"doc_id": "x"}}, {"meta": "x"}], [True, False]),
        ([{DOCUMENT_MARK: True}, {}, {DOCUMENT_MARK: True}], [True, False]),
        ([{}, {"id": True}, {"id": 1.5}], [True, True]),
    ],
)
def test_a_field_or_a_mark_tells_the_document(fields, expected) -> None:
    found = list(documents_of([Sentence(("a",), extra=extra) for extra in fields]))
    assert [found[0] == found[1], found[1] == found[2]] == expected


def test_fields_that_name_single_sentences_are_no_documents() -> None:
    assert divide([sentence(n, id=n) for n in range(50)], TENTHS, 1).documents == 0


def test_documents_are_cut_where_shared_sentences_tie_too_many_of_them_together() -> None:
    corpus = [sentence(0 if n % 10 == 0 else n, doc_id=n // 10) for n in range(500)]  # all begin with the same sentence
    division = divide(corpus, TENTHS, seed=1)
    assert division.cut > 0
    assert (division.documents, division.repeated) == (50, 49)
    assert abs(len(division.parts["dev"]) - 50) <= 25
    with pytest.raises(DataError, match="dev would be empty"):
        divide(corpus, TENTHS, seed=1, unit="document")


def test_the_first_sentence_that_is_left_of_a_document_begins_it() -> None:
    corpus = [Sentence((str(n),), extra={"a": n} | ({DOCUMENT_MARK: True} if n in (1, 4) else {})) for n in range(6)]
    found = list(select(corpus, [0, 2, 3, 4, 5]))
    assert [DOCUMENT_MARK in each.extra for each in found] == [False, True, False, True, False]
    assert [each.extra["a"] for each in found] == [0, 2, 3, 4, 5]
    assert list(select(corpus, range(6))) == corpus


@pytest.mark.parametrize("fractions", [{"dev": 0.0}, {"dev": 1.0}, {"dev": -0.1}, {"dev": 0.6, "test": 0.4}])
def test_fractions_that_make_no_sense_are_refused(fractions) -> None:
    with pytest.raises(ConfigError):
        divide([sentence(n) for n in range(10)], fractions, 1)


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(DataError, match="dev would be empty: 2 sentences"):
        divide([sentence(1), sentence(2)], {"dev": 0.1}, 1)
    with pytest.raises(DataError, match="the data does not mark documents"):
        divide([sentence(n) for n in range(10)], {"dev": 0.1}, 1, "document")
