"""The library datasets reads what we write, and writes what we read."""

import json
import shutil

import datasets
import numpy as np
import pyarrow as pa
import pytest
from any_sentence import any_sentences
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value, load_dataset, load_from_disk
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError

NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
FEATURES = Features({"id": Value("string"), "tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=NAMES))})
FOREIGN = {"id": ["a", "b"], "tokens": [["Ada", "Lovelace", "left"], ["Turin"]], "ner_tags": [[1, 2, 0], [3]]}
WANTED = [
    Sentence(("Ada", "Lovelace", "left"), (Entity(0, 2, "PER"),), extra={"id": "a"}),
    Sentence(("Turin",), (Entity(0, 1, "LOC"),), extra={"id": "b"}),
]
CORPUS = Corpus(
    [
        Sentence(("Ada", "left", "Oslo"), (Entity(0, 1, "PER", source="human"),), (Span(2, 3),), extra={"id": 1}),
        Sentence(("Bank", "of", "Italy"), (Entity(0, 3, "ORG"), Entity(2, 3, "LOC")), complete=True, extra={"id": 2}),
        Sentence(("Jordan", "left"), (Entity(0, 1, "LOC"), Entity(0, 1, "PER")), complete=True, text="Jordan left"),
    ]
)


@pytest.fixture(autouse=True)
def _quiet(tmp_path, monkeypatch):
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def foreign():
    return Dataset.from_dict(FOREIGN, features=FEATURES)


def records(sentences):
    return [sentence_to_record(sentence) for sentence in sentences]


@given(corpus=st.lists(any_sentences().filter(lambda s: all("#" not in e.label for e in s.entities)), max_size=3))
@settings(max_examples=50)
def test_any_corpus_comes_back_with_everything_that_is_known(tmp_path_factory, corpus):
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    write_sentences(corpus, path)
    assert records(stream_sentences(path)) == records(corpus)
    folder = tmp_path_factory.getbasetemp() / "any folder"
    shutil.rmtree(folder, ignore_errors=True)
    write_sentences(corpus, folder, "datasets")
    assert records(stream_sentences(folder)) == records(corpus)
    assert records(Corpus.from_dataset(Corpus(corpus).to_dataset())) == records(corpus)


def check(dataset):
    """Whether a dataset is the corpus above, as others see it."""
    assert dataset.features["tokens"] == List(Value("string"))
    names = dataset.features["ner_tags"].feature.names
    assert names == ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER"]
    assert dataset.features["id"] == Value("int64")
    shown = [[names[tag] if tag >= 0 else "?" for tag in row["ner_tags"]] for row in dataset]
    assert shown == [["B-PER", "O", "O"], ["B-ORG", "I-ORG", "I-ORG"], ["?", "O"]]
    assert [row["id"] for row in dataset] == [1, 2, None]
    assert dataset[2]["ner_tags"] == [-100, 0]  # losses ignore a word that may be either
    assert records(Corpus.from_dataset(dataset)) == records(CORPUS)


def test_datasets_loads_our_parquet(tmp_path):
    CORPUS.write(tmp_path / "data.parquet")
    check(load_dataset("parquet", data_files=str(tmp_path / "data.parquet"), split="train", cache_dir=tmp_path / "c"))
    assert records(Corpus.read(tmp_path / "data.parquet")) == records(CORPUS)


def test_datasets_loads_our_folder_and_writes_it_again(tmp_path):
    CORPUS.write(tmp_path / "data", "datasets")
    dataset = load_from_disk(tmp_path / "data")
    check(dataset)
    dataset.save_to_disk(tmp_path / "again", num_shards=2)
    assert records(Corpus.read(tmp_path / "again")) == records(CORPUS)


def test_a_dataset_is_made_and_taken_apart():
    check(CORPUS.to_dataset())
    assert len(Corpus([]).to_dataset()) == 0
    assert list(Corpus.from_dataset(CORPUS.to_dataset().to_iterable_dataset())) == list(CORPUS)
    assert list(Corpus.from_dataset(CORPUS.to_dataset().with_format("numpy"))) == list(CORPUS)


def test_names_of_tags_are_those_of_the_features(tmp_path, foreign):
    foreign.to_parquet(tmp_path / "data.parquet")
    foreign.save_to_disk(tmp_path / "data")
    for corpus in (
        Corpus.read(tmp_path / "data.parquet"),
        Corpus.read(tmp_path / "data"),
        Corpus.from_dataset(foreign),
    ):
        assert records(corpus) == records(WANTED)


OLD_FEATURES = [
    {
        "feature": {"num_classes": 5, "names": NAMES, "id": None, "_type": "ClassLabel"},
        "length": -1,
        "_type": "Sequence",
    },
    [{"names": NAMES, "_type": "ClassLabel"}],
]


@pytest.mark.parametrize("feature", OLD_FEATURES, ids=["Sequence", "list"])
def test_features_of_older_versions_have_names_too(tmp_path, feature):
    table = pa.table(FOREIGN).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})}
    )
    parquet.write_table(table, tmp_path / "data.parquet")
    assert records(Corpus.read(tmp_path / "data.parquet")) == records(WANTED)


