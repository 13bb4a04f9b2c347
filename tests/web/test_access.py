import base64

import pytest
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from fastapi.testclient import TestClient

from lacuner.errors import ConfigError
from lacuner.web.access import AccessMiddleware, AccessPolicy, check_token, new_token

TOKEN = "a-token-for-tests"
ADDRESS = "http://127.0.0.1:8620"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Application:
    """A page and an API that counts its calls, behind a policy."""

    def __init__(self, policy: AccessPolicy) -> None:
        self.calls = 0
        app = FastAPI()
        app.add_middleware(AccessMiddleware, policy=policy)

        @app.get("/")
        @app.get("/static/script.js")
        def page() -> PlainTextResponse:
            return PlainTextResponse("the page")

        @app.get("/api/thing")
        @app.post("/api/thing")
        def call() -> dict[str, bool]:
            self.calls += 1
            return {"called": True}

        self.client = TestClient(app, base_url=ADDRESS)


@pytest.fixture
def application() -> Application:
    return Application(AccessPolicy(TOKEN))


@pytest.fixture
def stranger(application: Application) -> TestClient:
    """A browser that does not know the token."""
    return application.client


@pytest.fixture
def browser(stranger: TestClient) -> TestClient:
    """A page that sends the token."""
    stranger.headers.update(BEARER)
    return stranger


def test_nothing_is_answered_without_the_token(stranger: TestClient, application: Application) -> None:
    for headers in ({}, {"Authorization": f"Bearer {TOKEN[:-1]}"}, {"Authorization": "Bearer "}):
        refused = stranger.post("/api/thing", headers=headers)
        assert (refused.status_code, refused.json()["reason"]) == (401, "access")
    for path in ("/nowhere", "/docs", "/static", "/api/static/", "/static/../api/thing"):
        assert stranger.get(path).status_code == 401
    for path in ("/", "/static/script.js"):
        assert stranger.post(path).status_code == 401
    assert application.calls == 0


def test_the_page_itself_is_no_secret_and_comes_without_the_token(stranger: TestClient) -> None:
    assert stranger.get("/").text == "the page"
    assert stranger.get("/static/script.js").text == "the page"


def test_the_token_is_a_bearer_token_and_counts_nowhere_else(stranger: TestClient) -> None:
    assert stranger.get("/api/thing", headers=BEARER).status_code == 200
    for name in ("lacuner", "token", "lacuner-token", "session", "authorization"):
        assert stranger.get("/api/thing", headers={"Cookie": f"{name}={TOKEN}"}).status_code == 401
    assert stranger.post(f"/api/thing?token={TOKEN}").status_code == 401
    assert stranger.get(f"/api/thing?token={TOKEN}").status_code == 401


def test_the_scheme_of_a_token_is_read_in_any_case(stranger: TestClient) -> None:
    password = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for header in (f"bearer {TOKEN}", f"BEARER {TOKEN}", f"Bearer  {TOKEN}", f"basic {password}"):
        assert stranger.get("/api/thing", headers={"Authorization": header}).status_code == 200
    for header in (f"Bearer {TOKEN.upper()}", f"Digest {TOKEN}", TOKEN, f"Bearer{TOKEN}"):
        assert stranger.get("/api/thing", headers={"Authorization": header}).status_code == 401


def test_a_wrong_token_is_told_from_none(stranger: TestClient) -> None:
    assert "needs a token" in stranger.get("/api/thing").json()["message"]
    wrong = stranger.get("/api/thing", headers={"Authorization": "Bearer another-token"}).json()["message"]
    assert wrong.startswith("This is not the token of the server")


def test_pages_may_be_patterns() -> None:
    stranger = Application(AccessPolicy(TOKEN, pages=("/api/*",))).client
    assert stranger.get("/api/thing").status_code == 200
    assert stranger.post("/api/thing").status_code == 401
    assert stranger.get("/").status_code == 401


def test_no_cookie_is_set_because_browsers_send_it_to_every_port(browser: TestClient) -> None:
    for path in ("/", f"/?token={TOKEN}", "/api/thing"):
        assert "set-cookie" not in browser.get(path).headers


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:3000", "null", "http://localhost:8620", "http://[", "//["]
)
def test_pages_of_other_origins_are_refused(browser: TestClient, application: Application, origin: str) -> None:
    assert browser.post("/api/thing", headers={"Origin": origin}).status_code == 403
    assert application.calls == 0


def test_the_page_itself_is_no_other_origin(browser: TestClient) -> None:
    assert browser.post("/api/thing", headers={"Origin": ADDRESS}).status_code == 200


def test_a_malformed_origin_is_refused_before_the_token_is_checked(stranger: TestClient) -> None:
    assert stranger.post("/api/thing", headers={"Origin": "http://["}).status_code == 403


def test_pages_that_browsers_call_foreign_are_refused(browser: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert browser.get("/api/thing", headers=headers).status_code == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert browser.get("/", headers=link).status_code == 200  # a link in a mail


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8620", "127.0.0.1.evil.example", "10.0.0.7:8620", ""])
def test_names_that_were_pointed_at_this_machine_are_refused(browser: TestClient, host: str) -> None:
    assert browser.get("/api/thing", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8620", "localhost:9999", "[::1]:8620", "LOCALHOST"])
def test_this_machine_has_several_names(stranger: TestClient, host: str) -> None:
    assert stranger.get("/api/thing", headers=BEARER | {"Host": host}).status_code == 200


def test_a_server_for_others_answers_to_addresses_and_its_own_name() -> None:
    client = Application(AccessPolicy(TOKEN, "0.0.0.0")).client
    assert client.get("/api/thing", headers=BEARER | {"Host": "192.168.1.5:8620"}).status_code == 200
    assert client.get("/api/thing", headers=BEARER | {"Host": "evil.example"}).status_code == 421
    assert client.get("/api/thing", headers={"Host": "192.168.1.5:8620"}).status_code == 401


def test_responses_carry_headers_that_keep_scripts_of_others_out(browser: TestClient) -> None:
    for path in ("/", "/api/thing", "/nowhere"):
        headers = browser.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_no_other_page_may_frame_this_one_to_steal_clicks(browser: TestClient) -> None:
    for path in ("/", "/api/thing", "/nowhere"):
        headers = browser.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"].split("; ")
        assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("host", ["[", "[::1", "]", "127.0.0.1:port", "a b"])
def test_a_malformed_host_is_refused_in_a_sentence(stranger: TestClient, host: str) -> None:
    assert stranger.post("/api/thing", headers={"Host": host}).status_code in (401, 421)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("1234567", "7 characters are easy to guess"),
        ("a token with", "ASCII"),
        ("tökentöken", "ASCII"),
        ("token\ttoken", "ASCII"),
    ],
)
def test_a_token_that_is_short_or_that_no_header_holds_is_refused(token: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^--token: .*{why}"):
        check_token(token)


def test_other_tokens_are_taken_and_so_are_our_own() -> None:
    for token in ("12345678", "!#$%&/()=?", new_token()):
        check_token(token)
    assert len({new_token() for _ in range(10)}) == 10
    assert len(new_token()) >= 32, "192 bits"
