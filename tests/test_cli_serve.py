"""``lacuner serve`` as a process: it starts, answers, loads again, and ends in order, or is killed."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lacuner import Client, Recognizer
from lacuner.client import ServerError
from lacuner.web.server import DEFAULT_PORT

TOKEN = "a-token-for-tests"
TEXT = "Ada moved to New York ."


class Server:
    """A process, and a client for it."""

    def __init__(self, *arguments: object, port: int = 0) -> None:
        options = ["--json", "--port", str(port), "--token", TOKEN]
        command = [sys.executable, "-m", "lacuner", "serve", *map(str, arguments), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        self.url = json.loads(line)["url"]
        self.port = int(self.url.partition("127.0.0.1:")[2].partition("/")[0])
        self.client = Client(self.url)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def get(self, path: str) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        request.add_header("Authorization", f"Bearer {TOKEN}")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode()  # type: ignore[no-any-return]


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start_one(*arguments: object, **options: Any) -> Server:
        servers.append(Server(*arguments, **options))
        return servers[-1]

    yield start_one
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder, tmp_path / "news"))


def with_threshold(model: Recognizer, folder: Path, value: float) -> None:
    """Replace a model by one that finds less."""
    model.model.threshold.fill_(value)
    try:
        model.save_pretrained(folder)
    finally:
        model.model.threshold.fill_(0.0)


def run_examples(server: Server) -> None:
    """What the documentation does with curl."""
    page = (Path(__file__).parents[1] / "docs" / "serve.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = [command for block in blocks for command in re.split(r"\n(?=curl)", block.strip())]
    assert len(commands) >= 10
    known = {"URL": server.url.partition("/#")[0], "TOKEN": TOKEN, "PATH": os.environ["PATH"]}
    for command in commands:
        shown = command.replace("curl -s", "curl -sS --fail-with-body")
        done = subprocess.run(["bash", "-c", shown], env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def test_a_server_answers_loads_again_and_ends_in_order(start, folder: Path, model: Recognizer) -> None:
    server = start(folder)
    if shutil.which("curl") is not None:
        run_examples(server)
    assert server.url.startswith("http://127.0.0.1:")
    assert server.client.predict(TEXT) == model.predict(TEXT)
    assert [e.score for e in server.client.predict(TEXT)] == [round(e.score or 0, 6) for e in model.predict(TEXT)]
    assert server.client.predict([TEXT, ""]) == [model.predict(TEXT), []]
    assert server.client.labels == model.labels
    (listed,) = server.client.models()
    assert listed["name"] == "news"
    for wrong, why in ((None, "needs a token"), ("another-token", "not the token of the server")):
        with pytest.raises(ServerError, match=why):
            Client(server.url.partition("#")[0], wrong, patience=0).predict(TEXT)
    with_threshold(model, folder, 100.0)
    assert server.client.predict(TEXT), "the old model, until it is told"
    os.kill(server.process.pid, signal.SIGHUP)
    deadline = time.monotonic() + 30
    while server.client.predict(TEXT) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert server.client.predict(TEXT) == []
    assert "lacuner_reloads_total 1" in server.get("/metrics").splitlines()
    code, said = server.stop(signal.SIGINT)
    assert code == 0
    assert "was reloaded" in said
    assert said.endswith("Stopped.\n")
    assert "Traceback" not in said


@pytest.mark.slow
def test_no_request_is_dropped_by_loading_again_or_by_a_stop(start, folder: Path, model: Recognizer) -> None:
    server = start(folder, "--batch-window", "1000", "--max-batch", 9)
    expected, results, enough = {len(model.predict(TEXT)), 0}, [], threading.Event()

    def ask() -> None:
        client = Client(server.url, patience=0)
        while not enough.is_set():
            try:
                results.append(len(client.predict(TEXT)))
            except ServerError as error:
                results.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    with_threshold(model, folder, 100.0)
    os.kill(server.process.pid, signal.SIGHUP)
    while 0 not in results and len(results) < 400:
        time.sleep(0.05)
    enough.set()
    for thread in threads:
        thread.join(20)
    assert set(results) == expected
    body = json.dumps({"text": TEXT}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    with ExitStack() as opened:
        clients = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20)) for _ in range(8)
        ]
        for client in clients:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.3)  # they wait for a ninth text, which does not come
        code, _ = server.stop()
        assert code == 0
        assert {client.recv(12) for client in clients} == {b"HTTP/1.1 200"}


@pytest.mark.slow
def test_a_killed_server_loses_open_requests_only_and_clients_come_back(start, folder: Path, model: Recognizer) -> None:
    server = start(folder)
    assert server.client.predict(TEXT) == model.predict(TEXT)
    server.stop(signal.SIGKILL)
    assert not server.client.is_up()
    with pytest.raises(ServerError, match="there is no response"):
        Client(server.url, patience=0).predict(TEXT)
    waiting: list[object] = []
    patient = threading.Thread(target=lambda: waiting.append(Client(server.url, patience=60).predict(TEXT)))
    patient.start()
    start(folder, port=server.port)
    patient.join(60)
    assert waiting == [model.predict(TEXT)]


@pytest.mark.slow
def test_clients_that_vanish_or_dawdle_harm_nobody(start, folder: Path, model: Recognizer) -> None:
    server = start(folder, "--max-body", 100_000)
    head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    body = json.dumps({"text": TEXT}).encode()
    for _ in range(20):  # they leave before the answer, or in the middle of the request
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(f"{head}Content-Length: 5000\r\n\r\n{{".encode())
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
    for byte in body:
        slow.sendall(bytes([byte]))
        time.sleep(0.002)
    assert server.client.predict(TEXT) == model.predict(TEXT)
    assert slow.recv(65_536).startswith(b"HTTP/1.1 200")
    slow.close()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as large:
        large.sendall(f"{head}Content-Length: 100000000\r\n\r\n".encode())
        for _ in range(100):
            large.sendall(b"x" * 1_000_000)
        assert large.recv(65_536).startswith(b"HTTP/1.1 413")
    assert server.client.predict(TEXT) == model.predict(TEXT)
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    now = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert peak - now < 90_000, "the large body was not kept"
    code, said = server.stop()
    assert (code, "Traceback" in said) == (0, False)


@pytest.mark.slow
def test_several_processes_answer_are_replaced_and_load_again(start, folder: Path, model: Recognizer) -> None:
    server = start(folder, "--workers", 2)
    expected = model.predict(TEXT)
    for _ in range(10):
        assert server.client.predict(TEXT) == expected
    texts = next(line for line in server.get("/metrics").splitlines() if line.startswith("lacuner_texts_total"))
    assert texts == "lacuner_texts_total 10", "counted by whichever process, shown by all"
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    workers = [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    assert server.client.predict(TEXT) == expected
    with_threshold(model, folder, 100.0)
    deadline = time.monotonic() + 60
    found = [expected]
    while any(found) and time.monotonic() < deadline:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/reload", b"", method="POST")
        request.add_header("Authorization", f"Bearer {TOKEN}")
        assert urllib.request.urlopen(request, timeout=20).status == 202
        time.sleep(1)
        found = [server.client.predict(TEXT) for _ in range(8)]
    assert found == [[]] * 8
    code, said = server.stop()
    assert code == 0
    assert "has died and is being replaced" in said
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


def test_a_signal_to_load_again_does_not_end_a_server_that_is_still_loading(
    folder: Path, model: Recognizer, run, monkeypatch
) -> None:
    from lacuner.web import served_models, server

    reloaded, load = threading.Event(), served_models.ServedModels.__init__

    def hang_up(self: object, *given: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        load(self, *given)  # type: ignore[arg-type]
        with_threshold(model, folder, 100.0)

    def until_reloaded(app: Any, *_: object, **__: object) -> None:
        deadline = time.monotonic() + 30
        while app.state.service.metrics.render().count("lacuner_reloads_total 1") < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        reloaded.set()

    monkeypatch.setattr(served_models.ServedModels, "__init__", hang_up)
    monkeypatch.setattr(server, "serve", until_reloaded)
    code, _, said = run("serve", folder, "--port", 0)
    assert reloaded.is_set()
    assert (code, "news was reloaded" in said) == (0, True)


def test_what_cannot_be_served_is_said_in_a_sentence(folder: Path, tmp_path: Path, run) -> None:
    code, _, said = run("serve", tmp_path / "nowhere", "--port", 0)
    assert code == 1
    assert "check the path" in said
    code, _, said = run("serve", folder, "--token", "short")
    assert (code, said) == (2, "--token: 5 characters are easy to guess — use at least 8\n")
    code, _, said = run("serve", folder, "--token", TOKEN, "--no-token")
    assert (code, said) == (2, "--token and --no-token cannot be combined — give only one of them\n")
    code, _, said = run("serve", folder, folder)
    assert code == 2
    assert "two models are called 'news'" in said
    (folder / "config.json").write_text("{")
    code, _, said = run("serve", folder, "--port", 0)
    assert code == 1
    assert "Traceback" not in said


def test_the_port_that_the_help_names_is_the_one_that_is_taken(run) -> None:
    assert f"default: ({DEFAULT_PORT}, or" in run("serve", "--help")[1]


def test_the_verb_and_the_client_need_neither_torch_nor_a_web_framework() -> None:
    code = "import sys, lacuner.cli.serve, lacuner; lacuner.Client; "
    code += "assert not {'fastapi', 'uvicorn', 'torch', 'starlette'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ServerError, match="give one such as"):
        Client("localhost:8620")
