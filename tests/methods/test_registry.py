import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from lacuner.methods.composition import Draw, Negatives
from torch import Tensor

from lacuner.errors import ConfigError
from lacuner.methods import registry as registry_module
from lacuner.methods.full import METHODS, All
from lacuner.methods.registry import ENTRY_POINTS, Registry, registry
from lacuner.parts import build_part


class Evens(Negatives):
    """``evens``: every other unknown span."""

    name: Literal["evens"] = "evens"

    def draw(self, draw: Draw) -> Tensor:
        return torch.arange(0, len(draw.unknown), 2)


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
        monkeypatch.setattr(registry_module, "entry_points", lambda group: points if group == ENTRY_POINTS else [])
        registry.cache_clear()
        return registry()

    yield pretend
    registry.cache_clear()


def test_our_presets_and_parts_are_there(install: Callable[..., Registry]) -> None:
    found = install()
    assert {"full", "uniform"} <= set(found.methods)
    assert {"all", "uniform"} <= set(found.choices("negatives"))
    assert "cross-entropy" in found.choices("loss")
    assert {"product", "width"} <= set(found.choices("head"))


def test_every_preset_is_made_of_registered_parts(install: Callable[..., Registry]) -> None:
    found = install()
    for method in found.methods.values():
        for kind in method.kinds():
            part = getattr(method, kind)
            assert part is None or found.choices(kind, method.level)[part.name] is type(part)
            assert part is not None or method.optional(kind)


def test_every_preset_names_its_paper_and_its_idea(install: Callable[..., Registry]) -> None:
    for name, method in install().methods.items():
        assert method.name == name
        assert method.paper
        assert method.summary.endswith(".")


def test_an_unknown_method_is_answered_with_the_choices(install: Callable[..., Registry]) -> None:
    with pytest.raises(ConfigError, match=r"there is no method 'ful'; choose .*full.*uniform"):
        install().method("ful")


def test_an_unknown_part_is_answered_with_the_choices(install: Callable[..., Registry]) -> None:
    with pytest.raises(ConfigError, match=r"there is no negatives 'unifrm'; choose all.*uniform"):
        build_part("negatives", "unifrm", install().choices("negatives"))


def test_two_parts_of_the_same_name_are_refused() -> None:
    found = Registry()
    found.add(SimpleNamespace(PARTS=(All,)))
    with pytest.raises(ConfigError, match="two negatives entries are called 'all'"):
        found.add(SimpleNamespace(PARTS=(OtherAll,)))
    assert found.choices("negatives")["all"] is All


def test_two_methods_of_the_same_name_are_refused() -> None:
    found = Registry()
    found.add(SimpleNamespace(METHODS=METHODS))
    with pytest.raises(ConfigError, match="two method entries are called 'full'"):
        found.add(SimpleNamespace(METHODS=(METHODS[0].model_copy(update={"paper": "another"}),)))


def test_the_same_module_may_be_added_twice() -> None:
    found = Registry()
    for _ in range(2):
        found.add(SimpleNamespace(PARTS=(All,), METHODS=METHODS))
    assert set(found.methods) == {"full"}


def test_the_methods_of_an_installed_package_are_found(install: Callable[..., Registry]) -> None:
    found = install(foreign=FOREIGN)
    assert found.method("foreign").name == "foreign"
    assert found.choices("negatives")["evens"] is Evens
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
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "broken.methods" in record.getMessage()
    assert not record.getMessage().endswith(": "), "it says what is wrong"
    assert found.choices("negatives")["all"] is All
    assert found.method("full") is METHODS[0]
    assert "foreign" in found.methods, "a broken neighbour does not matter"
