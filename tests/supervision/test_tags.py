from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, Span
from lacuner.supervision.tags import (
    TAG_SCHEMES,
    TagScheme,
    TagSet,
    TagTargets,
    TokenSupervision,
    build_tag_targets,
    flat,
)

LABELS = ("O", "LOC", "PER")
WORDS = ("Ada", "King", "moved", "to", "Turin", ".")
SCHEMES = st.sampled_from(TAG_SCHEMES)


def may_follow(scheme: TagScheme, before: str | None, tag: str | None) -> bool:
    """The rule of the scheme, in words; ``None`` is the edge of the sentence."""
    role, label = ("O", "") if before in (None, "O") else (before[0], before[2:])
    next_role, next_label = ("O", "") if tag in (None, "O") else (tag[0], tag[2:])
    if scheme == "io":
        return True
    if scheme == "bio2":
        return next_role != "I" or (role in "BI" and label == next_label)
    if role in "BI":
        return next_role in "IE" and label == next_label
    return next_role not in "IE"


def is_legal(scheme: TagScheme, names: list[str]) -> bool:
    return all(may_follow(scheme, before, tag) for before, tag in pairwise([None, *names, None]))


@pytest.mark.parametrize("non_entity_class", [False, True])
@pytest.mark.parametrize("labels", [("O", "PER"), LABELS])
@pytest.mark.parametrize("scheme", TAG_SCHEMES)
def test_what_may_follow_what_is_the_rule_of_the_scheme(
    scheme: TagScheme, labels: tuple[str, ...], non_entity_class: bool
) -> None:
    tags = TagSet(scheme, labels, non_entity_class)
    assert len(tags.names) == len(tags) == len(set(tags.names))
    assert tags.names[0] == "O"

    def score(before: str | None, tag: str | None) -> float:
        return 0.0 if may_follow(scheme, before, tag) else float("-inf")

    assert tags.steps.tolist() == [[score(before, tag) for tag in tags.names] for before in tags.names]
    assert tags.begins.tolist() == [score(None, tag) for tag in tags.names]
    assert tags.ends.tolist() == [score(tag, None) for tag in tags.names]


@pytest.mark.parametrize(("scheme", "roles"), [("bioes", "BIES"), ("bio2", "BI"), ("io", "I")])
def test_tags_are_numbered_label_by_label_and_those_of_the_non_entity_class_come_last(
    scheme: TagScheme, roles: str
) -> None:
    tags = TagSet(scheme, LABELS, non_entity_class=True)
    named = [f"{role}-{label}" for label in ("LOC", "PER", "") for role in roles]
    assert tags.names == ("O", *named)
    assert [tags.tag(role, label) for label in (1, 2, 3) for role in roles] == list(range(1, len(tags)))
    assert tags.label_of == (0, *[1] * len(roles), *[2] * len(roles), *[0] * len(roles))
    assert tags.ordinary == len(TagSet(scheme, LABELS)) == 1 + 2 * len(roles)


Pieces = list[tuple[int, int, int]]  # words outside, words of an entity, its label


@settings(max_examples=150)
@given(
    SCHEMES, st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(1, 3)), max_size=5), st.integers(0, 2)
)
def test_entities_that_are_written_are_read_again_and_those_of_the_non_entity_class_are_none(
    scheme: TagScheme, pieces: Pieces, rest: int
) -> None:
    tags = TagSet(scheme, LABELS, non_entity_class=True)
    written: list[int] = []
    entities: Pieces = []
    for gap, width, label in pieces:
        written += [0] * gap
        if label < 3:
            entities.append((len(written), len(written) + width, label))
        written += tags.write(width, label)
    written += [0] * rest
    assert is_legal(scheme, [tags.names[tag] for tag in written])
    assert tags.read(written) == (merged(entities) if scheme == "io" else entities)


def merged(entities: Pieces) -> Pieces:
    """Entities ``(start, end, label)`` as IO shows them: neighbors of one label are one."""
    found: Pieces = []
    for start, end, label in entities:
        if found and found[-1][1:] == (start, label):
            found[-1] = (found[-1][0], end, label)
        else:
            found.append((start, end, label))
    return found


