from typing import Literal

import pytest
from pydantic import Field, ValidationError

from lacuner.errors import ConfigError
from lacuner.parts import Part, Settings, build_part, validate


class Sampler(Part):
    name: Literal["sampler"] = "sampler"
    ratio: float = Field(0.5, ge=0)
    width: int | None = Field(8, ge=1)
    note: str = ""


class Plain(Part):
    name: Literal["plain"] = "plain"


class Nested(Settings):
    sampler: Sampler = Sampler()


CHOICES = {"sampler": Sampler, "plain": Plain}


def refusal(value: object) -> str:
    with pytest.raises(ConfigError) as caught:
        build_part("negatives", value, CHOICES)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_part_is_named_or_described() -> None:
    assert build_part("negatives", "sampler", CHOICES) == Sampler()
    assert build_part("negatives", {"name": "sampler", "ratio": 2}, CHOICES) == Sampler(ratio=2.0)
    assert isinstance(build_part("negatives", "plain", CHOICES), Plain)


def test_none_means_absent_where_a_setting_may_be_absent() -> None:
    assert Sampler(width="none").width is None
    assert build_part("negatives", {"name": "sampler", "width": "none"}, CHOICES).width is None


def test_none_is_a_word_like_any_other_where_a_setting_is_text() -> None:
    assert Sampler(note="none").note == "none"


def test_none_is_refused_where_a_setting_must_be_there() -> None:
    assert refusal({"name": "sampler", "ratio": "none"}).startswith("negatives.ratio='none': ")


def test_numbers_may_come_as_text() -> None:
    assert Sampler(ratio="0.25", width="3") == Sampler(ratio=0.25, width=3)


def test_parts_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Sampler().ratio = 1.0


def test_an_unknown_name_is_answered_with_the_choices() -> None:
    assert refusal("smapler") == "there is no negatives 'smapler' (did you mean sampler?); choose plain, sampler"
    assert refusal({"name": 3}) == "there is no negatives 3; choose plain, sampler"
    assert refusal({"ratio": 3}) == "there is no negatives None; choose plain, sampler"


@pytest.mark.parametrize("value", [None, 3, ["sampler"], True])
def test_what_is_neither_name_nor_description_is_answered_with_the_choices(value: object) -> None:
    assert refusal(value).endswith("choose plain, sampler")


def test_an_unknown_setting_is_answered_with_those_there_are() -> None:
    expected = "there is no setting negatives.ration (did you mean ratio?); there are: "
    expected += "negatives.note, negatives.ratio, negatives.width"
    assert refusal({"name": "sampler", "ration": 1}) == expected
    assert refusal({"name": "plain", "ratio": 1}) == "there is no setting negatives.ratio; there are: none"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ratio", -1, "greater than or equal to 0"),
        ("ratio", "much", "number"),
        ("width", 0, "greater"),
        ("note", 3, "string"),
    ],
)
def test_a_wrong_value_is_named_with_its_setting(key: str, value: object, reason: str) -> None:
    message = refusal({"name": "sampler", key: value})
    assert message.startswith(f"negatives.{key}={value!r}: ")
    assert reason in message


def test_a_wrong_value_inside_another_part_is_named_by_its_whole_path() -> None:
    with pytest.raises(ConfigError, match=r"^method\.sampler\.ratio=-1: "):
        validate(Nested, {"sampler": {"ratio": -1}}, "method.")


def test_defaults_are_checked_too() -> None:
    class Careless(Settings):
        ratio: float = Field(-1.0, ge=0)

    with pytest.raises(ConfigError, match=r"^ratio=-1\.0: "):
        validate(Careless, {})
