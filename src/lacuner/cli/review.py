"""``lacuner review``."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.console import print_json, say
from lacuner.cli.listening import Host, Port, open_port
from lacuner.cli.options import Json, refuse_mixing

if TYPE_CHECKING:
    from lacuner.review.review import Review

_SLOW_TO_LOAD = 10_000
"""Number of findings that take more than a second to load."""


def review(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder written by `lacuner audit`.", show_default=False)
    ],
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the corpus with all decisions applied to this file and exit; - is standard output.",
            show_default=False,
        ),
    ] = None,
    port: Port = None,
    host: Host = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            help="Secret token, which is part of the page's address.", envvar="LACUNER_TOKEN", show_default="random"
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    json: Json = False,
) -> None:
    """Review the findings of an audit in the browser.

    Every decision is saved in DIR immediately. The same command resumes a review.

    Example: `lacuner review audit`, then `lacuner review audit --export reviewed.jsonl`
    """
    from lacuner.audit.folder import DECISIONS, AuditFolder
    from lacuner.review.review import Review

    refuse_mixing(export, json, "--export")
    audit = AuditFolder.open(folder)
    warning = audit.warning()
    if warning is not None:
        say(f"warning: {warning}.")
    if not (folder / DECISIONS).exists() and audit.summary.get("findings", 0) > _SLOW_TO_LOAD:
        say("Loading the findings; this is done once.")
    only_read = export is not None and not os.access(folder, os.W_OK)
    with Review(audit, read_only=only_read) as opened:
        if export is not None:
            _export(opened, export, json)
        else:
            _serve(opened, host, port, token, browser, json)


def _export(review: "Review", out: Path, json: bool) -> None:
    from lacuner.review.export import export_corpus

    report = export_corpus(review, out)
    if json:
        print_json(report.as_dict() | {"out": str(out)})
        return
    say(
        f"{report.accepted:,} findings accepted, {report.rejected:,} rejected, {report.skipped:,} skipped, "
        f"{report.open:,} open."
    )
    say(
        f"{out} has {report.entities:,} entities in {report.sentences:,} sentences: {report.added:,} added, "
        f"{report.removed:,} removed, {report.confirmed:,} confirmed; {report.non_entities:,} rejected spans."
    )


def _serve(review: "Review", host: str, port: int | None, token: str | None, browser: bool, json: bool) -> None:
    from lacuner.audit.folder import DECISIONS
    from lacuner.errors import DataError
    from lacuner.review.store import StorageError
    from lacuner.web.access import AccessPolicy, check_token, is_local, new_token
    from lacuner.web.review_app import create_app
    from lacuner.web.server import address, serve

    if token is not None:
        check_token(token)
    secret = token or new_token()
    sock, chosen = open_port(host, port)
    url = address(host, chosen, secret)
    if not is_local(host):
        say(
            "warning: other machines can reach this page, and it is not encrypted; anyone with the address can make decisions."
        )

    def started() -> None:
        if json:
            print_json({"url": url})
            sys.stdout.flush()
        say(f"Review at {url}\nEvery decision is stored immediately. Ctrl-C stops the server.")
        if browser and _has_screen():
            webbrowser.open(url)

    serve(create_app(review, AccessPolicy(secret, host)), sock, started)
    try:
        undecided = sum(count.count for count in review.counts() if count.status in ("open", "skipped"))
    except StorageError as error:
        what = f"{DECISIONS} can no longer be used: {error}"
        remedy = "decisions that the page reported as stored before are in that file; look for it, or for a copy of it"
        raise DataError(what, remedy, review.folder.path) from error
    say(
        f"\nStopped; everything is stored. {undecided:,} findings are left; run the same command again to resume the review."
    )


def _has_screen() -> bool:
    """Whether there is a graphical browser; one that runs in the terminal would be in the way."""
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
