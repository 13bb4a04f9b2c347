import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
import torch
from pydantic import SerializeAsAny
from torch import Tensor

from lacuner import registry as registries
from lacuner.errors import ConfigError
from lacuner.heads import CrfConfig, ProductConfig, SoftmaxConfig
from lacuner.methods.full import METHODS, All
from lacuner.methods.lacuner import FoldTeacher
from lacuner.methods.method import SpanMethod, TokenMethod
from lacuner.methods.parts import MethodPart, Negatives, SamplingContext
from lacuner.methods.registry import LEVELS, Registry, registry
from lacuner.methods.stages import Stage, StageContext
from lacuner.methods.two_step import METHODS as TWO_STEP
from lacuner.methods.two_step import OValues
from lacuner.parts import build_part


class Evens(Negatives):
    """``evens``: every other unknown span."""

    name: Literal["evens"] = "evens"

    def sample(self, context: SamplingContext) -> Tensor:
        return torch.arange(0, len(context.unknown), 2)


class OtherAll(Evens):
    """``all``: a name that is taken."""

    name: Literal["all"] = "all"


FOREIGN = SimpleNamespace(PARTS=(Evens,), METHODS=(METHODS[0].model_copy(update={"name": "foreign"}),))


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Registry]]:
    """Pretends that packages with these modules are installed; an exception is raised when its module is loaded."""

    def load(module: Any) -> Any:
        if isinstance(module, Exception):
            raise module
        return module

    def pretend(**modules: Any) -> Registry:
        points = [
            SimpleNamespace(name=name, value=f"{name}.methods", load=lambda module=module: load(module))
            for name, module in modules.items()
        ]
        monkeypatch.setattr(registries, "entry_points", lambda group: points if group == "lacuner.methods" else [])
        registry.cache_clear()
        return registry()

    yield pretend
    registry.cache_clear()


def test_our_presets_and_parts_are_there(install: Callable[..., Registry]) -> None:
    found = install()
    assert {"full", "uniform"} <= set(found.methods)
    assert {"all", "uniform"} <= set(found.choices("negatives", SpanMethod))
    assert "cross-entropy" in found.choices("loss", SpanMethod)
    assert {"product", "width"} <= set(found.choices("head", SpanMethod))


def test_every_preset_is_made_of_registered_parts(install: Callable[..., Registry]) -> None:
    found = install()
    for method in found.methods.values():
        for kind in method.kinds():
            part = getattr(method, kind)
            assert part is None or found.choices(kind, method)[part.name] is type(part)
            assert part is not None or method.optional(kind)


def test_every_preset_names_its_paper_and_its_idea(install: Callable[..., Registry]) -> None:
    for name, method in install().methods.items():
        assert method.name == name
        assert method.paper
        assert method.summary.endswith(".")


def test_an_unknown_method_is_answered_with_the_choices(install: Callable[..., Registry]) -> None:
    with pytest.raises(ConfigError, match=r"there is no method 'ful' \(did you mean full\?\); choose .*full.*uniform"):
        install().method("ful")


def test_an_unknown_part_is_answered_with_the_choices(install: Callable[..., Registry]) -> None:
    with pytest.raises(
        ConfigError, match=r"there is no negatives 'unifrm' \(did you mean uniform\?\); choose all.*uniform"
    ):
        build_part("negatives", "unifrm", install().choices("negatives", SpanMethod))


def test_of_two_parts_or_methods_of_the_same_name_the_second_is_refused(
    install: Callable[..., Registry], caplog: pytest.LogCaptureFixture
) -> None:
    found = install(
        part=SimpleNamespace(PARTS=(OtherAll,)),
        preset=SimpleNamespace(METHODS=(METHODS[0].model_copy(update={"paper": "another"}),)),
    )
    with caplog.at_level(logging.WARNING, "lacuner"):
        assert set(found.methods) == set(install().methods)
    one, other = (record.getMessage() for record in caplog.records)
    assert "part.methods" in one
    assert "two Negatives entries are called 'all'" in one
    assert "preset.methods" in other
    assert "two methods are called 'full'" in other
    assert found.choices("negatives", SpanMethod)["all"] is All
    assert found.method("full") is METHODS[0]


def test_the_same_module_may_be_named_twice(install: Callable[..., Registry], caplog: pytest.LogCaptureFixture) -> None:
    found = install(once=FOREIGN, again=FOREIGN, ours=SimpleNamespace(PARTS=(All,), METHODS=METHODS))
    with caplog.at_level(logging.WARNING, "lacuner"):
        assert set(found.methods) == {*install().methods, "foreign"}
    assert not caplog.records


class Everywhere(Stage):
    """``everywhere``: finds out nothing, at either level."""

    name: Literal["everywhere"] = "everywhere"

    def run(self, context: StageContext) -> None:
        return None


