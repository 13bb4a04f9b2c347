import importlib
import logging
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import pytest

from lacuner import registry as module
from lacuner.errors import ConfigError
from lacuner.parts import Part
from lacuner.registry import Registry


class Animal(Part):
    """What others are kinds of."""


class Preset(Part):
    """What has instances with a name."""


def a_part(called: str, base: type[Part] = Animal) -> type[Part]:
    return type(called.title(), (base,), {"__annotations__": {"name": Literal[called]}, "name": called})  # type: ignore[valid-type]


CAT, DOG, OTHER_DOG = a_part("cat"), a_part("dog"), a_part("dog")


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty package called ``zoo``."""
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path / "zoo"
    for name in [name for name in sys.modules if name.partition(".")[0] == "zoo"]:
        del sys.modules[name]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What other packages offer: the module of each entry point, or the error that importing it raises."""
    modules: dict[str, Any] = {}

    class Point(EntryPoint):
        def load(self) -> Any:
            if isinstance(modules[self.name], Exception):
                raise modules[self.name]
            return modules[self.name]

    monkeypatch.setattr(
        module, "entry_points", lambda group: [Point(name, f"{name}_module", group) for name in modules]
    )
    return modules


def a_registry(**presets: type[Part]) -> Registry:
    return Registry("zoo", {"animal": Animal}, presets)


def own(zoo: Path, name: str, **lists: tuple[object, ...]) -> None:
    """A module of the package with these lists."""
    (zoo / f"{name}.py").write_text("")
    importlib.invalidate_caches()
    loaded = importlib.import_module(f"zoo.{name}")
    for attribute, value in lists.items():
        setattr(loaded, attribute, value)


def foreign(**lists: tuple[object, ...]) -> ModuleType | SimpleNamespace:
    return SimpleNamespace(**lists)


def test_parts_come_from_all_modules_of_the_package_and_from_entry_points(zoo: Path, installed: dict[str, Any]) -> None:
    own(zoo, "cats", PARTS=(CAT,))
    own(zoo, "helping")
    installed["kennel"] = foreign(PARTS=(DOG,))
    animals = a_registry().entries("animal")
    assert dict(animals) == {"cat": CAT, "dog": DOG}
    assert len(animals) == 2
    assert "cow" not in animals
    with pytest.raises(KeyError):
        animals["cow"]


def test_asking_for_one_of_ours_imports_no_other_package(zoo: Path, installed: dict[str, Any]) -> None:
    own(zoo, "cats", PARTS=(CAT,))
    installed["kennel"] = foreign(PARTS=(DOG,))
    registry = a_registry()
    animals = registry.entries("animal")
    assert "own" not in vars(registry), "nothing is imported before somebody asks"
    assert animals["cat"] is CAT
    assert "cat" in animals
    assert "installed" not in vars(registry)
    assert animals["dog"] is DOG
    assert "installed" in vars(registry)


def test_presets_are_instances_by_name(zoo: Path, installed: dict[str, Any]) -> None:
    rex, tom = Preset(name="rex"), Preset(name="tom")
    own(zoo, "cats", PARTS=(CAT,), PRESETS=(tom,))
    installed["kennel"] = foreign(PRESETS=(rex,))
    registry = a_registry(PRESETS=Preset)
    assert dict(registry.entries("PRESETS")) == {"tom": tom, "rex": rex}
    assert dict(registry.entries("animal")) == {"cat": CAT}


BROKEN = {
    "an import that fails": (ImportError("no module named tail"), "no module named tail"),
    "a name of ours": (foreign(PARTS=(a_part("cow"), a_part("cat"))), "'cat'"),
    "one name twice": (foreign(PARTS=(a_part("cow"), DOG, OTHER_DOG)), "'dog'"),
    "a part of another kind": (foreign(PARTS=(a_part("cow"), a_part("stone", Part))), "animal"),
    "an instance instead of a class": (foreign(PARTS=(a_part("cow"), CAT())), "animal"),
    "a part without a name": (foreign(PARTS=(a_part("cow"), Animal)), "no name"),
    "a preset of another class": (foreign(PARTS=(a_part("cow"),), PRESETS=(CAT(),)), "Preset"),
    "no list at all": (foreign(parts=(a_part("cow"),)), "PARTS or PRESETS"),
}


@pytest.mark.parametrize(("broken", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_left_out_with_a_warning(
    broken: Any, reason: str, zoo: Path, installed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    own(zoo, "cats", PARTS=(CAT,))
    installed.update(broken=broken, kennel=foreign(PARTS=(DOG,)))
    with caplog.at_level(logging.WARNING):
        assert dict(a_registry(PRESETS=Preset).entries("animal")) == {"cat": CAT, "dog": DOG}
    (record,) = caplog.records
    assert "broken_module" in record.getMessage()
    assert reason in record.getMessage()


def test_of_two_packages_with_one_name_the_first_stays(
    zoo: Path, installed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    installed.update(b=foreign(PARTS=(OTHER_DOG,)), a=foreign(PARTS=(DOG,)), c=foreign(PARTS=(DOG,)))
    with caplog.at_level(logging.WARNING):
        assert dict(a_registry().entries("animal")) == {"dog": DOG}
    (record,) = caplog.records
    assert "b_module" in record.getMessage()
    assert "two animal entries are called 'dog'" in record.getMessage()


def test_entries_may_exclude_each_other_for_other_reasons(
    zoo: Path, installed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    def eats(entry: Any, other: Any) -> str | None:
        return f"{entry.name} eats {other.name}" if entry.name == "cat" else None

    tom, cat = Preset(name="tom"), Preset(name="cat")
    own(zoo, "pets", PETS=(tom,))
    installed["shelter"] = foreign(PETS=(cat,))
    registry = Registry("zoo", presets={"PETS": Preset}, group="pets", conflict=eats)
    with caplog.at_level(logging.WARNING):
        assert dict(registry.entries("PETS")) == {"tom": tom}
    (record,) = caplog.records
    assert record.getMessage() == "shelter_module (entry point 'shelter' of pets) is left out: cat eats tom"


def test_a_mistake_of_our_own_is_an_error(zoo: Path, installed: dict[str, Any]) -> None:
    own(zoo, "cats", PARTS=(CAT,))
    own(zoo, "dogs", PARTS=(a_part("cat"),))
    with pytest.raises(ConfigError, match="'cat'"):
        a_registry().entries("animal")["cat"]


def test_a_registry_may_include_another(zoo: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Its entries are offered, too, and nothing may take their names."""
    (zoo / "park.py").write_text("from test_registry import CAT\nPARTS = (CAT,)\n")
    offered = {"zoo": SimpleNamespace(PARTS=(DOG,)), "park": SimpleNamespace(PARTS=(OTHER_DOG,))}

    class Point(EntryPoint):
        def load(self) -> Any:
            return offered[self.name]

    monkeypatch.setattr(module, "entry_points", lambda group: [Point(group, f"{group}_module", group)])
    inner = Registry("zoo", {"animal": Animal})
    outer = Registry("zoo", {}, {"PRESETS": Preset}, group="park", includes=[inner])
    monkeypatch.setitem(sys.modules, "test_registry", sys.modules[__name__])
    with caplog.at_level(logging.WARNING, "lacuner"):
        assert dict(outer.entries("animal")) == {"cat": CAT, "dog": DOG}
    assert "park_module" in caplog.text
    assert "two animal entries are called 'dog'" in caplog.text
