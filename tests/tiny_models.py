"""Models that are made in a moment, and batches for them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from lacuner.corpus import Entity, Sentence, Span
from lacuner.encoders import Encoder
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.encoders.transformer import TransformerConfig, TransformerEncoder
from lacuner.features.subwords import PieceIndex
from lacuner.features.vocabulary import Vocabulary
from lacuner.heads import BiaffineConfig, ProductConfig, WidthConfig
from lacuner.methods.method import Method
from lacuner.methods.mrc import Mrc
from lacuner.methods.parts import Step
from lacuner.models.model import EncodedBatch, Model
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TokenSupervision

WORDS = ("Ada", "moved", "to", "Turin", ",", "Piedmont")
LABELS = ("O", "PER", "LOC", "ORG")
HEADS = (
    ProductConfig(hidden=6, dropout=0.0),
    ProductConfig(hidden=6, dropout=0.0, max_span_width=2),
    WidthConfig(hidden=6, width_size=3, dropout=0.0, max_span_width=3),
    BiaffineConfig(hidden=6, dropout=0.0),
)
TINY = {
    "product": ProductConfig(hidden=6),
    "width": WidthConfig(hidden=6, width_size=3),
    "biaffine": BiaffineConfig(hidden=6),
}
MIXED = (
    Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))),
    Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"), Entity(2, 3, "LOC")), complete=True),
    Sentence(("Ada", "Turin"), (Entity(0, 2, "PER"), Entity(0, 2, "ORG")), (Span(0, 1),)),
)


def tiny_model(method: Method, labels: Sequence[str], words: Sequence[str] = WORDS) -> Any:
    """A model of the method, without dropout in its encoder; always the same."""
    torch.manual_seed(0)
    config = RecurrentConfig(
        word_size=5, character_size=4, character_filters=3, hidden=4, dropout=0.0, unknown_fraction=0.0
    )
    encoder: Encoder = RecurrentEncoder.create(config, Vocabulary.build([words]), None)
    return method.build_model(tiny_transformer(words) if isinstance(method, Mrc) else encoder, labels)


def tiny_transformer(words: Sequence[str] = WORDS, window: int = 128) -> TransformerEncoder:
    """A random BERT without dropout that knows these words."""
    from transformers import BertConfig, BertModel

    tokenizer = word_tokenizer(words)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.5}
    bert = BertModel(BertConfig(vocab_size=len(tokenizer), **size, **off))
    config = TransformerConfig(model="tiny", window=window, dropout=0.0)
    return TransformerEncoder(config, bert, PieceIndex(tokenizer, window))


def word_tokenizer(words: Sequence[str]) -> Any:
    """A tokenizer of Hugging Face whose pieces are these words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    numbers = {word: number for number, word in enumerate([*special.values(), *words])}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(piece, numbers[piece]) for piece in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def encoded(model: Model, sentences: Sequence[Sentence]) -> EncodedBatch:
    return model.encode([sentence.tokens for sentence in sentences])


def batch_loss(
    method: Method,
    model: Model,
    sentences: Sequence[Sentence],
    known: Sequence[TokenSupervision | None] | None = None,
    watch: Callable[[Spans], None] | None = None,
    seed: int = 0,
    indices: Sequence[int] = (),
) -> Tensor:
    """The training loss of a batch in the second of three epochs."""
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    step = Step(1, 3, torch.Generator().manual_seed(seed), indices, watch)
    return method.training_loss(model, inputs, model.targets(sentences, known), step)


def places(spans: Spans) -> list[tuple[int, int, int]]:
    """Row, start and end of each span."""
    return list(zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True))


@st.composite
def annotated_sentences(draw: st.DrawFn) -> Sentence:
    tokens = draw(st.lists(st.sampled_from([*WORDS, "Genoa"]), min_size=1, max_size=5))
    length = len(tokens)
    every = [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
    places = draw(st.lists(st.sampled_from(every), max_size=3))
    rejected = [Span(*place) for place in draw(st.lists(st.sampled_from(every), max_size=3)) if place not in places]
    return Sentence(
        tuple(tokens),
        tuple(Entity(start, end, draw(st.sampled_from(LABELS[1:]))) for start, end in places),
        tuple(rejected),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.none() | st.frozensets(st.sampled_from(LABELS[1:]))),
        unknown_tokens=draw(st.frozensets(st.integers(0, length - 1))),
    )


BATCHES = st.lists(annotated_sentences(), min_size=1, max_size=3)
