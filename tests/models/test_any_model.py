"""What every model can do, whatever method it was made by."""

import copy

import pytest
import torch
from torch import Tensor, nn

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.heads import ProductConfig
from lacuner.methods.method import Method
from lacuner.methods.registry import registry
from lacuner.methods.scl_rai import METHODS as SCL_RAI
from lacuner.models.model import Model, PartState, batches_of, evaluating
from tiny_models import WORDS, encoded, tiny_model

LABELS = ("O", "LOC", "PER")
METHODS = list(registry().methods.values())
CORPUS = Corpus(
    (
        Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))),
        Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"),), complete=True),
        Sentence(("Ada",)),
    )
)


def trained(method: Method) -> Model:
    """A model that is ready for training, has seen the corpus, and has a threshold."""
    model: Model = tiny_model(method, LABELS)
    method.begin_training(model, len(CORPUS))
    method.finish_training(model, CORPUS)
    model.threshold.fill_(0.25)
    return model.eval()


def tensors(model: nn.Module) -> list[Tensor]:
    """Every tensor that a module or one of its parts holds, registered or not."""
    attributes = [value for module in model.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    return [*model.parameters(), *model.buffers(), *attributes]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_model_moves_as_a_whole(method: Method) -> None:
    """Prototypes and threshold included."""
    model = trained(method)
    assert {tensor.device.type for tensor in tensors(model)} == {"cpu"}
    moved = model.to("meta")
    assert {tensor.device.type for tensor in tensors(moved)} == {"meta"}
    kept = [tensor for kind, _ in method.parts() for tensor in moved.state_of(kind).values()]
    assert all(tensor.device.type == "meta" for tensor in [moved.threshold, *kept])
    assert moved.device.type == "meta"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_state_dict_holds_all_that_decides(method: Method) -> None:
    model, other = trained(method), tiny_model(method, LABELS).eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(model.state_dict())
    batch = encoded(model, list(CORPUS))
    assert other.threshold.item() == 0.25
    assert other.entities(encoded(other, list(CORPUS))) == model.entities(batch)
    for threshold in (-4.0, 0.0):
        one, another = (m.score(encoded(m, list(CORPUS))).decode(threshold) for m in (model, other))
        assert one == another
        assert [e.score for found in one for e in found] == [e.score for found in another for e in found]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_copy_shares_no_tensor_with_the_model(method: Method) -> None:
    model = trained(method)
    other = copy.deepcopy(model)
    own = {tensor.data_ptr() for tensor in tensors(model) if tensor.numel()}
    assert own.isdisjoint(tensor.data_ptr() for tensor in tensors(other) if tensor.numel())
    other.threshold.fill_(3.0)
    assert model.threshold.item() == 0.25


def test_prototypes_move_with_the_numbers_of_the_model() -> None:
    method = SCL_RAI[0].model_copy(update={"head": ProductConfig(hidden=6)})
    model = trained(method).double()
    state = model.state_of("inference")
    assert state["prototypes"].dtype == torch.double
    assert state["seen"].dtype == torch.bool
    assert len(model.entities(encoded(model, list(CORPUS)))) == len(CORPUS)


def test_a_batch_is_encoded_where_the_model_is_and_has_the_lengths_of_its_sentences() -> None:
    model = trained(METHODS[0])
    batch = model.encode([WORDS, WORDS[:2]])
    assert batch.lengths.tolist() == [6, 2]
    assert batch.words.first.shape == (2, 6, model.encoder.size)
    assert batch.lengths.device == model.device


def test_state_is_changed_in_place() -> None:
    state = PartState({"kept": torch.zeros(2)}, {"needed": torch.ones(3)})
    state.tensors()["kept"].add_(1)
    assert state.kept.tolist() == [1.0, 1.0]
    assert set(state.tensors()) == {"kept", "needed"}
    assert set(state.state_dict()) == {"kept"}


@pytest.mark.parametrize("training", [True, False])
def test_after_looking_a_model_is_in_the_mode_in_which_it_was(training: bool) -> None:
    model = trained(METHODS[0]).train(training)
    with pytest.raises(ValueError, match="stop"), evaluating(model):  # noqa: PT012
        assert not model.training
        assert not torch.is_grad_enabled()
        raise ValueError("stop")
    assert model.training is training
    assert torch.is_grad_enabled()


def test_batches_hold_every_sentence_once_with_its_words() -> None:
    model = trained(METHODS[0])
    sentences = [(f"w{number}",) * (number % 7 + 1) for number in range(2_000)]
    indices = [number for number in range(2_000) if number % 3]
    batches = list(batches_of(model, sentences, indices))
    assert sorted(index for chosen, _ in batches for index in chosen) == indices
    assert all(tokens == [sentences[index] for index in chosen] for chosen, tokens in batches)
    assert len(batches) > 1
    assert list(batches_of(model, sentences, [])) == []