def test_a_part_can_be_chosen_at_the_levels_that_it_is_made_for(install: Callable[..., Registry]) -> None:
    found = install(foreign=SimpleNamespace(PARTS=(Everywhere,)))
    for stage in ("stage", "teacher"):
        assert found.choices(stage, SpanMethod)["everywhere"] is Everywhere
        assert "o-values" not in found.choices(stage, SpanMethod)
    assert found.choices("stage", TokenMethod)["everywhere"] is Everywhere
    assert found.choices("stage", TokenMethod)["o-values"] is OValues
    assert found.choices("teacher", SpanMethod)["folds"] is FoldTeacher
    assert found.choices("stage", TokenMethod)["folds"] is FoldTeacher, "taggers can have teachers, too"


def test_heads_and_losses_of_one_level_are_no_choices_at_the_other(install: Callable[..., Registry]) -> None:
    found = install()
    assert found.choices("head", SpanMethod)["product"] is ProductConfig
    assert found.choices("head", TWO_STEP[0])["crf"] is CrfConfig
    for kind in ("head", "loss"):
        assert set(found.choices(kind, SpanMethod)).isdisjoint(found.choices(kind, TokenMethod))


class Halves(CrfConfig):
    """``halves``: a head that comes with a method."""

    name: Literal["halves"] = "halves"


class OtherSoftmax(Halves):
    """``softmax``: a name that is taken by a head of ours."""

    name: Literal["softmax"] = "softmax"


def test_a_module_of_methods_may_bring_heads(install: Callable[..., Registry]) -> None:
    found = install(foreign=SimpleNamespace(PARTS=(Halves,)))
    assert found.choices("head", TokenMethod)["halves"] is Halves
    assert {"crf", "softmax"} <= set(found.choices("head", TokenMethod)), "beside ours"
    assert "halves" not in found.choices("head", SpanMethod)


def test_a_head_of_a_method_cannot_take_the_name_of_another(
    install: Callable[..., Registry], caplog: pytest.LogCaptureFixture
) -> None:
    found = install(foreign=SimpleNamespace(PARTS=(OtherSoftmax,)))
    with caplog.at_level(logging.WARNING, "lacuner"):
        assert found.choices("head", TokenMethod)["softmax"] is SoftmaxConfig
    assert "two tag head entries are called 'softmax'" in caplog.text


class Question(MethodPart):
    """A question that no other method answers."""


class Answer(Question):
    """``answer``: to it."""

    name: Literal["answer"] = "answer"


class Asking(TokenMethod):
    """Taggers that answer it."""

    part_types: ClassVar = {**TokenMethod.part_types, "question": Question}
    question: SerializeAsAny[Question] | None = None


def test_a_method_may_consist_of_parts_of_a_kind_of_its_own(install: Callable[..., Registry]) -> None:
    (two_step,) = TWO_STEP
    asking = Asking(**{**dict(two_step), "name": "asking"}, question=Answer())
    found = install(foreign=SimpleNamespace(PARTS=(Answer,), METHODS=(asking,)))
    assert found.choices("question", found.method("asking")) == {"answer": Answer}
    assert found.method_class("asking", "token") is Asking
    assert "question" in found.part_kinds()
    assert found.choices("stage", Asking) == found.choices("stage", TokenMethod)


def test_the_kinds_of_parts_are_those_of_both_levels(install: Callable[..., Registry]) -> None:
    both = {kind for method in LEVELS.values() for kind in method.kinds()}
    assert set(install().part_kinds()) == both | {"self_training"}, "which is roster's own"


def test_a_stored_method_is_of_its_own_class_or_of_its_level(install: Callable[..., Registry]) -> None:
    found = install()
    assert found.method_class("full", "span") is SpanMethod
    assert found.method_class("nobody-has-this", "token") is TokenMethod
    with pytest.raises(ConfigError, match=r"method\.level='page': there are methods of the levels span, token"):
        found.method_class("nobody-has-this", "page")


def test_the_methods_of_an_installed_package_are_found(install: Callable[..., Registry]) -> None:
    found = install(foreign=FOREIGN)
    assert found.method("foreign").name == "foreign"
    assert found.choices("negatives", SpanMethod)["evens"] is Evens
    assert {"full", "uniform"} <= set(found.methods)


@pytest.mark.parametrize(
    "broken",
    [
        ImportError("no module named nowhere"),
        SimpleNamespace(PARTS=(OtherAll,)),
        SimpleNamespace(PARTS=(int,)),
        SimpleNamespace(METHODS=("full",)),
        SimpleNamespace(METHODS=(METHODS[0].model_copy(update={"paper": "another"}),)),
    ],
    ids=["import", "taken part", "no part", "no method", "taken method"],
)
def test_a_broken_package_is_reported_and_leaves_ours_working(
    broken: Any, install: Callable[..., Registry], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "lacuner"):
        found = install(broken=broken, foreign=FOREIGN)
        assert len(found.methods) > 2
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "broken.methods" in record.getMessage()
    assert not record.getMessage().endswith(": "), "it says what is wrong"
    assert found.choices("negatives", SpanMethod)["all"] is All
    assert found.method("full") is METHODS[0]
    assert "foreign" in found.methods, "a broken neighbor does not matter"
