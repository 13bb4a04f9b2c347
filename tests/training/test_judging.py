import copy
import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.evaluation import Scores, score_entities
from lacuner.heads import SpanScores
from lacuner.methods.lacuner import FoldTeacher
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans
from lacuner.training.epochs import SpanProbabilities
from lacuner.training.judging import average, find_in, fit_threshold, join, judge, weigh

Believed = dict[tuple[int, int, int], list[float]]
"""Probabilities of the labels by sentence, start and end."""


@pytest.fixture(scope="module")
def unsure(toy, small_settings) -> SpanModel:
    """A model that has begun to see what an entity is."""
    return Recognizer.train(toy, method="full", epochs=14, settings=small_settings).model


@pytest.fixture(scope="module")
def narrow(toy, small_settings) -> SpanModel:
    """A model that cannot see spans of more than two words."""
    settings = small_settings | {"head": "width", "head.hidden": 16, "head.max_span_width": 2}
    return Recognizer.train(toy, method="full", epochs=2, settings=settings).model


def probabilities_of(model: SpanModel, tokens: tuple[str, ...], start: int, end: int) -> list[float]:
    """What a model says about one span of one sentence."""
    with torch.no_grad():
        scores = model.scorer(model.encoder.index.collate([tokens]))(Spans.of([(0, start, end)]))
        return model.probabilities(scores)[0].tolist()


def judged_slowly(model: SpanModel, corpus: Corpus, places: Iterable[int], least: float) -> Believed:
    widest = model.method.head.max_span_width or 1_000
    found: Believed = {}
    for place in sorted(places):
        sentence = corpus[place]
        for start in range(len(sentence)):
            for end in range(start + 1, min(len(sentence), start + widest) + 1):
                probabilities = probabilities_of(model, sentence.tokens, start, end)
                assert abs(1 - probabilities[0] - least) > 1e-5, "take another limit, this one is too close to call"
                annotated = any((e.start, e.end) == (start, end) for e in sentence.entities)
                rejected = any((s.start, s.end) == (start, end) for s in sentence.non_entities)
                if (annotated or 1 - probabilities[0] >= least) and not rejected:
                    found[place, start, end] = probabilities
    return found


def as_dict(beliefs: SpanProbabilities) -> Believed:
    keys = list(zip(beliefs.sentence.tolist(), beliefs.start.tolist(), beliefs.end.tolist(), strict=True))
    assert len(set(keys)) == len(keys) == len(beliefs.probabilities)
    return dict(zip(keys, beliefs.probabilities.tolist(), strict=True))


def as_beliefs(believed: Believed, labels: int = 3) -> SpanProbabilities:
    keys = np.array(list(believed), dtype=np.int64).reshape(-1, 3)
    probabilities = np.array(list(believed.values()), dtype=np.float32).reshape(-1, labels)
    return SpanProbabilities(keys[:, 0], keys[:, 1], keys[:, 2], probabilities)


def assert_same(found: SpanProbabilities, expected: Believed) -> None:
    assert list(as_dict(found)) == sorted(expected)
    for key, probabilities in as_dict(found).items():
        assert probabilities == pytest.approx(expected[key], abs=1e-5), key


@pytest.fixture(scope="module")
def gappy(toy) -> Corpus:
    """Every sort of sentence that can be judged."""
    likely = toy[3].entities[0]
    return Corpus(
        (
            toy[0],
            Sentence(toy[1].tokens),
            Sentence(toy[2].tokens, (Entity(1, 3, "PER"), Entity(0, 1, "PER"), Entity(0, 1, "LOC"))),
            Sentence(toy[3].tokens, toy[3].entities[1:], (Span(likely.start, likely.end), Span(1, 2))),
            Sentence(toy[6].tokens, (Entity(0, 5, "LOC"), Entity(3, 5, "LOC"))),
            Sentence(toy[20].tokens, complete=True),
            Sentence(("Oslo",)),
        )
    )


@pytest.mark.parametrize("least", [0.0003, 0.05, 0.3, 0.9999])
def test_judged_is_what_is_annotated_or_likely_and_not_rejected(unsure, gappy, least):
    for places in (range(len(gappy)), [4, 1, 3], [6]):
        assert_same(judge(unsure, gappy, places, least), judged_slowly(unsure, gappy, places, least))


def test_the_limits_above_tell_spans_apart(unsure, gappy):
    counts = [len(judge(unsure, gappy, range(len(gappy)), least)) for least in (0.0003, 0.05, 0.3, 0.9999)]
    assert counts == sorted(set(counts), reverse=True)
    annotated = sum(len({(e.start, e.end) for e in sentence.entities}) for sentence in gappy)
    assert counts[-1] == annotated