def test_numbers_without_names_are_refused_unless_names_are_given(tmp_path, foreign):
    bare = Dataset.from_dict(FOREIGN)
    bare.to_parquet(tmp_path / "data.parquet")
    with pytest.raises(
        DataError, match=r"data.parquet:1: .*are numbers.* in Python: Corpus.from_dataset\(dataset, names"
    ):
        Corpus.read(tmp_path / "data.parquet")
    assert records(Corpus.from_dataset(bare, names=NAMES)) == records(WANTED)
    with pytest.raises(DataError, match=r"the dataset:2: the tag '3' is not one of the 3 that have names"):
        Corpus.from_dataset(bare, names=NAMES[:3])


def test_one_split_is_asked_for(tmp_path, foreign):
    both = DatasetDict({"train": foreign, "test": foreign})
    both.save_to_disk(tmp_path / "data")
    with pytest.raises(DataError, match=r"several splits \(train, test\) — give one of them: .*data/train$"):
        Corpus.read(tmp_path / "data")
    assert records(Corpus.read(tmp_path / "data" / "test")) == records(WANTED)
    with pytest.raises(DataError, match=r"several splits \(train, test\) — give one of them: dataset\['train'\]"):
        Corpus.from_dataset(both)
    with pytest.raises(DataError, match="list is not a dataset"):
        Corpus.from_dataset([{"tokens": []}])


def test_columns_that_no_record_can_hold_are_left_out_and_counted(tmp_path, foreign):
    parquet.write_table(
        pa.table({"tokens": [["Ada"]], "ner_tags": [["B-PER"]], "image": [b"\x00"], "entities": ["x"], "score": [0.5]}),
        tmp_path / "data.parquet",
    )
    corpus = Corpus.read(tmp_path / "data.parquet")
    assert records(corpus) == records([Sentence(("Ada",), (Entity(0, 1, "PER"),), extra={"score": 0.5})])
    assert corpus.report.counts == {"fields left out": 2}


def damaged_folder(tmp_path, name, content):
    CORPUS.write(tmp_path / "data", "datasets")
    (tmp_path / "data" / name).write_text(content)


DAMAGED = {
    "data that is none": ("data-00000-of-00001.arrow", "x", "the file is damaged, or in another format"),
    "no data": ("data-00000-of-00001.arrow", "", "the file is damaged, or in another format"),
    "information that is none": ("dataset_info.json", "[]", "dataset_info.json: it does not hold a JSON object"),
    "no state": ("state.json", "", "state.json: it does not hold a JSON object"),
    "files elsewhere": ("state.json", '{"_data_files": [{"filename": "../x"}]}', "names no files of the folder"),
    "files that are not there": ("state.json", '{"_data_files": [{"filename": "x"}]}', "x: No such file"),
    "chosen rows": (
        "state.json",
        '{"_data_files": [{"filename": "x"}], "_indices_data_files": [1]}',
        "flatten_indices",
    ),
}


@pytest.mark.parametrize(("name", "content", "what"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_folder_is_refused_in_one_sentence(tmp_path, name, content, what):
    damaged_folder(tmp_path, name, content)
    with pytest.raises(DataError, match=what) as raised:
        Corpus.read(tmp_path / "data")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("end", [0, 4, 100, -1, -5, -40])
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, end):
    path = tmp_path / "data.parquet"
    CORPUS.write(path)
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(DataError, match=r"the file is damaged, or in another format \(.+\) — write it again"):
        Corpus.read(path)


def test_words_that_are_elsewhere_in_memory_are_not_read(tmp_path):
    """pyarrow would: it believes the offsets in an Arrow file."""
    CORPUS.write(tmp_path / "data", "datasets")
    path = tmp_path / "data" / "data-00000-of-00001.arrow"
    right, wrong = (np.array(borders, dtype="int32").tobytes() for borders in ([0, 3, 7, 11], [0, 3, 2**30, 11]))
    assert right in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(right, wrong))
    with pytest.raises(DataError, match="the file is damaged, or in another format"):
        Corpus.read(tmp_path / "data")


def test_files_that_are_not_there_and_libraries_that_are_not_installed_are_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="No such file"):
        Corpus.read(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="it is not a folder"):
        Corpus.read(tmp_path / "none", "datasets")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match="needs pyarrow, which is not installed — install it with: pip install pyarrow"):
        Corpus.read(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="pip install datasets"):
        CORPUS.to_dataset()


def test_a_packed_file_is_read(tmp_path):
    CORPUS.write(tmp_path / "data.parquet.gz")
    assert list(Corpus.read(tmp_path / "data.parquet.gz")) == list(CORPUS)
