from dataclasses import replace
from statistics import fmean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.encoders.words import EncodedWords
from lacuner.errors import ConfigError
from lacuner.methods.bnpu import (
    METHODS,
    BoundedNonNegative,
    OneVsRestConfig,
    Words,
    bounded_risk,
    type_fractions,
    words_of_types,
)
from lacuner.methods.method import TokenMethod
from lacuner.methods.parts import Step, TrainingData
from lacuner.methods.registry import registry
from lacuner.supervision.tags import TagSet, TokenSupervision, build_tag_targets
from lacuner.training.settings import parse_assignments, resolve_settings, settings_from_dict
from tiny_models import batch_loss, tiny_model
from tiny_taggers import QUICK

(METHOD,) = METHODS
LABELS = ("O", "LOC", "PER")


# The risk.


def masks(status: Tensor) -> Words:
    """From what each word is to each type: 0 an annotated word, 1 unknown, 2 another type's or outside, 3 ignored."""
    return Words(status == 0, status == 1, status == 2)


def slow_risk(probability: list[float], status: list[int], weight: float, prior: float) -> float:
    """Of one type, word by word, with the errors |1 - p| and |0 - p|."""
    found = [p for p, kind in zip(probability, status, strict=True) if kind == 0]
    unknown = [p for p, kind in zip(probability, status, strict=True) if kind == 1]
    outside = [p for p, kind in zip(probability, status, strict=True) if kind == 2]
    known_risk = sum(abs(0 - p) for p in outside)
    others = max(1, len(unknown) + len(outside))
    positive_risk = weight * fmean(abs(1 - p) for p in found) if found else 0.0
    if not unknown:
        return positive_risk + known_risk / others
    entities = prior * (fmean(abs(0 - p) for p in found) if found else 1.0)
    unknown_risk = (fmean(abs(0 - p) for p in unknown) - entities) * len(unknown) / others
    if unknown_risk < 0:
        return -unknown_risk + known_risk / others
    return positive_risk + unknown_risk + known_risk / others


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 5))
def test_the_risk_is_that_of_the_paper_word_by_word(seed: int, rows: int, longest: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, longest, 3)
    probability = torch.rand(shape, generator=generator, dtype=torch.float64)
    status = torch.randint(0, 4, shape, generator=generator)
    weight, prior = torch.rand(2, 3, generator=generator, dtype=torch.float64)
    found = bounded_risk(probability, masks(status), 3 * weight, prior)
    expected = [
        slow_risk(
            probability[..., k].flatten().tolist(), status[..., k].flatten().tolist(), 3 * weight[k].item(), prior[k]
        )
        for k in range(3)
    ]
    assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_what_hidden_entities_add_to_the_unknown_risk_is_taken_away() -> None:
    """If hidden words look like the annotated ones, the risk is the one that complete annotation would give."""
    entity, other = 0.9, 0.2
    probability = torch.tensor([[entity, entity, entity, other, other, other]])[..., None]
    gaps = masks(torch.tensor([[0, 1, 1, 1, 1, 1]])[..., None])
    found = bounded_risk(probability, gaps, torch.tensor([0.0]), torch.tensor([2 / 5]))
    assert found.item() == pytest.approx(3 / 5 * other)


def test_where_the_unknown_risk_is_negative_the_step_goes_back() -> None:
    """Words learned by heart: fewer unknown words are taken for entities than there are."""
    probability = torch.tensor([[0.9, 0.05, 0.05]])[..., None].requires_grad_()
    words = masks(torch.tensor([[0, 1, 1]])[..., None])
    bounded_risk(probability, words, torch.tensor([1.0]), torch.tensor([0.5])).sum().backward()
    assert probability.grad is not None
    annotated, *unknown = probability.grad.flatten().tolist()
    assert annotated > 0, "less sure of what is annotated"
    assert all(slope < 0 for slope in unknown), "surer of what is not"


def test_known_words_count_in_every_step() -> None:
    for share, unknown in ((0.5, 0.05), (0.0, 0.9)):
        probability = torch.tensor([[0.9, unknown, 0.3]])[..., None].requires_grad_()
        words = masks(torch.tensor([[0, 1, 2]])[..., None])
        bounded_risk(probability, words, torch.tensor([1.0]), torch.tensor([share])).sum().backward()
        assert probability.grad is not None
        assert probability.grad[0, 2, 0].item() == pytest.approx(0.5)


