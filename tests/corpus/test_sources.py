from lacuner.corpus import Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.sources import annotations_of, has_several_sources, votes_of, with_sources

WORDS = ("Ada", "left", "Turin")


def test_each_span_has_the_vote_of_every_source_that_looked() -> None:
    said = (
        SourceAnnotation("dict", (Entity(2, 3, "ORG"),)),
        SourceAnnotation("llm", (Entity(0, 1, "PER"), Entity(2, 3, "LOC"))),
        SourceAnnotation("human", (Entity(0, 1, "PER"),), complete=True),
        SourceAnnotation("me", non_entities=(Span(2, 3),)),
    )
    votes = votes_of(Sentence(WORDS, by_source=said))
    assert votes == {
        (0, 1): {"dict": set(), "llm": {"PER"}, "human": {"PER"}, "me": set()},
        (2, 3): {"dict": {"ORG"}, "llm": {"LOC"}, "human": {"O"}, "me": {"O"}},
    }


def test_who_is_complete_for_some_labels_only_or_does_not_know_a_word_denies_nothing() -> None:
    other = SourceAnnotation("llm", (Entity(0, 1, "PER"),))
    for silent in (
        SourceAnnotation("a", complete=True, annotated_labels={"LOC"}),
        SourceAnnotation("a", complete=True, unknown_tokens={0}),
        SourceAnnotation("a"),
    ):
        assert votes_of(Sentence(WORDS, by_source=(other, silent)))[0, 1]["a"] == frozenset()


def test_entities_that_name_their_sources_are_told_apart() -> None:
    sentence = Sentence(WORDS, (Entity(0, 1, "PER", source="dict+llm"), Entity(2, 3, "LOC")), (Span(1, 2, "reviewer"),))
    said = {each.source: each for each in annotations_of(sentence, "file")}
    assert list(said) == ["dict", "llm", "file", "reviewer"]
    assert said["dict"].entities == said["llm"].entities == (Entity(0, 1, "PER"),)
    assert said["dict"].entities[0].source == "dict"
    assert said["reviewer"].non_entities == (Span(1, 2),)


def test_somebody_who_came_later_is_heard_beside_those_who_are_told_apart() -> None:
    said = (SourceAnnotation("a", (Entity(0, 1, "PER"),)),)
    sentence = Sentence(
        WORDS, (Entity(0, 1, "PER", source="a"), Entity(2, 3, "LOC", source="reviewer")), by_source=said
    )
    assert annotations_of(sentence) == (*said, SourceAnnotation("reviewer", (Entity(2, 3, "LOC"),)))


def test_every_source_of_a_file_looked_at_all_of_it_except_reviewers() -> None:
    entities = tuple(Entity(n, n + 1, "X", source=source) for n, source in enumerate(["dict", "llm", "reviewer"]))
    spoken, silent = with_sources([Sentence(WORDS, entities), Sentence(("x",))])
    assert [said.source for said in spoken.by_source] == ["dict", "llm", "reviewer"]
    assert [said.source for said in silent.by_source] == ["dict", "llm"]


def test_one_source_says_what_its_sentence_says() -> None:
    sentence = Sentence(WORDS, (Entity(0, 1, "PER"),), complete=True, annotated_labels={"PER"}, unknown_tokens={1})
    (only,) = with_sources([sentence], "a")[0].by_source
    assert only == SourceAnnotation("a", sentence.entities, (), True, frozenset({"PER"}), frozenset({1}))


def test_unnamed_beside_named_are_two_sources() -> None:
    assert has_several_sources([Sentence(WORDS, (Entity(0, 1, "PER"), Entity(2, 3, "LOC", source="a")))])
    assert not has_several_sources([Sentence(WORDS, (Entity(0, 1, "PER"),))])
