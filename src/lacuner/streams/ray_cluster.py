"""Connection to a Ray cluster: a running one, or one on this machine, which ends with the command."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from lacuner.errors import ConfigError

_PATIENCE = 10.0  # seconds for the head of a cluster to respond
_OBJECT_STORE = 256 * 2**20
"""Bytes for Ray's object store, if we start it: for a dictionary, and file names. Results are small."""
_PRIVATE = "lacuner_private"
"""A resource that distinguishes a Ray instance started by a command for itself from a cluster."""


def import_ray() -> Any:
    """Import Ray with minimal side effects and output."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # standard output is ours; outcomes report deaths
    os.environ.setdefault(
        "RAY_worker_niceness", "0"
    )  # Ray raises niceness to 15, so that any other load would take all the cores
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # GPUs stay visible, without a warning by Ray
    try:
        import ray
    except ImportError:
        raise ConfigError("the engine ray needs Ray — install it with: pip install ray") from None
    return ray


def connect(ray: Any, address: str | None, cores: int) -> None:
    """Join a cluster, or start Ray on this machine.

    Args:
        ray: the module.
        address: of the cluster; ``None`` starts Ray.
        cores: number of cores for Ray, if it is started.
    """
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    reached = False
    try:
        if address is None:
            own = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE, "resources": {_PRIVATE: 1}}
            ray.init(address="local", num_cpus=cores, **own, **quiet)
            return
        reached = _is_reachable(address)
        if address.startswith("ray://") and find_spec("grpc") is None:
            raise ConfigError(
                "--address ray://… needs the client of Ray, here and on the cluster — install it with: pip install "
                "'ray[client]'; or run the command on a machine of the cluster"
            )
        with _silent():
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
        where = "Ray does not start here" if address is None else f"no Ray cluster answers at {address}"
        what = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ConfigError(f"{where} ({what}) — {_remedy(address, reached)}") from error
    if _PRIVATE in ray.cluster_resources():
        ray.shutdown()
        raise ConfigError(
            f"the Ray at {address} is that of another command, and ends with it — start a cluster with: ray start --head; "
            "or leave --address out"
        )


def _remedy(address: str | None, reached: bool) -> str:
    """Remedy for a failed connection. Ray sends no token to a given address unless configured to, or given a token file."""
    advice = []
    if reached and not os.environ.get("RAY_AUTH_MODE"):
        advice.append("if it wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN")
    elif address == "auto" and not reached:
        advice.append("start one with: ray start --head; or leave --address out")
    elif address is not None and ":" not in address:
        advice.append("an address is auto, HOST:6379 or ray://HOST:10001")
    return "; ".join([*advice, "see docs/scale.md"])


def _is_reachable(address: str) -> bool:
    """Whether anything responds at the address, if known; Ray itself would wait for minutes, and print irrelevant messages.

    Raises:
        OSError: nothing responds.
    """
    if address == "auto":
        with suppress(ImportError, AttributeError, TypeError):  # not a public function
            from ray._private.services import get_ray_address_from_environment

            address = get_ray_address_from_environment("auto", None)  # of a cluster that may no longer exist
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return False
    socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    return True


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress standard error: Ray's core prints a line for every connection attempt, and raises in the end anyway."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
