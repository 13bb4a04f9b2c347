import pickle

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.sentence import SourceAnnotation
from lacuner.corpus.stored import StoredSentences, store_sentences
from lacuner.errors import DataError
from lacuner.sample import read_sample

SENTENCES = (
    *read_sample("train")[:5],
    Sentence(("Ada", "met", "Grüße"), (Entity(0, 1, "PER", score=0.25, source="model"),), (Span(1, 2, "reviewer"),)),
    Sentence(()),
    Sentence(("a", "b"), complete=True, annotated_labels=frozenset({"X"}), unknown_tokens=frozenset({1})),
    Sentence(("a",), by_source=(SourceAnnotation("one", (Entity(0, 1, "Y"),)), SourceAnnotation("two"))),
)


@pytest.fixture
def stored(tmp_path) -> Corpus:
    store_sentences(iter(SENTENCES), tmp_path)
    return Corpus(StoredSentences(tmp_path))


def bare(sentence: Sentence) -> tuple[object, ...]:
    """Everything that training looks at."""
    return (
        sentence.tokens,
        [(entity, entity.source, entity.score) for entity in sentence.entities],
        [(span, span.source) for span in sentence.non_entities],
        (sentence.complete, sentence.annotated_labels, sentence.unknown_tokens, sentence.by_source),
    )


def test_what_is_stored_is_what_was_given(stored):
    assert stored.is_lazy
    assert list(map(bare, stored)) == list(map(bare, SENTENCES))
    assert bare(stored[-1]) == bare(SENTENCES[-1])
    assert list(map(bare, stored[2:7:2])) == list(map(bare, SENTENCES[2:7:2]))
    assert list(stored.tokens) == [sentence.tokens for sentence in SENTENCES]
    assert stored.labels == Corpus(SENTENCES).labels
    with pytest.raises(IndexError):
        stored[len(SENTENCES)]


def test_another_process_opens_it_by_itself(stored):
    again = pickle.loads(pickle.dumps(stored))
    assert again.is_lazy
    assert list(map(bare, again)) == list(map(bare, stored))


def test_nothing_can_be_stored_too(tmp_path):
    store_sentences([], tmp_path)
    assert len(StoredSentences(tmp_path)) == 0


def test_a_file_that_has_become_shorter_is_an_error(stored, tmp_path):
    path = tmp_path / "sentences.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert stored[0].tokens == SENTENCES[0].tokens
    with pytest.raises(DataError, match="shorter"):
        stored[len(SENTENCES) - 1]


def test_a_part_of_it_and_a_sum_are_in_memory(stored):
    assert not stored[:2].is_lazy
    assert not (stored + stored).is_lazy
    assert len(stored + stored) == 2 * len(SENTENCES)
