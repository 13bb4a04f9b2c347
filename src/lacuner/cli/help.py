"""How ``--help`` looks: what an option takes, in one word; nothing for flags; code in bold, and every sign as it is written."""

import re
from pathlib import Path
from typing import Any, get_args

from rich.markup import escape
from typer import BadParameter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

DATA, MODEL, TRAINING, MATCHING, OUTPUT, RUNNING = "Data", "Model", "Training", "Matching", "Output", "Running"
"""Titles of groups of options."""
_CODE = re.compile("`([^`]+)`")
_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")
_PLAIN = {
    r"^Value error, ": "",
    "^Input should be": "it must be",
    ", unable to parse string as an? [a-z]+": "",
    r"\ba valid integer\b": "a whole number",
    r"\ba valid number\b": "a number",
}
"""What typer takes over from pydantic about a value, and how a person would say it."""
_WORDS = {int: "N", float: "X", Path: "PATH", str: "TEXT"}
"""What values are called where an option does not say it."""


def typeset(text: str | None) -> str | None:
    """Help text as rich markup: what is between backticks in bold, everything else as it is; lines are wrapped again."""
    return None if text is None else _CODE.sub(r"[bold]\1[/bold]", escape(_LINE_END.sub(" ", text)))


class _Typeset:
    """Mixed into commands and groups."""

    help: str | None
    params: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = typeset(self.help)
        for parameter in self.params:
            parameter.help = typeset(parameter.help)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except BadParameter as error:
            for pattern, plain in _PLAIN.items():
                error.message = re.sub(pattern, plain, error.message)
            raise
        return parsed

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperArgument):
                vars(parameter)["display_type_rich"] = lambda ctx: None  # its name says enough
            elif isinstance(parameter, TyperOption) and parameter.metavar is None:
                parameter.metavar = _word(parameter)
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``[OPTIONS] MODEL INPUT...``, without the braces that typer puts around what is required."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [re.sub(r"^\{(.*?)(?:\.\.\.)?\}", r"\1", piece) for piece in pieces]


def _word(option: TyperOption) -> str | None:
    """What an option takes."""
    if option.is_flag:
        return ""
    kind = option.type_descriptor.annotation
    return next((word for known, word in _WORDS.items() if known in (kind, *get_args(kind))), None)


class Verb(_Typeset, TyperCommand):
    """A command. With ``--device``, everything that it trains or loads runs there, or it ends before it has begun."""

    def invoke(self, ctx: Any) -> Any:
        device = ctx.params.get("device")
        if device is None:
            return super().invoke(ctx)
        from lacuner.encoders.device import on_device

        with on_device(device):
            return super().invoke(ctx)


class Verbs(_Typeset, TyperGroup):
    """A group of commands."""
