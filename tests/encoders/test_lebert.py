from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from chinese import TINY, write_tokenizer
from torch import Tensor
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    ErnieConfig,
    ErnieModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from lacuner.encoders.lebert import LebertConfig, LebertEncoder, run_layers
from lacuner.encoders.words import EncodedWords
from lacuner.errors import ConfigError

BRIDGE = list("我们在南京市长江大桥")
SHAPE = {name: TINY[name] for name in TINY if name != "initializer_range"} | {"max_position_embeddings": 160}


def create(model: Path, lexicon: Path, **settings: Any) -> LebertEncoder:
    torch.manual_seed(1)
    config = LebertConfig(model=str(model), lexicon=str(lexicon), word_size=5, **settings)
    return config.create([BRIDGE, ["ABC", "上海"]]).eval()


def encode(encoder: LebertEncoder, sentences: Sequence[Sequence[str]]) -> EncodedWords:
    with torch.no_grad():
        return encoder(encoder.index.collate(sentences))


def adapted(encoder: LebertEncoder, hidden: Tensor, words: Sequence[int]) -> Tensor:
    """What becomes of one piece's vector ``(d,)``, from the formula."""
    first, _, second = encoder.words.align
    aligned = [
        second.weight @ torch.tanh(first.weight @ encoder.words.table(torch.tensor(number)) + first.bias) + second.bias
        for number in words
    ]
    scores = torch.stack([hidden @ encoder.words.bilinear.weight.T @ vector for vector in aligned] or [torch.zeros(())])
    taken = sum((weight * vector for weight, vector in zip(scores.softmax(0), aligned, strict=False)), 0 * hidden)
    mixed = hidden + taken
    centered = mixed - mixed.mean()
    norm = centered / (centered.square().mean() + encoder.norm.eps).sqrt()
    return norm * encoder.norm.weight + encoder.norm.bias


def layer_by_layer(encoder: LebertEncoder, pieces: Tensor, words_at: Sequence[Sequence[int]]) -> Tensor:
    """One window of pieces ``(m,)`` through the model, whose own encoder runs the layers in two parts."""
    model, layer = encoder.bert.model, encoder.config.layer
    lower = model(input_ids=pieces[None], output_hidden_states=True).hidden_states[layer][0]
    hidden = torch.stack([adapted(encoder, vector, words) for vector, words in zip(lower, words_at, strict=True)])[None]
    for upper in model.encoder.layer[layer:]:
        hidden = upper(hidden)
    return hidden[0]


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_every_piece_takes_in_the_words_around_its_token(layer: int, chinese_bert: Path, vector_file: Path) -> None:
    encoder = create(chinese_bert, vector_file, layer=layer)
    torch.nn.init.normal_(encoder.norm.weight)
    torch.nn.init.normal_(encoder.norm.bias)
    tokens = [*"我们在南京市", "ABC", "上海"]
    inputs = encoder.index.collate([tokens])
    matches = encoder.index.lexicon.match(tokens)
    owners = [None, *range(6), 6, 6, 6, 7, 7, None]
    words_at = [
        [] if token is None else [number for number, begin, end in matches if begin <= token < end] for token in owners
    ]
    assert [len(words) for words in words_at] == [0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 1, 1, 0]
    with torch.no_grad():
        expected = layer_by_layer(encoder, inputs.pieces.pieces[0], words_at)
    found = encode(encoder, [tokens])
    torch.testing.assert_close(found.first[0], expected[[1, 2, 3, 4, 5, 6, 7, 10]], rtol=0, atol=1e-5)
    torch.testing.assert_close(found.last[0], expected[[1, 2, 3, 4, 5, 6, 9, 11]], rtol=0, atol=1e-5)


