from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from lacuner import Corpus, Entity, Sentence
from lacuner.corpus import Span
from lacuner.inference import passages
from lacuner.inference.passages import MAX_PASSAGE, SearchPassages, collect, cut_for_training, passages_of

LIMIT = 12
"""Words of a passage in most of these tests."""


@st.composite
def flat_entities(draw: st.DrawFn, length: int, max_width: int) -> tuple[Entity, ...]:
    """Entities, none of which overlaps another."""
    found, position = [], 0
    while position < length:
        position += draw(st.integers(0, 6))
        width = draw(st.integers(1, max_width))
        if position + width <= length:
            found.append(Entity(position, position + width, draw(st.sampled_from(["PER", "LOC"]))))
        position += width
    return tuple(found)


@st.composite
def documents(draw: st.DrawFn, max_width: int = LIMIT) -> Sentence:
    """Long and short ones, of sentences that end with a full stop, and of words without any end."""
    words = draw(st.lists(st.sampled_from(["here", "Ada", "Then", "word.", "."]), max_size=70))
    entities = draw(flat_entities(len(words), max_width))
    taken = {word for entity in entities for word in range(entity.start, entity.end)}
    free = [word for word in range(len(words)) if word not in taken]
    chosen = st.lists(st.sampled_from(free), unique=True) if free else st.just([])
    return Sentence(
        tuple(words),
        entities,
        tuple(Span(word, word + 1) for word in sorted(draw(chosen))),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.sampled_from([None, frozenset({"PER", "LOC"})])),
        unknown_tokens=frozenset(draw(chosen)),
    )


def small_passages():
    return patch.object(passages, "MAX_PASSAGE", LIMIT)


@given(st.lists(documents(), max_size=4))
def test_what_is_trained_on_is_what_was_given_in_passages(sentences):
    with small_passages():
        cut = cut_for_training(Corpus(tuple(sentences)))
    assert cut.lost == 0
    assert cut.long == sum(len(sentence) > LIMIT for sentence in sentences)
    assert all(0 < len(passage) <= LIMIT for passage in cut.corpus)
    together: dict[int, list] = {index: [[], [], [], set()] for index in range(len(sentences))}
    for passage, (index, first) in zip(cut.corpus, cut.origin, strict=True):
        words, entities, rejected, unknown = together[index]
        assert first == len(words), "passages come in the order of their words, and without gaps"
        words += passage.tokens
        entities += [Entity(first + e.start, first + e.end, e.label) for e in passage.entities]
        rejected += [Span(first + s.start, first + s.end) for s in passage.non_entities]
        unknown |= {first + word for word in passage.unknown_tokens}
        given = sentences[index]
        assert (passage.complete, passage.annotated_labels) == (given.complete, given.annotated_labels)
    for index, (words, entities, rejected, unknown) in together.items():
        given = sentences[index]
        assert tuple(words) == given.tokens
        assert tuple(entities) == given.entities
        assert tuple(rejected) == given.non_entities
        assert unknown == given.unknown_tokens


@given(documents(max_width=3 * LIMIT))
def test_only_entities_that_are_longer_than_a_passage_are_lost_and_they_are_counted(sentence):
    with small_passages():
        cut = cut_for_training(Corpus((sentence,)))
    kept = {
        (first + entity.start, first + entity.end)
        for passage, (_, first) in zip(cut.corpus, cut.origin, strict=True)
        for entity in passage.entities
    }
    fitting = {(e.start, e.end) for e in sentence.entities if e.end - e.start <= LIMIT}
    assert kept == fitting
    assert cut.lost == len(sentence.entities) - len(fitting)


def test_passages_end_where_sentences_do():
    sentence = Sentence(("Ada", "sleeps", ".") * 9)
    with small_passages():
        cut = cut_for_training(Corpus((sentence,)))
    assert [len(passage) for passage in cut.corpus] == [12, 12, 3]
    assert cut.origin == ((0, 0), (0, 12), (0, 24))
    longer = Sentence(("Ada", "sleeps", "now", "and", ".") * 5)
    with small_passages():
        assert [len(passage) for passage in cut_for_training(Corpus((longer,))).corpus] == [10, 10, 5]


