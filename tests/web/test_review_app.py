import sqlite3
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from handmade_audit import MAY, TURIN, TURIN_THIRD, small_audit
from lacuner import Corpus, Entity, Sentence
from lacuner.audit.folder import AuditFolder
from lacuner.review.decisions import Decisions
from lacuner.web.access import AccessPolicy
from lacuner.web.review_app import STATIC, create_app

TOKEN = "a-token-for-tests"
ADDRESS = "http://127.0.0.1:8620"
JSON = {"Content-Type": "application/json"}
ADA, GRACE = {"X-Reviewer": "ada-12345678"}, {"X-Reviewer": "grace-12345678"}


@pytest.fixture
def decisions(tmp_path: Path):
    with Decisions(AuditFolder.open(small_audit(tmp_path / "audit"))) as opened:
        yield opened


@pytest.fixture
def stranger(decisions: Decisions) -> TestClient:
    """A browser that does not know the token."""
    return TestClient(create_app(decisions, AccessPolicy(TOKEN)), base_url=ADDRESS)


@pytest.fixture
def browser(stranger: TestClient) -> TestClient:
    """A browser that has opened the address with the token."""
    assert stranger.get("/", params={"token": TOKEN}).status_code == 200
    return stranger


def accept(number: int, version: int = 0, **others: object) -> tuple[str, dict[str, object]]:
    return f"/api/findings/{number}/decide", {"version": version, "action": "accept", **others}


def post(browser: TestClient, path: str, body: object = None, who=ADA, **headers: str):
    return browser.post(path, json={} if body is None else body, headers=who | headers)


def test_nothing_is_shown_or_changed_without_the_token(stranger: TestClient, decisions: Decisions) -> None:
    for path in ("/", "/static/review.js", "/api/review"):
        assert stranger.get(path, headers=ADA).status_code == 401
    for path, body in (accept(TURIN), ("/api/next", {}), ("/api/undo", {}), ("/api/reviewer", {"name": "Eve"})):
        assert post(stranger, path, body).status_code == 401
    assert stranger.get("/", params={"token": TOKEN[:-1]}).status_code == 401
    assert {tally.status for tally in decisions.tallies()} == {"open"}


def test_the_token_moves_from_the_address_into_a_cookie_that_scripts_cannot_read(stranger: TestClient) -> None:
    answer = stranger.get("/", params={"token": TOKEN})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200