def partitions(words: int, labels: int, scheme: TagScheme) -> int:
    """In how many ways entities with ``labels`` labels fit into so many words, none over another.

    In IO, no two neighbors have the same label: each word has a label of its own, or none.
    """
    if scheme == "io":
        return (labels + 1) ** words
    ways = [1]
    for count in range(1, words + 1):
        ways.append(ways[count - 1] + labels * sum(ways[:count]))
    return ways[words]


@pytest.mark.parametrize(
    ("labels", "non_entity_class", "longest"), [(("O", "PER"), False, 5), (("O", "PER"), True, 3), (LABELS, False, 3)]
)
@pytest.mark.parametrize("scheme", TAG_SCHEMES)
def test_every_legal_sequence_is_one_way_to_place_entities(
    scheme: TagScheme, labels: tuple[str, ...], non_entity_class: bool, longest: int
) -> None:
    tags, all_labels = TagSet(scheme, labels, non_entity_class), len(labels) - 1 + non_entity_class
    as_entities = TagSet(scheme, (*labels, *(["NON"] if non_entity_class else [])))
    for length in range(longest + 1):
        read = set()
        for sequence in product(range(len(tags)), repeat=length):
            if not is_legal(scheme, [tags.names[tag] for tag in sequence]):
                continue
            found = as_entities.read(sequence)
            written = [0] * length
            for start, end, label in found:
                written[start:end] = tags.write(end - start, label)
            assert written == list(sequence)
            assert tags.read(sequence) == [entity for entity in found if entity[2] < len(labels)]
            read.add(tuple(found))
        assert len(read) == partitions(length, all_labels, scheme)


# What is known about the words of a sentence.


def names_of(tags: TagSet, mask: torch.Tensor) -> set[str]:
    return {name for name, flag in zip(tags.names, mask.tolist(), strict=True) if flag}


def described(targets: TagTargets, tags: TagSet, row: int = 0) -> list[str]:
    """For each word the tags that it may have, whether it is unknown (?), and whether it is ignored (x)."""
    found = []
    for place in range(int(targets.lengths[row])):
        allowed = targets.allowed[row, place]
        text = "any" if allowed.all() else " ".join(sorted(names_of(tags, allowed)))
        found.append(text + "?" * bool(targets.unknown[row, place]) + "x" * bool(targets.ignored[row, place]))
    return found


def target(sentence: Sentence, scheme: TagScheme = "bioes", known: TokenSupervision | None = None) -> list[str]:
    tags = TagSet(scheme, LABELS, non_entity_class=True)
    return described(build_tag_targets([sentence], tags, [known]), tags)


ADA = Entity(0, 2, "PER")
TURIN = Entity(4, 5, "LOC")


def test_in_a_complete_sentence_what_is_not_annotated_is_outside() -> None:
    sentence = Sentence(WORDS, (ADA, TURIN), complete=True)
    assert target(sentence) == ["B-PER", "E-PER", "O", "O", "S-LOC", "O"]
    assert target(sentence, "bio2") == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    assert target(sentence, "io") == ["I-PER", "I-PER", "O", "O", "I-LOC", "O"]


def test_in_a_sentence_with_gaps_the_rest_is_unknown_and_outside_only_if_one_wants_so() -> None:
    tags = TagSet("bioes", LABELS, non_entity_class=True)
    targets = build_tag_targets([Sentence(WORDS, (ADA, TURIN))], tags)
    assert described(targets, tags) == ["B-PER", "E-PER", "O?", "O?", "S-LOC", "O?"]
    assert targets.possible[0, [2, 3, 5]].all()
    assert targets.possible[0, [0, 1, 4]].equal(targets.allowed[0, [0, 1, 4]])


def test_unknown_words_of_a_complete_sentence_are_the_only_unknown_ones() -> None:
    sentence = Sentence(WORDS, (ADA,), complete=True, unknown_tokens=frozenset({1, 3, 4}))
    assert target(sentence) == ["B-PER", "E-PER", "O", "O?", "O?", "O"]