@pytest.mark.parametrize("status", [(1, 1), (2, 2), (0, 0), (3, 3), (1, 2)])
def test_a_batch_that_lacks_words_of_a_kind_gives_numbers(status: tuple[int, int]) -> None:
    probability = torch.tensor([[0.5, 0.7]])[..., None].requires_grad_()
    risk = bounded_risk(probability, masks(torch.tensor([status])[..., None]), torch.tensor([2.0]), torch.tensor([0.1]))
    risk.sum().backward()
    assert risk.isfinite().all()
    assert probability.grad is not None
    assert probability.grad.isfinite().all()


def test_without_an_annotated_word_as_many_unknown_ones_as_usual_are_expected() -> None:
    words, prior = masks(torch.ones(1, 2, 1, dtype=torch.long)), torch.tensor([0.3])
    for found, slope in ((0.2, -0.5), (0.4, 0.5)):
        probability = torch.full((1, 2, 1), found, requires_grad=True)
        bounded_risk(probability, words, torch.tensor([1.0]), prior).sum().backward()
        assert probability.grad is not None
        assert probability.grad.flatten().tolist() == pytest.approx([slope, slope])


# What is known about words.


def status_of(sentence: Sentence, label: str, known: TokenSupervision | None = None) -> str:
    """A letter a word: P, U or N, and a dot where nothing is taught; other sentences of the batch do not matter."""
    longer = Sentence(tuple("abcdefghij"), complete=True)
    targets = build_tag_targets([longer, sentence], TagSet("io", LABELS), [None, known])
    found = words_of_types(targets.possible, targets)
    column = LABELS.index(label) - 1
    letters = [
        "".join(letter for letter, mask in zip("PUN", found, strict=True) if mask[1, word, column]) or "."
        for word in range(10)
    ]
    assert letters[len(sentence) :] == ["."] * (10 - len(sentence)), "padding"
    return "".join(letters[: len(sentence)])


GAPS = Sentence(("Grace", "Hopper", "moved", "to", "Turin"), (Entity(0, 2, "PER"),))


def test_words_without_annotation_are_unknown_and_those_of_other_types_are_not() -> None:
    assert status_of(GAPS, "PER") == "PPUUU"
    assert status_of(GAPS, "LOC") == "NNUUU"


def test_words_of_complete_sentences_are_known() -> None:
    assert status_of(replace(GAPS, complete=True), "PER") == "PPNNN"
    assert status_of(replace(GAPS, complete=True, unknown_tokens=frozenset({4})), "LOC") == "NNNNU"


def test_a_word_that_a_reviewer_rejected_is_known() -> None:
    assert status_of(replace(GAPS, non_entities=(Span(2, 3),)), "PER") == "PPNUU"


def test_labels_that_nobody_looked_for_are_unknown() -> None:
    persons = replace(GAPS, complete=True, annotated_labels=frozenset({"PER"}))
    assert status_of(persons, "PER") == "PPNNN"
    assert status_of(persons, "LOC") == "NNUUU"


def test_a_word_of_one_of_two_types_is_neither_unknown_nor_known() -> None:
    either = Sentence(("Paris", "left"), (Entity(0, 1, "PER"), Entity(0, 1, "LOC")))
    assert status_of(either, "PER") == ".U"


def test_ignored_words_teach_nothing() -> None:
    assert status_of(GAPS, "PER", TokenSupervision(ignored=(2, 3))) == "PP..U"


def test_the_loss_of_a_batch_is_the_sum_over_the_types() -> None:
    loss = BoundedNonNegative(weight=4.0, prior={"LOC": 0.1, "PER": 0.2}, unknown_prior={"LOC": 0.05, "PER": 0.15})
    tags = TagSet("io", LABELS)
    torch.manual_seed(0)
    decisions = torch.randn(2, 5, 3, dtype=torch.float64)
    sentences = [GAPS, Sentence(("to", "Turin"), (Entity(1, 2, "LOC"),), complete=True)]
    targets = build_tag_targets(sentences, tags)
    weights = torch.zeros(decisions.shape).masked_fill(~targets.possible, float("-inf"))
    found = loss(OneVsRestConfig().build(4, tags), decisions, weights, targets, Step(0, 1, torch.Generator()), {})
    expected = 0.0
    for label, status in (("LOC", "NNUUUNP..."), ("PER", "PPUUUNN...")):
        numbers = ["PUN.".index(letter) for letter in status]
        logits = decisions[..., LABELS.index(label)] - decisions[..., 0]
        probability = logits.sigmoid().flatten().tolist()
        assert loss.prior is not None
        assert loss.unknown_prior is not None
        expected += slow_risk(probability, numbers, 4 * loss.prior[label], loss.unknown_prior[label])
    assert found.item() == pytest.approx(expected)


