"""What verbs that start a server have in common: where it listens."""

from typing import TYPE_CHECKING, Annotated

import typer

from lacuner.cli.console import say

if TYPE_CHECKING:
    import socket

Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.", show_default="8620, or any free port"),
]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines connect.")]


def open_port(host: str, port: int | None) -> "tuple[socket.socket, int]":
    """A socket that listens, and its port; says if that is another than the usual one."""
    from lacuner.web.server import DEFAULT_PORT, listen

    sock = listen(host, port)
    chosen: int = sock.getsockname()[1]
    if port is None and chosen != DEFAULT_PORT:
        say(f"Port {DEFAULT_PORT} is taken; using port {chosen}.")
    return sock, chosen
