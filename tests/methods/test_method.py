"""What methods of both levels have in common: their parts, and the state that parts keep."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from lacuner import Corpus, Recognizer
from lacuner import registry as registries
from lacuner.corpus import Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.heads import SPAN_HEADS, TAG_HEADS, TagHead
from lacuner.methods.crf import METHODS as CRF
from lacuner.methods.full import METHODS as FULL
from lacuner.methods.full import CrossEntropy
from lacuner.methods.lacuner import METHODS as LACUNER
from lacuner.methods.method import Method
from lacuner.methods.parts import RescoredBatch, SpanLoss, State, StateSizes, Step, TokenLoss, TrainingData
from lacuner.methods.registry import registry
from lacuner.methods.scl_rai import METHODS as SCL_RAI
from lacuner.methods.token import Likelihood
from lacuner.methods.two_step import METHODS as TWO_STEP
from lacuner.supervision.tags import TagTargets
from lacuner.training.loop import Observer
from lacuner.training.settings import RunSettings, resolve_settings
from tiny_models import batch_loss, encoded, tiny_model

LABELS = ("O", "LOC", "PER")
SENTENCES = (
    Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))),
    Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"),), complete=True),
    Sentence(("Ada",)),
)


class Counting:
    """Counts steps, how often each sentence was read, and how large what it saw was; the loss grows with it.

    So a run that forgets some of it on the way ends with other weights.
    """

    def initial_state(self, sizes: StateSizes) -> dict[str, Tensor]:
        return {"steps": torch.zeros((), dtype=torch.long), "mean": torch.zeros(sizes.labels)}

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        return {"read": torch.zeros(sentences, dtype=torch.long), "last": torch.full((sentences, sizes.hidden), -1.0)}

    def weight(self, step: Step, state: State) -> Tensor:
        rows = torch.tensor(step.sentences, device=state["read"].device)
        state["steps"].add_(1)
        state["mean"].add_(step.epoch)
        state["read"].index_add_(0, rows, torch.ones_like(rows))
        state["last"][rows] = float(step.epoch)
        return 1 + state["read"][rows].float().mean() + 0.1 * state["steps"]


class CountingSpanLoss(Counting, SpanLoss):
    """``counting``: cross-entropy that counts."""

    name: Literal["counting"] = "counting"

    def __call__(self, logits: Tensor, possible: Tensor, sampled: Tensor, step: Step, state: State) -> Tensor:
        return self.weight(step, state) * CrossEntropy()(logits, possible, sampled, step, {})


class CountingTokenLoss(Counting, TokenLoss):
    """``counting``: the likelihood that counts."""

    name: Literal["counting"] = "counting"

    def __call__(
        self, head: TagHead, decisions: Tensor, log_weights: Tensor, targets: TagTargets, step: Step, state: State
    ) -> Tensor:
        return self.weight(step, state) * Likelihood()(head, decisions, log_weights, targets, step, {})


COUNTING = {
    "span": FULL[0].model_copy(update={"name": "counting-spans", "loss": CountingSpanLoss()}),
    "token": CRF[0].model_copy(update={"name": "counting-words", "loss": CountingTokenLoss()}),
}
HEADS = {
    "span": [head(hidden=6) for head in SPAN_HEADS.values()],
    "token": [head() for head in TAG_HEADS.values()],
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The counting methods are there, as if their package were installed."""
    module = SimpleNamespace(PARTS=(CountingSpanLoss, CountingTokenLoss), METHODS=tuple(COUNTING.values()))
    point = SimpleNamespace(name="counting", value="counting_methods", load=lambda: module)
    monkeypatch.setattr(registries, "entry_points", lambda group: [point] if group == "lacuner.methods" else [])
    registry.cache_clear()
    yield
    monkeypatch.undo()
    registry.cache_clear()


# State.


@pytest.mark.parametrize("level", COUNTING)
def test_a_part_is_told_which_sentences_are_in_the_batch_and_keeps_what_it_writes_down(level: str) -> None:
    method = COUNTING[level]
    model = tiny_model(method, LABELS)
    method.begin_training(model, 5)
    first = batch_loss(method, model, SENTENCES, indices=[4, 0, 3])
    second = batch_loss(method, model, SENTENCES[:1], indices=[3])
    state = model.state_of("loss")
    assert state["read"].tolist() == [1, 0, 0, 2, 1]
    assert state["steps"].item() == 2
    assert state["mean"].tolist() == [2.0, 2.0, 2.0], "each batch is in the epoch with the number 1"
    assert state["last"].amin(1).tolist() == [1.0, -1.0, -1.0, 1.0, 1.0]
    assert first.isfinite()
    assert second.isfinite()


