"""How long reviewers wait for an answer: 50 of them decide at once about an audit of 60,000 findings.

The server is `lacuner review` itself, in a process of its own, on 127.0.0.1. Each client asks for a finding, decides about
it, and gets the next one with the answer, as the page does. "people": a client thinks for a second or two between two
decisions. "at once": it decides as soon as it has the answer, so that all clients wait all the time. "static" is the same
with a file of the page in place of decisions: what the server and the machine need for any answer. On a busy machine only the
ratios mean anything, and the time that the server keeps a processor busy for an answer.

    python benchmarks/review_load.py [--findings N] [--clients N] [--rounds N] [--profile FILE]
"""

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from lacuner import Corpus
from lacuner.sample import read_sample

TOKEN = "a-token-for-measuring"
THINKING = (1.0, 2.0)
"""Seconds between two decisions of a person."""
ACTIONS = ("accept", "reject", "skip")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--findings", type=int, default=60_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20, help="decisions of each client in each row")
    parser.add_argument("--profile", type=Path, help="write a cProfile of the server there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_audit(Path(folder), options.findings)
        command = [sys.executable, *(["-m", "cProfile", "-o", str(options.profile)] if options.profile else [])]
        command += ["-m", "lacuner", "review", folder, "--no-browser", "--json", "--port", "0", "--token", TOKEN]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            port = urlsplit(json.loads(server.stdout.readline())["url"]).port
            assert port is not None
            print(asyncio.run(measure(server.pid, port, options.clients, options.rounds)))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def write_audit(folder: Path, findings: int) -> None:
    """An audit as `lacuner audit` writes it: one finding for each word of the sample's sentences, again and again."""
    sample = tuple(read_sample("train"))
    words = sum(map(len, sample))
    corpus = Corpus(sample * (findings // words + 1))
    corpus.write(folder / "corpus.jsonl")
    labels = sorted(corpus.labels)
    chance = random.Random(1)
    spans = [(index, start) for index, sentence in enumerate(corpus) for start in range(len(sentence))]
    with (folder / "findings.jsonl").open("w", encoding="utf-8") as file:
        for index, start in chance.sample(spans, findings):
            place = {"sentence": index, "start": start, "end": start + 1, "text": corpus[index].tokens[start]}
            guess = {"label": chance.choice(labels), "probability": round(chance.random(), 4), "kind": "missing"}
            print(json.dumps(place | guess, ensure_ascii=False), file=file)
    summary = {"format_version": 1, "findings": findings, "kinds": {}, "corpus": "sample", "hash": "0"}
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")


async def measure(server: int, port: int, clients: int, rounds: int) -> str:
    """The table: how long answers take, in milliseconds, and how much longer than those that need no database."""
    lines = [f"{clients} clients, {rounds} answers each; milliseconds, and the ratio to static", ""]
    lines += [
        "| pace | answer | median | 95 % | processor | median | 95 % |",
        "| --- | --- | --: | --: | --: | --: | --: |",
    ]
    for pace, thinking in (("people", THINKING), ("at once", (0.0, 0.0))):
        rows = {}
        for answer, act in (("static", Client.look), ("decision and next finding", Client.decide)):
            before = processor_seconds(server)
            median, most = await run_clients(port, clients, rounds, thinking, act)
            used = 1000 * (processor_seconds(server) - before) / (clients * rounds)
            rows[answer] = median, most
            ratios = f"{median / rows['static'][0]:.1f} | {most / rows['static'][1]:.1f}"
            lines.append(f"| {pace} | {answer} | {median:.1f} | {most:.1f} | {used:.1f} | {ratios} |")
    return "\n".join(lines)


def processor_seconds(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


async def run_clients(
    port: int, clients: int, rounds: int, thinking: tuple[float, float], act: "Callable[[Client], Awaitable[None]]"
) -> tuple[float, float]:
    """Median and 95th percentile of the milliseconds that an answer takes."""
    everybody = [await Client.connect(port, number) for number in range(clients)]
    await asyncio.gather(*(client.ask() for client in everybody))
    times: list[float] = []

    async def work(client: Client) -> None:
        chance = random.Random(client.number)
        for _ in range(rounds):
            await asyncio.sleep(chance.uniform(*thinking) if thinking[1] else 0)
            begin = time.perf_counter()
            await act(client)
            times.append(1000 * (time.perf_counter() - begin))

    await asyncio.gather(*map(work, everybody))
    for client in everybody:
        client.writer.close()
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


@dataclass
class Client:
    """A browser with one connection to the server."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    item: dict[str, Any] | None = None

    @classmethod
    async def connect(cls, port: int, number: int) -> "Client":
        return cls(number, *await asyncio.open_connection("127.0.0.1", port))

    async def look(self) -> None:
        """Get a file of the page."""
        await self._request("GET", "/static/review.css", b"")

    async def ask(self) -> None:
        self.item = json.loads(await self._request("POST", "/api/next", b"{}"))["item"]

    async def decide(self) -> None:
        """Decide about the finding, and get the next one."""
        assert self.item is not None
        action = ACTIONS[self.item["number"] % len(ACTIONS)]
        body = {"version": self.item["version"], "action": action, "on_overlap": "replace"}
        answer = await self._request("POST", f"/api/items/{self.item['number']}/decide", json.dumps(body).encode())
        self.item = json.loads(answer)["item"]

    async def _request(self, method: str, path: str, body: bytes) -> bytes:
        host = "{}:{}".format(*self.writer.get_extra_info("peername"))
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"X-Reviewer: reviewer-{self.number:04}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        first, *headers = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().splitlines()
        size = next(int(line.split(":")[1]) for line in headers if line.startswith("content-length:"))
        answer = await self.reader.readexactly(size)
        if first.split()[1] != "200":
            raise SystemExit(f"{method} {path}: {first}: {answer.decode()}")
        return answer


if __name__ == "__main__":
    main()