def test_spans_that_are_too_wide_for_the_head_are_not_judged(narrow, gappy):
    found = judge(narrow, gappy, range(len(gappy)), 0.05)
    assert_same(found, judged_slowly(narrow, gappy, range(len(gappy)), 0.05))
    assert (found.end - found.start).max() == 2


def test_where_nothing_is_worth_a_thought_nothing_is_judged(unsure, toy):
    found = judge(unsure, Corpus((Sentence(("to", "to")), Sentence(("to",)))), [0, 1], 1.0)
    assert len(found) == 0
    assert found.probabilities.shape == (0, 3)


def test_judging_depends_neither_on_the_other_sentences_nor_on_the_order(unsure, gappy):
    whole = as_dict(judge(unsure, gappy, range(len(gappy)), 0.07))
    for place in range(len(gappy)):
        alone = {key: value for key, value in whole.items() if key[0] == place}
        assert_same(judge(unsure, gappy, [place], 0.07), alone)


def test_a_model_with_label_centres_thinks_few_spans_worth_a_thought(toy, small_settings):
    trained = Recognizer.train(toy, method="scl-rai", epochs=30, settings=small_settings).model
    bare = Corpus(tuple(Sentence(sentence.tokens) for sentence in toy))
    everything = sum(len(sentence) * (len(sentence) + 1) // 2 for sentence in bare)
    found = judge(trained, bare, range(len(bare)), 0.25)
    assert len(found) < everything / 2
    assert found.probabilities.sum(1) == pytest.approx(np.ones(len(found)), abs=1e-5)
    assert trained.memory, "otherwise there are no label centres"


def test_joined_beliefs_stand_sentence_by_sentence():
    one = {(0, 0, 1): [0.1, 0.2, 0.7], (3, 0, 2): [0.5, 0.2, 0.3], (3, 4, 5): [0.0, 0.0, 1.0]}
    other = {(1, 0, 1): [0.9, 0.1, 0.0], (2, 5, 7): [0.4, 0.4, 0.2], (7, 0, 1): [0.6, 0.2, 0.2]}
    assert_same(join([as_beliefs(one), as_beliefs({}), as_beliefs(other)]), one | other)
    assert_same(join([as_beliefs(other)]), other)


@pytest.mark.parametrize("teachers", [1, 2, 3])
def test_an_average_takes_what_a_teacher_did_not_judge_as_no_entity(teachers):
    generator = np.random.default_rng(teachers)
    spans = [(sentence, start, end) for sentence in range(4) for start in range(3) for end in range(start + 1, 4)]
    thoughts: list[Believed] = []
    for _ in range(teachers):
        kept = [span for span in spans if generator.random() < 0.6]
        thoughts.append({span: generator.dirichlet(np.ones(3)).tolist() for span in kept})
    expected = {}
    for span in spans:
        if any(span in thought for thought in thoughts):
            rows = [thought.get(span, [1.0, 0.0, 0.0]) for thought in thoughts]
            expected[span] = [sum(row[label] for row in rows) / teachers for label in range(3)]
    assert_same(average([as_beliefs(thought) for thought in thoughts]), expected)


def test_one_teacher_may_have_nothing_to_say():
    sure = {(2, 0, 1): [0.0, 1.0, 0.0]}
    assert_same(average([as_beliefs({}), as_beliefs(sure)]), {(2, 0, 1): [0.5, 0.5, 0.0]})
    assert_same(average([as_beliefs({}), as_beliefs({})]), {})


LABELS = ("O", "LOC", "PER")
THOUGHTS: Believed = {
    (0, 0, 1): [0.2, 0.1, 0.7],  # annotated as PER
    (0, 3, 4): [0.9, 0.05, 0.05],  # annotated as LOC
    (1, 0, 1): [0.3, 0.3, 0.4],  # not annotated
    (2, 0, 2): [0.6, 0.4, 0.0],  # annotated as PER, which the teacher rules out
    (2, 3, 4): [0.4, 0.5, 0.1],  # annotated as either
}


@pytest.fixture
def annotated() -> Corpus:
    words = tuple("abcde")
    return Corpus(
        (
            Sentence(words, (Entity(0, 1, "PER"), Entity(3, 4, "LOC"), Entity(1, 5, "PER"))),  # the last: not judged
            Sentence(words),
            Sentence(words, (Entity(0, 2, "PER"), Entity(3, 4, "LOC"), Entity(3, 4, "PER"))),
            Sentence(words, (Entity(0, 1, "PER"),)),  # not judged at all
        )
    )


@pytest.mark.parametrize("trust", [0.25, 1.0, 3.0, 10.0])
def test_an_annotated_label_is_trust_times_more_probable(annotated, trust):
    expected: Believed = {}
    for (place, start, end), thought in THOUGHTS.items():
        given = {e.label for e in annotated[place].entities if (e.start, e.end) == (start, end)}
        weights = [p * (trust if label in given else 1) for p, label in zip(thought, LABELS, strict=True)]
        expected[place, start, end] = [weight / sum(weights) for weight in weights]
    assert_same(weigh(as_beliefs(THOUGHTS), annotated, LABELS, FoldTeacher(trust=trust)), expected)


def test_trust_of_one_listens_to_the_teacher_alone(annotated):
    assert_same(weigh(as_beliefs(THOUGHTS), annotated, LABELS, FoldTeacher(trust=1)), THOUGHTS)


def test_a_label_that_the_teacher_rules_out_stays_ruled_out(annotated):
    weighed = as_dict(weigh(as_beliefs(THOUGHTS), annotated, LABELS, FoldTeacher(trust=1_000)))
    assert weighed[2, 0, 2] == pytest.approx([0.6, 0.4, 0.0])


def test_the_labels_are_those_of_the_model(annotated):
    """With the labels the other way round, the other columns are weighed."""
    turned = {key: [p[0], p[2], p[1]] for key, p in THOUGHTS.items()}
    teacher = FoldTeacher(trust=5)
    one = as_dict(weigh(as_beliefs(THOUGHTS), annotated, LABELS, teacher))
    other = weigh(as_beliefs(turned), annotated, ("O", "PER", "LOC"), teacher)
    assert_same(other, {key: [p[0], p[2], p[1]] for key, p in one.items()})


def leaning(model: SpanModel, towards_outside: float) -> SpanModel:
    """The same model, but all too ready to say ``O`` (or not to)."""
    biased = copy.deepcopy(model)
    with torch.no_grad():
        biased.head.classifier.bias[0] += towards_outside
    return biased


def evaluated(model: SpanModel, dev: Corpus, threshold: float) -> Scores:
    before, model.threshold = model.threshold, threshold
    scores = score_entities(zip(dev, find_in(model, [sentence.tokens for sentence in dev]), strict=True))
    model.threshold = before
    return scores


def fitted_slowly(model: SpanModel, dev: Corpus, criterion: Callable[[Scores], float]) -> float:
    """Whole thresholds from -4 to 4, then the neighbours half and a quarter as far, by evaluating each anew."""

    def quality(threshold: float) -> tuple[float, float]:
        return criterion(evaluated(model, dev, threshold)), -abs(threshold)

    best = max([float(whole) for whole in range(-4, 5)], key=quality)
    for step in (0.5, 0.25):
        best = max([best - step, best, best + step], key=quality)
    return best


@pytest.mark.parametrize("bias", [-2.6, 0.0, 1.4, 2.6])
@pytest.mark.parametrize(
    "criterion", [lambda s: s.f1, lambda s: s.pu_estimate, lambda s: s.recall], ids=["f1", "pu", "r"]
)
def test_the_threshold_is_the_best_that_was_tried(unsure, toy, bias, criterion):
    model = leaning(unsure, bias)
    threshold, scores = fit_threshold(model, toy[::3], criterion)
    expected = fitted_slowly(model, toy[::3], criterion)
    assert scores == evaluated(model, toy[::3], threshold)
    assert criterion(scores) == criterion(evaluated(model, toy[::3], expected))
    assert threshold == expected
    assert all(criterion(scores) >= criterion(evaluated(model, toy[::3], float(whole))) for whole in range(-4, 5))


def test_a_threshold_makes_up_for_a_model_that_leans_to_one_side(model, toy):
    for bias in (-5.0, 5.0):
        biased = leaning(model.model, bias)
        threshold, scores = fit_threshold(biased, toy, lambda scores: scores.f1)
        assert scores.f1 > evaluated(biased, toy, 0.0).f1
        assert math.copysign(1, threshold) == -math.copysign(1, bias)


def test_a_model_that_needs_no_threshold_gets_none(model, toy):
    assert fit_threshold(copy.deepcopy(model.model), toy, lambda scores: 0.5)[0] == 0.0
    unlabelled = Corpus(tuple(Sentence(sentence.tokens) for sentence in toy))
    assert fit_threshold(copy.deepcopy(model.model), unlabelled, lambda scores: scores.f1)[0] == 0.0


@pytest.mark.parametrize("training", [True, False])
def test_fitting_a_threshold_leaves_the_mode_as_it_was_and_knows_no_dropout(unsure, toy, training):
    model = leaning(unsure, 1.4)
    expected = fit_threshold(model, toy, lambda scores: scores.f1)
    model.train(training)
    assert fit_threshold(model, toy, lambda scores: scores.f1) == expected
    assert model.training is model.encoder.training is training


def test_the_threshold_so_far_does_not_matter_to_the_next(unsure, toy):
    model = leaning(unsure, 1.4)
    expected = fit_threshold(model, toy, lambda scores: scores.f1)
    model.threshold = 3.0
    assert fit_threshold(model, toy, lambda scores: scores.f1) == expected


def test_dev_sentences_without_words_do_no_harm(unsure, toy):
    expected = fit_threshold(unsure, toy, lambda scores: scores.f1)
    padded = Corpus((Sentence(()), *toy, Sentence(())))
    assert fit_threshold(unsure, padded, lambda scores: scores.f1) == expected


def test_a_label_that_is_only_in_dev_counts_as_missed(unsure, toy):
    dev = toy + Corpus((Sentence(("Euro",), (Entity(0, 1, "MISC"),)),))
    _, scores = fit_threshold(unsure, dev, lambda scores: scores.f1)
    assert scores.labels["MISC"].support == 1


def test_whatever_a_threshold_makes_an_entity_is_looked_at(unsure):
    """Three first words are entities with small probabilities, which -4, -4.5 and -4.75 let pass; nothing else is one."""
    model = copy.deepcopy(unsure)
    chances = {1: 0.02, 2: 0.0115, 3: 0.0093}  # by the length of the sentence

    def scorer(inputs):
        def score(spans: Spans) -> SpanScores:
            lengths = inputs.lengths[spans.row].tolist()
            places = zip(lengths, spans.start.tolist(), spans.end.tolist(), strict=True)
            chance = torch.tensor([chances[n] if (start, end) == (0, 1) else 1e-9 for n, start, end in places])
            return SpanScores(
                torch.stack([1 - chance, chance, torch.full_like(chance, 1e-9)], 1).log(), chance[:, None]
            )

        return score

    model.scorer = scorer
    dev = Corpus(tuple(Sentence(("x",) * length, (Entity(0, 1, "LOC"),)) for length in chances))
    assert [evaluated(model, dev, threshold).correct for threshold in (-3.75, -4.0, -4.5, -4.75)] == [0, 1, 2, 3]
    threshold, scores = fit_threshold(model, dev, lambda scores: scores.f1)
    assert (threshold, scores.f1) == (-4.75, 1.0)


@pytest.mark.parametrize("nested", [False, True])
def test_entities_are_found_as_the_recogniser_finds_them(unsure, model, toy, nested):
    recognizer = Recognizer(copy.deepcopy(unsure), model.settings, model.split, model.record)
    sentences = [toy[0].tokens, (), toy[6].tokens, ("Oslo",), toy[13].tokens]
    found = find_in(unsure, sentences, nested, 0.4)
    assert found[1] == []
    for tokens, entities in zip(sentences, found, strict=True):
        if not tokens:
            continue
        (alone,) = unsure.entities(unsure.encoder.index.collate([tokens]), nested, 0.4)
        predicted = recognizer.predict(tokens, tokens=True, nested=nested, min_score=0.4)
        assert entities == alone == predicted
        assert [e.score for e in entities] == pytest.approx([e.score for e in alone], abs=1e-5)
        assert [e.score for e in entities] == pytest.approx([e.score for e in predicted], abs=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_finding_leaves_the_mode_as_it_was_and_knows_no_dropout(unsure, toy, training):
    sentences = [sentence.tokens for sentence in toy]
    changing = copy.deepcopy(unsure)
    expected = find_in(changing, sentences)
    changing.train(training)
    assert find_in(changing, sentences) == expected
    assert changing.training is changing.encoder.training is training


def test_a_judge_that_knew_all_negatives_leaves_its_threshold_aside(unsure, gappy):
    shifted = copy.deepcopy(unsure)
    shifted.threshold = -2.0
    places = range(len(gappy))
    plain = judge(unsure, gappy, places, 0.05)
    assert as_dict(judge(shifted, gappy, places, 0.05, shifted=False)) == as_dict(plain)
    assert as_dict(judge(shifted, gappy, places, 0.05)) != as_dict(plain)
