"""What holds for every encoder."""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from chinese import CHARACTERS
from torch import Tensor, nn

from lacuner.encoders import ENCODERS, Encoder, EncoderConfig
from lacuner.encoders.device import Precision
from lacuner.features import lexicon, subwords
from lacuner.parts import build_part

THREADS = 8
SENTENCES = [list("南京市长江大桥"), list("我们去了南京"), ["我", "ABC", "上海"]]
MANY = [[CHARACTERS[(n * k) % len(CHARACTERS)] for k in range(1, 3 + n % 5)] for n in range(60)]
SMALL: dict[str, dict[str, Any]] = {
    "recurrent": {"vectors": "none", "word_size": 5, "hidden": 4},
    "transformer": {"lstm": 4},
    "flat": {"vectors": "none", "word_size": 5, "heads": 2, "head_size": 8},
    "bert-word": {"hidden": 8, "word_size": 5},
    "lebert": {"word_size": 5},
}
Make = Callable[[str], tuple[EncoderConfig, Encoder]]


@pytest.fixture
def make(chinese_bert: Path, vector_file: Path) -> Make:
    """The settings of a small encoder, and a new one in evaluation mode."""
    given = {"model": str(chinese_bert), "lexicon": str(vector_file)}

    def build(name: str) -> tuple[EncoderConfig, Encoder]:
        needed = {key: value for key, value in given.items() if key in ENCODERS[name].model_fields}
        config = build_part("encoder", {"name": name, **SMALL[name], **needed}, ENCODERS)
        torch.manual_seed(0)
        return config, config.create(SENTENCES).eval()

    return build


def test_every_encoder_of_ours_is_tested_here() -> None:
    assert set(SMALL) == set(ENCODERS)


def encode(encoder: Encoder, sentence: Sequence[str]) -> Tensor:
    encoder.index.lengths([sentence])
    with torch.no_grad():
        return encoder(encoder.index.collate([sentence, sentence])).mean()


