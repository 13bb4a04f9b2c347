from itertools import pairwise

import pytest

from growth import assert_linear
from lacuner.corpus import Corpus, Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.masking import mask_sentences

SENTENCES = [
    Sentence(("Ada", "left", "New", "York"), (Entity(0, 1, "PER"), Entity(2, 4, "geo-loc"))),
    Sentence(("Turin", "won"), (Entity(0, 1, "LOC"), Entity(0, 1, "ORG"))),
    Sentence(tuple("abcde"), (Entity(0, 2, "PER"), Entity(3, 4, "PER"), Entity(4, 5, "国名"))),
]
MANY = [Sentence(("Ada", "met", "Bob"), (Entity(0, 1, "PER"), Entity(2, 3, "PER"))) for _ in range(5000)]


def hidden(sentences, probability, seed):
    """The hidden entities, each with the number of its sentence."""
    pairs = mask_sentences(sentences, probability, seed)
    return {(index, *_key(entity)) for index, (_, gone) in enumerate(pairs) for entity in gone}


def _key(entity):
    return entity.start, entity.end, entity.label


@pytest.mark.parametrize(
    ("seed", "probability", "expected"),
    [
        (0, 0.5, {(1, 0, 1, "LOC")}),
        (0, 0.7, {(1, 0, 1, "LOC"), (0, 0, 1, "PER"), (1, 0, 1, "ORG")}),
        (1, 0.5, {(0, 0, 1, "PER"), (1, 0, 1, "ORG"), (2, 0, 2, "PER"), (2, 3, 4, "PER")}),
        (
            1,
            0.7,
            {
                (0, 0, 1, "PER"), (1, 0, 1, "ORG"), (2, 0, 2, "PER"), (2, 3, 4, "PER"),
                (0, 2, 4, "geo-loc"), (1, 0, 1, "LOC"),
            },
        ),
    ],
)  # fmt: skip
def test_the_same_entities_are_hidden_on_every_machine(seed, probability, expected):
    """The first byte of sha256sum over seed, sentence, start, end and label, parted by zero bytes, divided by 256."""
    assert hidden(SENTENCES, probability, seed) == expected


def test_every_entity_is_either_kept_or_hidden():
    for sentence, (masked, gone) in zip(SENTENCES, mask_sentences(SENTENCES, 0.5, seed=1), strict=True):
        assert sorted([*masked.entities, *gone]) == list(sentence.entities)
        assert masked.tokens == sentence.tokens


def test_what_is_hidden_stays_hidden_when_more_is():
    shares = [hidden(MANY, probability, seed=3) for probability in (0.0, 0.2, 0.5, 0.7, 0.9, 1.0)]
    assert all(fewer < more for fewer, more in pairwise(shares))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_about_as_many_are_hidden_as_asked(probability):
    assert len(hidden(MANY, probability, seed=0)) / 10_000 == pytest.approx(probability, abs=0.02)


def test_nothing_and_everything_can_be_hidden():
    assert hidden(MANY, 0.0, seed=0) == set()
    assert len(hidden(MANY, 1.0, seed=0)) == 10_000


def test_another_seed_hides_others():
    one, other = hidden(MANY, 0.5, seed=0), hidden(MANY, 0.5, seed=1)
    assert len(one & other) / 10_000 == pytest.approx(0.25, abs=0.02)


def test_neighbours_are_hidden_independently():
    gone = hidden(MANY, 0.5, seed=0)
    both = sum((index, 0, 1, "PER") in gone and (index, 2, 3, "PER") in gone for index in range(5000))
    assert both / 5000 == pytest.approx(0.25, abs=0.03)


def test_a_masked_sentence_is_no_longer_complete():
    sentence = Sentence(("Ada", "left"), (Entity(0, 1, "PER"),), complete=True, unknown_tokens=frozenset({1}))
    for probability in (0.0, 1.0):
        masked, _ = next(mask_sentences([sentence], probability, seed=0))
        assert masked.possible_labels(1, 2, {"PER"}) == {"O", "PER"}
        assert not masked.complete


def test_masking_leaves_everything_else_as_it_is():
    sentence = Sentence(
        ("Ada", "left"),
        (Entity(0, 1, "PER", source="human"),),
        non_entities=(Span(1, 2, "reviewer"),),
        annotated_labels=frozenset({"PER"}),
        text="Ada left",
    )
    masked, _ = next(mask_sentences([sentence], 0.0, seed=0))
    assert masked == sentence
    assert masked.entities[0].source == "human"


def test_a_stream_is_masked_one_sentence_at_a_time():
    def endless():
        while True:
            yield MANY[0]

    assert next(mask_sentences(endless(), 1.0, seed=0))[1] == MANY[0].entities


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_probability_lies_between_0_and_1(probability):
    with pytest.raises(ValueError, match="between 0 and 1"):
        next(mask_sentences(SENTENCES, probability, seed=0))


def test_a_corpus_is_masked_as_its_sentences_are():
    masked = Corpus(SENTENCES).mask(0.7, seed=1)
    assert list(masked) == [sentence for sentence, _ in mask_sentences(SENTENCES, 0.7, 1)]
    assert [_key(entity) for sentence in masked for entity in sentence.entities] == [(4, 5, "国名")]


def test_hiding_the_entities_of_a_long_sentence_takes_time_that_is_linear():
    def prepare(size):
        sentence = Sentence(("Ada",) * size, tuple(Entity(word, word + 1, "PER") for word in range(size)))
        return lambda: list(mask_sentences([sentence], 0.5, seed=1))

    assert_linear(prepare, 200)


def test_what_is_hidden_is_hidden_from_what_each_source_says() -> None:
    for number, sentence in enumerate(SENTENCES):
        said = (SourceAnnotation("a", sentence.entities, complete=True), SourceAnnotation("b", sentence.entities[:1]))
        corpus = [*SENTENCES[:number], Sentence(sentence.tokens, sentence.entities, by_source=said)]
        masked, gone = list(mask_sentences(corpus, 0.5, 1))[-1]
        assert masked.by_source[0].entities == masked.entities
        assert not set(gone) & set(masked.by_source[1].entities)
        assert [each.source for each in masked.by_source] == ["a", "b"]
        assert not masked.by_source[0].complete