@pytest.mark.parametrize(("level", "head"), [(level, head) for level in HEADS for head in HEADS[level]], ids=str)
def test_state_has_the_sizes_of_the_model(level: str, head: Any) -> None:
    method = COUNTING[level].model_copy(update={"head": head})
    model = tiny_model(method, LABELS)
    method.begin_training(model, 5)
    state = model.state_of("loss")
    batch = encoded(model, SENTENCES)
    size = model.head.hidden_size if level == "span" else batch.words.first.shape[-1]
    assert state["mean"].shape == (len(LABELS),)
    assert state["last"].shape == (5, size)
    if level == "span":
        layers = next(iter(model.hidden_layers(batch, model.targets(SENTENCES))))[0]
        assert layers.shape[1] == size


@pytest.mark.parametrize("level", COUNTING)
def test_what_is_needed_for_training_only_is_not_saved_with_the_model(level: str) -> None:
    method = COUNTING[level]
    model = tiny_model(method, LABELS)
    before = set(model.state_dict())
    assert {"state.loss.steps", "state.loss.mean"} <= before
    method.begin_training(model, 5)
    assert set(model.state_dict()) == before
    assert set(model.state_of("loss")) == {"steps", "mean", "read", "last"}


def test_training_that_begins_again_keeps_what_is_kept_and_begins_the_rest_from_nothing() -> None:
    method = COUNTING["span"]
    model = tiny_model(method, LABELS)
    method.begin_training(model, 3)
    batch_loss(method, model, SENTENCES, indices=[0, 1, 2])
    method.begin_training(model, 4)
    assert model.state_of("loss")["steps"].item() == 1
    assert model.state_of("loss")["read"].tolist() == [0, 0, 0, 0]
    assert "state.loss.read" not in model.state_dict()


@pytest.mark.parametrize("level", COUNTING)
def test_state_moves_with_the_model(level: str) -> None:
    method = COUNTING[level]
    model = tiny_model(method, LABELS)
    method.begin_training(model, 5)
    batch_loss(method, model, SENTENCES, indices=[4, 0, 3])
    model.to(torch.device("cpu")).double()
    state = model.state_of("loss")
    assert state["read"].tolist() == [1, 0, 0, 1, 1]
    assert state["mean"].dtype == torch.double
    model.to("meta")
    assert {tensor.device.type for tensor in model.state_of("loss").values()} == {"meta"}


@pytest.mark.parametrize("level", COUNTING)
def test_a_copy_of_a_model_has_a_state_of_its_own(level: str) -> None:
    method = COUNTING[level]
    model = tiny_model(method, LABELS)
    method.begin_training(model, 5)
    batch_loss(method, model, SENTENCES, indices=[4, 0, 3])
    other = copy.deepcopy(model)
    batch_loss(method, other, SENTENCES[:1], indices=[1])
    assert model.state_of("loss")["read"].tolist() == [1, 0, 0, 1, 1]
    assert other.state_of("loss")["read"].tolist() == [1, 1, 0, 1, 1]
    assert (model.state_of("loss")["steps"].item(), other.state_of("loss")["steps"].item()) == (1, 2)
    assert set(other.state_dict()) == set(model.state_dict())


@pytest.mark.parametrize("level", COUNTING)
def test_state_goes_through_a_state_dict(level: str) -> None:
    method = COUNTING[level]
    model, other = tiny_model(method, LABELS), tiny_model(method, LABELS)
    method.begin_training(model, 5)
    batch_loss(method, model, SENTENCES, indices=[4, 0, 3])
    other.load_state_dict(model.state_dict())
    assert other.state_of("loss")["steps"].item() == 1
    assert other.state_of("loss")["mean"].equal(model.state_of("loss")["mean"])


class Interrupted(Observer):
    """Training is interrupted after the second epoch."""

    def epoch_ended(self, record: dict[str, Any]) -> None:
        if record["epoch"] == 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def settings_of(small_settings: dict[str, object]) -> Callable[[str], RunSettings]:
    """Four epochs of a counting method, with averaged weights."""

    def resolved(level: str) -> RunSettings:
        method = COUNTING[level]
        shared = {key: value for key, value in small_settings.items() if not key.startswith("head")}
        chosen = resolve_settings(
            "full" if level == "span" else "crf",
            overrides=shared | {"training.epochs": 4, "training.ema_epochs": 1.0},
        )
        return chosen.model_copy(update={"method": method})

    return resolved