def test_words_may_have_labels_that_nobody_looked_for() -> None:
    loc, per = "B-LOC E-LOC I-LOC O S-LOC", "B-PER E-PER I-PER O S-PER"
    sentence = Sentence(WORDS, (ADA,), (Span(3, 4),), complete=True, annotated_labels=frozenset({"PER"}))
    assert target(sentence) == ["B-PER", "E-PER", loc, loc.removesuffix(" S-LOC"), loc, loc]
    assert target(sentence, "io") == ["I-PER", "I-PER", "I-LOC O", "O", "I-LOC O", "I-LOC O"]
    gaps = Sentence(WORDS, (TURIN,), annotated_labels=frozenset({"LOC"}))
    assert target(gaps) == [per + "?"] * 4 + ["S-LOC", per + "?"]
    nothing = Sentence(WORDS[:1], complete=True, annotated_labels=frozenset())
    assert target(nothing, "bio2") == ["B-LOC B-PER I-LOC I-PER O"]
    assert target(nothing, "io") == ["I-LOC I-PER O"]


@pytest.mark.parametrize(
    ("scheme", "ruled_out"), [("bioes", {"S-LOC", "S-PER"}), ("bio2", set()), ("io", {"I-LOC", "I-PER"})]
)
def test_a_rejected_word_is_no_entity_by_itself_but_may_be_part_of_a_wider_one(
    scheme: TagScheme, ruled_out: set[str]
) -> None:
    """BIO2 has no tag for an entity of one word, and cannot say so; IO can only say that it is in no entity at all."""
    tags = TagSet(scheme, LABELS, non_entity_class=True)
    targets = build_tag_targets([Sentence(WORDS, (ADA,), (Span(4, 5),))], tags)
    assert names_of(tags, targets.possible[0, 4]) == set(tags.names) - ruled_out
    assert names_of(tags, targets.allowed[0, 4]) == {"O"}
    assert targets.possible[0, [3, 5]].all()
    assert targets.unknown[0].tolist() == [False, False, True, True, True, True], "it may be drawn, or weighed"


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
def test_a_rejected_span_of_several_words_says_nothing_about_their_tags(scheme: TagScheme) -> None:
    """An entity may lie inside it, around it, or across its borders."""
    for sentence in (Sentence(WORDS, (ADA,)), Sentence(WORDS, (ADA,), complete=True)):
        for span in (Span(2, 4), Span(1, 3), Span(0, 6), Span(2, 6)):
            assert target(replace(sentence, non_entities=(span,)), scheme) == target(sentence, scheme)


def test_a_rejected_span_of_several_words_may_hold_entities_and_lie_in_one() -> None:
    tags = TagSet("bioes", ("O", "PER"))
    possible = build_tag_targets([Sentence(WORDS[:4], (), (Span(1, 3),))], tags).possible[0]
    for start, end in ((1, 2), (2, 3), (0, 2), (1, 4), (0, 4)):
        written = [0] * 4
        written[start:end] = tags.write(end - start, 1)
        assert all(possible[word, tag] for word, tag in enumerate(written))


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
def test_what_is_rejected_inside_an_annotated_entity_takes_nothing_away_from_it(scheme: TagScheme) -> None:
    plain = Sentence(WORDS, (ADA, TURIN))
    overlapping = replace(plain, non_entities=(Span(1, 3), Span(0, 1), Span(1, 2)))
    assert target(overlapping, scheme) == target(plain, scheme)
    lost = Sentence(WORDS, (Entity(0, 3, "PER"), Entity(2, 4, "LOC")))
    assert target(replace(lost, non_entities=(Span(3, 4), Span(3, 5))), scheme) == target(lost, scheme)


def test_a_span_with_two_labels_may_have_either() -> None:
    sentence = Sentence(WORDS[:3], (ADA, Entity(0, 2, "LOC")), complete=True)
    assert target(sentence) == ["B-LOC B-PER", "E-LOC E-PER", "O"]
    assert target(sentence, "bio2") == ["B-LOC B-PER", "I-LOC I-PER", "O"]


@pytest.mark.parametrize("complete", [True, False])
def test_of_entities_that_overlap_the_wider_one_is_tagged_and_no_word_of_the_other_becomes_outside(
    complete: bool,
) -> None:
    entities = (Entity(0, 2, "LOC"), Entity(1, 4, "PER"), Entity(2, 3, "LOC"))
    rest = "O" if complete else "O?"
    sentence = Sentence(WORDS, entities, complete=complete)
    assert target(sentence) == ["any", "B-PER", "I-PER", "E-PER", rest, rest]


