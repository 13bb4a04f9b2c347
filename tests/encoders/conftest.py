from pathlib import Path

import pytest
import torch
from chinese import TINY, VECTORS, write_tokenizer
from transformers import BertConfig, BertModel


@pytest.fixture(scope="session")
def chinese_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of a few weights that knows some Chinese characters."""
    folder = tmp_path_factory.mktemp("encoders") / "chinese"
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=write_tokenizer(folder), **TINY))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def vector_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lexicon with vectors."""
    path = tmp_path_factory.mktemp("lexicons") / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VECTORS.items()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def word_list(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same words without vectors."""
    path = tmp_path_factory.mktemp("lexicons") / "words.tsv"
    path.write_text("".join(f"{word}\tLOC\n" for word in VECTORS), encoding="utf-8")
    return path