def test_without_a_weight_annotated_words_of_a_type_count_as_much_as_all_others() -> None:
    balanced = BoundedNonNegative(prior={"LOC": 0.1, "PER": 0.2}, unknown_prior={"LOC": 0.0, "PER": 0.0})
    tags, decisions = TagSet("io", LABELS), torch.zeros(1, 5, 3)
    targets = build_tag_targets([GAPS], tags)
    weights = torch.zeros(decisions.shape).masked_fill(~targets.possible, float("-inf"))
    step = Step(0, 1, torch.Generator())
    found = balanced(OneVsRestConfig().build(4, tags), decisions, weights, targets, step, {})
    assert found.item() == pytest.approx((0.5 + 0.5) + 0.5), "of PER annotated words and others, of LOC others only"


# The prior.


def filled(loss: BoundedNonNegative, corpus: list[Sentence], dev: list[Sentence] | None = None, **more: bool):
    data = TrainingData(Corpus(tuple(corpus)), None if dev is None else Corpus(tuple(dev)), **more)
    return loss.for_data(data)


WHOLE = replace(GAPS, entities=(Entity(0, 2, "PER"), Entity(4, 5, "LOC")), complete=True)


def test_a_word_counts_once_for_its_type() -> None:
    nested = Sentence(("a", "b", "c", "d"), (Entity(0, 2, "PER"), Entity(1, 3, "PER"), Entity(1, 2, "LOC")))
    assert type_fractions([nested, Sentence(("e",))], ["LOC", "ORG", "PER"]) == {"LOC": 0.2, "ORG": 0.0, "PER": 0.6}


def test_the_prior_is_that_of_complete_sentences_or_of_dev_data_or_guessed_from_what_is_annotated() -> None:
    other = replace(WHOLE, tokens=(*WHOLE.tokens, *"abcde"), complete=False)
    gaps = replace(GAPS, entities=(Entity(0, 1, "PER"), Entity(4, 5, "LOC")))
    complete = filled(BoundedNonNegative(), [gaps, *[WHOLE] * 20], [other] * 20)
    assert complete.prior == {"LOC": 0.2, "PER": 0.4}
    from_dev = filled(BoundedNonNegative(), [replace(gaps, tokens=(*gaps.tokens, *"abcde"))], [other] * 20)
    assert from_dev.prior == {"LOC": 0.1, "PER": 0.2}
    for dev in (None, [other] * 20):
        guessed = filled(BoundedNonNegative(coverage=0.4), [gaps], dev, dev_incomplete=dev is not None)
        assert guessed.prior == {"LOC": pytest.approx(0.5), "PER": pytest.approx(0.5)}


def test_there_are_at_least_as_many_entities_as_are_annotated() -> None:
    """A label that dev data lacks can be learned nevertheless."""
    without = Sentence(tuple("abcde"))
    assert filled(BoundedNonNegative(), [GAPS], [without] * 50).prior == {"PER": 0.4}


def test_a_type_that_only_few_complete_sentences_have_is_learned(toy: Corpus) -> None:
    few = toy[:8].as_complete()
    assert filled(BoundedNonNegative(), list(few)).prior == pytest.approx(type_fractions(few, few.labels))
    settings = QUICK | {"loss.weight": 4}
    assert Recognizer.train(few, None, method="bnpu", epochs=60, settings=settings).evaluate(few).f1 > 0.9


def test_of_unknown_words_so_many_are_entities_as_the_prior_leaves() -> None:
    loss = filled(BoundedNonNegative(prior={"PER": 0.6}), [GAPS])
    assert loss.unknown_prior == {"PER": pytest.approx((0.6 * 5 - 2) / 3)}
    assert filled(loss.model_copy(update={"unknown_prior": {"PER": 0.1}}), [GAPS]).unknown_prior == {"PER": 0.1}
    everything = Sentence(("Ada",), (Entity(0, 1, "PER"),))
    assert filled(BoundedNonNegative(), [everything]).unknown_prior == {"PER": 0.0}


def test_a_prior_can_be_given_on_the_command_line_and_is_stored() -> None:
    given = parse_assignments(["loss.prior={PER = 0.1, LOC = 0.2}", "loss.weight=15"])
    settings = resolve_settings("bnpu", overrides=given)
    assert settings.method.loss.prior == {"PER": 0.1, "LOC": 0.2}
    assert settings_from_dict(settings.model_dump(mode="json")) == settings
    with pytest.raises(ConfigError, match=r"loss\.prior"):
        resolve_settings("bnpu", overrides={"loss.prior": {"PER": 1.5}})