def test_every_window_of_a_long_sentence_has_the_right_words_at_the_right_pieces(
    chinese_bert: Path, vector_file: Path
) -> None:
    encoder = create(chinese_bert, vector_file, window=128)
    tokens = ([*BRIDGE, "ABC", "去"] * 40)[:400]
    inputs = encoder.index.collate([list("南京"), tokens])
    matches = encoder.index.lexicon.match(tokens)
    found = encode(encoder, [list("南京"), tokens])
    width = inputs.pieces.pieces.shape[1]
    windows = inputs.pieces.first[1] // width
    assert windows.max() > 3
    spelled = [[0] if len(token) == 1 else [0, 1, 2] for token in tokens]
    begin = 0  # the first token that a window shows, found by its pieces
    for window in range(1, len(inputs.pieces.pieces)):
        seen = int(inputs.pieces.attention[window].sum())
        pieces = inputs.pieces.pieces[window, :seen]
        owned = (windows == window).nonzero().flatten().tolist()
        begin = owned[0]
        place = int(inputs.pieces.first[1, begin]) % width
        while place > 1:
            begin -= 1
            place -= len(spelled[begin])
        owners: list[int | None] = [None]
        while len(owners) < seen - 1:
            owners += [begin] * len(spelled[begin])
            begin += 1
        owners.append(None)
        words_at = [
            [] if token is None else [number for number, start, end in matches if start <= token < end]
            for token in owners
        ]
        with torch.no_grad():
            expected = layer_by_layer(encoder, pieces, words_at)
        places = inputs.pieces.first[1, owned] % width
        torch.testing.assert_close(found.first[1, owned], expected[places], rtol=0, atol=1e-5)


def stored(folder: Path, kind: Any, config: Any, **settings: Any) -> Path:
    torch.manual_seed(0)
    count = write_tokenizer(folder)
    kind(config(vocab_size=count, pad_token_id=0, initializer_range=0.3, **settings)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("kind", "config", "settings"),
    [
        (BertModel, BertConfig, SHAPE),
        (RobertaModel, RobertaConfig, SHAPE),
        (CamembertModel, CamembertConfig, SHAPE),
        (ElectraModel, ElectraConfig, SHAPE | {"embedding_size": 10}),
        (ErnieModel, ErnieConfig, SHAPE),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_models_like_bert_run_layer_by_layer_as_they_do_by_themselves(
    kind: Any, config: Any, settings: dict[str, Any], vector_file: Path, tmp_path: Path
) -> None:
    encoder = create(stored(tmp_path / "model", kind, config, **settings), vector_file)
    inputs = encoder.index.collate([BRIDGE, ["ABC"], []]).pieces
    with torch.no_grad():
        found = run_layers(encoder.bert.model, inputs, 0, lambda hidden: hidden)
        expected = encoder.bert.model(input_ids=inputs.pieces, attention_mask=inputs.attention).last_hidden_state
    there = inputs.attention.bool()
    torch.testing.assert_close(found[there], expected[there], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "config", "settings"),
    [
        (DistilBertModel, DistilBertConfig, {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}),
        (MPNetModel, MPNetConfig, SHAPE),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_model_that_is_made_otherwise_is_refused_in_a_sentence(
    kind: Any, config: Any, settings: dict[str, Any], vector_file: Path, tmp_path: Path
) -> None:
    folder = stored(tmp_path / "model", kind, config, **settings)
    with pytest.raises(ConfigError, match="is not built like BERT") as caught:
        create(folder, vector_file)
    assert "bert-word" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_layer_that_the_model_lacks_is_refused(chinese_bert: Path, vector_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"encoder\.layer=4: the model has 3 layers"):
        create(chinese_bert, vector_file, layer=4)


def test_dropout_falls_on_the_adapter_in_training_only(chinese_bert: Path, vector_file: Path) -> None:
    encoder = create(chinese_bert, vector_file, dropout=0.5)
    encoder.bert.dropout.threshold = 0
    inputs = encoder.index.collate([BRIDGE])
    assert encoder(inputs).first.equal(encoder(inputs).first)
    encoder.train()
    assert not encoder(inputs).first.equal(encoder(inputs).first)


@pytest.mark.data
def test_a_real_chinese_bert_takes_in_words(data_folder: Path, vector_file: Path) -> None:
    folder = data_folder.parent / "encoders" / "bge-small-zh"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    encoder = create(folder, vector_file)
    assert encoder.size == AutoModel.from_pretrained(folder).config.hidden_size
    tokens = [*BRIDGE, *"是的"]
    plain = encoder.bert.eval()(encoder.index.collate([tokens]).pieces).first
    found = encode(encoder, [tokens]).first
    assert found.isfinite().all()
    similar = torch.cosine_similarity(found[0], plain[0].detach(), dim=-1)
    assert (similar > 0.3).all(), "an adapter that has learned nothing leaves a model much as it was"
    assert (similar < 0.9999).all()
