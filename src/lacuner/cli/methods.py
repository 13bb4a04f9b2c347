"""``lacuner methods``."""

from textwrap import fill
from typing import Annotated

import typer

from lacuner.cli.catalog import Catalog, MethodEntry, find_method, read_catalog
from lacuner.cli.console import print_json
from lacuner.cli.options import Json


def methods(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show this method and all its settings.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List the training methods, their papers and their settings.

    Example: `lacuner methods uniform`
    """
    catalog = read_catalog()
    chosen = [find_method(catalog, name)] if name else list(catalog["methods"].values())
    if json:
        print_json([entry | {"parameters": _values(entry)} for entry in chosen])
    elif name:
        print(_describe(chosen[0]))
    else:
        print(_list(catalog))


def _values(method: MethodEntry) -> dict[str, object]:
    """``{"negatives": "uniform", "negatives.ratio": 0.35, …}``."""
    return {parameter["key"]: parameter["value"] for parameter in method["parameters"]}


def _list(catalog: Catalog) -> str:
    lines: list[str] = []
    width = max(map(len, catalog["methods"])) + 1
    for level, parts in catalog["parts"].items():
        lines += [f"Methods that {'score spans' if level == 'span' else 'tag words'}:", ""]
        for method in catalog["methods"].values():
            if method["level"] == level:
                lines += [f"{method['name']:<{width}} {method['summary']}", f"{'':<{width}} {method['paper']}"]
        lines += ["", "  Their parts, which can be exchanged with --set KIND=NAME:"]
        lines += [f"    {kind:<11} {', '.join(choices)}" for kind, choices in parts.items()] + [""]
    return "\n".join(lines)


def _describe(method: MethodEntry) -> str:
    lines = [
        f"{method['name']} ({method['level']} level)",
        fill(method["summary"], 100),
        fill(method["paper"], 100),
        "",
    ]
    lines += [f"  {p['key']:<24} {p['value']!s:<14} {p['description']}" for p in method["parameters"]]
    return "\n".join([*lines, "", "Change any of them with --set KEY=VALUE."])
