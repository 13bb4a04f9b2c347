from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from handmade import copied, recipe

from lacuner import Corpus
from lacuner.bench.corpora import check_files, read_corpora
from lacuner.bench.planning import plan
from lacuner.bench.recipe import Places
from lacuner.errors import ConfigError, LacunerError


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 13, 24, 25, 26, 1000])
def test_fewer_sentences_are_evenly_spaced(places: Places, toy: Corpus, count: int) -> None:
    (cell,) = plan(recipe(runs=["full"], sentences={"test": count}), places)
    tokens = read_corpora(cell, places).test.tokens
    found = [toy.tokens.index(sentence) for sentence in tokens]
    assert len(found) == min(count, 25)
    assert found[0] == 0
    distances = {after - before for before, after in pairwise([*found, 25])}
    assert max(distances) - min(distances) <= 1
    assert min(distances) > 0


def test_labels_are_hidden_by_the_seed_and_it_is_known_which(places: Places, toy: Corpus) -> None:
    cells = plan(recipe(runs=["full"], hidden=[0.4], seeds=[1, 2], sentences={"train": 20}), places)
    first, second = (read_corpora(cell, places) for cell in cells)
    assert first.train.tokens == second.train.tokens
    assert [sentence.entities for sentence in first.train] != [sentence.entities for sentence in second.train]
    known = {sentence.tokens: sentence for sentence in toy}
    for corpora in (first, second):
        assert corpora.hidden is not None
        assert 0 < sum(map(len, corpora.hidden)) < 40
        for sentence, hidden in zip(corpora.train, corpora.hidden, strict=True):
            left = {(entity.start, entity.end) for entity in sentence.entities}
            assert not left & hidden
            assert left | hidden == {(entity.start, entity.end) for entity in known[sentence.tokens].entities}


def test_what_is_hidden_is_known_where_gold_labels_are_of_the_same_sentences(
    data: Path, places: Places, toy: Corpus
) -> None:
    (cell,) = plan(recipe(runs=["full"], sentences={"train": 10}), places)
    corpora = read_corpora(cell, places)
    assert corpora.hidden is not None
    assert sum(map(len, corpora.hidden)) + sum(len(s.entities) for s in corpora.train) == 20

    copied(data / "toy", data / "shorter")
    toy[:24].write(data / "shorter" / "train.gold.conll")
    (cell,) = plan(recipe(runs=["full"], data=["shorter"]), places)
    assert read_corpora(cell, places).hidden is None


def test_data_can_be_in_several_files_complete_and_beside_trusted_data(data: Path, places: Places, toy: Corpus) -> None:
    toy[:5].write(data / "toy" / "a.conll")
    toy[5:7].write(data / "toy" / "b.jsonl")
    dataset = {"toy": {"train": ["a.conll", "b.jsonl"], "trusted": "dev.conll", "complete": True}}
    (cell,) = plan(recipe(runs=["full"], dataset=dataset), places)
    corpora = read_corpora(cell, places)
    assert corpora.train.tokens == toy[:7].tokens
    assert all(sentence.complete for sentence in corpora.train)
    assert corpora.trusted is not None
    assert len(corpora.trusted) == 25
    assert set(cell.files) == {"a.conll", "b.jsonl", "dev.conll", "test.conll", "train.gold.conll"}


def test_the_sample_needs_no_folder(tmp_path: Path, sample: dict[str, Corpus]) -> None:
    (cell,) = plan(recipe(data=["sample"], runs=["full"], hidden=[0.5]), Places(tmp_path / "nowhere"))
    corpora = read_corpora(cell, Places(tmp_path / "nowhere"))
    assert corpora.train.tokens == sample["train"].tokens
    assert corpora.test is not corpora.dev
    assert corpora.hidden is not None


def test_dev_data_may_have_as_many_gaps_as_training_data(places: Places) -> None:
    masked = {"toy": {"mask_dev": True}}
    cells = plan(recipe(runs=["full"], hidden=[0.5], seeds=[1, 2], naive="full", dataset=masked), places)
    for cell in cells:
        plain = read_corpora(replace(cell, config=cell.config | {"dataset": {}}), places)
        corpora = read_corpora(cell, places)
        assert corpora.test.sentences == plain.test.sentences
        dev = plain.dev if cell.complete else plain.dev.mask(0.5, cell.seed)
        assert corpora.dev.sentences == dev.sentences
    assert [cell.complete for cell in cells] == [False, True] * 2
    (plain_cell,) = plan(recipe(runs=["full"], hidden=[0.5]), places)
    assert plain_cell.key != cells[0].key
    with pytest.raises(ConfigError, match=r"^toy, full, recurrent, seed 1: mask_dev hides .* give shares in hidden"):
        plan(recipe(runs=["full"], dataset=masked), places)


def test_data_that_changed_since_the_plan_is_not_taken_for_the_planned_one(places: Places) -> None:
    (cell,) = plan(recipe(runs=["full"]), places)
    check_files(cell, places)
    for files in (cell.files | {"train.conll": "0"}, cell.files | {"more.conll": "0"}):
        with pytest.raises(
            LacunerError, match=r"^(train|more)\.conll changed while the bench was running — start it again"
        ):
            check_files(replace(cell, files=files), places)
