from functools import partial
from typing import Any

import pytest
import torch

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.heads import TAG_HEADS
from lacuner.methods.parts import Sampling
from lacuner.methods.two_step import RandomSpans
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TAG_SCHEMES, TagScheme
from tiny_models import encoded, places
from tiny_taggers import SENTENCES, WORDS, fits, probable_sequences, tagger

CORPUS = Corpus(SENTENCES)


def tag_model(*arguments: Any, **more: Any) -> TagModel:
    _, model = tagger(*arguments, **more)
    return model.eval()


def test_o_values_are_the_scores_of_o_at_untagged_words_in_the_order_of_the_corpus() -> None:
    model = tag_model(angle=True)
    found = model.o_values(CORPUS)
    expected = [
        (index, token, model.decisions(model.encode([sentence.tokens]))[0, token, 0].item())
        for index, sentence in enumerate(CORPUS)
        for token in range(len(sentence))
        if model.targets([sentence]).unknown[0, token]
    ]
    assert found["sentence"].tolist() == [index for index, _, _ in expected]
    assert found["token"].tolist() == [token for _, token, _ in expected]
    assert found["value"].tolist() == pytest.approx([value for _, _, value in expected], abs=1e-9)
    assert {index for index, _, _ in expected} == {0, 1, 2, 3, 4}
    assert not found["value"].requires_grad


def test_where_everything_is_known_there_are_no_o_values() -> None:
    found = tag_model().o_values(CORPUS.as_complete()[4:])
    assert [len(column) for column in found.values()] == [0, 0, 0]


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("head", TAG_HEADS)
@pytest.mark.parametrize("sampling", [None, RandomSpans()])
def test_tags_weigh_as_much_as_the_sequences_that_the_annotation_allows(
    head: str, scheme: TagScheme, sampling: Sampling | None
) -> None:
    model = tag_model(head, scheme, sampling=sampling)
    indices = [0, 2, 1, 3]
    weights = model.tag_weights(CORPUS, indices)
    hard = model.tag_weights(CORPUS, indices, hard=True)
    assert sorted(weights) == sorted(hard) == sorted(indices)
    for index in indices:
        sentence = CORPUS[index]
        check = fits(sentence, model)
        sequences, entities, probable = probable_sequences(model, sentence)
        kept = [
            (sequence, share)
            for sequence, found, share in zip(sequences, entities, probable.tolist(), strict=True)
            if check(found) and max(sequence) < model.tags.ordinary
        ]
        expected = torch.zeros(len(sentence), model.tags.ordinary).double()
        for sequence, share in kept:
            expected[range(len(sentence)), list(sequence)] += share
        torch.testing.assert_close(weights[index], expected / sum(share for _, share in kept), rtol=1e-7, atol=1e-9)
        best, _ = max(kept, key=lambda pair: pair[1])
        assert hard[index].argmax(-1).tolist() == list(best)
        assert hard[index].sum(-1).tolist() == [1.0] * len(sentence)


def test_a_tagger_finds_no_nested_entities_and_says_so() -> None:
    model = tag_model()
    batch = model.encode([WORDS])
    for find in (model.entities, partial(model.score(batch).decode, 0.0)):
        with pytest.raises(ConfigError, match=r"a tagger cannot find nested entities — train a span-level method"):
            find(*([batch] if find == model.entities else []), nested=True)
    assert not model.finds_nested
    assert model.entities(batch) == model.head.decode(model.decisions(batch), batch.lengths)
    assert model.entities(batch, min_score=1.1) == [[]]


def best_entities(model: TagModel, sentence: Sentence, threshold: float) -> dict[tuple[int, int, int], float]:
    """The entities of the best sequence, and the summed probability of all sequences that have each."""
    _, entities, probable = probable_sequences(model, sentence, threshold)
    best = [found for found in entities[int(probable.argmax())] if found[2] < len(model.labels)]
    return {
        entity: sum(share for found, share in zip(entities, probable.tolist(), strict=True) if entity in found)
        for entity in best
    }


