"""`lacuner serve` under load: how long answers take, and whether it holds for minutes.

    python benchmarks/serve_load.py [--seconds 300] [--clients 64] [--model FOLDER]

64 clients ask without a pause. Every answer is compared, byte by byte, with what `Recognizer.predict` says of the same text by
itself; the memory of the server is looked at all the time. `make speed` takes the rows of `measure_latency`: two servers, one
with batches and one without, are asked in turns by 1, 8 and 64 clients, so that a noisy machine hurts both alike.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from lacuner import Recognizer
from lacuner.corpus.formats.records import entity_to_record
from lacuner.sample import read_sample

TOKEN = "a-token-for-measuring"
CLIENTS = (1, 8, 64)
BURST = 2.0
"""Seconds in which one of two servers is asked, before it is the other's turn."""
ROUNDS = 5
MAX_GROWTH = 0.02
"""Memory in the last third, beyond that in the second, relative to it: the medians of a saw's teeth differ a little."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--model", type=Path, help="a model folder; by default a small one is trained on the sample")
    parser.add_argument("--latency", action="store_true", help="print the rows of `make speed` instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or train(Path(folder) / "model")
        if options.latency:
            for row in measure_latency(model):
                print(json.dumps(row))
            return
        with running(model) as (port, process):
            result = asyncio.run(soak(port, process, model, options.clients, options.seconds))
        print(result.report())
        sys.exit(1 if result.errors or result.different or not result.is_flat else 0)


def train(folder: Path) -> Path:
    """A model with the default encoder, which finds something."""
    Recognizer.train(read_sample("train"), method="full", epochs=8, settings={"encoder.vectors": "none"}, out=folder)
    return folder


@contextmanager
def running(model: Path, *options: str) -> Iterator[tuple[int, int]]:
    """Port and process of a server."""
    command = [sys.executable, "-m", "lacuner", "serve", f"model={model}", "--json", "--port", "0", "--token", TOKEN]
    server = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        port = urlsplit(json.loads(server.stdout.readline())["url"]).port
        assert port is not None
        yield port, server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


class Connection:
    """A client with one connection, which stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._reader, self._writer = reader, writer
        self._head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port), port)

    async def ask(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._writer.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        first, *headers = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().splitlines()
        size = next(int(line.split(":")[1]) for line in headers if line.startswith("content-length:"))
        return int(first.split()[1]), await self._reader.readexactly(size)

    def close(self) -> None:
        self._writer.close()


@dataclass
class Soak:
    """What has happened."""

    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    different: int = 0
    memory: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def thirds(self) -> tuple[float, float]:
        """Memory in the second third of the time, and in the last."""
        third = max(1, len(self.memory) // 3)
        return statistics.median(self.memory[third : 2 * third]), statistics.median(self.memory[-third:])

    @property
    def is_flat(self) -> bool:
        early, late = self.thirds()
        return late <= (1 + MAX_GROWTH) * early

    def report(self) -> str:
        early, late = self.thirds()
        cuts = statistics.quantiles(self.milliseconds, n=100)
        lines = [
            f"{len(self.milliseconds):,} answers in {self.seconds:.0f} seconds, {len(self.errors)} errors, "
            f"{self.different} different from predict",
            f"milliseconds: median {cuts[49]:.1f}, 99 % {cuts[98]:.1f}, most {max(self.milliseconds):.1f}",
            f"memory of the server: {early:.1f} MB in the second third, {late:.1f} MB in the last ({late - early:+.1f}), "
            f"most {max(self.memory):.1f}",
        ]
        return "\n".join([*lines, *self.errors[:5]])


def bodies_and_answers(model: Path) -> list[tuple[bytes, bytes]]:
    """Requests with texts of several lengths, and the end of the answer that each must get."""
    recognizer = Recognizer.from_pretrained(model)
    texts = [sentence.raw_text for sentence in read_sample("test")]
    texts += [" ".join(texts[begin : begin + 5]) for begin in range(0, len(texts), 5)]
    pairs = []
    for text in texts:
        entities = [entity_to_record(entity) for entity in recognizer.predict(text)]
        answer = json.dumps({"entities": entities}, ensure_ascii=False, separators=(",", ":"))
        pairs.append((json.dumps({"text": text}).encode(), f",{answer[1:]}".encode()))
    return pairs


async def soak(port: int, process: int, model: Path, clients: int, seconds: float) -> Soak:
    """Ask without a pause, and compare."""
    pairs, result, server = bodies_and_answers(model), Soak(), psutil.Process(process)
    began = time.monotonic()

    async def client(number: int) -> None:
        connection, index = await Connection.open(port), number * 7
        while time.monotonic() - began < seconds:
            body, expected = pairs[index % len(pairs)]
            index += 1
            asked = time.perf_counter()
            try:
                status, answer = await connection.ask(body)
            except (OSError, asyncio.IncompleteReadError) as error:
                result.errors.append(repr(error))
                connection = await Connection.open(port)
                continue
            result.milliseconds.append(1000 * (time.perf_counter() - asked))
            if status != 200:
                result.errors.append(f"{status}: {answer[:200]!r}")
            elif not answer.endswith(expected):
                result.different += 1
        connection.close()

    async def watch() -> None:
        while time.monotonic() - began < seconds:
            result.memory.append(server.memory_info().rss / 2**20)
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *map(client, range(clients)))
    result.seconds = time.monotonic() - began
    return result


def measure_latency(model: Path | None = None) -> list[dict[str, Any]]:
    """Rows for `make speed`: median and 99th percentile with batches, against a server that answers each text alone."""
    with ExitStack() as stack:
        folder = model or train(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model")
        batched, _ = stack.enter_context(running(folder))
        alone, _ = stack.enter_context(running(folder, "--max-batch", "1"))
        texts = [sentence.raw_text for sentence in read_sample("test")]
        words = sum(len(sentence) for sentence in read_sample("test")) / len(texts)
        bodies = [json.dumps({"text": text}).encode() for text in texts]
        rows = []
        for clients in CLIENTS:
            times: dict[int, list[float]] = {batched: [], alone: []}
            for turn in range(2 * ROUNDS):
                port = (batched, alone)[turn % 2]
                times[port] += asyncio.run(burst(port, clients, bodies, BURST))
            rate = {port: len(each) / (ROUNDS * BURST) for port, each in times.items()}
            cuts = {port: statistics.quantiles(each, n=100) for port, each in times.items()}
            for name, percentile in (("p50", 49), ("p99", 98)):
                ours, theirs = cuts[batched][percentile], cuts[alone][percentile]
                row = {"name": f"serve ({clients} clients)", "phase": name, "ratio": round(ours / theirs, 3)}
                row |= {"yardstick": "each text alone", "words_per_second": round(rate[batched] * words)}
                rows.append(row | {"milliseconds": round(ours, 1), "milliseconds_alone": round(theirs, 1)})
        return rows


async def burst(port: int, clients: int, bodies: list[bytes], seconds: float) -> list[float]:
    """Milliseconds of the answers to clients that ask without a pause."""
    everybody = [await Connection.open(port) for _ in range(clients)]
    times: list[float] = []
    began = time.monotonic()

    async def ask(number: int, connection: Connection) -> None:
        while time.monotonic() - began < seconds:
            asked = time.perf_counter()
            status, _ = await connection.ask(bodies[(number + len(times)) % len(bodies)])
            assert status == 200
            times.append(1000 * (time.perf_counter() - asked))

    await asyncio.gather(*(ask(number, connection) for number, connection in enumerate(everybody)))
    for connection in everybody:
        connection.close()
    return times


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the server's, too: other numbers of threads round differently
    main()
