"""FLAT: characters and matching lexicon words as one sequence, with relative positions between all their ends."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from lacuner.encoders.dropout import Dropout
from lacuner.encoders.encoder import Encoder
from lacuner.encoders.lexicon import LexiconConfig, choose_lexicon, restore_lexicon, save_lexicon
from lacuner.encoders.table import VectorTable, read_size, replace_rare
from lacuner.encoders.vocabulary import VocabularyConfig, restore_vocabulary, save_vocabulary
from lacuner.encoders.words import EncodedWords
from lacuner.features.lexicon import Lattice, LatticeIndex, Lexicon
from lacuner.features.vocabulary import PADDING, Vocabulary

_AT_ONCE = 2**22
"""Maximum number of scores computed at once, from which the needed ones are gathered."""
_WIDENING = 3
"""Ratio of the feed-forward network's hidden size to that of a node."""


class FlatConfig(LexiconConfig, VocabularyConfig):
    """``flat``: a transformer over characters and lexicon words, which needs no download."""

    epochs: ClassVar = 15
    training: ClassVar = {"batch_tokens": 512, "encoder_learning_rate": 1e-3, "head_learning_rate": 1e-3}

    name: Literal["flat"] = "flat"
    layers: int = Field(1, ge=1, description="number of transformer layers")
    heads: int = Field(8, ge=1, description="number of attention heads per layer")
    head_size: int = Field(20, ge=1, description="size of an attention head")
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout on the vectors and inside the layers")

    def create(self, sentences: Sequence[Sequence[str]]) -> "FlatEncoder":
        vocabulary, vectors = self.choose_words(sentences)
        tokens = _token_table(vocabulary, self.size_of(vectors))
        tokens.load_vectors(vectors, vocabulary.words)
        return FlatEncoder(self, vocabulary, tokens, *choose_lexicon(self, sentences))

    def restore(self, architecture: dict[str, Any], folder: Path) -> "FlatEncoder":
        vocabulary = restore_vocabulary(folder)
        tokens = _token_table(vocabulary, read_size(architecture, folder))
        return FlatEncoder(self, vocabulary, tokens, *restore_lexicon(folder))


def _token_table(vocabulary: Vocabulary, size: int) -> VectorTable:
    return VectorTable(2 + vocabulary.trained, len(vocabulary.words) - vocabulary.trained, size)


class FlatEncoder(Encoder):
    """Words → vectors of size ``heads * head_size``.

    Li et al. 2020, *FLAT: Chinese NER Using Flat-Lattice Transformer* (ACL). Tokens and lexicon words are nodes of a lattice,
    each with the positions of its first and last token (head and tail). All nodes attend to each other, so time and memory
    are quadratic in their number.
    """

    draws_rows: ClassVar = True

    def __init__(
        self, config: FlatConfig, vocabulary: Vocabulary, tokens: VectorTable, lexicon: Lexicon, words: VectorTable
    ) -> None:
        super().__init__()
        self.config = config
        self.index: LatticeIndex = LatticeIndex(vocabulary, lexicon)
        self.size = config.heads * config.head_size
        self.tokens = tokens
        self.words = words
        self.rare: Tensor
        self.register_buffer("rare", vocabulary.rare_words(), persistent=False)
        self.from_tokens = nn.Linear(tokens.size, self.size)
        self.from_words = nn.Linear(words.size, self.size)
        self.positions = RelativePositions(self.size)
        self.layers = nn.ModuleList(LatticeLayer(config, self.size) for _ in range(config.layers))
        self.dropout = Dropout(config.dropout)

    def save(self, folder: Path) -> dict[str, Any]:
        save_vocabulary(self.index.vocabulary, folder)
        save_lexicon(self.index.lexicon, self.words, folder)
        return {"word_size": self.tokens.size}

    def forward(self, inputs: Lattice) -> EncodedWords:
        numbers = inputs.tokens
        if self.training and self.config.unknown_fraction:
            numbers = replace_rare(numbers, self.rare, self.config.unknown_fraction)
        tokens = self.from_tokens(self.dropout(self.tokens(numbers)))  # (B, n, d)
        words = self.from_words(self.dropout(self.words(inputs.words)))  # (B, w, d)
        hidden = torch.cat([tokens, words], dim=1)  # (B, N, d): N = n + w
        max_distance = numbers.shape[1]
        position = torch.arange(max_distance, device=numbers.device).expand_as(numbers)  # (B, n)
        there = torch.cat([position < inputs.lengths[:, None], inputs.words != PADDING], dim=1)  # (B, N)
        head = torch.cat([position, inputs.begin], dim=1)
        width = torch.cat([torch.ones_like(position), inputs.end - inputs.begin], dim=1)
        widths, kind = torch.unique(width, return_inverse=True)
        nodes, positions = Nodes.of(there, head, kind, max_distance), self.positions(widths, max_distance)
        for layer in self.layers:
            hidden = layer(hidden, nodes, positions)
        characters = hidden[:, :max_distance]
        return EncodedWords(characters, characters)


