import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lacuner.encoders.bilstm import BiLSTM
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.features.vocabulary import UNKNOWN, Vocabulary

WORDS = ["Ada", "moved", "to", "Turin", "in", "1842", ",", "Antidisestablishmentarianism", "x" * 60, "ü"]


def small_encoder(layers: int = 1, **changes: object) -> RecurrentEncoder:
    torch.manual_seed(0)
    config = RecurrentConfig(
        vectors="none", word_size=6, character_size=5, character_filters=4, hidden=3, layers=layers
    )
    config = config.model_copy(update=changes)
    vocabulary = Vocabulary.build([WORDS, ["Ada", "Turin"]])
    return RecurrentEncoder.create(config, vocabulary, None).eval()


def encode(encoder: RecurrentEncoder, sentences: list[list[str]]) -> Tensor:
    with torch.no_grad():
        return encoder(encoder.index.collate(sentences)).first


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from([*WORDS, "Genoa"]), max_size=8), min_size=1, max_size=5),
    st.sampled_from([1, 2]),
)
def test_a_sentence_is_encoded_the_same_in_any_company(sentences: list[list[str]], layers: int) -> None:
    encoder = small_encoder(layers)
    if not any(sentences):
        return
    together = encode(encoder, sentences)
    for row, words in enumerate(sentences):
        if words:
            alone = encode(encoder, [words])[0]
            torch.testing.assert_close(together[row, : len(words)], alone, rtol=0, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_the_bilstm_is_torchs_on_packed_sequences(lengths: list[int], size: int, hidden: int, seed: int) -> None:
    torch.manual_seed(seed)
    ours = BiLSTM(size, hidden)
    packed_lstm = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
    weights = {f"{name}": value for name, value in ours.forward_lstm.state_dict().items()}
    weights |= {f"{name}_reverse": value for name, value in ours.backward_lstm.state_dict().items()}
    packed_lstm.load_state_dict(weights)
    words = torch.randn(len(lengths), max(lengths), size)
    packed = pack_padded_sequence(words, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(packed_lstm(packed)[0], batch_first=True)
    found = ours(words, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row, :length], expected[row, :length], rtol=0, atol=1e-5)


def test_characters_are_convolved_and_the_greatest_value_is_taken() -> None:
    encoder = small_encoder()
    weight, bias = encoder.convolution.weight, encoder.convolution.bias  # (filters, character, 3), (filters,)
    words = ["Turin", "to", "ü"]
    inputs = encoder.index.collate([words])
    with torch.no_grad():
        found = encoder._spelling(inputs)[0]
    for column, word in enumerate(words):
        numbers = [2 + encoder.index.characters.index(character) for character in word]
        nothing = torch.zeros(encoder.config.character_size)
        spelled = [nothing, *(encoder.characters.weight[number] for number in numbers), nothing]
        for unit in range(encoder.config.character_filters):
            at_places = [
                bias[unit] + sum(weight[unit, :, shift] @ spelled[place + shift] for shift in range(3))
                for place in range(len(word))
            ]
            expected = max(0.0, *(value.item() for value in at_places))
            assert abs(found[column, unit].item() - expected) < 1e-5


def test_case_matters_through_the_characters() -> None:
    encoder = small_encoder()
    assert encoder.index.word_number("Turin") == encoder.index.word_number("TURIN")
    upper, lower = encode(encoder, [["Turin"]]), encode(encoder, [["TURIN"]])
    assert not torch.allclose(upper, lower)


def test_vectors_have_the_size_that_is_promised_and_serve_both_ends_of_a_span() -> None:
    encoder = small_encoder(layers=2)
    words = encoder(encoder.index.collate([["Ada", "moved"], ["Turin"]]))
    assert words.first.shape == (2, 2, encoder.size)
    assert words.first.equal(words.last)


def test_an_empty_word_has_a_vector() -> None:
    assert encode(small_encoder(), [[""]]).isfinite().all()


def test_a_word_seen_once_is_sometimes_taken_as_unknown_in_training_only() -> None:
    encoder = small_encoder(unknown_fraction=0.3)
    words = encoder.index.collate([["moved"] * 4000 + ["Ada"] * 4000]).words
    unknown = encoder.words.weight[UNKNOWN]
    forgotten = (encoder.train()._look_up(words)[0] == unknown).all(-1)
    assert 0.27 < forgotten[:4000].float().mean() < 0.33
    assert not forgotten[4000:].any(), "Ada was seen twice"
    assert not (encoder.eval()._look_up(words)[0] == unknown).all(-1).any()


def test_dropout_changes_words_in_training_only() -> None:
    encoder = small_encoder(dropout=0.5)
    inputs = encoder.index.collate([["Ada", "moved"]])
    encoder.train()
    assert not encoder(inputs).first.equal(encoder(inputs).first)
    encoder.eval()
    assert encoder(inputs).first.equal(encoder(inputs).first)
