"""``lacuner serve``."""

import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuner.cli.console import print_json, say, set_up_logging
from lacuner.cli.help import RUNNING
from lacuner.cli.listening import Host, Port, open_port
from lacuner.cli.options import Device

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from multiprocessing.synchronize import Event

    from lacuner.web.hangups import Hangups
    from lacuner.web.predict_app import Service

_LIMITS = "Limits"
_KERNEL_CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "128"}
"""Torch keeps kernels for 1,024 shapes of batches (all of them, and those of convolutions once more), tens of megabytes that
fill slowly; batches of a server rarely repeat."""


@dataclass(frozen=True)
class _Options:
    """What every process of a server has to know."""

    paths: dict[str, str]
    device: str | None
    host: str
    token: str | None
    names: tuple[str, ...]
    window: float
    max_batch: int
    max_waiting: int
    timeout: float
    max_body: int
    max_texts: int


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Folders of trained models, or names on the Hugging Face hub. NAME=MODEL serves a model "
            "under another name.",
            show_default=False,
        ),
    ],
    port: Port = None,
    host: Host = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Additional host name to accept requests for, such as that of a proxy. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Secret that requests must send as a bearer token.", envvar="LACUNER_TOKEN", show_default="random"
        ),
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Accept requests without a token.")] = False,
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="Number of processes. Each loads the models, and they share the cores.", rich_help_panel=RUNNING
        ),
    ] = 1,
    batch_window: Annotated[
        float,
        typer.Option(
            min=0,
            max=1000,
            help="Milliseconds a text waits for others, so that they are processed as one batch.",
            rich_help_panel=RUNNING,
        ),
    ] = 10.0,
    max_batch: Annotated[
        int, typer.Option(min=1, help="Maximum texts per batch; 1: no batching.", rich_help_panel=RUNNING)
    ] = 64,
    max_queue: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum texts waiting in the queue; more are refused (429).", rich_help_panel=_LIMITS
        ),
    ] = 1024,
    max_texts: Annotated[
        int, typer.Option(min=1, help="Maximum texts per request; more are refused (413).", rich_help_panel=_LIMITS)
    ] = 256,
    max_body: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum size of a request in bytes; larger ones are refused (413).", rich_help_panel=_LIMITS
        ),
    ] = 2**20,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=50, help="Seconds until a request times out (504).", rich_help_panel=_LIMITS)
    ] = 30.0,
    device: Device = None,
    json: Annotated[bool, typer.Option("--json", help="Print the address as JSON on standard output.")] = False,
) -> None:
    """Serve models over HTTP: a JSON API for programs, a web page for people.

    Also accepts requests of Label Studio, Presidio, and Hugging Face and GLiNER clients. SIGHUP or a POST to /reload reloads
    models whose folders have changed. Ctrl-C or SIGTERM stops the server once running requests are finished.

    Example: `lacuner serve model`, then `curl localhost:8620/predict -H "Authorization: Bearer TOKEN" -d '{"text": "Ada"}'`
    """  # fmt: skip
    bound_kernel_caches()
    from lacuner.web.hangups import hangups

    with hangups() as caught:  # before torch is loaded, which takes seconds
        from lacuner.errors import ConfigError
        from lacuner.web.access import check_token, is_local, new_token
        from lacuner.web.served_models import named_paths
        from lacuner.web.server import address
        from lacuner.web.supervisor import supervise

        if token is not None:
            check_token(token)
            if no_token:
                raise ConfigError("--token and --no-token cannot be combined — give only one of them")
        secret = None if no_token else token or new_token()
        options = _Options(
            named_paths(models), device, host, secret, tuple(allow_host or ()), batch_window / 1000, max_batch, max_queue,
            timeout, max_body, max_texts,
        )  # fmt: skip
        sock, chosen = open_port(host, port)
        if not is_local(host):
            who = "anyone who can reach it can use it" if secret is None else "anyone who has the token can use it"
            say(f"warning: other machines can reach this server, and it is not encrypted; {who}.")
        url = address(host, chosen, secret)

        def started() -> None:
            if json:
                print_json({"url": url, "token": secret})
                sys.stdout.flush()
            say(f"Serving {', '.join(options.paths)} at {url}\nCtrl-C stops the server.")

        if workers == 1:
            _answer(options, caught, sock, started)
        else:
            from lacuner.web.metrics import Metrics

            work = partial(_work, options, sock, Metrics.shared_table(workers), workers)
            supervise(work, workers, started, say, timeout)
        say("\nStopped.")


def _answer(
    options: _Options,
    caught: "Hangups",
    sock: "socket.socket",
    started: "Callable[[], None]",
    table: Any = None,
    row: int = 0,
    supervisor: int | None = None,
) -> None:
    """Load the models, and answer until a signal comes."""
    from lacuner.web.access import AccessPolicy
    from lacuner.web.batching import BatchLimits
    from lacuner.web.limits import ManyConnections
    from lacuner.web.metrics import Metrics
    from lacuner.web.predict_app import PAGES, RequestLimits, create_app
    from lacuner.web.served_models import ServedModels
    from lacuner.web.server import serve as serve_app

    app = create_app(
        ServedModels(options.paths, options.device),
        AccessPolicy(options.token, options.host, options.names, PAGES, "/"),
        BatchLimits(options.window, options.max_batch, max_waiting=options.max_waiting, timeout=options.timeout),
        RequestLimits(options.max_body, options.max_texts),
        Metrics(table, row),
        supervisor,
    )
    caught.answer_with(partial(_load_again, app.state.service))
    serve_app(app, sock, started, ManyConnections, grace=int(options.timeout) + 1)


def _work(
    options: _Options, sock: "socket.socket", table: Any, workers: int, row: int, supervisor: int, ready: "Event"
) -> None:
    """One of several processes."""
    import torch

    from lacuner.errors import LacunerError
    from lacuner.streams.engine import available_cores
    from lacuner.web.hangups import hangups
    from lacuner.web.supervisor import end_with

    set_up_logging()
    end_with(supervisor)
    torch.set_num_threads(max(1, available_cores() // workers))
    try:
        with hangups() as caught:
            _answer(options, caught, sock, ready.set, table, row, supervisor)
    except LacunerError as error:
        say(str(error))
        sys.exit(1)


def _load_again(service: "Service") -> None:
    before = service.models.versions()
    failed = service.reload()
    for name, version in service.models.versions().items():
        if version != before[name]:
            say(f"{name} was reloaded: {before[name]} → {version}.")
    for name, why in failed.items():
        say(f"warning: {name} could not be reloaded and stays unchanged: {why}")


def bound_kernel_caches() -> None:
    """Before torch is loaded; other processes inherit it."""
    for name, capacity in _KERNEL_CACHES.items():
        os.environ.setdefault(name, capacity)