def test_a_full_stop_inside_of_an_entity_ends_no_passage():
    words = ("here",) * 8 + ("Jones.", "Corp", "sleeps") + ("here",) * 6
    with small_passages():
        plain = cut_for_training(Corpus((Sentence(words),)))
        entity = cut_for_training(Corpus((Sentence(words, (Entity(8, 10, "ORG"),)),)))
    assert plain.origin[1] == (0, 9)
    assert entity.origin[1] == (0, 12)
    assert [passage.entities for passage in entity.corpus] == [(Entity(8, 10, "ORG"),), ()]


def test_short_sentences_are_passed_on_as_they_are_and_empty_ones_are_not():
    given = (Sentence(("Ada",), (Entity(0, 1, "PER"),), text="Ada"), Sentence(()), Sentence(("x",) * MAX_PASSAGE))
    cut = cut_for_training(Corpus(given))
    assert [passage is sentence for passage, sentence in zip(cut.corpus, given[::2], strict=True)] == [True, True]
    assert (cut.origin, cut.long, cut.lost) == (((0, 0), (2, 0)), 0, 0)


@given(st.data(), st.lists(st.sampled_from(["here", "Ada", "Then", "word.", "."]), max_size=80))
def test_what_is_found_in_passages_is_found_once_and_where_it_is(data, words):
    ends = {word for word in range(1, len(words)) if words[word - 1][-1] == "."}  # no name goes on in another sentence
    drawn = data.draw(flat_entities(len(words), LIMIT // 6))
    entities = tuple(e for e in drawn if ends.isdisjoint(range(e.start + 1, e.end)))
    with small_passages():
        cut = passages_of(words)
        searched = SearchPassages.of([words, (), words[:3]])
    assert all(passage.end - passage.begin <= LIMIT for passage in cut)
    found = [
        [
            Entity(e.start - passage.begin, e.end - passage.begin, e.label)
            for e in entities
            if passage.begin <= e.start and e.end <= passage.end
        ]
        for passage in cut
    ]
    assert tuple(collect(cut, found)) == entities
    short = [e for e in entities if e.end <= 3]
    assert searched.collect([*found, [], short]) == [list(entities), [], short]


@given(st.lists(st.lists(st.sampled_from(["here", "Then", "word."]), max_size=40), max_size=4))
def test_every_word_is_searched(sentences):
    with small_passages():
        searched = SearchPassages.of(sentences)
    assert len(searched.tokens) == sum(map(len, searched.cuts))
    assert searched.filled == [index for index, tokens in enumerate(searched.tokens) if tokens]
    tokens = iter(searched.tokens)
    for words, cut in zip(sentences, searched.cuts, strict=True):
        seen = {passage.begin + place for passage in cut for place in range(len(next(tokens)))}
        assert seen == set(range(len(words)))
        assert [word for passage in cut for word in range(passage.own_begin, passage.own_end)] == [*range(len(words))]


def test_a_document_is_cut_for_training_and_searched_in_time_that_is_linear():
    """As many words as in a file without blank lines: every passage looks at its own annotation only."""

    def prepare(size):
        words = ("Ada", "sleeps", "in", "Turin", "and", "Bob", "does", ".") * (size // 8)
        sentence = Sentence(
            words,
            tuple(Entity(word, word + 1, "PER") for word in range(0, size, 4)),
            tuple(Span(word, word + 1) for word in range(1, size, 4)),
            unknown_tokens=frozenset(range(2, size, 4)),
        )
        return lambda: cut_for_training(Corpus((sentence,)))

    def prepare_search(size):
        words = ("Ada", "sleeps", "in", "Turin", "and", "Bob", "does", ".") * (size // 8)

        def search():
            searched = SearchPassages.of([words])
            found = [[Entity(word, word + 1, "PER") for word in range(0, len(part), 4)] for part in searched.tokens]
            return searched.collect(found)

        return search

    with small_passages():
        assert_linear(prepare, 960)
        assert_linear(prepare_search, 960)


def test_wide_spans_inside_each_other_are_cut_in_time_that_is_linear():
    def prepare(size):
        sentence = Sentence(("w",) * size, tuple(Entity(start, size, "PER") for start in range(size // 2)))
        return lambda: cut_for_training(Corpus((sentence,)))

    with small_passages():
        assert cut_for_training(Corpus((Sentence(("w",) * 40, (Entity(1, 20, "X"), Entity(2, 5, "X"))),))).lost == 1
        assert_linear(prepare, 480)
