"""Words as subword pieces, for Hugging Face encoders; long sentences as overlapping windows."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lacuner.errors import ConfigError

if TYPE_CHECKING:  # imported only by encoders that need them, and only when they are built
    from tokenizers import Encoding, Tokenizer

_CACHE_SIZE = 2048
"""Half the number of sentences whose pieces are cached."""
_KEPT_PIECES = 16
"""Longer words are truncated to this many pieces at either end, to fit into a window."""
MIN_ROOM = 4 * _KEPT_PIECES
"""Minimum number of word pieces that a window must have room for."""


@dataclass(frozen=True)
class PieceInputs:
    """A batch for a transformer: ``W`` windows of up to ``m`` pieces that cover ``B`` sentences of up to ``n`` words."""

    lengths: Tensor  # (B,)
    pieces: Tensor  # (W, m)
    attention: Tensor  # (W, m)
    first: Tensor  # (B, n): index of each word's first piece in the flattened (W * m) pieces
    last: Tensor  # (B, n)
    word: Tensor  # (W, m): index of each piece's word in the flattened (B * n) words; -1 for special tokens
    segments: Tensor | None = (
        None  # (W, m): 0 for a question and its special tokens, 1 for the words; None: no questions
    )

    def to(self, device: torch.device) -> "PieceInputs":
        return PieceInputs(**{name: value.to(device) for name, value in vars(self).items() if value is not None})

    def rows(self, begin: int, end: int) -> "PieceInputs":
        """The rows ``[begin, end)``, with the windows that cover them."""
        longest, width = self.first.shape[1], self.pieces.shape[1]
        owner = self.word.amax(1) // longest  # (W,) the row of each window
        own = (owner >= begin) & (owner < end)
        before = int((owner < begin).sum()) * width  # pieces
        word = self.word[own]
        return PieceInputs(
            lengths=self.lengths[begin:end],
            pieces=self.pieces[own],
            attention=self.attention[own],
            first=(self.first[begin:end] - before).clamp(min=0),  # padding is 0
            last=(self.last[begin:end] - before).clamp(min=0),
            word=torch.where(word < 0, word, word - begin * longest),
            segments=None if self.segments is None else self.segments[own],
        )


class PieceIndex:
    """Converts words to pieces with a fast tokenizer.

    A word that the tokenizer drops (control characters, odd Unicode) becomes the unknown piece, so that every word has a
    vector. A sentence with more pieces than ``window`` is covered by overlapping windows; each word is taken from the window
    in which it is farthest from an edge.
    """

    def __init__(self, tokenizer: Any, window: int) -> None:
        self.tokenizer = tokenizer
        self.window = window
        unknown = tokenizer.unk_token_id
        self._stand_in = unknown if unknown is not None else tokenizer.mask_token_id or tokenizer.eos_token_id or 0
        self._padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        before, after = _special_pieces(tokenizer)
        self._backend = _begin_words_with_a_space(tokenizer.backend_tokenizer)
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True  # a word "[SEP]" is not special
        self._before, self._after = before, after
        if self.room_after(before) < MIN_ROOM:
            raise ConfigError(f"encoder.window={window} leaves no room for words; give at least 128")
        self._recent: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    @classmethod
    def load(cls, name: str | Path, max_pieces: int, window: int | None) -> "PieceIndex":
        """Load the tokenizer of a model name or folder; ``max_pieces`` is the limit of the model itself."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            name,
            use_fast=True,
            add_prefix_space=True,
            trust_remote_code=False,
            local_files_only=Path(name).is_dir(),  # a folder must not trigger downloads
        )
        if not tokenizer.is_fast:
            raise ConfigError(
                f"{name} has no fast tokenizer, which is needed to know which piece belongs to which word"
            )
        if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
            raise ConfigError(f"{name} has no tokenizer, or an empty one; its tokenizer.json belongs into the folder")
        return cls(tokenizer, min(max_pieces, window or max_pieces))

    def lengths(self, sentences: Iterable[Sequence[str]]) -> list[int]:
        """Size of each sentence in a batch: its pieces."""
        frame = len(self._before) + len(self._after)
        return [sum(map(len, pieces)) + frame for pieces in self._pieces_of(sentences)]

    def room_after(self, opening: Sequence[int]) -> int:
        """Number of word pieces that fit into a window after this opening."""
        return self.window - len(opening) - len(self._after)

    def collate(self, sentences: Sequence[Sequence[str]]) -> PieceInputs:
        """Build a batch of sentences."""
        return self._collate(sentences, [self._before])

    def _collate(self, sentences: Sequence[Sequence[str]], openings: Sequence[Sequence[int]]) -> PieceInputs:
        """Build a batch with a row per sentence and opening, the pieces that begin each of its windows."""
        windows: list[list[int]] = []
        owners: list[list[int]] = []
        max_length = max(map(len, sentences), default=0)
        located: list[list[tuple[int, int, int]]] = []  # window, and first and last piece in it, of each word
        for row, (words, opening) in enumerate(product(self._pieces_of(sentences), openings)):
            found: list[tuple[int, int, int]] = [(0, 0, 0)] * len(words)
            for begin, end, owned in plan_windows([len(word) for word in words], self.room_after(opening)):
                position = len(opening)
                owner = [-1] * position
                for word in range(begin, end):
                    if word in owned:
                        found[word] = (len(windows), position, position + len(words[word]) - 1)
                    position += len(words[word])
                    owner += [row * max_length + word] * len(words[word])
                pieces = [piece for word in words[begin:end] for piece in word]
                windows.append([*opening, *pieces, *self._after])
                owners.append(owner)
            located.append(found + [(0, 0, 0)] * (max_length - len(found)))
        width = max(map(len, windows), default=0)
        index = torch.tensor(located, dtype=torch.long).reshape(len(located), max_length, 3)
        return PieceInputs(
            lengths=torch.tensor([len(tokens) for tokens in sentences for _ in openings]),
            pieces=torch.tensor([row + [self._padding] * (width - len(row)) for row in windows]),
            attention=torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in windows]),
            first=index[..., 0] * width + index[..., 1],
            last=index[..., 0] * width + index[..., 2],
            word=torch.tensor([row + [-1] * (width - len(row)) for row in owners]),
        )

    def _pieces_of(self, sentences: Iterable[Sequence[str]]) -> Iterator[tuple[tuple[int, ...], ...]]:
        """The pieces of each word of each sentence.

        They are cached for a while, because a sentence is measured first and batched later. This is thread-safe: each chunk
        is looked up in the shared cache once, and keeps its own references.
        """
        waiting = iter(sentences)
        while chunk := [tuple(tokens) for tokens in islice(waiting, _CACHE_SIZE)]:
            recent = self._recent
            known = {tokens: pieces for tokens in chunk if (pieces := recent.get(tokens)) is not None}
            missing = list(dict.fromkeys(tokens for tokens in chunk if tokens not in known))
            found = self._backend.encode_batch(missing, is_pretokenized=True, add_special_tokens=False)
            added = {tokens: self._by_word(tokens, encoded) for tokens, encoded in zip(missing, found, strict=True)}
            known |= added
            if len(recent) + len(added) > 2 * _CACHE_SIZE:
                self._recent = known  # a new one, because another thread may be using the old one
            else:
                recent.update(added)
            yield from [known[tokens] for tokens in chunk]

    def _by_word(self, tokens: tuple[str, ...], encoded: "Encoding") -> tuple[tuple[int, ...], ...]:
        words: list[list[int]] = [[] for _ in tokens]
        for piece, word in zip(encoded.ids, encoded.word_ids, strict=True):
            if word is not None:
                words[word].append(piece)
        return tuple(tuple(_shorten(word) if word else [self._stand_in]) for word in words)

    def clear_cache(self) -> None:
        """Clear the cache of recent sentences."""
        self._recent = {}

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)


