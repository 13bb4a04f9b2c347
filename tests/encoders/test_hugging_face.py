import json
import shutil
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lacuner.encoders.hugging_face import build_model, load_pretrained, offline
from lacuner.encoders.transformer import TransformerConfig
from lacuner.errors import ConfigError, ModelError

KERNEL = "strangers/attention"


@pytest.fixture
def folder(toy_bert, tmp_path) -> Path:
    return shutil.copytree(toy_bert, tmp_path / "bert")


@pytest.fixture
def traps(monkeypatch) -> list[str]:
    """What would be fetched or run, if anything were."""
    from transformers import modeling_utils
    from transformers.integrations import hub_kernels

    caught: list[str] = []

    def trap(name):
        def call(*arguments, **keywords):
            caught.append(name)
            raise AssertionError(f"{name} was called")

        return call

    for owner, name in (
        (hub_kernels, "get_kernel"),
        (hub_kernels, "load_and_register_attn_kernel"),
        (modeling_utils, "lazy_import_flash_attention"),
        (modeling_utils, "kernelize"),
    ):
        monkeypatch.setattr(owner, name, trap(name))
    import socket

    monkeypatch.setattr(socket.socket, "connect", trap("connect"))
    return caught


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"])
@pytest.mark.parametrize("name", [KERNEL, "flash_attention_2", f"paged|{KERNEL}", "kernels-community/flash-attn"])
def test_a_foreign_kernel_in_a_folder_is_neither_fetched_nor_run(folder, traps, key, name):
    edit(folder, **{key: name})
    model = load_pretrained(str(folder))
    assert model.config._attn_implementation in ("sdpa", "eager")
    described = json.loads((folder / "config.json").read_text())
    assert build_model(described).config._attn_implementation in ("sdpa", "eager")
    assert traps == []


def test_code_in_a_folder_is_not_run(folder, traps):
    (folder / "evil.py").write_text("raise SystemExit('code of a stranger was run')")
    edit(folder, auto_map={"AutoModel": "evil.Model", "AutoConfig": "evil.Config"})
    with suppress(ConfigError):  # it may be refused, or loaded as the model that its type says
        TransformerConfig(model=str(folder)).create()
    assert traps == []


def test_quantized_weights_are_refused_before_anything_is_loaded_for_them(folder, traps):
    edit(folder, quantization_config={"quant_method": "mxfp4"})
    with pytest.raises(ConfigError, match="is quantized, and cannot be trained; give the model it was made of"):
        TransformerConfig(model=str(folder)).create()
    assert traps == []


def test_offline_ends_with_its_context():
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    with offline():
        assert constants.HF_HUB_OFFLINE
    assert before == constants.HF_HUB_OFFLINE


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(folder, value):
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("query.weight"))
    tensors[name][0, 0] = value
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"query.weight' of the encoder .* have infinite values, or NaN"):
        TransformerConfig(model=str(folder)).create()


@pytest.mark.parametrize("kind", [torch.int64, torch.bool])
def test_weights_that_are_integers_or_booleans_are_refused(folder, kind):
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("query.weight"))
    tensors[name] = tensors[name].to(kind)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"query\.weight"):
        TransformerConfig(model=str(folder)).create()


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 10**10},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": 9_000},
        {"hidden_size": 10**8},
        {"intermediate_size": 10**10},
        {"max_position_embeddings": 10**10},
        {"num_labels": 10**9},
        {"num_attention_heads": 0},
        {"hidden_size": -8},
    ],
)
def test_a_small_folder_cannot_ask_for_much_memory(folder, changes):
    edit(folder, **changes)
    tracemalloc.start()
    try:
        with pytest.raises((ConfigError, ModelError), match="cannot be loaded") as raised:
            TransformerConfig(model=str(folder)).create()
        assert "\n" not in str(raised.value)
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()
