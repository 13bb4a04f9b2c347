"""A tokenizer, a lexicon and the size of a model for tests of encoders with a lexicon."""

from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
CHARACTERS = "南京市长江大桥在北上海王李明华住过我们去了的"
TINY = {
    "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24, "initializer_range": 0.1,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
VECTORS = {
    "南京": (1.0, 0.0, -1.0), "南京市": (0.5, 2.0, 0.0), "市长": (-1.0, 1.0, 0.25), "长江": (0.0, -2.0, 1.0),
    "长江大桥": (1.5, 1.0, 1.0), "大桥": (-0.5, 0.5, 0.0), "上海": (2.0, 0.0, 1.0), "的": (9.0, 9.0, 9.0),
}  # fmt: skip


def write_tokenizer(folder: Path) -> int:
    """A tokenizer that knows some Chinese characters and the pieces of "ABC"; the number of its pieces."""
    pieces = [*SPECIAL, *CHARACTERS, "A", "##B", "##C"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return len(pieces)
