from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from lacuner.corpus import Entity
from lacuner.corpus.formats.tag_schemes import SCHEMES, TagError, decode_tags, detect_scheme, encode_tags

# Ada Lovelace · Alan · left · New South Wales: two persons that touch, and every width that schemes tell apart.
ENTITIES = [Entity(0, 2, "PER"), Entity(2, 3, "PER"), Entity(4, 7, "LOC")]
TAGS = {
    "iob1": "I-PER I-PER B-PER O I-LOC I-LOC I-LOC",
    "bio2": "B-PER I-PER B-PER O B-LOC I-LOC I-LOC",
    "bioes": "B-PER E-PER S-PER O B-LOC I-LOC E-LOC",
    "bmes": "B-PER E-PER S-PER O B-LOC M-LOC E-LOC",
    "bilou": "B-PER L-PER U-PER O B-LOC I-LOC L-LOC",
}
IO_TAGS = "I-PER I-PER O O I-LOC I-LOC I-LOC"
IO_ENTITIES = [Entity(0, 2, "PER"), Entity(4, 7, "LOC")]

LABELS = st.sampled_from(["PER", "geo-loc", "PER.NOM", "_", "-", "B-PER", "国 名"])


@st.composite
def annotations(draw):
    """A length and entities that do not overlap."""
    length, entities, position = draw(st.integers(1, 12)), [], 0
    while position < length and draw(st.booleans()):
        start = draw(st.integers(position, length - 1))
        end = draw(st.integers(start + 1, length))
        entities.append(Entity(start, end, draw(LABELS)))
        position = end
    return length, entities


def touching_twins(entities):
    return any((one.end, one.label) == (other.start, other.label) for one, other in pairwise(entities))


@pytest.mark.parametrize("scheme", TAGS)
def test_each_scheme_is_written_in_its_own_letters(scheme):
    assert encode_tags(ENTITIES, 7, scheme) == TAGS[scheme].split()


@pytest.mark.parametrize("scheme", TAGS)
def test_each_scheme_is_read(scheme):
    assert decode_tags(TAGS[scheme].split(), scheme) == (ENTITIES, [], frozenset())


@pytest.mark.parametrize("scheme", TAGS)
def test_schemes_are_told_apart_by_their_tags(scheme):
    assert detect_scheme([["O", "O"], TAGS[scheme].split()]) == scheme


def test_long_entities_do_not_make_bio2_look_like_iob1():
    assert detect_scheme([["B-PER", "I-PER", "I-PER", "O"]]) == "bio2"


def test_io_has_one_letter():
    assert encode_tags(IO_ENTITIES, 7, "io") == IO_TAGS.split()
    assert detect_scheme([IO_TAGS.split()]) == "io"
    assert decode_tags(IO_TAGS.split(), "io").entities == IO_ENTITIES


def test_io_cannot_keep_neighbors_apart():
    assert decode_tags(encode_tags(ENTITIES, 7, "io"), "io").entities == [Entity(0, 3, "PER"), Entity(4, 7, "LOC")]


@pytest.mark.parametrize("label", ["PER", "geo-loc", "PER.NOM", "cell_type"])
def test_io_may_do_without_a_prefix(label):
    tags = ["O", label, label, "ORG", "O"]
    assert detect_scheme([tags]) == "io"
    assert decode_tags(tags, "io").entities == [Entity(1, 3, label), Entity(3, 4, "ORG")]


@pytest.mark.parametrize("label", ["geo-loc", "PER.NOM", "B-PER", "-"])
@pytest.mark.parametrize("scheme", TAGS)
def test_a_tag_is_split_at_its_first_hyphen(scheme, label):
    entities = [Entity(0, 1, label), Entity(1, 4, label)]
    assert decode_tags(encode_tags(entities, 4, scheme), scheme).entities == entities
    assert decode_tags([f"B-{label}", f"I-{label}"], "bio2").entities == [Entity(0, 2, label)]


def test_an_underscore_parts_prefix_and_label_as_well():
    assert decode_tags(["B_PER", "I_PER", "O"], "bio2").entities == [Entity(0, 2, "PER")]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_unknown_words_are_no_entity_and_end_one(scheme):
    single = encode_tags([Entity(0, 1, "PER")], 1, scheme)
    decoded = decode_tags([*single, "-", *single, "?", "O"], scheme)
    assert decoded.entities == [Entity(0, 1, "PER"), Entity(2, 3, "PER")]
    assert decoded.unknown == {1, 3}
    assert decoded.repairs == []


def test_unknown_words_are_written_as_question_marks():
    assert encode_tags([Entity(0, 1, "PER")], 4, unknown={1, 3}) == ["B-PER", "?", "O", "?"]


def test_unknown_words_do_not_tell_a_scheme():
    assert detect_scheme([["-", "?", "-"], ["I-PER", "?", "B-PER"]]) == "bio2"
    assert detect_scheme([["?", "?", "B-PER", "-", "I-PER", "-", "I-LOC"]]) == "iob1"


def test_a_file_without_entities_reads_as_bio2():
    assert detect_scheme([]) == detect_scheme([["O", "O"]]) == "bio2"


def test_some_broken_tags_do_not_make_another_scheme():
    sound = ["B-PER", "I-PER", "O", "B-LOC"]
    assert detect_scheme([sound, ["O", "I-PER", "O"]]) == "bio2"
    assert detect_scheme([sound, ["PER", "O"]]) == "bio2"


