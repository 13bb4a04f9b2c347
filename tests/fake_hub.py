"""A hub on this machine that answers the few requests which fetching and sending a model takes."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

TOKEN = "hf_of_a_test"
Files = dict[str, bytes]


@dataclass
class FakeHub:
    """Repositories by name, each with the files of its branches."""

    address: str = ""
    repositories: dict[str, dict[str, Files]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def fetched(self) -> set[str]:
        """Names of the files whose content was asked for."""
        return {path.partition("/resolve/")[2].partition("/")[2] for how, path in self.requests if how == "GET"} - {""}


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """A hub that listens on a free port of this machine."""
    hub = FakeHub()

    class Bound(_Handler):
        pass

    Bound.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def use_hub(address: str, cache: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``huggingface_hub``, which is imported already, speak to this address and keep what it fetches in ``cache``."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.delenv("HF_TOKEN", raising=False)


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer("GET")

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, how: str) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((how, path))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if how == "POST" and not allowed and path != "/api/validate-yaml":
            return self._refuse(401, "")
        for pattern, answer in _ROUTES:
            if found := re.fullmatch(pattern, path):
                return answer(self, body, allowed, **found.groupdict())
        return self._refuse(404, "EntryNotFound")

    def _create(self, body: bytes, allowed: bool) -> None:
        given = json.loads(body)
        name = f"{given['organization']}/{given['name']}"
        if name in self.hub.repositories:
            return self._send({"url": f"{self.hub.address}/{name}"}, 409)
        self.hub.repositories[name] = {"main": {}}
        if given.get("visibility") == "private":
            self.hub.private.add(name)
        return self._send({"url": f"{self.hub.address}/{name}", "name": name})

    def _validate(self, body: bytes, allowed: bool) -> None:
        metadata = json.loads(body)["content"].split("---")[1]
        errors = [] if isinstance(yaml.safe_load(metadata), dict) else [{"message": "no metadata"}]
        self._send({"errors": errors, "warnings": []}, 400 if errors else 200)

    def _preupload(self, body: bytes, allowed: bool, name: str, revision: str) -> None:
        files = json.loads(body)["files"]
        answer = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
        self._send({"files": answer})

    def _commit(self, body: bytes, allowed: bool, name: str, revision: str) -> None:
        branch = self.hub.repositories[name][revision]
        for line in body.splitlines():
            given = json.loads(line)
            if given["key"] == "file":
                branch[given["value"]["path"]] = base64.b64decode(given["value"]["content"])
        number = _number(branch)
        answer = {"commitUrl": f"{self.hub.address}/{name}/commit/{number}", "commitOid": number, "success": True}
        self._send(answer | {"hookOutput": ""})

    def _branch(self, body: bytes, allowed: bool, name: str, revision: str) -> None:
        branches = self.hub.repositories[name]
        branches.setdefault(revision, dict(branches["main"]))
        self._send({})

    def _info(self, body: bytes, allowed: bool, name: str, revision: str = "main") -> None:
        files = self._files(name, revision, allowed)
        if files is not None:
            listed = [{"rfilename": path} for path in files]
            self._send({"id": name, "modelId": name, "sha": _number(files), "siblings": listed, "private": False})

    def _tree(self, body: bytes, allowed: bool, name: str, revision: str) -> None:
        files = self._files(name, revision, allowed)
        if files is not None:
            named = {path: {"size": len(content), "oid": _hash(content)} for path, content in files.items()}
            self._send([{"type": "file", "path": path, **about} for path, about in named.items()])

    def _resolve(self, body: bytes, allowed: bool, name: str, revision: str, path: str) -> None:
        files = self._files(name, revision, allowed)
        if files is None:
            return None
        if path not in files:
            return self._refuse(404, "EntryNotFound")
        headers = {"ETag": f'"{_hash(files[path])}"', "X-Repo-Commit": _number(files)}
        return self._send(files[path], headers=headers)

    def _files(self, name: str, revision: str, allowed: bool) -> Files | None:
        """The files of a branch or commit; none if the request was refused."""
        branches = self.hub.repositories.get(name)
        if branches is None or (name in self.hub.private and not allowed):
            self._refuse(404 if allowed else 401, "RepoNotFound")
            return None
        for branch, files in branches.items():
            if revision in (branch, _number(files)):
                return files
        self._refuse(404, "RevisionNotFound")
        return None

    def _refuse(self, status: int, code: str) -> None:
        self._send({"error": code}, status, {"X-Error-Code": code} if code else {})

    def _send(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in {"Content-Length": str(len(sent)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)


_MODEL = r"/api/models/(?P<name>[^/]+/[^/]+)"
_ROUTES: list[tuple[str, Any]] = [
    (r"/api/repos/create", _Handler._create),
    (r"/api/validate-yaml", _Handler._validate),
    (_MODEL + r"/preupload/(?P<revision>.+)", _Handler._preupload),
    (_MODEL + r"/commit/(?P<revision>.+)", _Handler._commit),
    (_MODEL + r"/branch/(?P<revision>.+)", _Handler._branch),
    (_MODEL + r"/revision/(?P<revision>.+)", _Handler._info),
    (_MODEL + r"/tree/(?P<revision>[^/]+)/?", _Handler._tree),
    (_MODEL, _Handler._info),
    (r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)", _Handler._resolve),
]


def _hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _number(files: Files) -> str:
    """The number of the commit that has these files."""
    return hashlib.sha1(repr(sorted((path, _hash(content)) for path, content in files.items())).encode()).hexdigest()