@pytest.mark.parametrize("name", SMALL)
def test_threads_that_share_an_encoder_get_what_one_thread_gets(
    name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subwords, "_CACHE_SIZE", 2)
    monkeypatch.setattr(lexicon, "_CACHE_SIZE", 3)
    _, encoder = make(name)
    expected = [encode(encoder, sentence) for sentence in MANY]
    together = threading.Barrier(THREADS)

    def encode_all(first: int) -> list[tuple[int, Tensor]]:
        together.wait()
        numbers = [(first + n) % len(MANY) for n in range(len(MANY))]
        return [(number, encode(encoder, MANY[number])) for number in numbers]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(encode_all, range(0, 7 * THREADS, 7)))
    finally:
        sys.setswitchinterval(interval)
    for found in results:
        assert len(found) == len(MANY)
        for number, vectors in found:
            torch.testing.assert_close(vectors, expected[number])


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All tensors that a module and its submodules hold, registered or not."""
    found: dict[str, Tensor] = {}
    for path, each in module.named_modules():
        held = vars(each) | each._parameters | each._buffers
        found |= {f"{path}.{name}": value for name, value in held.items() if isinstance(value, Tensor)}
    return found


@pytest.mark.parametrize("name", SMALL)
def test_everything_that_an_encoder_holds_moves_with_it(name: str, make: Make) -> None:
    _, encoder = make(name)
    held = tensors_of(encoder.to("meta"))
    assert held
    assert [name for name, tensor in held.items() if not tensor.is_meta] == []


@pytest.mark.parametrize("name", [name for name in SMALL if name != "flat"])  # FLAT's shapes depend on what it reads
def test_an_encoder_computes_where_its_weights_and_inputs_are(
    name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, encoder = make(name)
    # Hugging Face leaves a mask out that masks nothing, which cannot be seen without values.
    monkeypatch.setattr("transformers.masking_utils._ignore_bidirectional_mask_sdpa", lambda *_, **__: False)
    inputs = encoder.index.collate(SENTENCES)
    moved = encoder.to("meta")(inputs.to(torch.device("meta")))
    assert moved.first.is_meta
    assert moved.last.is_meta
    assert moved.first.shape == (len(SENTENCES), 7, encoder.size)


@pytest.mark.parametrize("name", SMALL)
def test_an_encoder_is_restored_without_memory_for_its_weights(name: str, make: Make, tmp_path: Path) -> None:
    config, encoder = make(name)
    architecture = encoder.save(tmp_path)
    with torch.device("meta"):
        restored = config.restore(architecture, tmp_path)
    shapes = {key: value.shape for key, value in restored.state_dict().items()}
    assert shapes == {key: value.shape for key, value in encoder.state_dict().items()}
    assert all(parameter.is_meta for parameter in restored.parameters())


IN_BF16 = [name for name in SMALL if "bf16" in ENCODERS[name].precisions]


def test_pretrained_encoders_can_be_trained_in_bf16() -> None:
    assert IN_BF16 == ["transformer", "bert-word", "lebert"]


@pytest.mark.parametrize("name", IN_BF16)
def test_in_bf16_only_pretrained_layers_are_rounded(name: str, make: Make) -> None:
    _, encoder = make(name)
    inputs = encoder.index.collate(SENTENCES)
    types: dict[str, torch.dtype] = {}

    def note(module: nn.Module, given: Any, found: Any, path: str) -> None:
        types[path] = found.dtype if isinstance(found, Tensor) else found[0].dtype

    for path, module in encoder.named_modules():
        if isinstance(module, nn.Linear | nn.LSTM):
            module.register_forward_hook(partial(note, path=path))

    def train(precision: Precision) -> tuple[Tensor, dict[str, Tensor]]:
        torch.manual_seed(1)  # of dropout
        encoder.zero_grad()
        encoder.train().train_in(precision)
        words = encoder(inputs)
        assert words.first.dtype == words.last.dtype == torch.float32
        words.mean().square().sum().backward()
        return words.mean().detach(), {key: w.grad for key, w in encoder.named_parameters() if w.grad is not None}

    exact, exact_gradients = train("fp32")
    assert set(types.values()) == {torch.float32}
    rounded, gradients = train("bf16")
    pretrained = {path for path in types if ".layer." in path}
    assert len(pretrained) == 3 * 6  # layers, and what BERT multiplies in each
    assert {types[path] for path in pretrained} == {torch.bfloat16}
    assert {types[path] for path in types if "lstm" in path} <= {torch.float32}

    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)
    assert gradients.keys() == exact_gradients.keys()
    assert {gradient.dtype for gradient in gradients.values()} == {torch.float32}
    one, other = (torch.cat([each.flatten() for each in found.values()]) for found in (gradients, exact_gradients))
    assert 0 < (one - other).norm() < 0.05 * other.norm()


@pytest.mark.parametrize("name", IN_BF16)
def test_outside_of_training_nothing_is_rounded(name: str, make: Make) -> None:
    _, encoder = make(name)
    expected = encode(encoder, SENTENCES[0])
    encoder.train_in("bf16")
    assert torch.equal(encode(encoder, SENTENCES[0]), expected)
    torch.manual_seed(1)
    trained = encode(encoder.train(), SENTENCES[0])
    encoder.train_in("fp32")
    torch.manual_seed(1)
    assert not torch.equal(encode(encoder, SENTENCES[0]), trained)


def test_an_encoder_in_fp32_leaves_mixed_precision_around_it_alone(make: Make) -> None:
    """Such as that of ``accelerate launch --mixed_precision bf16``."""
    _, encoder = make("transformer")
    encoder.train()
    with torch.autocast("cpu", torch.bfloat16), encoder.autocast():
        assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype == torch.bfloat16


RECURRENT = """
import sys
import lacuner.encoders
from lacuner import Corpus, Entity, Recognizer, Sentence

corpus = Corpus((Sentence(("Ada", "sleeps"), (Entity(0, 1, "PER"),)),) * 4)
model = Recognizer.train(corpus, corpus, epochs=1, method="full", settings={"encoder.vectors": "none"})
model.predict("Ada sleeps .")
print(*(name for name in ("transformers", "tokenizers") if name in sys.modules))
"""


def test_a_recurrent_model_is_trained_without_importing_transformers() -> None:
    done = subprocess.run([sys.executable, "-c", RECURRENT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
