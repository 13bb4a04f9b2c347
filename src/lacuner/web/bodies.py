"""Request bodies: JSON validation, with errors that name the field as written by the user."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from lacuner.corpus.formats.json_lines import UnfitJSONError, decode_json
from lacuner.errors import did_you_mean
from lacuner.web.dialects.dialect import InvalidRequestError

B = TypeVar("B", bound=BaseModel)
_WANTED = {
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a number",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "{expected}",
    "missing": "given",
}
"""Expected value of a field, by type of pydantic's error."""


async def content_of(request: Request) -> Any:
    """The JSON value in the body."""
    try:
        return decode_json((await request.body()).decode("utf-8-sig"))
    except ClientDisconnect:  # nobody reads the response, but a traceback would be logged
        raise HTTPException(400, "The body breaks off.") from None
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"The body is not UTF-8, from byte {error.start} on.") from None
    except json.JSONDecodeError as error:
        raise HTTPException(400, f"The body is not JSON: {error}.") from None
    except UnfitJSONError as error:
        raise HTTPException(400, f"The body cannot be read: {error.what} — {error.remedy}.") from None
    except RecursionError:
        raise HTTPException(400, "The body is nested too deeply.") from None


def read_body(kind: type[B], content: Any) -> B:
    """Validate the body.

    Raises:
        InvalidRequestError: a field is invalid.
    """
    if not isinstance(content, dict):
        names = ", ".join(field.alias or name for name, field in kind.model_fields.items())
        raise InvalidRequestError("", f"The body must be a JSON object; its fields are {names}")
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        where, why = _explained(error.errors(include_url=False, include_input=False), content, kind)
        raise InvalidRequestError(where, why) from None


def _explained(errors: list[ErrorDetails], content: Mapping[str, Any], kind: type[BaseModel]) -> tuple[str, str]:
    """Position and reason of the first error; of several alternatives, the best match counts."""
    first = errors[0]
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        meant = did_you_mean(str(first["loc"][0]), kind.model_fields)
        return str(first["loc"][0]), f"there is no such field{meant}; there are: {', '.join(kind.model_fields)}"
    places = [(_place(error["loc"], content), error) for error in errors if error["loc"][0] == first["loc"][0]]
    deepest = max(places, key=lambda place: len(place[0]))[0]
    reasons = dict.fromkeys(_reason(error) for place, error in places if place == deepest)
    return ".".join(map(str, deepest)), _joined(reasons)


def _place(location: Iterable[int | str], content: Any) -> tuple[int | str, ...]:
    """The part of pydantic's location that is in the body, without names of alternatives (``list[str]``)."""
    place: list[int | str] = []
    for step in location:
        inside = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
        if step in inside:
            content = content[step]
        elif not isinstance(content, dict):
            continue
        place.append(step)
    return tuple(place)


def _reason(error: ErrorDetails) -> str:
    if error["type"] == "string_too_long":
        return f"it has more than {error['ctx']['max_length']:,} characters"
    if error["type"] in _WANTED:
        return "it must be " + _WANTED[error["type"]].format(**error.get("ctx", {}))
    return error["msg"][:1].lower() + error["msg"][1:]


def _joined(reasons: Iterable[str]) -> str:
    """Join reasons, as in ``it must be a string or a list``."""
    first, *others = reasons
    return " or ".join([first, *(other.removeprefix("it must be ") for other in others)])


def schema_of(*kinds: type[BaseModel]) -> dict[str, Any]:
    """Schema of the bodies accepted by a route, for its description."""
    schemas = [kind.model_json_schema(ref_template=f"#/paths/~1{kind.__name__}/{{model}}") for kind in kinds]
    for schema in schemas:  # inline the definitions of parts
        parts = schema.pop("$defs", {})
        for value in schema["properties"].values():
            for option in value.get("anyOf", ()):
                if "$ref" in option:
                    option.update(parts[option.pop("$ref").rsplit("/", 1)[1]])
    content = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": content}}}}
