import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.encoders import flat
from lacuner.encoders.flat import FlatConfig, FlatEncoder, LatticeLayer, Nodes, RelativePositions, sinusoids
from lacuner.features.vocabulary import UNKNOWN

BRIDGE = list("我们在南京市长江大桥")
HEADS, HEAD = 2, 3
SIZE = HEADS * HEAD


def create(lexicon: Path, **changes: Any) -> FlatEncoder:
    torch.manual_seed(1)
    given = {"vectors": "none", "word_size": 4, "heads": HEADS, "head_size": HEAD} | changes
    encoder = FlatConfig(lexicon=str(lexicon), **given).create([BRIDGE, BRIDGE, ["上海"]]).eval()
    for layer in encoder.layers:
        torch.nn.init.normal_(layer.content_bias)
        torch.nn.init.normal_(layer.position_bias)
    return encoder


def wave(distance: int, size: int) -> Tensor:
    angles = [distance / 10_000 ** (2 * (place // 2) / size) for place in range(size)]
    return torch.tensor([math.cos(a) if place % 2 else math.sin(a) for place, a in enumerate(angles)])


@pytest.mark.parametrize("size", [6, 7])
def test_distances_are_waves_as_in_vaswani(size: int) -> None:
    found = sinusoids(torch.arange(-3, 4), size)
    for row, distance in enumerate(range(-3, 4)):
        torch.testing.assert_close(found[row], wave(distance, size), rtol=0, atol=1e-6)


def relative_position(positions: RelativePositions, one: tuple[int, int], other: tuple[int, int]) -> Tensor:
    """``R_ij`` of two nodes, each with head and tail."""
    (head_i, tail_i), (head_j, tail_j) = one, other
    four = [head_i - head_j, head_i - tail_j, tail_i - head_j, tail_i - tail_j]
    joined = torch.cat([wave(distance, positions.size) for distance in four])
    return torch.relu(positions.fusion.weight @ joined + positions.fusion.bias)


def by_hand(encoder: FlatEncoder, tokens: list[str]) -> Tensor:
    """One sentence, node by node and pair by pair."""
    vocabulary, lexicon = encoder.index.vocabulary, encoder.index.lexicon
    ends = [(place, place) for place in range(len(tokens))]
    nodes = [encoder.from_tokens(encoder.tokens(torch.tensor(vocabulary.word_number(token)))) for token in tokens]
    for number, begin, end in lexicon.match(tokens):
        ends.append((begin, end - 1))
        nodes.append(encoder.from_words(encoder.words(torch.tensor(number))))
    for layer in encoder.layers:
        u, v = layer.content_bias.view(HEADS, HEAD), layer.position_bias.view(HEADS, HEAD)
        new = []
        for i, node in enumerate(nodes):
            seen = []
            for head in range(HEADS):
                part = slice(head * HEAD, (head + 1) * HEAD)
                query, scores, values = layer.query.weight[part] @ node, [], []
                for j, other in enumerate(nodes):
                    key = layer.key.weight[part] @ other
                    place = layer.relative.weight[part] @ relative_position(encoder.positions, ends[i], ends[j])
                    scores.append(query @ key + query @ place + u[head] @ key + v[head] @ place)
                    values.append(layer.value.weight[part] @ other + layer.value.bias[part])
                weights = torch.stack(scores).softmax(0)
                seen.append(sum(weight * value for weight, value in zip(weights, values, strict=True)))
            attended = layer.attention_norm(node + layer.output(torch.cat(seen)))
            widened = torch.relu(layer.feed_forward[0](attended))
            new.append(layer.output_norm(attended + layer.feed_forward[-1](widened)))
        nodes = new
    return torch.stack(nodes[: len(tokens)])


@pytest.mark.parametrize("layers", [1, 2])
def test_nodes_attend_to_each_other_by_content_and_by_all_four_distances(layers: int, vector_file: Path) -> None:
    encoder = create(vector_file, layers=layers)
    sentences = [BRIDGE, ["ABC", "上海", "的"], list("我们")]
    with torch.no_grad():
        found = encoder(encoder.index.collate(sentences))
        assert found.first is found.last
        for row, tokens in enumerate(sentences):
            torch.testing.assert_close(found.first[row, : len(tokens)], by_hand(encoder, tokens), rtol=0, atol=1e-5)


def test_a_great_table_is_computed_piece_by_piece(vector_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = create(vector_file)
    inputs = encoder.index.collate([BRIDGE, ["上海"]])
    whole = encoder(inputs).first
    whole.sum().backward()
    expected = {name: weight.grad.clone() for name, weight in encoder.named_parameters()}
    encoder.zero_grad()
    monkeypatch.setattr(flat, "_AT_ONCE", 1)
    pieces = encoder(inputs).first
    torch.testing.assert_close(pieces, whole)
    pieces.sum().backward()
    for name, weight in encoder.named_parameters():
        torch.testing.assert_close(weight.grad, expected[name], rtol=1e-3, atol=1e-5)


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=4, max_size=4), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_any_nodes_have_the_scores_of_the_formula(spans: list[list[tuple[int, int]]], seed: int) -> None:
    torch.manual_seed(seed)
    config = FlatConfig(lexicon="none", heads=HEADS, head_size=HEAD)
    layer, positions = LatticeLayer(config, SIZE), RelativePositions(SIZE)
    torch.nn.init.normal_(layer.position_bias)
    torch.nn.init.normal_(layer.content_bias)
    ends = torch.tensor([[(head, head + more) for head, more in row] for row in spans])  # (B, N, 2)
    widths, kind = torch.unique(ends[..., 1] - ends[..., 0] + 1, return_inverse=True)
    nodes = Nodes.of(torch.ones(kind.shape, dtype=torch.bool), ends[..., 0], kind, 10)
    hidden = torch.randn(*kind.shape, SIZE)
    with torch.no_grad():
        found = layer.attention(hidden, nodes, positions(widths, 10))
        u, v = layer.content_bias, layer.position_bias
        for row, i, j in torch.ones(len(spans), 4, 4).nonzero().tolist():
            one, other = tuple(ends[row, i].tolist()), tuple(ends[row, j].tolist())
            query, key = layer.query(hidden[row, i]), layer.key(hidden[row, j])
            place = layer.relative(relative_position(positions, one, other))
            product = (query * key + query * place + u * key + v * place).view(HEADS, HEAD).sum(1)
            torch.testing.assert_close(found[row, :, i, j], product, rtol=0, atol=1e-4)


def test_characters_start_from_the_vectors_of_a_file(vector_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "characters.txt"
    path.write_text("南 1 2\n京 3 4\n海 5 6\n", encoding="utf-8")
    encoder = create(vector_file, vectors=str(path))
    numbers = torch.tensor([encoder.index.vocabulary.word_number(character) for character in "南京海"])
    assert encoder.tokens(numbers).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert encoder.from_tokens.in_features == 2
    assert encoder.from_words.in_features == 3


def test_a_token_seen_once_is_sometimes_taken_as_unknown_in_training_only(vector_file: Path) -> None:
    encoder = create(vector_file, dropout=0.0, unknown_fraction=0.9)
    (once,) = encoder.rare.nonzero()
    assert encoder.index.vocabulary.words[int(once) - 2] == "上海"
    looked_up: list[Tensor] = []
    encoder.tokens.register_forward_hook(lambda module, inputs, output: looked_up.append(inputs[0]))
    encoder(encoder.index.collate([["上海"] * 100, BRIDGE * 10]))
    encoder.train()(encoder.index.collate([["上海"] * 100, BRIDGE * 10]))
    assert not (looked_up[0] == UNKNOWN).any()
    assert (looked_up[1][0] == UNKNOWN).float().mean() > 0.7
    assert not (looked_up[1][1] == UNKNOWN).any()
