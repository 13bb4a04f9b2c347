"""The client, with a server that answers at once: what it sends, and what it makes of refusals."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lacuner import Client, Entity
from lacuner.client import ServerError

MAX_TEXTS, MAX_BODY = 3, 300


class SmallServer(BaseHTTPRequestHandler):
    """Finds one entity in each text, the whole of it; takes few texts, and few bytes."""

    requests: list[int] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        texts = json.loads(body)["texts"]
        self.requests.append(len(texts))
        status, answer = 200, {"results": [{"entities": [self.entity(text)]} for text in texts]}
        if len(texts) > MAX_TEXTS or len(body) > MAX_BODY:
            status, answer = 413, {"message": "That is too much."}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @staticmethod
    def entity(text: str) -> dict[str, object]:
        return {"start": 0, "end": len(text), "label": "X", "text": text}

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def client() -> Iterator[Client]:
    SmallServer.requests.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Client(f"http://127.0.0.1:{server.server_port}", patience=0)
        server.shutdown()


def texts_of(found: list[list[Entity]]) -> list[str | None]:
    return [entity.text for (entity,) in found]


def test_more_texts_than_a_server_takes_are_sent_in_parts_and_keep_their_order(client: Client) -> None:
    texts = [f"text {number}" for number in range(230)]
    assert texts_of(client.predict(texts)) == texts
    taken = [size for size in SmallServer.requests if size <= MAX_TEXTS]
    assert sum(taken) == 230
    assert len(SmallServer.requests) < 2 * len(taken)


def test_more_bytes_than_a_server_takes_are_sent_in_parts(client: Client) -> None:
    texts = ["x" * 150, "y" * 150, "z" * 10]
    assert texts_of(client.predict(iter(texts))) == texts
    assert SmallServer.requests == [3, 1, 2]


def test_one_text_that_is_too_large_is_named(client: Client) -> None:
    with pytest.raises(
        ServerError, match=r"^texts\[101\] has 400 characters, which .*too much.* larger --max-body"
    ) as error:
        client.predict(["a"] * 101 + ["x" * 400, "b"])
    assert error.value.status == 413
    with pytest.raises(ServerError, match=r"^the text has 400 characters"):
        client.predict("x" * 400)


def test_no_texts_are_no_request(client: Client) -> None:
    assert client.predict([]) == []
    assert SmallServer.requests == []


@pytest.mark.parametrize("text", [None, 3, b"Ada", {"text": "Ada"}])
def test_what_is_no_text_is_refused_before_it_is_sent(text) -> None:
    with pytest.raises(TypeError, match=r"^text is a string, or several of them, but not "):
        Client("http://127.0.0.1:1", token="none").predict(text)
