from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lacuner.encoders.bert_word import BertWordConfig, BertWordEncoder

BRIDGE = list("我们在南京市长江大桥")


def create(model: Path, lexicon: Path, **settings: Any) -> BertWordEncoder:
    torch.manual_seed(1)
    config = BertWordConfig(model=str(model), lexicon=str(lexicon), hidden=7, **settings)
    return config.create([BRIDGE, ["ABC", "上海"]]).eval()


def test_berts_vector_and_the_words_around_are_read_by_a_bilstm(chinese_bert: Path, vector_file: Path) -> None:
    encoder = create(chinese_bert, vector_file)
    first, _, second = encoder.words.align
    sentences = [["ABC", *BRIDGE], ["上海"]]
    read, lengths = [], [len(tokens) for tokens in sentences]
    with torch.no_grad():
        found = encoder(encoder.index.collate(sentences))
        for tokens in sentences:
            bert = encoder.bert(encoder.bert.index.collate([tokens]))
            matches = encoder.index.lexicon.match(tokens)
            rows = []
            for place in range(len(tokens)):
                character = (bert.first[0, place] + bert.last[0, place]) / 2
                summed, total = torch.zeros(encoder.bert.size), 0.0
                for number, begin, end in matches:
                    if begin <= place < end:
                        vector = encoder.words.table(torch.tensor(number))
                        aligned = second.weight @ torch.tanh(first.weight @ vector + first.bias) + second.bias
                        weight = (character @ encoder.words.bilinear.weight.T @ aligned).exp()
                        summed, total = summed + weight * aligned, total + weight
                rows.append(torch.cat([character, summed / total if total else summed]))
            read.append(torch.stack(rows))
        assert any(not row[encoder.bert.size :].any() for row in read[0]), "some character is in no word"
        lstm = nn.LSTM(2 * encoder.bert.size, 7, batch_first=True, bidirectional=True)
        weights = dict(encoder.fusion.forward_lstm.state_dict())
        weights |= {f"{name}_reverse": value for name, value in encoder.fusion.backward_lstm.state_dict().items()}
        lstm.load_state_dict(weights)
        padded = nn.utils.rnn.pad_sequence(read, batch_first=True)
        packed = pack_padded_sequence(padded, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        expected, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    assert found.first.equal(found.last)
    assert found.first.shape == (2, 11, encoder.size)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found.first[row, :length], expected[row, :length], rtol=0, atol=1e-5)


def test_a_long_sentence_is_read_window_by_window(chinese_bert: Path, vector_file: Path) -> None:
    encoder = create(chinese_bert, vector_file, window=128)
    tokens = (BRIDGE * 40)[:300]
    inputs = encoder.index.collate([tokens])
    assert len(inputs.pieces.pieces) > 2
    with torch.no_grad():
        characters = encoder.bert(inputs.pieces).mean()[0]
        words = encoder.words(characters, inputs.cover.words, inputs.cover.index[0])
        expected = encoder.fusion(torch.cat([characters, words], dim=-1)[None], torch.tensor([300]))
        torch.testing.assert_close(encoder(inputs).first, expected)
    taken = [bool(row.any()) for row in inputs.cover.index[0]]
    assert taken == [token not in "我们在" for token in tokens]


def test_dropout_falls_behind_the_bilstm_in_training_only(chinese_bert: Path, vector_file: Path) -> None:
    encoder = create(chinese_bert, vector_file, dropout=0.5)
    inputs = encoder.index.collate([BRIDGE])
    assert (encoder(inputs).first != 0).all()
    assert (encoder.train()(inputs).first == 0).float().mean() > 0.2


@pytest.mark.parametrize("size", [None, 5])
def test_the_transformer_itself_may_have_a_bilstm_on_top(size: int | None, chinese_bert: Path) -> None:
    from lacuner.encoders.transformer import TransformerConfig

    torch.manual_seed(0)
    plain = TransformerConfig(model=str(chinese_bert)).create().eval()
    encoder = TransformerConfig(model=str(chinese_bert), lstm=size).create().eval()
    inputs = encoder.index.collate([["ABC", *BRIDGE], ["上海"]])
    with torch.no_grad():
        below, found = plain(inputs), encoder(inputs)
        if size is None:
            assert encoder.lstm is None
            assert found.first.equal(below.first)
            return
        expected = encoder.lstm((below.first + below.last) / 2, inputs.lengths)
    assert encoder.size == found.first.shape[-1] == 10
    torch.testing.assert_close(found.first, expected)
    assert found.last.equal(found.first)
