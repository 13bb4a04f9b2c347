"""Server metrics in the Prometheus text format. Several processes share one table, with a row each."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
CLIENT_LEFT = 499
"""Status counted for a request whose client has disconnected."""
STATUSES = (200, 201, 202, 304, 400, 401, 403, 404, 405, 411, 413, 421, 422, 429, CLIENT_LEFT, 500, 504)
"""Response statuses with their own counter; others are ``other``."""
_COUNTERS = {
    "texts_total": "Texts processed.",
    "entities_total": "Entities found.",
    "reloads_total": "Models reloaded.",
    "reload_errors_total": "Models that could not be reloaded.",
}
_HISTOGRAMS: Mapping[str, tuple[str, Sequence[float]]] = {
    "request_seconds": ("Latency of prediction requests in seconds.", _SECONDS),
    "batch_seconds": ("Model time per batch in seconds.", _SECONDS),
    "batch_texts": ("Texts per batch.", _SIZES),
}
_GAUGES = {"waiting_texts": "Texts waiting in the queue."}


def _slots() -> list[tuple[str, str]]:
    """Name and labels of every number."""
    every = [("requests_total", f'{{status="{status}"}}') for status in (*STATUSES, "other")]
    every += [(name, "") for name in (*_COUNTERS, *_GAUGES)]
    for name, (_, bounds) in _HISTOGRAMS.items():
        every += [(f"{name}_bucket", f'{{le="{bound:g}"}}') for bound in bounds]
        every += [(f"{name}_bucket", '{le="+Inf"}'), (f"{name}_sum", ""), (f"{name}_count", "")]
    return every


_SLOTS = {slot: index for index, slot in enumerate(_slots())}


class Metrics:
    """Metrics of one process; renders those of all.

    Args:
        table: numbers of all processes, from :meth:`shared_table`; by default of this one only.
        row: of this process.
    """

    def __init__(self, table: Any = None, row: int = 0) -> None:
        self._table = self.shared_table(1) if table is None else table
        self._row = row

    @staticmethod
    def shared_table(processes: int) -> Any:
        """Numbers shared between processes; each writes only its own row, so that no lock is needed."""
        return get_context("spawn").RawArray("d", processes * len(_SLOTS))

    def count(self, name: str, amount: float = 1, labels: str = "") -> None:
        """Increment a counter."""
        self._table[self._row * len(_SLOTS) + _SLOTS[name, labels]] += amount

    def count_request(self, status: int) -> None:
        """Count a response."""
        self.count("requests_total", labels=f'{{status="{status if status in STATUSES else "other"}"}}')

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._table[self._row * len(_SLOTS) + _SLOTS[name, ""]] = value

    def observe(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        bounds = _HISTOGRAMS[name][1]
        for bound in bounds[bisect_left(bounds, value) :]:
            self.count(f"{name}_bucket", labels=f'{{le="{bound:g}"}}')
        self.count(f"{name}_bucket", labels='{le="+Inf"}')
        self.count(f"{name}_sum", value)
        self.count(f"{name}_count")

    def render(self, info: Mapping[str, str] | None = None) -> str:
        """Render everything as text.

        Args:
            info: name → version of the served models.
        """
        return "\n".join([*self._lines(), *_info_lines(info or {})]) + "\n"

    def _total(self, name: str, labels: str = "") -> float:
        return float(sum(self._table[_SLOTS[name, labels] :: len(_SLOTS)]))

    def _lines(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Responses by status.")
        for name, labels in _SLOTS:
            if name == "requests_total" and (total := self._total(name, labels)):
                yield f"lacuner_{name}{labels} {total:.17g}"
        for kind, described in (("counter", _COUNTERS), ("gauge", _GAUGES)):
            for name, text in described.items():
                yield from _head(name, kind, text)
                yield f"lacuner_{name} {self._total(name):.17g}"
        for name, (text, bounds) in _HISTOGRAMS.items():
            yield from _head(name, "histogram", text)
            for bound in (*(f"{bound:g}" for bound in bounds), "+Inf"):
                labels = f'{{le="{bound}"}}'
                yield f"lacuner_{name}_bucket{labels} {self._total(f'{name}_bucket', labels):.17g}"
            yield f"lacuner_{name}_sum {self._total(f'{name}_sum'):.17g}"
            yield f"lacuner_{name}_count {self._total(f'{name}_count'):.17g}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP lacuner_{name} {text}"
    yield f"# TYPE lacuner_{name} {kind}"


def _info_lines(info: Mapping[str, str]) -> Iterator[str]:
    yield from _head("model_info", "gauge", "Served models.")
    for name, version in info.items():
        yield f'lacuner_model_info{{model="{_escaped(name)}",version="{_escaped(version)}"}} 1'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