@pytest.mark.parametrize("threshold", [-3.0, -0.5, 0.0, 0.7, 4.0])
@pytest.mark.parametrize("sampling", [None, RandomSpans()])
@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("head", TAG_HEADS)
def test_entities_are_those_of_the_best_sequence_with_the_threshold_on_top_of_o(
    head: str, scheme: TagScheme, sampling: Sampling | None, threshold: float
) -> None:
    """And a score is the probability that exactly these words are such an entity."""
    model = tag_model(head, scheme, sampling=sampling)
    batch = encoded(model, SENTENCES)
    scored = model.score(batch)
    model.threshold.fill_(threshold)
    found = model.entities(batch)
    decoded = scored.decode(threshold)
    assert decoded == found
    assert scores_of(decoded) == pytest.approx(scores_of(found))
    for sentence, entities in zip(SENTENCES, found, strict=True):
        expected = best_entities(model, sentence, threshold)
        assert [(e.start, e.end, model.labels.index(e.label)) for e in entities] == list(expected)
        assert scores_of([entities]) == pytest.approx(list(expected.values()), abs=1e-8)


def scores_of(found: list[list[Entity]]) -> list[float | None]:
    return [entity.score for entities in found for entity in entities]


@pytest.mark.parametrize("angle", [False, True])
@pytest.mark.parametrize("head", TAG_HEADS)
def test_a_threshold_is_what_is_added_to_the_score_of_o(head: str, angle: bool) -> None:
    model = tag_model(head, "bioes", angle=angle)
    batch = encoded(model, SENTENCES)
    counts = []
    for threshold in (-6.0, -1.0, 0.0, 0.5, 6.0, 60.0):
        decisions = model.decisions(batch).detach().clone()
        decisions[..., 0] += threshold
        expected = model.head.decode(decisions, batch.lengths)
        found = model.score(batch).decode(threshold)
        assert found == expected
        assert scores_of(found) == scores_of(expected)
        counts.append(sum(map(len, found)))
    assert counts[0] > 0
    assert counts[-1] == 0, "with a threshold that is high enough, nothing is an entity"


def test_a_model_is_made_without_a_threshold() -> None:
    assert tag_model().threshold.item() == 0
    assert "threshold" in tag_model().state_dict()


def test_entities_with_less_than_a_score_are_left_out() -> None:
    model = tag_model("crf", "bioes")
    batch = encoded(model, SENTENCES)
    everything = scores_of(model.score(batch).decode(-1.0))
    middle = sorted(everything)[len(everything) // 2]
    kept = scores_of(model.score(batch).decode(-1.0, min_score=middle))
    assert 0 < len(kept) < len(everything)
    assert kept == [score for score in everything if score >= middle]


@pytest.mark.parametrize("use_threshold", [True, False])
@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("head", TAG_HEADS)
def test_probabilities_are_those_of_what_is_found_or_annotated(
    head: str, scheme: TagScheme, use_threshold: bool
) -> None:
    model = tag_model(head, scheme)
    model.threshold.fill_(-0.8)
    threshold = -0.8 if use_threshold else 0.0
    sentence = Sentence(WORDS, (Entity(0, 2, "PER"), Entity(1, 4, "PER"), Entity(2, 3, "a label it does not know")))
    spans, found = model.span_probabilities(encoded(model, [sentence]), [sentence], 0.0, use_threshold)
    _, entities, probable = probable_sequences(model, sentence, threshold)
    wanted = {(start, end) for start, end, _ in best_entities(model, sentence, threshold)} | {(0, 2), (1, 4)}
    assert {(start, end) for _, start, end in places(spans)} == wanted
    assert len(spans) == len(wanted)
    for (_, start, end), row in zip(places(spans), found.tolist(), strict=True):
        expected = sum(
            share for each, share in zip(entities, probable.tolist(), strict=True) if (start, end, 1) in each
        )
        assert row == pytest.approx([1 - expected, expected], abs=1e-6)
    spans, _ = model.span_probabilities(encoded(model, [sentence]), [sentence], 1.1, use_threshold)
    assert {(start, end) for _, start, end in places(spans)} == {(0, 2), (1, 4)}, "what is annotated is always there"
