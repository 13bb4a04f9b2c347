"""Parts: typed, named, frozen bundles of parameters from which encoders, heads and methods are composed."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from lacuner.errors import ConfigError, did_you_mean


class Settings(BaseModel):
    """Frozen, typed settings without extra fields. ``"none"`` unsets an optional setting."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _read_none(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        optional = {name for name, field in cls.model_fields.items() if NoneType in get_args(field.annotation)}
        return {key: None if value == "none" and key in optional else value for key, value in data.items()}


class Part(Settings):
    """Base of every part. A subclass declares its parameters as fields; ``name`` is its user-facing name."""

    name: str


AnyPart = TypeVar("AnyPart", bound=Part)
AnyModel = TypeVar("AnyModel", bound=BaseModel)


def build_part(kind: str, value: object, choices: Mapping[str, type[AnyPart]]) -> AnyPart:
    """Build a part from a setting, such as ``"uniform"`` or ``{"name": "uniform", "ratio": 0.5}``."""
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{kind}={value!r} is no {kind}; choose {', '.join(sorted(choices))}")
    name = value.get("name")
    if not isinstance(name, str) or name not in choices:
        meant = did_you_mean(name, choices)
        raise ConfigError(f"there is no {kind} {name!r}{meant}; choose {', '.join(sorted(choices))}")
    return validate(choices[name], value, f"{kind}.")


def _innermost(model: type[BaseModel], path: Sequence[int | str]) -> tuple[type[BaseModel], str]:
    """Find the model that the last name of a path should belong to, and the path to it."""
    inside = ""
    for name in path[:-1]:
        field = model.model_fields.get(str(name))
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            break
        model, inside = field.annotation, f"{inside}{name}."
    return model, inside


def validate(model: type[AnyModel], value: Mapping[str, Any], prefix: str = "") -> AnyModel:
    """Build a pydantic model, or raise an error that says which setting is wrong."""
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            inner, inside = _innermost(model, first["loc"])
            fields = sorted(field for field in inner.model_fields if field != "name")
            known = ", ".join(prefix + inside + field for field in fields) or "none"
            meant = did_you_mean(first["loc"][-1], fields)
            raise ConfigError(f"there is no setting {key}{meant}; there are: {known}") from None
        if first["type"] == "missing":
            raise ConfigError(f"{key} is missing") from None
        field = model.model_fields.get(str(first["loc"][0])) if first["loc"] else None
        meaning = f" ({field.description})" if field is not None and field.description else ""
        raise ConfigError(f"{key}={first['input']!r}: {first['msg'].lower()}{meaning}") from None