def test_of_equally_wide_ones_the_first_is_taken() -> None:
    assert flat([Entity(1, 3, "B"), Entity(0, 2, "A"), Entity(3, 4, "C")]) == {(0, 2): ["A"], (3, 4): ["C"]}
    assert flat([Entity(1, 3, "B"), Entity(1, 3, "A")]) == {(1, 3): ["B", "A"]}
    assert flat([]) == {}


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4)), max_size=6))
def test_no_two_kept_spans_overlap_and_none_is_lost_without_need(places: list[tuple[int, int]]) -> None:
    entities = [Entity(start, start + width, "PER") for start, width in places]
    kept = flat(entities)
    for start, end in kept:
        assert all((start, end) == other or end <= other[0] or other[1] <= start for other in kept)
    for entity in entities:
        assert any(
            start < entity.end and entity.start < end and end - start >= entity.end - entity.start
            for start, end in kept
        )


@pytest.mark.parametrize("complete", [True, False])
def test_an_annotated_entity_ends_where_it_was_annotated_to_end(complete: bool) -> None:
    """In BIO2 an entity would continue with ``I``, and then be another one than somebody annotated."""
    tags = TagSet("bio2", LABELS)
    sentence = Sentence(
        WORDS, (ADA, TURIN, Entity(0, 2, "LOC")), complete=complete, annotated_labels=frozenset({"PER"})
    )
    targets = build_tag_targets([sentence], tags, [TokenSupervision(unconstrained=(5,))])
    for mask in (targets.allowed, targets.possible):
        assert names_of(tags, mask[0, 2]).isdisjoint({"I-PER", "I-LOC"})
        assert names_of(tags, mask[0, 5]) == {"O", "B-PER", "I-PER", "B-LOC"}
    for length in (1, 2, 3):
        cut = Sentence(WORDS[:length], (Entity(0, 1, "PER"), *([Entity(1, 2, "PER")] if length > 1 else [])))
        possible = build_tag_targets([cut], tags).possible[0]
        for sequence in product(range(len(tags)), repeat=length):
            if is_legal("bio2", [tags.names[tag] for tag in sequence]) and all(
                possible[place, tag] for place, tag in enumerate(sequence)
            ):
                assert {(e.start, e.end, LABELS.index(e.label)) for e in cut.entities} <= set(tags.read(sequence))


@settings(max_examples=60)
@given(st.sampled_from(["bioes", "bio2"]), st.data())
def test_the_possible_sequences_are_those_that_hold_all_annotated_entities(
    scheme: TagScheme, data: st.DataObject
) -> None:
    length = data.draw(st.integers(1, 4))
    tags = TagSet(scheme, ("O", "LOC", "PER") if scheme == "bio2" else ("O", "PER"))
    spans = data.draw(
        st.lists(st.tuples(st.integers(0, length - 1), st.integers(1, 2), st.sampled_from(tags.labels[1:])))
    )
    entities = [Entity(start, min(start + width, length), label) for start, width, label in spans]
    kept = {(start, end, tags.labels.index(labels[0])) for (start, end), labels in flat(entities).items()}
    sentence = Sentence(WORDS[:length], tuple(Entity(start, end, tags.labels[label]) for start, end, label in kept))
    possible = build_tag_targets([sentence], tags).possible[0]
    for sequence in product(range(len(tags)), repeat=length):
        if is_legal(scheme, [tags.names[tag] for tag in sequence]):
            fits = all(possible[place, tag] for place, tag in enumerate(sequence))
            assert fits == (kept <= set(tags.read(sequence)))


def test_in_io_an_annotated_entity_may_have_a_neighbor_of_its_label() -> None:
    """Two entities side by side look like one, so the words beside an annotated one are not ruled out."""
    tags = TagSet("io", LABELS)
    targets = build_tag_targets([Sentence(WORDS, (TURIN,))], tags)
    assert names_of(tags, targets.possible[0, 4]) == {"I-LOC"}
    assert targets.possible[0, [3, 5]].all()
    beside = Sentence(WORDS[:2], (Entity(0, 1, "PER"), Entity(1, 2, "PER")), complete=True)
    assert target(beside, "io") == ["I-PER", "I-PER"]