@pytest.mark.parametrize("level", COUNTING)
def test_state_survives_an_interruption_and_the_model_folder(
    level: str, toy: Corpus, tmp_path: Path, settings_of: Callable[[str], RunSettings], installed: None
) -> None:
    settings, corpus = settings_of(level), toy[:8]
    whole = Recognizer.train(corpus, settings=settings)
    out = tmp_path / "model"
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(corpus, settings=settings, out=out, observer=Interrupted())
    resumed = Recognizer.train(corpus, settings=settings, out=out, resume=True)
    for trained in (whole, resumed):
        state = trained.model.state_of("loss")
        assert state["read"].tolist() == [4] * len(corpus), "every epoch reads every sentence once"
        assert state["steps"].item() % 4 == 0
        assert state["mean"].tolist() == [(0 + 1 + 2 + 3) * state["steps"].item() / 4] * 3
    loaded = Recognizer.from_pretrained(out)
    for other in (resumed, loaded):
        assert other.model.state_dict().keys() == whole.model.state_dict().keys()
        for name, value in whole.model.state_dict().items():
            assert value.equal(other.model.state_dict()[name]), name
    assert set(loaded.model.state_of("loss")) == {"steps", "mean"}
    assert loaded.predict(toy[0].tokens) == whole.predict(toy[0].tokens)


class Watching(CountingSpanLoss):
    """``watching``: before every fifth step, it looks at all training sentences."""

    name: Literal["watching"] = "watching"  # type: ignore[assignment]

    def training_state(self, sizes: StateSizes, sentences: int) -> dict[str, Tensor]:
        needed = {"words": torch.tensor(sizes.lengths), "looks": torch.zeros(2), "sum": torch.zeros(sentences)}
        return super().training_state(sizes, sentences) | needed

    def rescores_at(self, step: Step) -> bool:
        return step.number % 5 == 4

    def rescore(self, batch: RescoredBatch) -> dict[str, Tensor]:
        assert not batch.model.training
        assert not torch.is_grad_enabled()
        assert batch.targets.lengths.tolist() == [len(sentence) for sentence in batch.sentences]
        vectors = batch.words.words.first[:, 0]
        return {"sentence": torch.tensor(batch.indices), "sum": vectors.sum(-1), "size": batch.words.lengths}

    def update_state(self, found: Mapping[str, Tensor], state: State) -> None:
        assert sorted(found["sentence"].tolist()) == list(range(len(state["words"])))
        assert state["words"][found["sentence"]].equal(found["size"])
        state["looks"].add_(1)
        state["sum"][found["sentence"]] = found["sum"]

    def weight(self, step: Step, state: State) -> Tensor:
        return super().weight(step, state) + state["sum"].mean().tanh()


def test_a_part_may_look_at_all_training_data_in_the_middle_of_training() -> None:
    method = FULL[0].model_copy(update={"loss": Watching()})
    model = tiny_model(method, LABELS).train()
    method.begin_training(model, 3, [4, 3, 1])
    asked = [number for number in range(12) if method.rescores_at(Step(0, 1, torch.Generator(), number=number))]
    assert asked == [4, 9]
    method.rescore(model, SENTENCES, None, Step(0, 1, torch.Generator(), number=4))
    state = model.state_of("loss")
    assert state["looks"].tolist() == [1, 1]
    for sentence, found in zip(SENTENCES, state["sum"], strict=True):
        torch.testing.assert_close(found, encoded(model.eval(), [sentence]).words.first[0, 0].sum())
    method.rescore(model.train(), SENTENCES, None, Step(0, 1, torch.Generator(), number=1))
    assert state["looks"].tolist() == [1, 1], "it had not asked"
    assert model.training, "it is in the mode in which it was"
    assert not FULL[0].rescores_at(Step(0, 1, torch.Generator()))