@pytest.mark.parametrize(
    ("scheme", "tags", "entities", "indices"),
    [
        ("bio2", "O I-PER I-PER", [Entity(1, 3, "PER")], [1]),
        ("bio2", "B-PER I-LOC", [Entity(0, 1, "PER"), Entity(1, 2, "LOC")], [1]),
        ("bio2", "B-PER O I-PER", [Entity(0, 1, "PER"), Entity(2, 3, "PER")], [2]),
        ("bio2", "B-PER ? I-PER", [Entity(0, 1, "PER"), Entity(2, 3, "PER")], [2]),
        ("bioes", "B-PER I-PER O", [Entity(0, 2, "PER")], [1]),
        ("bioes", "B-PER I-PER", [Entity(0, 2, "PER")], [1]),
        ("bioes", "O E-PER", [Entity(1, 2, "PER")], [1]),
        ("bioes", "B-PER S-PER", [Entity(0, 1, "PER"), Entity(1, 2, "PER")], [0]),
        ("bmes", "M-PER E-PER", [Entity(0, 2, "PER")], [0]),
        ("bilou", "B-PER L-LOC", [Entity(0, 1, "PER"), Entity(1, 2, "LOC")], [0, 1]),
    ],
)
def test_a_broken_sequence_is_repaired_and_its_word_is_told(scheme, tags, entities, indices):
    decoded = decode_tags(tags.split(), scheme)
    assert decoded.entities == entities
    assert [repair.token_index for repair in decoded.repairs] == indices


def test_a_repair_says_what_was_done():
    assert decode_tags(["O", "I-PER"], "bio2").repairs[0].what == "I-PER continues nothing; an entity begins here now"


def test_in_iob1_an_entity_may_begin_with_either_letter():
    tags = ["I-PER", "B-PER", "O", "B-LOC", "I-LOC"]
    assert decode_tags(tags, "iob1") == (
        [Entity(0, 1, "PER"), Entity(1, 2, "PER"), Entity(3, 5, "LOC")],
        [],
        frozenset(),
    )


def test_a_begin_that_turns_up_late_in_an_io_file_is_no_label():
    """IOB1 is IO until the first two neighbors touch, which may be behind the sentences that were looked at."""
    assert decode_tags(["I-PER", "B-PER", "O"], "io").entities == [Entity(0, 1, "PER"), Entity(1, 2, "PER")]


@pytest.mark.parametrize("tag", ["PER", "geo-loc", "B-", "X-PER", "b-PER"])
def test_a_tag_without_a_prefix_has_no_place_among_prefixed_ones(tag):
    with pytest.raises(TagError, match="neither O nor a prefix and a label") as raised:
        decode_tags(["B-LOC", tag], "bio2")
    assert raised.value.index == 1


def test_entities_that_overlap_have_no_tags():
    with pytest.raises(ValueError, match="overlap"):
        encode_tags([Entity(0, 2, "PER"), Entity(1, 3, "LOC")], 3)
    with pytest.raises(ValueError, match="overlap"):
        encode_tags([Entity(0, 2, "PER"), Entity(0, 2, "LOC")], 3)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(annotation=annotations(), data=st.data())
@settings(deadline=None)
def test_spans_become_tags_and_the_same_spans_again(scheme, annotation, data):
    length, entities = annotation
    assume(scheme != "io" or not touching_twins(entities))
    covered = {index for entity in entities for index in range(entity.start, entity.end)}
    free = sorted(set(range(length)) - covered)
    unknown = data.draw(st.sets(st.sampled_from(free))) if free else set()
    tags = encode_tags(entities, length, scheme, unknown)
    assert len(tags) == length
    assert decode_tags(tags, scheme) == (entities, [], unknown)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(corpus=st.lists(annotations(), max_size=4))
@settings(deadline=None)
def test_the_scheme_that_is_found_reads_the_same_entities(scheme, corpus):
    assume(scheme != "io" or not any(touching_twins(entities) for _, entities in corpus))
    sequences = [encode_tags(entities, length, scheme) for length, entities in corpus]
    found = detect_scheme(sequences)
    for tags, (_, entities) in zip(sequences, corpus, strict=True):
        assert decode_tags(tags, found) == (entities, [], frozenset())


@pytest.mark.parametrize(("scheme", "letters"), [("bio2", "BI"), ("bioes", "BIES")])
@given(data=st.data())
@settings(deadline=None)
def test_any_sequence_is_repaired_as_conlleval_reads_it(scheme, letters, data):
    possible = ["O", *(f"{letter}-{label}" for letter in letters for label in ("A", "B"))]
    tags = data.draw(st.lists(st.sampled_from(possible), max_size=8))
    expected = [Entity(start, end + 1, label) for label, start, end in get_entities(tags)]
    assert decode_tags(tags, scheme).entities == expected


@pytest.mark.parametrize(
    ("tag", "what"),
    [
        ("I-O", "the tag 'I-O' has O as its label"),
        ("B-O", "the tag 'B-O' has O as its label"),
        ("_", "the tag '_' says neither O (no entity) nor ? (unknown)"),
        ("PER # who?", "a comment follows the tag: 'PER # who?'"),
        ("I-", "the tag 'I-' has no label; it should be one such as I-PER"),
        ("B", "the tag 'B' has no label; it should be one such as B-PER"),
    ],
)
def test_what_is_no_label_is_none_in_io_either(tag, what):
    with pytest.raises(TagError) as raised:
        decode_tags(["O", tag], "io")
    assert str(raised.value) == what
    assert raised.value.index == 1