def test_ignored_and_unconstrained_words_are_no_longer_unknown() -> None:
    sentence = Sentence(WORDS, (TURIN,))
    assert target(sentence, known=TokenSupervision(ignored=(0, 3))) == ["Ox", "O?", "O?", "Ox", "S-LOC", "O?"]
    assert target(sentence, known=TokenSupervision(unconstrained=(0, 3))) == ["any", "O?", "O?", "any", "S-LOC", "O?"]
    assert target(sentence, known=TokenSupervision()) == target(sentence)


def test_words_of_undecided_spans_may_be_anything_but_those_of_other_entities_stay_what_they_are() -> None:
    undecided = TokenSupervision(undecided=(ADA.span, Span(3, 5)))
    for complete in (False, True):
        sentence = Sentence(WORDS, (ADA, TURIN), (Span(3, 4),), complete=complete)
        rest = "O" if complete else "O?"
        assert target(sentence, known=undecided) == ["any", "any", rest, "any", "S-LOC", rest]


def test_weights_are_where_tags_are_possible_and_sentences_without_them_have_none() -> None:
    tags = TagSet("bio2", ("O", "PER"), non_entity_class=True)
    short, long = Sentence(WORDS[:2], (Entity(0, 1, "PER"),)), Sentence(WORDS[:3])
    weights = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0]])
    targets = build_tag_targets(
        [long, short, long], tags, [None, TokenSupervision(tag_weights=weights), TokenSupervision(ignored=(1,))]
    )
    never = float("-inf")
    assert targets.weights.tolist() == [
        [[never] * 5] * 3,
        [[never, -2.0, never, never, never], [-4.0, -5.0, never, never, never], [never] * 5],
        [[never] * 5] * 3,
    ]
    assert targets.ignored.nonzero().tolist() == [[2, 1]]
    assert build_tag_targets([long, short], tags, [None, TokenSupervision(unconstrained=(1,))]).weights is None
    assert build_tag_targets([long, short], tags).weights is None


def test_a_batch_holds_sentences_of_all_lengths_and_says_nothing_after_their_ends() -> None:
    tags = TagSet("bioes", LABELS)
    sentences = [Sentence(WORDS, (ADA, TURIN)), Sentence(WORDS[:2], (ADA,), annotated_labels=frozenset({"PER"}))]
    targets = build_tag_targets(sentences, tags, [None, TokenSupervision(ignored=(), unconstrained=())])
    assert targets.lengths.tolist() == [6, 2]
    for row, sentence in enumerate(sentences):
        assert described(targets, tags, row) == described(build_tag_targets([sentence], tags), tags)
    assert not targets.unknown[1, 2:].any()
    assert not targets.ignored[1, 2:].any()


def test_targets_move_as_a_whole() -> None:
    tags = TagSet("bio2", LABELS)
    known = [TokenSupervision(tag_weights=torch.zeros(6, len(tags)), numbers={"confidence": torch.ones(6)})]
    moved = build_tag_targets([Sentence(WORDS)], tags, known).to(torch.device("meta"))
    tensors = [*moved.numbers.values(), *(value for name, value in vars(moved).items() if name != "numbers")]
    assert {value.device.type for value in tensors} == {"meta"}
    assert build_tag_targets([Sentence(WORDS)], tags).to(torch.device("cpu")).weights is None


def test_numbers_of_words_go_with_their_sentence_and_are_0_where_nobody_gives_any() -> None:
    tags, long, short = TagSet("io", LABELS), Sentence(WORDS[:3]), Sentence(WORDS[:2], complete=True)
    known = [None, TokenSupervision(numbers={"one": torch.tensor([0.5, 0.25])}), TokenSupervision(ignored=(1,))]
    targets = build_tag_targets([long, short, long], tags, known)
    assert {name: table.tolist() for name, table in targets.numbers.items()} == {
        "one": [[0, 0, 0], [0.5, 0.25, 0], [0, 0, 0]]
    }
    assert targets.complete.tolist() == [False, True, False]
    assert not build_tag_targets([long], tags).numbers