def test_a_run_in_which_a_part_looks_at_the_data_is_resumed_with_the_same_result(
    toy: Corpus, tmp_path: Path, settings_of: Callable[[str], RunSettings]
) -> None:
    """Steps are counted over all epochs, also after an interruption."""
    settings = settings_of("span")
    settings = settings.model_copy(update={"method": settings.method.model_copy(update={"loss": Watching()})})
    corpus, out = toy[:20], tmp_path / "model"
    whole = Recognizer.train(corpus, settings=settings)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(corpus, settings=settings, out=out, observer=Interrupted())
    resumed = Recognizer.train(corpus, settings=settings, out=out, resume=True)
    state, steps = whole.model.state_of("loss"), int(whole.model.state_of("loss")["steps"])
    assert steps // 2 % 5, "or epochs begin where looks do"
    assert state["looks"].tolist() == [steps // 5] * 2
    for name, value in state.items():
        assert value.equal(resumed.model.state_of("loss")[name]), name
    for name, value in whole.model.state_dict().items():
        assert value.equal(resumed.model.state_dict()[name]), name


def test_parts_that_keep_nothing_have_no_state() -> None:
    for method in (FULL[0], CRF[0]):
        model = tiny_model(method, LABELS)
        method.begin_training(model, 5)
        assert len(model.state) == 0
        assert model.state_of("loss") == {}


def test_prototypes_are_kept_under_the_kind_of_their_part() -> None:
    model = tiny_model(SCL_RAI[0], LABELS)
    assert set(model.state_of("inference")) == {"prototypes", "seen"}
    corpus = Corpus(SENTENCES)
    SCL_RAI[0].finish_training(model.train(), corpus)
    assert model.state_of("inference")["seen"].all()
    assert model.training, "it is in the mode in which it was"
    FULL[0].finish_training(tiny_model(FULL[0], LABELS), corpus)


# Parts.


class Refusing(CrossEntropy):
    """``refusing``: wants dev data."""

    name: Literal["refusing"] = "refusing"  # type: ignore[assignment]
    words: int = 0

    def check(self, method: Method, data: TrainingData) -> None:
        if data.dev is None:
            raise ConfigError(f"loss=refusing: {method.name} has no dev data — give some (--dev)")

    def for_data(self, data: TrainingData) -> "Refusing":
        return self.model_copy(update={"words": sum(map(len, data.corpus))})


REFUSING = FULL[0].model_copy(update={"loss": Refusing()})


def test_every_part_may_refuse_the_data() -> None:
    corpus = Corpus(SENTENCES)
    with pytest.raises(ConfigError, match=r"loss=refusing: full has no dev data — give some"):
        REFUSING.check(TrainingData(corpus, None))
    REFUSING.check(TrainingData(corpus, corpus))


def test_a_refusal_comes_before_training(small_settings: dict[str, object], toy: Corpus, tmp_path: Path) -> None:
    settings = resolve_settings("full", overrides=small_settings).model_copy(update={"method": REFUSING})
    with pytest.raises(ConfigError, match="no dev data"):
        Recognizer.train(toy, settings=settings, out=tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_every_part_is_fitted_to_the_data() -> None:
    fitted = REFUSING.for_data(TrainingData(Corpus(SENTENCES), None))
    assert fitted.loss == Refusing(words=8)
    assert fitted.model_copy(update={"loss": REFUSING.loss, "head": REFUSING.head}) == REFUSING


def test_the_parts_of_a_method_are_those_that_it_has_without_its_head() -> None:
    assert [kind for kind, _ in FULL[0].parts()] == ["negatives", "loss"]
    assert [kind for kind, _ in SCL_RAI[0].parts()] == ["negatives", "loss", "contrast", "inference"]
    assert [kind for kind, _ in TWO_STEP[0].parts()] == ["unlabeled", "sampling", "loss", "stage"]


def test_teachers_are_stages_like_others() -> None:
    assert LACUNER[0].stages() == (LACUNER[0].stage, LACUNER[0].teacher)
    assert TWO_STEP[0].stages() == (TWO_STEP[0].stage,)
    assert FULL[0].stages() == ()
    assert LACUNER[0].model_copy(update={"stage": None}).stages() == (LACUNER[0].teacher,)


def test_a_part_that_may_be_left_out_is_told_from_one_that_may_not() -> None:
    span, token = type(FULL[0]), type(CRF[0])
    assert {kind for kind in span.kinds() if span.optional(kind)} == {
        "positives",
        "contrast",
        "inference",
        "stage",
        "teacher",
    }
    assert {kind for kind in token.kinds() if token.optional(kind)} == {"sampling", "regularizer", "stage"}
