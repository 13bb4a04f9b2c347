"""``lacuner methods``."""

from textwrap import fill
from typing import Annotated, Any

import typer

from lacuner.cli.console import print_json
from lacuner.cli.options import Json


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One method, with its parameters.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """What methods there are, where they come from, and what can be set.

    Example: `lacuner methods uniform`
    """
    from lacuner.methods.registry import LEVELS, registry

    found = registry()
    chosen = [found.method(name)] if name else [found.methods[key] for key in sorted(found.methods)]
    if json:
        print_json(
            [
                {"name": m.name, "level": m.level, "paper": m.paper, "summary": m.summary, "parameters": _parameters(m)}
                for m in chosen
            ]
        )
        return
    if name:
        print(_describe(chosen[0]))
        return
    width = max(len(method.name) for method in chosen) + 1
    for level, kind_of in LEVELS.items():
        print(f"Methods that {'score spans' if level == 'span' else 'tag words'}:\n")
        for method in (method for method in chosen if method.level == level):
            print(f"{method.name:<{width}} {method.summary}")
            print(f"{'':<{width}} {method.paper}")
        print("\n  Their parts, which can be exchanged with --set KIND=NAME:")
        for kind in kind_of.kinds():
            choices = sorted(found.choices(kind, kind_of)) + (["none"] if kind_of.optional(kind) else [])
            print(f"    {kind:<11} {', '.join(choices)}")
        print()


def _parameters(method: Any) -> dict[str, Any]:
    """``{"negatives": "uniform", "negatives.ratio": 0.35, …}``."""
    return {key: default for key, default, _ in _rows(method)}


def _rows(method: Any) -> list[tuple[str, Any, str]]:
    from lacuner.training.settings import TrainingConfig

    rows: list[tuple[str, Any, str]] = []
    for kind in method.kinds():
        part = getattr(method, kind)
        if part is None:
            rows.append((kind, "none", ""))
            continue
        rows.append((kind, part.name, _first_sentence(part)))
        for field, info in type(part).model_fields.items():
            if field != "name":
                value = getattr(part, field)
                rows.append((f"{kind}.{field}", "none" if value is None else value, info.description or ""))
    described = TrainingConfig.model_fields
    rows += [
        (f"training.{name}", value, described[name].description or "" if name in described else "")
        for name, value in method.training.items()
    ]
    return rows


def _first_sentence(part: Any) -> str:
    line = next(iter((type(part).__doc__ or "").strip().splitlines()), "")
    return (line.partition(": ")[2] or line).replace("`", "")


def _describe(method: Any) -> str:
    lines = [f"{method.name} ({method.level} level)", fill(method.summary, 100), fill(method.paper, 100), ""]
    lines += [f"  {key:<24} {default!s:<14} {text}" for key, default, text in _rows(method)]
    return "\n".join([*lines, "", "Change any of them with --set KEY=VALUE."])