def test_programs_may_bring_the_token_in_a_header(stranger: TestClient) -> None:
    assert stranger.get("/api/review", headers=ADA | {"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_token_counts_in_the_address_of_the_page_only(stranger: TestClient) -> None:
    assert post(stranger, f"/api/undo?token={TOKEN}").status_code == 401


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:3000", "null", "http://localhost:8620", "http://[", "//["]
)
def test_pages_of_other_origins_are_refused(browser: TestClient, decisions: Decisions, origin: str) -> None:
    assert post(browser, *accept(TURIN), Origin=origin).status_code == 403
    assert {tally.status for tally in decisions.tallies()} == {"open"}


def test_the_page_itself_is_no_other_origin(browser: TestClient) -> None:
    assert post(browser, *accept(TURIN), Origin=ADDRESS).status_code == 200


def test_pages_that_browsers_call_foreign_are_refused(browser: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        headers = ADA | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert browser.get("/api/review", headers=headers).status_code == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert browser.get("/", headers=link).status_code == 200  # a link in a mail


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8620", "127.0.0.1.evil.example", "10.0.0.7:8620", ""])
def test_names_that_were_pointed_at_this_machine_are_refused(browser: TestClient, host: str) -> None:
    assert browser.get("/api/review", headers=ADA | {"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8620", "localhost:9999", "[::1]:8620", "LOCALHOST"])
def test_this_machine_has_several_names(browser: TestClient, host: str) -> None:
    headers = ADA | {"Host": host, "Authorization": f"Bearer {TOKEN}"}
    assert browser.get("/api/review", headers=headers).status_code == 200


def test_a_server_for_others_answers_to_addresses_and_its_own_name(decisions: Decisions) -> None:
    client = TestClient(create_app(decisions, AccessPolicy(TOKEN, "0.0.0.0")), base_url=ADDRESS)
    headers = ADA | {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/review", headers=headers | {"Host": "192.168.1.5:8620"}).status_code == 200
    assert client.get("/api/review", headers=headers | {"Host": "evil.example"}).status_code == 421
    assert client.get("/api/review", headers=ADA | {"Host": "192.168.1.5:8620"}).status_code == 401


def test_answers_carry_what_keeps_scripts_of_others_out(browser: TestClient) -> None:
    for path in ("/", "/static/review.js", "/nowhere"):
        headers = browser.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in text.replace("// ", "").replace("://", "//") or path.suffix == ".js", path
        assert "http:" not in text, path
        assert "https:" not in text, path
        assert "innerHTML" not in text, path
        assert "style=" not in text, path


def test_the_page_hears_everything_about_the_review(browser: TestClient) -> None:
    post(browser, "/api/reviewer", {"name": "  Ada   L. "})
    about = browser.get("/api/review", headers=ADA).json()
    assert about["labels"] == ["LOC", "ORG", "PER"]
    assert about["estimated_missing"]["total"] == 12
    assert (about["corpus"], about["warning"], about["name"]) == ("names.conll", None, "Ada L.")
    assert sum(tally["count"] for tally in about["tallies"]) == 7


def test_a_decision_is_answered_with_the_next_finding(browser: TestClient) -> None:
    first = post(browser, "/api/next", {}).json()["finding"]
    assert (first["text"], first["words"][4], first["gaps"], first["same"]) == (
        "Turin", "Turin", ["", *[" "] * 5, ""], 2,
    )  # fmt: skip
    answer = post(browser, *accept(TURIN)).json()
    assert (answer["decided"], answer["message"], answer["finding"]["text"]) == (1, "Accepted.", "New York Times")
    assert answer["finding"]["annotated"] == {"start": 0, "end": 2, "label": "LOC", "source": None}
    assert {tally["status"] for tally in answer["tallies"]} == {"open", "accepted"}


def test_what_is_decided_shows_in_the_next_finding_of_the_sentence(browser: TestClient) -> None:
    post(browser, *accept(MAY))
    later = post(browser, "/api/next", {"wanted": {"label": "LOC"}, "after": TURIN_THIRD - 1}).json()["finding"]
    assert {"start": 3, "end": 4, "label": "PER", "source": "reviewer"} in later["entities"]


def test_all_occurrences_are_counted_in_words(browser: TestClient) -> None:
    post(browser, "/api/next", {"after": 3}, GRACE)
    answer = post(browser, *accept(TURIN, everywhere=True)).json()
    assert answer["message"] == "Accepted: 2 findings with these words. Left open: 1 that somebody else is looking at."
    assert post(browser, "/api/undo").json()["message"] == "Undone: 2 findings."


def test_decisions_that_come_too_late_say_so(browser: TestClient) -> None:
    post(browser, *accept(TURIN), GRACE)
    answer = post(browser, *accept(TURIN))
    assert answer.status_code == 409
    assert answer.json()["reason"] == "decided"
    assert "Another reviewer accepted “Turin” meanwhile" in answer.json()["message"]


def test_overlaps_are_put_as_a_question(browser: TestClient) -> None:
    post(browser, *accept(TURIN_THIRD))
    wide = {"start": 3, "end": 6}
    answer = post(browser, *accept(MAY, **wide))
    assert (answer.status_code, answer.json()["reason"], answer.json()["only_one"]) == (409, "overlap", False)
    assert post(browser, *accept(MAY, **wide, overlaps="keep")).status_code == 200


def test_undo_without_decisions_says_so(browser: TestClient) -> None:
    answer = post(browser, "/api/undo")
    assert (answer.status_code, answer.json()["reason"]) == (409, "nothing")


def test_requests_that_make_no_sense_are_refused(browser: TestClient) -> None:
    assert post(browser, "/api/findings/0/decide", {"version": 0, "action": "explode"}).status_code == 422
    assert post(browser, "/api/next", {}, {}).status_code == 422  # from nobody
    assert post(browser, "/api/next", {}, {"X-Reviewer": "'; DROP TABLE findings"}).status_code == 422
    half = browser.post("/api/next", content='{"wanted": {"label": "\\ud800"}}', headers=ADA | JSON)
    assert (half.status_code, half.json()["reason"]) == (422, "wrong")  # half a character
    assert browser.get("/docs").status_code == 404


@pytest.mark.parametrize("number", [99, -1, 2**63, -(2**63) - 1, 10**30])
def test_findings_that_are_not_there_are_not_found(browser: TestClient, number: int) -> None:
    answer = post(browser, *accept(number))
    assert (answer.status_code, answer.json()["message"]) == (404, f"There is no finding {number}.")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_numbers_that_no_finding_can_have_are_not_understood(browser: TestClient, number: int) -> None:
    for path, body in (("/api/next", {"after": number}), ("/api/looking", {"number": number})):
        answer = post(browser, path, body)
        assert (answer.status_code, answer.json()["reason"]) == (422, "wrong")
    assert post(browser, *accept(TURIN, number)).json()["reason"] == "decided"
    assert post(browser, *accept(TURIN, start=number)).json()["reason"] == "wrong"
    assert post(browser, *accept(TURIN, end=number)).json()["reason"] == "wrong"


def test_a_malformed_origin_is_refused_before_the_token_is_asked_for(stranger: TestClient) -> None:
    assert post(stranger, "/api/undo", Origin="http://[").status_code == 403


def let_the_disk_be_full(decisions: Decisions, full: bool = True) -> None:
    """The file may not grow any more."""
    pages = decisions._connection.execute("PRAGMA page_count").fetchone()[0]
    decisions._connection.execute(f"PRAGMA max_page_count = {pages if full else 1_000_000}")


def decide_until_it_fails(browser: TestClient, decisions: Decisions) -> tuple[int, Response]:
    """How many decisions fit, and what the first one hears that does not."""
    version = 0
    while True:
        answer = post(browser, *accept(TURIN, version, label="L" * 100))
        if answer.status_code != 200:
            return version, answer
        version += 1
        assert version < 1000


def test_a_full_disk_is_said_and_nothing_is_half_stored(browser: TestClient, decisions: Decisions) -> None:
    let_the_disk_be_full(decisions)
    stored, answer = decide_until_it_fails(browser, decisions)
    assert (answer.status_code, answer.json()["reason"]) == (503, "storage")
    assert answer.json()["message"] == "Nothing was stored, because the disk is full — make room, and try again."
    assert decisions.show("ada-12345678", TURIN).version == stored
    let_the_disk_be_full(decisions, False)
    assert post(browser, *accept(TURIN, stored)).status_code == 200


def test_a_decision_is_not_stored_if_the_next_finding_cannot_be_given(
    browser: TestClient, decisions: Decisions, monkeypatch
) -> None:
    def fails(*arguments: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(decisions, "_lease", fails)
    answer = post(browser, *accept(TURIN))
    assert (answer.status_code, answer.json()["message"]) == (
        503,
        "Nothing was stored, because review.sqlite cannot be used (disk I/O error)"
        " — see that the folder can be written, and try again.",
    )
    assert {tally.status for tally in decisions.tallies()} == {"open"}
    monkeypatch.undo()
    assert post(browser, *accept(TURIN)).status_code == 200


def test_words_and_gaps_are_those_of_the_raw_text(tmp_path: Path) -> None:
    from handmade_audit import finding, write_audit

    text = "他在 北京👩‍👩‍👧工作。"
    sentence = Sentence(("他", "在", "北", "京", "👩‍👩‍👧", "工作", "。"), (Entity(4, 5, "PER"),), text=text)
    corpus = Corpus((sentence,))
    folder = write_audit(tmp_path / "chinese", corpus, [finding(corpus, 0, 2, 4, "LOC")])
    with Decisions(AuditFolder.open(folder)) as opened:
        client = TestClient(
            create_app(opened, AccessPolicy(TOKEN)), base_url=ADDRESS, headers={"Authorization": f"Bearer {TOKEN}"}
        )
        shown = post(client, "/api/next", {}).json()["finding"]
    assert shown["text"] == "北京"
    assert "".join(gap + word for gap, word in zip(shown["gaps"], [*shown["words"], ""], strict=True)) == text
    assert (shown["start"], shown["end"], shown["entities"][0]["start"]) == (2, 4, 4)