# The head.


def test_every_type_is_decided_by_itself() -> None:
    tags = TagSet("io", LABELS)
    torch.manual_seed(0)
    head = OneVsRestConfig().build(4, tags)
    words = torch.randn(1, 3, 4)
    before = head(EncodedWords(words, words))
    assert before[..., 0].eq(0).all(), "O has no score of its own"
    with torch.no_grad():
        head.output.weight[0] += 1.0
    after = head(EncodedWords(words, words))
    assert after[..., 1].ne(before[..., 1]).all()
    assert after[..., 2].equal(before[..., 2])


def test_the_surest_type_wins_if_it_is_more_likely_than_not() -> None:
    tags = TagSet("io", LABELS)
    head = OneVsRestConfig().build(4, tags)
    decisions = torch.tensor([[[0.0, 1.0, 2.0], [0.0, -1.0, -0.5], [0.0, 0.5, -3.0], [0.0, 0.4, 0.1]]])
    (found,) = head.decode(decisions, torch.tensor([4]))
    assert [(e.start, e.end, e.label) for e in found] == [(0, 1, "PER"), (2, 4, "LOC")]


# As a method.


def test_the_preset_is_the_papers() -> None:
    assert registry().method("bnpu") is METHOD
    assert (METHOD.level, METHOD.head, METHOD.loss) == ("token", OneVsRestConfig(), BoundedNonNegative())
    assert (METHOD.sampling, METHOD.regularizer, METHOD.stage) == (None, None, None)


def test_its_head_and_its_loss_can_be_chosen_by_other_taggers() -> None:
    choices = registry().choices
    assert choices("head", TokenMethod)["one-vs-rest"] is OneVsRestConfig
    assert choices("loss", TokenMethod)["bnpu"] is BoundedNonNegative
    settings = resolve_settings("token", overrides={"head": "one-vs-rest"})
    assert settings.method.head == OneVsRestConfig()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head.scheme": "bioes"}, r"head\.scheme=bioes splits them — set head\.scheme=io"),
        ({"head": "crf", "head.scheme": "io"}, "does not train transitions — set head=one-vs-rest"),
        ({"sampling": "spans"}, r"no label for sampled non-entities — set sampling\.label=O"),
        ({"stage": "tag-weights"}, "does not weigh tags — leave out"),
        ({"loss.prior": {"LOC": 0.1}}, r"loss\.prior says nothing about PER"),
        ({"stage": "o-values"}, "head=one-vs-rest gives all words the same"),
    ],
)
def test_parts_that_make_no_sense_together_are_refused(toy: Corpus, settings: dict[str, object], message: str) -> None:
    method = resolve_settings("bnpu", overrides=settings).method
    with pytest.raises(ConfigError, match=message):
        method.check(TrainingData(toy, None))


def test_parts_that_make_sense_together_are_not(toy: Corpus) -> None:
    for settings in ({}, {"head": "softmax", "head.scheme": "io"}, {"sampling": "spans", "sampling.label": "O"}):
        resolve_settings("bnpu", overrides=settings).method.check(TrainingData(toy, None))


def test_every_parameter_learns(toy: Corpus) -> None:
    method = METHOD.for_data(TrainingData(toy, None))
    model = tiny_model(method, ("O", *toy.labels))
    batch_loss(method, model, toy[:3]).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_it_learns_from_gaps_what_a_tagger_overlooks(toy: Corpus, tmp_path) -> None:
    gaps = toy.mask(0.5, seed=1)
    model = Recognizer.train(gaps, toy, method="bnpu", epochs=12, settings=QUICK)
    assert model.evaluate(toy).f1 > 0.9
    plain = Recognizer.train(gaps, toy, method="token", epochs=12, settings=QUICK)
    assert model.evaluate(toy).f1 > plain.evaluate(toy).f1
    model.save_pretrained(tmp_path / "model")
    loaded = Recognizer.from_pretrained(tmp_path / "model")
    text = "Grace Hopper moved to New York ."
    assert [(e.text, e.label) for e in loaded.predict(text)] == [("Grace Hopper", "PER"), ("New York", "LOC")]
    assert loaded.settings == model.settings, "with the priors that were estimated"
    assert loaded.settings.method.loss.prior == pytest.approx(type_fractions(toy, toy.labels))
