from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from handmade import copied, recipe

from lacuner import Corpus
from lacuner.bench.corpora import check_files, read_corpora
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
from lacuner.bench.runs import Run
from lacuner.errors import ConfigError, LacunerError


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 13, 24, 25, 26, 1000])
def test_fewer_sentences_are_evenly_spaced(paths: PathTemplates, toy: Corpus, count: int) -> None:
    (run,) = plan(recipe(methods=["full"], sentences={"test": count}), paths)
    tokens = read_corpora(run, paths).test.tokens
    found = [toy.tokens.index(sentence) for sentence in tokens]
    assert len(found) == min(count, 25)
    assert found[0] == 0
    distances = {after - before for before, after in pairwise([*found, 25])}
    assert max(distances) - min(distances) <= 1
    assert min(distances) > 0


def test_labels_are_hidden_by_the_seed_and_it_is_known_which(paths: PathTemplates, toy: Corpus) -> None:
    runs = plan(recipe(methods=["full"], hidden=[0.4], seeds=[1, 2], sentences={"train": 20}), paths)
    first, second = (read_corpora(run, paths) for run in runs)
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
    data: Path, paths: PathTemplates, toy: Corpus
) -> None:
    (run,) = plan(recipe(methods=["full"], sentences={"train": 10}), paths)
    corpora = read_corpora(run, paths)
    assert corpora.hidden is not None
    assert sum(map(len, corpora.hidden)) + sum(len(s.entities) for s in corpora.train) == 20

    copied(data / "toy", data / "shorter")
    toy[:24].write(data / "shorter" / "train.gold.conll")
    (run,) = plan(recipe(methods=["full"], data=["shorter"]), paths)
    assert read_corpora(run, paths).hidden is None


def test_data_can_be_in_several_files_complete_and_beside_trusted_data(
    data: Path, paths: PathTemplates, toy: Corpus
) -> None:
    toy[:5].write(data / "toy" / "a.conll")
    toy[5:7].write(data / "toy" / "b.jsonl")
    dataset = {"toy": {"train": ["a.conll", "b.jsonl"], "trusted": "dev.conll", "complete": True}}
    (run,) = plan(recipe(methods=["full"], dataset=dataset), paths)
    corpora = read_corpora(run, paths)
    assert corpora.train.tokens == toy[:7].tokens
    assert all(sentence.complete for sentence in corpora.train)
    assert corpora.trusted is not None
    assert len(corpora.trusted) == 25
    assert set(run.files) == {"a.conll", "b.jsonl", "dev.conll", "test.conll", "train.gold.conll"}


def test_the_sample_needs_no_folder(tmp_path: Path, sample: dict[str, Corpus]) -> None:
    (run,) = plan(recipe(data=["sample"], methods=["full"], hidden=[0.5]), PathTemplates(tmp_path / "nowhere"))
    corpora = read_corpora(run, PathTemplates(tmp_path / "nowhere"))
    assert corpora.train.tokens == sample["train"].tokens
    assert corpora.test is not corpora.dev
    assert corpora.hidden is not None


def test_dev_data_may_have_as_many_gaps_as_training_data(paths: PathTemplates) -> None:
    masked = {"toy": {"mask_dev": True}}
    runs = plan(recipe(methods=["full"], hidden=[0.5], seeds=[1, 2], naive="full", dataset=masked), paths)
    for run in runs:
        plain = read_corpora(replace(run, config=run.config | {"dataset": {}}), paths)
        corpora = read_corpora(run, paths)
        assert corpora.test.sentences == plain.test.sentences
        dev = plain.dev if run.complete else plain.dev.mask(0.5, run.seed)
        assert corpora.dev.sentences == dev.sentences
    assert [run.complete for run in runs] == [False, True] * 2
    (plain_run,) = plan(recipe(methods=["full"], hidden=[0.5]), paths)
    assert plain_run.key != runs[0].key
    with pytest.raises(ConfigError, match=r"^toy, full, recurrent, seed 1: mask_dev hides .* give fractions in hidden"):
        plan(recipe(methods=["full"], dataset=masked), paths)


