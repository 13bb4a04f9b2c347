import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from handmade import CONTENT, recipe
from hypothesis import given
from hypothesis import strategies as st

from lacuner.bench import recipe as module
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.planning import plan
from lacuner.bench.recipe import (
    PROFILES,
    Recipe,
    build_recipe,
    find_recipe,
    known_recipes,
    read_recipe,
    recipe_name,
)
from lacuner.errors import ConfigError

TOML = """
title = "Two methods"
data = ["one", "two"]
methods = ["full", "crf"]
hidden = [0.0, 0.2, 0.4, 0.6]
encoders = ["big"]
baseline = "full"
measure = ["missampling"]

[settings]
training = { epochs = 9, max_grad_norm = 1.0 }

[dataset.one]
folder = "somewhere/else"

[encoder.big]
model = "bert-base-cased"

[[when]]
encoders = ["big"]
methods = ["crf"]
skip = true

[profile.quick]
sentences.train = 30

[profile.full]
seeds = [7]
settings.training.epochs = 20
settings.encoder.dropout = 0.1

[profile.tiny]
data = ["one"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


def leaves(table: dict[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, (*place, key))
        else:
            yield (*place, key), value


TABLES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.integers() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
    max_leaves=12,
).filter(lambda value: isinstance(value, dict))


@given(TABLES, TABLES)
def test_a_profile_replaces_values_and_lists_and_leaves_the_rest_of_each_table(
    below: dict[str, Any], above: dict[str, Any]
) -> None:
    content = CONTENT | {"settings": below, "profile": {"standard": {"settings": above}}}
    before = deepcopy(content)
    merged = dict(leaves(build_recipe(content, "standard").settings))
    new = dict(leaves(above))

    def is_replaced(place: tuple[str, ...]) -> bool:
        return any(place[: len(other)] == other[: len(place)] for other in new)

    kept = {place: value for place, value in leaves(below) if not is_replaced(place)}
    assert merged == kept | new
    assert content == before


def test_a_profile_changes_what_it_names_and_nothing_else(file: Path) -> None:
    standard, full, tiny = (read_recipe(file, profile) for profile in ("standard", "full", "tiny"))
    assert (standard.seeds, full.seeds, tiny.seeds) == ((1, 2, 3), (7,), (1, 2, 3))
    assert (standard.data, full.data, tiny.data) == (("one", "two"), ("one", "two"), ("one",))
    assert standard.settings == {"training": {"epochs": 9, "max_grad_norm": 1.0}}
    assert full.settings == {"training": {"epochs": 20, "max_grad_norm": 1.0}, "encoder": {"dropout": 0.1}}
    assert standard.title == full.title == tiny.title == "Two methods"


def test_the_standard_profile_is_taken_unless_another_is_asked_for() -> None:
    content = CONTENT | {"profile": {"standard": {"seeds": [5]}}}
    assert build_recipe(content, "standard").seeds == (5,)
    assert build_recipe(content, "full").seeds == (1,)


def test_quick_needs_no_data_and_few_sentences(file: Path) -> None:
    quick = read_recipe(file, "quick")
    assert (quick.data, quick.encoders, quick.when) == (("sample",), ("recurrent",), ())
    assert quick.methods == ("full", "crf")
    assert quick.hidden == (0.2, 0.6)  # the least and the greatest
    assert (quick.sentences.train, quick.sentences.dev) == (30, 60)
    assert quick.settings["training"] == {"epochs": 15, "max_grad_norm": 1.0, "batch_tokens": 64}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data": ["nowhere"], "dataset": {"nowhere": {"trusted": "t.conll", "complete": True}}},
        {"encoders": ["bert-base-cased"], "when": [{"encoders": ["bert-base-cased"], "skip": True}]},
        {"hidden": [0.0]},
        {"hidden": [0.9]},
        {"methods": ["uniform"], "experiment": "uncertainty"},
        {"methods": ["crf", "token head.angle=true"], "experiment": "o-values"},
        {"measure": ["missampling", "vectors"], "naive": "full", "baseline": "uniform", "paper": {"full": {"toy": 3}}},
        {"sentences": {"train": 9, "test": 9}, "settings": {"training": {"epochs": 99}}},
    ],
)
def test_quick_works_for_any_recipe(changes: dict[str, Any], tmp_path: Path) -> None:
    runs = plan(build_recipe(CONTENT | changes, "quick"), PathTemplates(tmp_path / "empty"))
    assert {run.data for run in runs} == {"sample"}
    assert all(run.hidden or run.complete for run in runs)
    assert {run.config["settings"]["training"]["epochs"] for run in runs} == {15}


def test_a_recipe_can_be_written_as_json_and_read_again(file: Path) -> None:
    for profile in PROFILES:
        one = read_recipe(file, profile)
        assert Recipe.model_validate(json.loads(one.model_dump_json())) == one


def test_transformer_is_standard_with_another_encoder_and_two_seeds() -> None:
    standard = {"hidden": [0.3], "seeds": [7], "paper": {"full": {"toy 0.3": 1.0}}}
    paper = {"full": {"toy 0.3": 2.0}}
    content = CONTENT | {"paper": paper, "profile": {"standard": standard, "full": {"hidden": [0.9]}}}
    small = build_recipe(content, "transformer")
    assert (small.encoders, small.seeds, small.hidden) == (("transformer",), (1, 2), (0.3,))
    assert small.paper == paper  # that of standard is about another encoder
    assert small.encoder_of("transformer").settings["encoder"]["model"].endswith("distilbert-base-cased")
    own = {"transformer": {"model": "bert-base-cased"}}
    content |= {"encoder": own, "hidden": [0.3], "profile": {"transformer": {"seeds": [3]}}}
    assert build_recipe(content, "transformer").encoder_of("transformer").model == "bert-base-cased"
    assert build_recipe(content, "transformer").seeds == (3,)


def test_a_recipe_names_what_is_defined_in_the_file_that_it_includes(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[dataset.toy]\nfolder = "a"\ntest = "t.conll"\n[dataset.other]\nfolder = "b"\n'
        '[method.half]\nmethod = "uniform"\nsettings.negatives.ratio = 0.5\n'
        '[language.la]\nrecurrent.encoder.vectors = "v.txt"\n'
    )
    content = CONTENT | {"methods": ["half"], "include": "mine.toml", "dataset": {"toy": {"folder": "c"}}}
    built = build_recipe(content, "standard", tmp_path)
    assert built.dataset.keys() == {"toy"}
    assert (built.dataset_of("toy").folder, built.dataset_of("toy").test) == ("c", "t.conll")
    assert built.method_of("half") == ("uniform", {"negatives": {"ratio": 0.5}})
    assert built.language.keys() >= {"la", "zh"}
    (tmp_path / "two.toml").write_text('include = "mine.toml"\ntitle = "T"\ndata = ["other"]\nmethods = ["full"]\n')
    assert read_recipe(tmp_path / "two.toml").dataset_of("other").folder == "b"


def test_without_including_it_nothing_is_known_about_a_dataset_of_that_name() -> None:
    for include, train in (({}, "train.conll"), ({"include": "corpora"}, "train.confmpu.conll")):
        assert build_recipe(CONTENT | include | {"data": ["bc5cdr"]}, "standard").dataset_of("bc5cdr").train == (train,)


@pytest.mark.parametrize(
    ("include", "message"),
    [
        (3, r"include=3: give corpora, or a file with tables for several recipes"),
        ("none.toml", r"none\.toml: No such file or directory — check the path"),
        (
            "bad.toml",
            r"bad\.toml: data belongs into a recipe; here are only tables: dataset, method, encoder, language",
        ),
        ("worse.toml", r"dataset is no table; write \[dataset\.NAME\]"),
    ],
)
def test_what_cannot_be_included_is_refused(include: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('data = ["toy"]')
    (tmp_path / "worse.toml").write_text("dataset = 3")
    with pytest.raises(ConfigError, match=message):
        build_recipe(CONTENT | {"include": include}, "standard", tmp_path)


def test_a_single_file_need_not_be_a_list() -> None:
    one = recipe(dataset={"toy": {"train": "a.conll", "trusted": "b.conll"}}).dataset_of("toy")
    assert (one.train, one.trusted) == (("a.conll",), ("b.conll",))


def test_names_without_a_table_mean_themselves() -> None:
    plain = recipe(encoders=["bert-base-cased"])
    assert plain.dataset_of("toy").folder is None
    assert plain.dataset_of("toy").train == ("train.conll",)
    assert plain.encoder_of("bert-base-cased").model == "bert-base-cased"


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"sedes": [1]}, r"there is no setting sedes \(did you mean seeds\?\); there are: about, baseline, data, .*seeds"),
    (
        {"dataset": {"toy": {"tran": "x"}}},
        r"no setting dataset\.toy\.tran \(did you mean train\?\); there are: .*dataset\.toy\.train",
    ),
    ({"dataset": {"toy": {"sentences": {"trian": 3}}}}, r"dataset\.toy\.sentences\.trian"),
    ({"dataset": {"toy": "here"}}, r"dataset\.toy is no table; write \[dataset\.toy\]"),
    ({"dataset": ["toy"]}, r"dataset is no table; write \[dataset\.NAME\]"),
    ({"dataset": {"toy": {"language": "la"}}}, r"dataset\.toy\.language: la is not in the recipe; there are: .*zh"),
    (
        {"method": {"full": {"method": "full", "seting": {}}}},
        r"no setting method\.full\.seting \(did you mean settings\?\); .*method\.full\.settings",
    ),
    ({"method": {"full": {"settings": {}}}}, r"method\.full\.method is missing"),
    ({"encoder": {"recurrent": {"model": "recurrent", "size": 3}}}, r"no setting encoder\.recurrent\.size"),
    (
        {"when": [{"skip": True}, {"method": ["full"]}]},
        r"no setting when\[2\]\.method \(did you mean methods\?\); .*when\[2\]\.methods",
    ),
    ({"when": [3]}, r"when\[1\]"),
    ({"when": {"skip": True}}, r"when="),
    ({"sentences": {"train": 0}}, r"sentences\.train=0: .*greater than or equal to 1"),
    ({"baseline": "fulll"}, r"baseline: fulll is not in the recipe; there are: full, uniform"),
    ({"naive": "crf"}, r"naive: crf is not in the recipe; there are: full, uniform"),
    ({"paper": {"crf": {"toy": 1.0}}}, r"paper: crf is not in the recipe; there are: full, .*uniform"),
    ({"paper": {"top-k": {"toy": 1.0}}}, r"paper: top-k is not in the recipe"),
    ({"paper": {"full · flat": {"toy": 1.0}}}, r"paper: full · flat is not in the recipe; .*full · recurrent"),
    ({"paper": {"full": {"toy": "high"}}}, r"paper\.full\.toy='high': .*number"),
    ({"method": {"other": {"method": "full"}}}, r"method: other is not in the recipe; there are: full, uniform"),
    ({"dataset": {"other": {}}}, r"dataset: other is not in the recipe; there are: sample, toy"),
    ({"encoder": {"other": {"model": "x"}}}, r"encoder: other is not in the recipe; there are: recurrent"),
    ({"when": [{"methods": ["crf"]}]}, r"when\[1\]\.methods: crf is not in the recipe; there are: full, uniform"),
    ({"when": [{"data": ["toys"]}]}, r"when\[1\]\.data: toys is not in the recipe; there are: sample, toy"),
    ({"when": [{}, {"encoders": ["flat"]}]}, r"when\[2\]\.encoders: flat is not in the recipe; .*: recurrent"),
    ({"when": [{"hidden": [0.7]}]}, r"when\[1\]\.hidden: 0\.7 is not in the recipe; there are: 0\.0, 0\.5"),
    ({"data": ["toy", "toy"]}, r"data=.*toy is listed twice"),
    ({"methods": ["full", "full"]}, r"methods=.*full is listed twice"),
    ({"encoders": ["flat", "flat"]}, r"encoders=.*flat is listed twice"),
    ({"hidden": [0.5, 0.5]}, r"hidden=.*0\.5 is listed twice"),
    ({"seeds": [3, 4, 3]}, r"seeds=.*3 is listed twice"),
    ({"hidden": [1.0]}, r"hidden=.*at least 0 and less than 1"),
    ({"hidden": [0.5, -0.1]}, r"hidden=.*at least 0 and less than 1"),
    ({"hidden": [float("nan")]}, r"hidden=.*at least 0 and less than 1"),
    ({"data": []}, r"data=\[\]: .*at least 1"),
    ({"seeds": []}, r"seeds=\[\]: .*at least 1"),
    ({"methods": ["full", " "]}, r"methods=.*a name is empty"),
    ({"methods": "full"}, r"methods='full'"),
    ({"experiment": "magic"}, r"experiment='magic': .*'training', 'uncertainty', 'o-values', 'audit' or 'review'"),
    ({"measure": ["heat"]}, r"measure\.0='heat': .*'missampling', 'vectors' or 'threshold-size'"),
    ({"experiment": "uncertainty"}, r"methods: uncertainty is about three models of one method"),
    (
        {"sentences": {"tain": 5}},
        r"there is no setting sentences\.tain \(did you mean train\?\); there are: sentences\.dev, .*sentences\.train",
    ),
    (
        {"dataset": {"toy": {"sentences": {"tain": 5}}}},
        r"setting dataset\.toy\.sentences\.tain \(did you mean train\?\); there are: dataset\.toy\.sen",
    ),
    ({"when": [3]}, r"when\[1\] is no table; write \[\[when\]\]"),
    ({"when": [{"seeds": [9]}]}, r"when\[1\]\.seeds: 9 is not in the recipe; there are: 1"),
    ({"seeds": [10**20]}, r"seeds\.0=1\d+: input should be less than 4294967296"),
    ({"paper": {"full": {"toi": 1.0}}}, r"paper\.full: toi is not in the recipe; there are: .*toy"),
    (
        {"experiment": "audit", "naive": "full"},
        r"naive: the experiment audit has no gap in F1 to close; leave it out",
    ),
    (
        {"data": ["toy", "toy 0.5"], "hidden": [0.0, 0.5]},
        r"data: two columns would be called 'toy 0.5'; rename a dataset",
    ),
    (
        {"methods": ["full", "full, all labels"]},
        r"methods: 'full, all labels' is the name of a row that is trained on all labels",
    ),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_a_mistake_is_refused_with_what_and_where(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        build_recipe(CONTENT | changes, "standard")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("profile", ["standard", "quick", "full"])
@pytest.mark.parametrize(("changes", "message"), MISTAKES[:20:3] + MISTAKES[24:28])
def test_a_mistake_in_a_profile_that_is_not_asked_for_is_refused_too(
    changes: dict[str, Any], message: str, profile: str
) -> None:
    with pytest.raises(ConfigError, match=f"^profile tiny: .*{message}"):
        build_recipe(CONTENT | {"profile": {"tiny": changes}}, profile)


def test_what_only_another_profile_has_may_be_talked_about() -> None:
    other = {"methods": ["crf"], "data": ["more"], "encoders": ["flat"], "hidden": [0.9]}
    said = {
        "baseline": "crf", "naive": "crf", "paper": {"crf · flat": {"more 0.9": 1.0}}, "dataset": {"more": {}},
        "when": [{"methods": ["crf"], "data": ["more"], "encoders": ["flat"], "hidden": [0.9]}],
    }  # fmt: skip
    with pytest.raises(ConfigError):
        build_recipe(CONTENT | said, "standard")
    assert build_recipe(CONTENT | said | {"profile": {"full": other}}, "standard").methods == ("full", "uniform")


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (3, r"profile is no table; write \[profile\.standard\]"),
        ({"full": 3}, "profile full: a profile is a table, not 3"),
    ],
)
def test_a_profile_is_a_table(profile: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_recipe(CONTENT | {"profile": profile}, "standard")


def test_a_profile_that_is_nearly_one_of_the_usual_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"profile standrad: did you mean standard\?"):
        build_recipe(CONTENT | {"profile": {"standrad": {"seeds": [1]}}}, "standard")


def test_the_recipe_in_the_docs_is_a_recipe() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    for profile in PROFILES:
        assert build_recipe(tomllib.loads(block), profile).methods[-1] == "mixed"


def test_the_message_says_which_file_it_is_about(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"two\.toml: there is no profile hasty; there are: quick, .*, full, tiny"):
        read_recipe(file, "hasty")
    file.write_text(TOML + "[dataset.two]\nfile = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"two\.toml: there is no setting dataset\.two\.file"):
        read_recipe(file)
    file.write_text("title = \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"two\.toml: not TOML \(.*line 1.*\) — correct it there"):
        read_recipe(file)
    file.write_bytes(b'title = "\xff"')
    with pytest.raises(ConfigError, match=r"two\.toml: not TOML"):
        read_recipe(file)
    with pytest.raises(ConfigError, match="Is a directory — check the path"):
        read_recipe(tmp_path)


def test_a_recipe_is_found_by_its_path_or_by_its_name(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RECIPES", tmp_path)
    assert known_recipes() == {"two": file}
    assert find_recipe("two") == find_recipe(str(file)) == file
    with pytest.raises(ConfigError, match="there is no recipe three; give a TOML file, or one of: two"):
        find_recipe("three")
    for path in ("three.toml", "folder/three"):
        with pytest.raises(ConfigError, match=f"{path}: there is no such file — check the path"):
            find_recipe(path)


def test_a_recipe_is_called_what_the_command_takes(tmp_path: Path) -> None:
    own = tmp_path / "masked.toml"
    own.write_text("")
    assert recipe_name(own) == "masked.toml"
    assert recipe_name(find_recipe("masked")) == "masked"


def test_a_mark_at_the_beginning_of_a_file_is_no_mistake(file: Path) -> None:
    before = read_recipe(file)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_recipe(file) == before


def test_reading_a_recipe_takes_no_model(file: Path) -> None:
    """``bench list`` and mistakes in recipes should not make anybody wait."""
    code = (
        "import sys; from pathlib import Path; from lacuner.bench.recipe import read_recipe;"
        f"read_recipe(Path({str(file)!r})); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_recipe_that_is_nested_too_deep_is_refused(tmp_path):
    path = tmp_path / "deep.toml"
    path.write_text(f"a = {'[' * 2000}{']' * 2000}")
    with pytest.raises(ConfigError, match=r"deep.toml: lists and tables are nested too deep"):
        read_recipe(path)
