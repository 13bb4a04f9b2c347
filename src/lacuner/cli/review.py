"""``lacuner review``."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.console import print_json, say
from lacuner.cli.options import Json
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.review.decisions import Decisions

_MANY = 10_000
"""Findings that take more than a second to read."""


def review(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What lacuner audit has written.", show_default=False)],
    export: Annotated[
        Path | None,
        typer.Option(help="Write the corpus with all decisions, and leave; - is standard output.", show_default=False),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Where to listen; 0 is any.", show_default="8620, or any")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(help="What the address must end in.", envvar="LACUNER_TOKEN", show_default="a new one"),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    json: Json = False,
) -> None:
    """Decide in the browser about what an audit has found.

    Decisions are stored at once, in DIR. The same command goes on where it was stopped.

    Example: `lacuner review audit`, then `lacuner review audit --export reviewed.jsonl`
    """
    from lacuner.audit.folder import DECISIONS, AuditFolder
    from lacuner.review.decisions import Decisions

    audit = AuditFolder.open(folder)
    warning = audit.warning()
    if warning is not None:
        say(f"warning: {warning}.")
    if not (folder / DECISIONS).exists() and audit.summary.get("findings", 0) > _MANY:
        say("Reading what the audit has found takes a moment, this once.")
    with Decisions(audit) as decisions:
        if export is not None:
            _export(decisions, export, json)
        else:
            _serve(decisions, host, port, token, browser, json)


def _export(decisions: "Decisions", out: Path, json: bool) -> None:
    from lacuner.review.export import export_corpus

    report = export_corpus(decisions, out)
    if json:
        print_json(report.as_dict() | {"out": str(out)})
        return
    say(
        f"{report.accepted:,} findings accepted, {report.rejected:,} rejected, {report.skipped:,} skipped, "
        f"{report.open:,} open."
    )
    say(
        f"{out} has {report.entities:,} entities in {report.sentences:,} sentences: {report.added:,} added, "
        f"{report.removed:,} removed, {report.confirmed:,} confirmed; {report.non_entities:,} spans are known to be none."
    )


def _serve(decisions: "Decisions", host: str, port: int | None, token: str | None, browser: bool, json: bool) -> None:
    try:
        from lacuner.web.access import AccessPolicy, check_token, is_local, new_token
        from lacuner.web.review_app import create_app
        from lacuner.web.server import USUAL_PORT, address, listen, serve
    except ModuleNotFoundError as error:
        raise ConfigError("review needs FastAPI and uvicorn; install them with: pip install 'lacuner[web]'") from error

    if token is not None:
        check_token(token)
    secret = token or new_token()
    sock = listen(host, port)
    chosen = sock.getsockname()[1]
    if port is None and chosen != USUAL_PORT:
        say(f"Port {USUAL_PORT} is taken, so this is another one.")
    url = address(host, chosen, secret)
    if not is_local(host):
        say("warning: other machines can reach this page, and it is not encrypted; whoever has the address can decide.")

    def started() -> None:
        if json:
            print_json({"url": url})
            sys.stdout.flush()
        say(f"Review at {url}\nEvery decision is stored at once. Ctrl-C ends it.")
        if browser and _has_screen():
            webbrowser.open(url)

    serve(create_app(decisions, AccessPolicy(secret, host, f"lacuner-{chosen}")), sock, started)
    open_ones = sum(tally.count for tally in decisions.tallies() if tally.status in ("open", "skipped"))
    say(f"Stopped; everything is stored. {open_ones:,} findings are left; the same command goes on with them.")


def _has_screen() -> bool:
    """Whether a browser could be seen; one that runs in the terminal would be in the way."""
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