class RelativePositions(nn.Module):
    """Encodings of the distances between heads and tails of two nodes: ``R_ij = ReLU(W_r (p_hh ⊕ p_ht ⊕ p_th ⊕ p_tt))``.

    All four distances follow from the distance of the heads and the widths of the nodes, so ``R`` is a table indexed by these
    three. ``W_r`` of the concatenation is split into maps of the four distances.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.fusion = nn.Linear(4 * size, size)

    def forward(self, widths: Tensor, max_distance: int) -> Tensor:
        """``R`` for all pairs of ``V`` widths and heads up to ``max_distance`` tokens apart: ``(V, V, D, d)``."""
        heads = torch.arange(-max_distance, max_distance + 1, device=widths.device)  # (D,)
        own, other = widths[:, None, None] - 1, widths[None, :, None] - 1
        distances = (heads, heads - other, heads + own, heads + own - other)  # hh, ht, th, tt
        reach = max_distance + int(widths.max())
        waves = sinusoids(torch.arange(-reach, reach + 1, device=widths.device), self.size)
        maps = torch.split(self.fusion.weight, self.size, dim=1)
        mapped = [
            nn.functional.embedding(distance + reach, nn.functional.linear(waves.to(part.dtype), part))
            for distance, part in zip(distances, maps, strict=True)
        ]
        return torch.relu(mapped[0] + mapped[1] + mapped[2] + mapped[3] + self.fusion.bias)


def sinusoids(distances: Tensor, size: int) -> Tensor:
    """Sinusoidal encoding of each distance, as in Vaswani et al. 2017: ``(D, size)``."""
    pairs = torch.arange((size + 1) // 2, device=distances.device)
    angles = distances[:, None] / 10_000 ** (2 * pairs / size)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size]


class Nodes(NamedTuple):
    """Positions of the ``N`` nodes of ``B`` sentences."""

    there: Tensor  # (B, N) bool
    kind: Tensor  # (B * N,) index of each node's width among V
    pairs: Tensor  # (B * N, N) for each pair of nodes, index of width and distance, below V * D

    @classmethod
    def of(cls, there: Tensor, head: Tensor, kind: Tensor, max_distance: int) -> "Nodes":
        distances = head[:, :, None] - head[:, None, :] + max_distance  # (B, N, N)
        return cls(there, kind.flatten(), (kind[:, None, :] * (2 * max_distance + 1) + distances).flatten(0, 1))


class LatticeLayer(nn.Module):
    """A transformer layer over the nodes of a lattice.

    The attention of node ``i`` to node ``j`` is ``q_i·k_j + q_i·(W_R R_ij) + u·k_j + v·(W_R R_ij)`` in each head, without
    scaling.
    """

    def __init__(self, config: FlatConfig, size: int) -> None:
        super().__init__()
        self.shape = (config.heads, config.head_size)
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size)
        self.relative = nn.Linear(size, size, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(size))  # u
        self.position_bias = nn.Parameter(torch.zeros(size))  # v
        self.output = nn.Linear(size, size)
        wide = _WIDENING * size
        self.feed_forward = nn.Sequential(
            nn.Linear(size, wide), nn.ReLU(), Dropout(config.dropout), nn.Linear(wide, size)
        )
        self.attention_norm = nn.LayerNorm(size)
        self.output_norm = nn.LayerNorm(size)
        self.dropout = Dropout(config.dropout)

    def forward(self, hidden: Tensor, nodes: Nodes, positions: Tensor) -> Tensor:
        """Self-attention over nodes ``(B, N, d)``; ``positions`` is ``R``: ``(V, V, D, d)``."""
        scores = self.attention(hidden, nodes, positions)
        scores = scores.masked_fill(~nodes.there[:, None, None, :], torch.finfo(scores.dtype).min)
        seen = scores.softmax(-1) @ self._split(self.value(hidden))  # (B, heads, N, s)
        hidden = self.attention_norm(hidden + self.dropout(self.output(seen.transpose(1, 2).flatten(2))))
        normed: Tensor = self.output_norm(hidden + self.dropout(self.feed_forward(hidden)))
        return normed

    def attention(self, hidden: Tensor, nodes: Nodes, positions: Tensor) -> Tensor:
        """Attention scores between nodes, before the softmax: ``(B, heads, N, N)``."""
        query = self.query(hidden)
        by_content = self._split(query + self.content_bias) @ self._split(self.key(hidden)).transpose(2, 3)
        asking = (query + self.position_bias).flatten(0, 1)  # (B * N, d)
        by_position = self._position_scores(asking, nodes, self.relative(positions).flatten(1, 2))
        return by_content + by_position.view(-1, *hidden.shape[:2], hidden.shape[1]).transpose(0, 1)

    def _position_scores(self, asking: Tensor, nodes: Nodes, relative: Tensor) -> Tensor:
        """Positional scores ``(heads, B * N, N)`` of nodes ``(B * N, d)``, given ``W_R R`` of shape ``(V, V * D, d)``.

        Nodes of one width are multiplied with the whole table, from which the needed scores are gathered: this is a matrix
        product, unlike scoring the pairs directly.
        """
        asking = self._split(asking)  # (heads, B * N, s)
        tables = self._split(relative).transpose(2, 3)  # (V, heads, s, V * D)
        order = nodes.kind.argsort(stable=True)
        counts = nodes.kind.bincount(minlength=len(tables)).tolist()
        scores = []
        for table, alike in zip(tables.unbind(), torch.split(order, counts), strict=True):
            for some in torch.split(alike, max(1, _AT_ONCE // table[:, 0].numel())):
                every = asking.index_select(1, some) @ table  # (heads, some, V * D)
                scores.append(every.gather(2, nodes.pairs[some].expand(len(every), -1, -1)))
        return torch.cat(scores, dim=1).index_select(1, order.argsort())

    def _split(self, vectors: Tensor) -> Tensor:
        return vectors.view(*vectors.shape[:-1], *self.shape).transpose(-3, -2)  # (…, heads, N, s)


PARTS = (FlatConfig,)