def test_training_files_may_be_label_sets_of_one_text(data: Path, paths: PathTemplates, toy: Corpus) -> None:
    copied(data / "toy", data / "twice")
    first, second = toy.mask(0.5, 1), toy.mask(0.5, 2)
    first.write(data / "twice" / "one.conll")
    second.write(data / "twice" / "two.conll")
    dataset = {"twice": {"train": ["one.conll", "two.conll"], "same_text": True}}
    (run,) = plan(recipe(methods=["full"], data=["twice"], dataset=dataset), paths)
    found = read_corpora(run, paths)
    assert found.train.tokens == toy.tokens
    for merged, one, two in zip(found.train, first, second, strict=True):
        assert {(e.start, e.end, e.label) for e in merged.entities} == {
            (e.start, e.end, e.label) for e in (*one.entities, *two.entities)
        }
        assert [said.source for said in merged.by_source] == ["one", "two"]
    assert found.hidden is not None
    apart = {"twice": {"train": ["one.conll", "two.conll"]}}
    (other,) = plan(recipe(methods=["full"], data=["twice"], dataset=apart), paths)
    assert len(read_corpora(other, paths).train) == 2 * len(toy)
    assert other.key != run.key


def test_label_sets_are_merged_once_and_what_is_said_about_them_names_their_dataset(
    data: Path, paths: PathTemplates, toy: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    """Their complete labels are compared with the merged text, too; it takes seconds for a corpus of the usual size."""
    copied(data / "toy", data / "disputed")
    other = Corpus(tuple(replace(s, entities=tuple(replace(e, label="LOC") for e in s.entities)) for s in toy))
    toy.write(data / "disputed" / "one.conll")
    other.write(data / "disputed" / "two.conll")
    disputed = {"disputed": {"train": ["one.conll", "two.conll"], "same_text": True}}
    runs = plan(recipe(methods=["full"], data=["disputed"], dataset=disputed, naive="full", seeds=[1, 2]), paths)
    assert [run.complete for run in runs] == [False, True] * 2
    (said,) = [message for message in caplog.messages if "have different labels" in message]
    assert said.startswith("disputed: ")


def test_training_data_may_be_annotated_with_a_part_of_the_dictionary(
    data: Path, paths: PathTemplates, toy: Corpus
) -> None:
    copied(data / "toy", data / "listed")
    names = sorted({(" ".join(s.tokens[e.start : e.end]), e.label) for s in toy for e in s.entities})
    (data / "listed" / "dictionary.tsv").write_text("".join(f"{name}\t{label}\n" for name, label in names), "utf-8")

    def planned(fraction: float | None, seed: int = 1) -> Run:
        dataset = {"listed": {"dictionary_fraction": fraction, "unseen_labels": True}}
        (run,) = plan(recipe(methods=["full"], data=["listed"], seeds=[seed], dataset=dataset), paths)
        return run

    half, whole = planned(0.5), planned(1.0)
    found = read_corpora(half, paths)
    taught = {" ".join(s.tokens[e.start : e.end]) for s in found.train for e in s.entities}
    assert taught < {name for name, _ in names}
    assert 0 < len(taught) <= round(0.5 * len(names))
    assert found.hidden is not None
    assert sum(map(len, found.hidden)) > 0
    assert not any(sentence.complete for sentence in found.train)
    assert sum(map(len, read_corpora(whole, paths).hidden or [])) == 0
    assert read_corpora(planned(0.5, 2), paths).train.sentences != found.train.sentences
    assert half.key != whole.key
    plain = planned(None)
    for run, changes in ((half, True), (plain, False)):  # other names are other labels, if they are what annotates
        other = replace(run, files=run.files | {"dictionary.tsv": "0"})
        assert (other.key != run.key) is changes
    (data / "listed" / "train.gold.conll").unlink()
    with pytest.raises(ConfigError, match=r"dictionary_fraction annotates the sentences of train\.gold\.conll"):
        read_corpora(half, paths)


def test_data_that_changed_since_the_plan_is_not_taken_for_the_planned_one(paths: PathTemplates) -> None:
    (run,) = plan(recipe(methods=["full"]), paths)
    check_files(run, paths)
    for files in (run.files | {"train.conll": "0"}, run.files | {"more.conll": "0"}):
        with pytest.raises(
            LacunerError, match=r"^(train|more)\.conll changed while the bench was running — start it again"
        ):
            check_files(replace(run, files=files), paths)