def plan_windows(widths: Sequence[int], room: int) -> list[tuple[int, int, range]]:
    """Windows over words of these widths: ``(first word, last word + 1, words taken from this window)``.

    Adjacent windows overlap by about a third; a shared word is taken from the window with more context.
    """
    if sum(widths) <= room:
        return [(0, len(widths), range(len(widths)))]
    bounds: list[tuple[int, int]] = []
    begin = 0
    while True:
        end, used = begin, 0
        while end < len(widths) and used + widths[end] <= room:
            used += widths[end]
            end += 1
        bounds.append((begin, end))
        if end == len(widths):
            break
        back, shared = end, 0
        while back - 1 > begin and shared + widths[back - 1] <= room // 3:
            back -= 1
            shared += widths[back]
        begin = back
    planned, owned_from = [], 0
    for number, (begin, end) in enumerate(bounds):
        is_last = number + 1 == len(bounds)
        owned_to = end if is_last else (bounds[number + 1][0] + end + 1) // 2
        planned.append((begin, end, range(owned_from, owned_to)))
        owned_from = owned_to
    return planned


def _shorten(word: list[int]) -> list[int]:
    return word if len(word) <= 2 * _KEPT_PIECES else word[:_KEPT_PIECES] + word[-_KEPT_PIECES:]


def _begin_words_with_a_space(backend: "Tokenizer") -> "Tokenizer":
    """Byte-level tokenizers (RoBERTa, ModernBERT) know most words only with a preceding space."""
    from tokenizers import Tokenizer

    described = json.loads(backend.to_str())
    step = described.get("pre_tokenizer") or {}
    for part in [step, *step.get("pretokenizers", [])]:
        if part.get("type") == "ByteLevel":
            part["add_prefix_space"] = True
    return Tokenizer.from_str(json.dumps(described))


def _special_pieces(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens before and after a sentence, such as [CLS] and [SEP]."""
    with_one = tokenizer(["a"], is_split_into_words=True)["input_ids"]
    bare = tokenizer(["a"], is_split_into_words=True, add_special_tokens=False)["input_ids"]
    for begin in range(len(with_one) - len(bare) + 1):
        if with_one[begin : begin + len(bare)] == bare:
            return with_one[:begin], with_one[begin + len(bare) :]
    return [], []
