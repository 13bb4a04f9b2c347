from pathlib import Path

import pytest

from lacuner import Corpus, DataError, Entity, Sentence
from lacuner.corpus.as_corpus import as_corpus, same_text, several_texts


def test_a_corpus_stays_what_it_is(toy: Corpus) -> None:
    assert as_corpus(toy) is toy


def test_sentences_become_a_corpus_however_they_come(toy: Corpus) -> None:
    for given in (list(toy), tuple(toy), iter(toy), (sentence for sentence in toy)):
        assert tuple(as_corpus(given)) == tuple(toy)
    assert len(as_corpus([])) == 0


def test_a_path_is_read(toy: Corpus, tmp_path: Path) -> None:
    toy.write(tmp_path / "toy.conll")
    for path in (tmp_path / "toy.conll", str(tmp_path / "toy.conll")):
        assert [s.entities for s in as_corpus(path)] == [s.entities for s in toy]


def test_text_with_character_spans_is_split_as_the_model_will_split_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "東京へ", "entities": [{"start": 0, "end": 2, "label": "LOC"}]}\n', "utf-8"
    )
    (sentence,) = as_corpus(tmp_path / "a.jsonl", split="characters")
    assert sentence.tokens == ("東", "京", "へ")
    assert sentence.entities == (Entity(0, 2, "LOC"),)


def test_a_dataset_becomes_a_corpus(toy: Corpus) -> None:
    pytest.importorskip("datasets")
    assert [s.entities for s in as_corpus(toy.to_dataset())] == [s.entities for s in toy]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.conll"):
        as_corpus(tmp_path / "absent.conll")


@pytest.mark.parametrize("given", [7, None, ["Ada left"], [Sentence(("Ada",)), "left"]])
def test_what_is_no_data_is_refused_with_what_to_give(given: object) -> None:
    with pytest.raises(
        TypeError, match=r"^dev is a corpus, a list of sentences, a dataset, or the path of a file, but "
    ):
        as_corpus(given, "dev")  # type: ignore[arg-type]


ONE = Sentence(("Ada", "left"), (Entity(0, 1, "PER"),))
OTHER = Sentence(("Ada", "left"), (Entity(0, 2, "ORG"),))


def test_label_sets_of_the_same_text_become_one_corpus_that_knows_who_said_what(tmp_path: Path, caplog) -> None:
    (tmp_path / "llm.conll").write_text("Ada B-ORG\nleft I-ORG\n")
    corpus = same_text([Corpus([ONE]), tmp_path / "llm.conll"])
    assert [(said.source, said.entities) for said in corpus[0].by_source] == [
        ("source 1", ONE.entities),
        ("llm", OTHER.entities),
    ]
    assert "1 entities are outvoted" in caplog.text
    trusting = same_text({"dict": [ONE], "llm": [OTHER]}, {"llm": 2})
    assert [(entity.label, entity.source) for entity in trusting[0].entities] == [("ORG", "llm")]


def test_one_label_set_is_not_several() -> None:
    for given in (Corpus([ONE]), "file.conll", iter([[ONE]])):
        with pytest.raises(TypeError, match=r"^data is a list of corpora"):
            same_text(given)  # type: ignore[arg-type]


def test_sources_are_told_apart_in_the_files_that_name_several() -> None:
    both = Sentence(("x",), (Entity(0, 1, "LOC", source="a"), Entity(0, 1, "PER", source="b")))
    plain, apart, silent = several_texts([("one", Corpus([ONE])), ("two", Corpus([both, Sentence(("y",))]))])
    assert plain == ONE
    assert [said.source for said in apart.by_source] == [said.source for said in silent.by_source] == ["a", "b"]
