from pathlib import Path
from typing import Any

import pytest
from handmade import copied, recipe

from lacuner import Corpus, Entity, Sentence
from lacuner.bench.experiments import run_experiment
from lacuner.bench.knowledge_base import MatchSettings, match_names
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import check_encoders, plan
from lacuner.bench.runs import Run
from lacuner.bench.significance import unpack
from lacuner.errors import ConfigError
from lacuner.evaluation import score_entities
from lacuner.matching import Dictionary
from lacuner.training.loop import Observer

NAMES = "Ada\tPER\nEmmy Noether\tPER\nturin\tLOC\n"
BOTH = ["kb", "kb ignore_case=true"]


@pytest.fixture
def listed(data: Path) -> PathTemplates:
    """The toy data with a dictionary: five sentences with Ada, five with Emmy Noether, five with Turin in lower case."""
    (data / "toy" / "dictionary.tsv").write_text(NAMES)
    return PathTemplates(data)


def kb_runs(paths: PathTemplates, **changes: Any) -> list[Run]:
    return [run for run in plan(recipe(**{"methods": ["kb", "full"]} | changes), paths) if not run.is_trained]


def test_names_of_the_dictionary_are_what_is_found_in_the_test_data(listed: PathTemplates) -> None:
    exact, folded = (run_experiment(run, listed, Observer()) for run in plan(recipe(methods=BOTH), listed))
    assert exact["test"] == exact["dev"] == {"precision": 1.0, "recall": 0.2, "f1": pytest.approx(1 / 3, abs=1e-5)}
    assert folded["test"] == {"precision": 1.0, "recall": 0.3, "f1": pytest.approx(6 / 13, abs=1e-5)}
    assert {name: int(unpack(text).sum()) for name, text in folded["counts"].items()} == {
        "correct": 15, "predicted": 15, "support": 50,
    }  # fmt: skip
    assert {"epochs", "best_epoch", "planned_epochs"}.isdisjoint(exact)


def test_there_is_one_run_whatever_the_seeds_and_encoders(listed: PathTemplates) -> None:
    runs = kb_runs(listed, seeds=[3, 1, 2], encoders=["recurrent", "small"], encoder={"small": {"model": "recurrent"}})
    assert [(run.seed, run.encoder, str(run)) for run in runs] == [(3, "", "toy, kb")]
    check_encoders(runs, listed)  # none has to be loaded


def test_its_key_depends_on_the_dictionary_and_the_test_data_and_not_on_training(
    listed: PathTemplates, data: Path, toy: Corpus
) -> None:
    def key(**changes: Any) -> str:
        return kb_runs(listed, **changes)[0].key

    copied(data / "toy", data / "same")
    toy[:20].write(data / "same" / "train.conll")
    assert key() == key(seeds=[2]) == key(hidden=[0.5]) == key(data=["same"]) == key(measure=["missampling"])
    assert key() == key(settings={"training": {"epochs": 2}}) == key(methods=["kb ignore_case=false"])
    copied(data / "toy", data / "longer")
    (data / "longer" / "dictionary.tsv").write_text(NAMES + "Alan\tPER\n")
    copied(data / "toy", data / "shorter")
    toy[:20].write(data / "shorter" / "test.conll")
    others = [key(data=["longer"]), key(data=["shorter"]), key(methods=["kb ignore_case=true"])]
    assert len({key(), *others}) == 4


def test_training_does_not_depend_on_the_dictionary(listed: PathTemplates, data: Path) -> None:
    def keys() -> set[str]:
        return {run.key for run in plan(recipe(data=["toy"]), PathTemplates(data))}

    with_names = keys()
    (data / "toy" / "dictionary.tsv").unlink()
    assert keys() == with_names


def test_a_dataset_without_a_dictionary_has_no_such_run(listed: PathTemplates, data: Path) -> None:
    copied(data / "toy", data / "bare")
    (data / "bare" / "dictionary.tsv").unlink()
    runs = plan(recipe(data=["bare", "toy"], methods=["kb", "full"]), listed)
    assert [(run.data, run.method) for run in runs] == [("bare", "full"), ("toy", "kb"), ("toy", "full")]


def test_a_dataset_says_where_its_dictionary_is(listed: PathTemplates, data: Path) -> None:
    (data / "toy" / "names.tsv").write_text("Oslo\tLOC\n")
    (run,) = kb_runs(listed, dataset={"toy": {"dictionary": "names.tsv"}})
    assert run_experiment(run, listed, Observer())["test"]["recall"] == pytest.approx(0.1)


def test_the_sample_has_a_dictionary_too(tmp_path: Path) -> None:
    paths = PathTemplates(tmp_path / "nowhere")
    (run,) = kb_runs(paths, data=["sample"], hidden=[0.5])
    assert 0.2 < run_experiment(run, paths, Observer())["test"]["f1"] < 0.9


def test_names_are_cut_into_characters_where_words_are() -> None:
    sentence = Sentence(tuple("我在上海"), (Entity(2, 4, "LOC"),))
    ((_, found),) = match_names(Dictionary.of([("上海", "LOC")]), Corpus((sentence,)), MatchSettings())
    assert found == [Entity(2, 4, "LOC")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["kb folded=true"]}, r"method 'kb folded=true': there is no setting kb folded; there are: kb ignore_"),
        ({"methods": ["kb case"]}, r"method 'kb case': --set case: write KEY=VALUE"),
        ({"methods": ["kb"], "experiment": "audit"}, r"method 'kb': it matches a dictionary, and the experiment audit is "),
        ({"methods": ["kb"], "data": ["others"]}, r"^others, kb: the dictionary has no label of the test data, which are "
         r"LOC, PER; it has RIVER — rename them in one of the two"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    listed: PathTemplates, data: Path, changes: dict[str, Any], message: str
) -> None:
    copied(data / "toy", data / "others")
    (data / "others" / "dictionary.tsv").write_text("Po\tRIVER\n")
    with pytest.raises(ConfigError, match=message):
        plan(recipe(**changes), listed)


@pytest.mark.data
@pytest.mark.parametrize(("name", "exact", "folded"), [("bc5cdr", 65.0, 71.3), ("news", 47.8, 47.8)])
def test_what_real_dictionaries_find_by_themselves(data_folder: Path, name: str, exact: float, folded: float) -> None:
    dictionary = Dictionary.read(data_folder / name / "dictionary.tsv")
    test = Corpus.read(data_folder / name / "test.conll")
    for ignore_case, f1 in ((False, exact), (True, folded)):
        pairs = match_names(dictionary, test, MatchSettings(ignore_case=ignore_case))
        assert 100 * score_entities(pairs).f1 == pytest.approx(f1, abs=0.05)
