import copy
from collections.abc import Iterator, Sequence

import pytest

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus.tokenize import split_words
from lacuner.inference.passages import MAX_PASSAGE, passages_of
from lacuner.inference.predict import find_entities, predict_pairs, predict_texts
from lacuner.matching import Dictionary, Matcher
from lacuner.models.model import EncodedBatch, Model

FILLER = ("Nothing", "to", "see", "here", ".")


@pytest.mark.parametrize("nested", [False, True])
def test_entities_are_found_as_the_recognizer_finds_them(unsure, model, toy, nested):
    recognizer = Recognizer(copy.deepcopy(unsure), model.settings, model.split, model.record)
    sentences = [toy[0].tokens, (), toy[6].tokens, ("Oslo",), toy[13].tokens]
    found = find_entities(unsure, sentences, nested, 0.4)
    assert found[1] == []
    for tokens, entities in zip(sentences, found, strict=True):
        if not tokens:
            continue
        (alone,) = unsure.entities(unsure.encode([tokens]), nested, 0.4)
        predicted = recognizer.predict(tokens, tokens=True, nested=nested, min_score=0.4)
        assert entities == alone == predicted
        assert [e.score for e in entities] == pytest.approx([e.score for e in alone], abs=1e-5)
        assert [e.score for e in entities] == pytest.approx([e.score for e in predicted], abs=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_finding_leaves_the_mode_as_it_was_and_knows_no_dropout(unsure, toy, training):
    changing = copy.deepcopy(unsure)
    expected = find_entities(changing, toy.tokens)
    changing.train(training)
    assert find_entities(changing, toy.tokens) == expected
    assert changing.training is changing.encoder.training is training


class Recording:
    """A backend that remembers what it has encoded."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.seen: list[tuple[str, ...]] = []

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        self.seen += map(tuple, sentences)
        return self.model.encode(sentences)


def test_a_backend_computes_the_word_vectors_of_every_sentence_with_words(model, toy):
    backend = Recording(model.model)
    sentences = [*toy.tokens, ()]
    assert find_entities(model.model, sentences, backend=backend) == find_entities(model.model, sentences)
    assert sorted(backend.seen) == sorted(toy.tokens)
    for predict, texts in ((predict_pairs, toy), (predict_texts, [" ".join(tokens) for tokens in toy.tokens])):
        backend.seen.clear()
        assert list(predict(model.model, texts, backend=backend)) == list(predict(model.model, texts))
        assert sorted(backend.seen) == sorted(toy.tokens)


def test_long_lists_of_words_are_searched_in_passages(model, toy):
    """Each passage ends where a sentence does, and what is found is that of all passages, in words of the whole."""
    words = tuple(word for sentence in toy for word in sentence.tokens) * 8
    backend = Recording(model.model)
    (found,) = find_entities(model.model, [words], backend=backend)
    assert max(map(len, backend.seen)) <= MAX_PASSAGE
    assert all(tokens[-1] == "." for tokens in backend.seen)
    assert sorted(word for tokens in backend.seen for word in tokens) == sorted(words)
    expected = []
    for passage in passages_of(words):
        (inside,) = model.model.entities(model.model.encode([words[passage.begin : passage.end]]))
        expected += [Entity(passage.begin + e.start, passage.begin + e.end, e.label) for e in inside]
    assert found == expected
    assert found[-1].start > 900, "otherwise this says little"
    assert model.predict(list(words), tokens=True) == found


def test_long_and_short_sentences_do_not_get_into_each_others_way(model, toy):
    long = FILLER * 100 + toy[3].tokens
    together = find_entities(model.model, [toy[0].tokens, long, (), toy[1].tokens])
    assert together == [find_entities(model.model, [tokens])[0] for tokens in (toy[0].tokens, long, (), toy[1].tokens)]


def test_long_words_and_long_text_are_searched_in_the_same_passages(model, toy):
    words = FILLER * 60 + toy[3].tokens + FILLER * 60 + toy[8].tokens
    text = " ".join(words)
    offsets = split_words(text)
    assert tuple(text[start:end] for start, end in offsets) == words
    (by_words,), (by_text,) = find_entities(model.model, [words]), predict_texts(model.model, [text])
    expected = [(offsets[e.start][0], offsets[e.end - 1][1], e.label) for e in by_words]
    assert [(e.start, e.end, e.label) for e in by_text] == expected


def test_each_sentence_is_given_back_with_what_is_found_in_it(model, toy):
    corpus = Corpus((*toy, Sentence(()), Sentence(FILLER * 80)))
    pairs = list(predict_pairs(model.model, corpus))
    assert [sentence for sentence, _ in pairs] == list(corpus)
    assert [entities for _, entities in pairs] == find_entities(model.model, corpus.tokens)


def test_sentences_are_worked_off_as_they_come(model, toy):
    taken = []

    def sentences() -> Iterator[Sentence]:
        for number in range(3_000):
            taken.append(number)
            yield toy[number % len(toy)]

    pairs = predict_pairs(model.model, sentences())
    assert taken == []
    assert next(pairs) == (toy[0], find_entities(model.model, [toy[0].tokens])[0])
    assert len(taken) < 3_000
    assert sum(1 for _ in pairs) == 2_999


NAMES = Matcher(Dictionary.of([("Rome", "LOC"), ("York", "PER"), ("moved to", "VERB")]))


def test_names_of_a_dictionary_are_found_beside_the_entities_of_the_model(model, toy):
    text = " ".join(toy[1].tokens)  # Ada moved to New York .
    ((sentence, pair),) = predict_pairs(model.model, toy[1:2], dictionary=NAMES)
    (found,) = predict_texts(model.model, [text], dictionary=NAMES)
    assert sentence == toy[1]
    assert [(e.start, e.end, e.label, e.source) for e in pair] == [
        (0, 1, "PER", "model"),
        (1, 3, "VERB", "dictionary"),
        (3, 5, "LOC", "model"),  # longer than York
    ]
    assert [(e.text, e.label) for e in found] == [("Ada", "PER"), ("moved to", "VERB"), ("New York", "LOC")]
    assert [(e.start, e.end) for e in found] == [(0, 3), (4, 12), (13, 21)]


def test_names_of_a_dictionary_need_no_score_and_are_found_in_every_passage(model):
    words = (*FILLER * 60, "Rome", *FILLER * 60, "Rome")
    (found,) = predict_texts(model.model, [words], min_score=1.0, dictionary=NAMES)
    assert [(e.start, e.end, e.label, e.score, e.source) for e in found] == [
        (300, 301, "LOC", None, "dictionary"),
        (601, 602, "LOC", None, "dictionary"),
    ]


def test_nested_entities_stay_beside_names(model, toy):
    (_, found), *_ = predict_pairs(model.model, toy[1:2], nested=True, dictionary=NAMES)
    assert {Entity(3, 5, "LOC"), Entity(4, 5, "PER")} <= set(found)


def test_the_text_of_a_sentence_tells_which_characters_are_words(model):
    names = Matcher(Dictionary.of([("IT", "ORG")]), characters=True)
    sentences = [Sentence(tuple("WITHIT"), text="WITH IT"), Sentence(tuple("WITHIT"))]
    by_pairs = [found for _, found in predict_pairs(model.model, sentences, min_score=1.0, dictionary=names)]
    assert by_pairs == list(predict_texts(model.model, sentences, min_score=1.0, dictionary=names))
    assert by_pairs == [[Entity(4, 6, "ORG")], []]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_document_is_searched_without_any_tensor_that_grows_with_its_square(model, toy, small_tensors, as_text):
    """A file without blank lines is one sentence of all its words."""
    words = (FILLER * 4 + toy[3].tokens + FILLER * 4) * 200
    assert len(words) == 9_000
    with small_tensors(len(words) ** 2 // 50):
        found = model.predict(" ".join(words)) if as_text else model.predict(words, tokens=True)
    assert len(found) > 100
    assert found[-1].start > 8_500
