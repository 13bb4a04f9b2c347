from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuner import Corpus, Entity, Sentence, TrainingError
from lacuner.training.cross_fit import Fold, assign_folds, fold_tasks, plan_folds
from lacuner.training.tasks import run_tasks

WORDS = ("Ada", "met", "Bo")


def numbered(count: int, different: int) -> Corpus:
    """Sentences of one word; every ``different``-th is the same again."""
    return Corpus([Sentence((f"word{number % different}",)) for number in range(count)])


def test_sentences_with_the_same_words_are_in_the_same_fold() -> None:
    corpus = numbered(200, 50)
    folds = assign_folds(corpus, 4, seed=1)
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3]
    for number in range(50):
        assert len({int(fold) for fold in folds[number::50]}) == 1
    assert folds.tolist() == assign_folds(corpus, 4, seed=1).tolist() != assign_folds(corpus, 4, seed=2).tolist()


@given(st.integers(1, 30), st.integers(2, 6), st.integers(0, 9))
def test_folds_differ_by_one_sentence_at_most(count: int, folds: int, seed: int) -> None:
    sizes = [assign_folds(numbered(count, count), folds, seed).tolist().count(fold) for fold in range(folds)]
    assert max(sizes) - min(sizes) <= 1


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Corpus, list[int], list[int]]:
    """A corpus with repetitions and empty sentences, some of which are divided and others only asked about."""
    sentences = draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=2), min_size=1, max_size=14))
    divided = [index for index in range(len(sentences)) if draw(st.booleans())]
    others = [index for index in range(len(sentences)) if index not in divided]
    return Corpus(tuple(Sentence(tuple(words)) for words in sentences)), divided, others


def words_of(corpus: Corpus, indices: Sequence[int]) -> set[tuple[str, ...]]:
    return {corpus[index].tokens for index in indices}


@given(tasks(), st.integers(2, 5), st.integers(0, 5))
def test_each_sentence_is_predicted_once_by_a_model_that_knows_none_of_its_words(task, folds, seed):
    corpus, divided, others = task
    plan = plan_folds(corpus, folds, seed, divided)
    predicted = [index for fold in plan for index in fold.held_out]
    assert sorted(predicted) == [index for index in divided if corpus[index].tokens]
    for fold in plan:
        assert fold.held_out == tuple(sorted(fold.held_out))
        assert words_of(corpus, fold.train).isdisjoint(words_of(corpus, fold.held_out))
        left_out = words_of(corpus, fold.held_out)
        for index in (*divided, *others):  # everything else is learned from, but perhaps not what has no words
            assert (index in fold.train) == (corpus[index].tokens not in left_out) or not corpus[index].tokens
    assert [fold.number for fold in plan] == sorted({fold.number for fold in plan})


@given(tasks(), st.integers(2, 5), st.integers(0, 5))
def test_models_of_some_sentences_predict_all_others_whose_words_they_do_not_know(task, folds, seed):
    corpus, divided, others = task
    plan = plan_folds(corpus, folds, seed, divided, train_on=divided, predict_on=others)
    filled = {index for index in others if corpus[index].tokens}
    for fold in plan:
        known = words_of(corpus, fold.train)
        assert set(fold.train) <= set(divided)
        assert set(fold.held_out) == {index for index in filled if corpus[index].tokens not in known}
    assert {index for fold in plan for index in fold.held_out} == filled
    if len(words_of(corpus, divided)) >= folds:
        left_out = [set(divided) - set(fold.train) for fold in plan]
        assert all(one.isdisjoint(other) for one in left_out for other in left_out if one is not other)


def test_results_come_fold_by_fold_and_are_kept_under_a_name() -> None:
    corpus = Corpus(tuple(Sentence((word,), (Entity(0, 1, "PER"),)) for word in "abcdef"))
    plan = plan_folds(corpus, 3, 1, range(6))
    fitted, kept = [], {}

    def fit(fold: Fold) -> str:
        fitted.append(fold.number)
        return f"model {fold.number}"

    def predict(model: str, indices: Sequence[int]) -> dict[str, torch.Tensor]:
        return {model: torch.tensor(indices)}

    def cached(name, compute):
        if name not in kept:
            kept[name] = compute()
        return kept[name]

    found = run_tasks(fold_tasks(corpus, plan, fit, predict, "teacher"), cached, 1)
    assert list(kept) == ["teacher-1", "teacher-2", "teacher-3"]
    assert [(name, value.tolist()) for part in found for name, value in part.items()] == [
        (f"model {fold.number}", list(fold.held_out)) for fold in plan
    ]
    again = run_tasks(fold_tasks(corpus, plan, fit, predict, "teacher"), cached, 1)
    assert again == found
    assert fitted == [1, 2, 3], "what is kept is not computed again"


def test_if_a_fold_leaves_no_entity_to_learn_from_nothing_is_trained() -> None:
    annotated = Sentence(("Ada",), (Entity(0, 1, "PER"),))
    corpus = Corpus((annotated, Sentence(("sleeps",)), Sentence(("here",))))
    plan = plan_folds(corpus, 2, 1, range(3))
    with pytest.raises(TrainingError, match=r"no annotated entity is left to learn from — annotate more") as caught:
        fold_tasks(corpus, plan, pytest.fail, pytest.fail, "teacher")
    assert "\n" not in str(caught.value)
