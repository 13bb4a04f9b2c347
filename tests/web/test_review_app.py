import asyncio
import sqlite3
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx2 import ASGITransport, AsyncClient, Response

from handmade_audit import MAY, TURIN, TURIN_THIRD, finding, small_audit, small_corpus, write_audit
from lacuner import Corpus, Entity, Sentence
from lacuner.audit.folder import AuditFolder
from lacuner.corpus.display.colors import Palette
from lacuner.review.review import Review
from lacuner.web.access import AccessPolicy
from lacuner.web.limits import MAX_BODY
from lacuner.web.review_app import STATIC, create_app
from lacuner.web.work_queue import WorkQueue

TOKEN = "a-token-for-tests"
ADDRESS = "http://127.0.0.1:8620"
JSON = {"Content-Type": "application/json"}
ADA, GRACE = {"X-Reviewer": "ada-12345678"}, {"X-Reviewer": "grace-12345678"}


@pytest.fixture
def review(tmp_path: Path):
    with Review(AuditFolder.open(small_audit(tmp_path / "audit"))) as opened:
        yield opened


@pytest.fixture
def stranger(review: Review) -> TestClient:
    """A browser that does not know the token."""
    return TestClient(create_app(review, AccessPolicy(TOKEN)), base_url=ADDRESS)


@pytest.fixture
def browser(stranger: TestClient) -> TestClient:
    """A page that sends the token."""
    stranger.headers["Authorization"] = f"Bearer {TOKEN}"
    return stranger


def accept(number: int, version: int = 0, **others: object) -> tuple[str, dict[str, object]]:
    return f"/api/items/{number}/decide", {"version": version, "action": "accept", **others}


def post(browser: TestClient, path: str, body: object = None, who=ADA, **headers: str):
    return browser.post(path, json={} if body is None else body, headers=who | headers)


def test_nothing_is_shown_or_changed_without_the_token(stranger: TestClient, review: Review) -> None:
    assert stranger.get("/api/review", headers=ADA).status_code == 401
    for path, body in (accept(TURIN), ("/api/next", {}), ("/api/undo", {}), ("/api/reviewer", {"name": "Eve"})):
        assert post(stranger, path, body).status_code == 401
    corpus = {word for sentence in small_corpus() for word in sentence.tokens if word[0].isupper()}
    for path in ("/", *(f"/static/{file.name}" for file in STATIC.iterdir())):
        assert not corpus & set(stranger.get(path, params={"token": TOKEN}).text.split()), path
    assert {count.status for count in review.counts()} == {"open"}


def test_the_page_itself_is_no_other_origin(browser: TestClient) -> None:
    assert post(browser, *accept(TURIN), Origin=ADDRESS).status_code == 200


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
    assert about["colors"] == dict(Palette.of(about["labels"]).numbers)
    assert about["estimated_missing"]["total"] == 12
    assert (about["corpus"], about["warning"], about["name"]) == ("names.conll", None, "Ada L.")
    assert sum(count["count"] for count in about["counts"]) == 7


def test_a_decision_is_answered_with_the_next_finding(browser: TestClient) -> None:
    first = post(browser, "/api/next", {}).json()["item"]
    assert (first["text"], first["words"][4], first["gaps"], first["other_occurrences"]) == (
        "Turin", "Turin", ["", *[" "] * 5, ""], 2,
    )  # fmt: skip
    answer = post(browser, *accept(TURIN)).json()
    assert (answer["decided"], answer["message"], answer["item"]["text"]) == (1, "Accepted.", "New York Times")
    assert answer["item"]["annotated"] == {"start": 0, "end": 2, "label": "LOC", "source": None}
    assert {count["status"] for count in answer["counts"]} == {"open", "accepted"}


def test_what_is_decided_shows_in_the_next_finding_of_the_sentence(browser: TestClient) -> None:
    post(browser, *accept(MAY))
    later = post(browser, "/api/next", {"filter": {"label": "LOC"}, "after": TURIN_THIRD - 1}).json()["item"]
    assert {"start": 3, "end": 4, "label": "PER", "source": "reviewer"} in later["entities"]


def test_all_occurrences_are_counted_in_words(browser: TestClient) -> None:
    post(browser, "/api/next", {"after": 3}, GRACE)
    answer = post(browser, *accept(TURIN, all_occurrences=True)).json()
    assert answer["message"] == "Accepted: 2 findings with these words. Left open: 1 that somebody else is looking at."
    assert post(browser, "/api/undo").json()["message"] == "Undone: 2 findings."


def test_decisions_that_come_too_late_say_so(browser: TestClient) -> None:
    post(browser, *accept(TURIN), GRACE)
    answer = post(browser, *accept(TURIN))
    assert answer.status_code == 409
    assert answer.json()["reason"] == "already_decided"
    assert "Another reviewer accepted “Turin” meanwhile" in answer.json()["message"]


def test_overlaps_are_put_as_a_question(browser: TestClient) -> None:
    post(browser, *accept(TURIN_THIRD))
    wide = {"start": 3, "end": 6}
    answer = post(browser, *accept(MAY, **wide))
    assert (answer.status_code, answer.json()["reason"], answer.json()["can_keep_both"]) == (409, "overlap", True)
    assert post(browser, *accept(MAY, **wide, on_overlap="keep")).status_code == 200


def test_undo_without_decisions_says_so(browser: TestClient) -> None:
    answer = post(browser, "/api/undo")
    assert (answer.status_code, answer.json()["reason"]) == (409, "nothing_to_undo")


def test_requests_that_make_no_sense_are_refused(browser: TestClient) -> None:
    assert post(browser, "/api/items/0/decide", {"version": 0, "action": "explode"}).status_code == 422
    assert post(browser, "/api/next", {}, {}).status_code == 422  # from nobody
    assert post(browser, "/api/next", {}, {"X-Reviewer": "'; DROP TABLE findings"}).status_code == 422
    half = browser.post("/api/next", content='{"filter": {"label": "\\ud800"}}', headers=ADA | JSON)
    assert (half.status_code, half.json()["reason"]) == (422, "invalid")  # half a character
    misdirected = (("/docs", 404, "There is no path '/docs'."), ("/api/next", 405, "/api/next does not take GET."))
    for path, status, message in misdirected:
        answer = browser.get(path, headers=ADA)
        assert (answer.status_code, answer.json()) == (status, {"reason": "request", "message": message})


@pytest.mark.parametrize("number", [99, -1, 2**63, -(2**63) - 1, 10**30])
def test_findings_that_are_not_there_are_not_found(browser: TestClient, number: int) -> None:
    answer = post(browser, *accept(number))
    assert (answer.status_code, answer.json()["message"]) == (404, f"There is no finding {number}.")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_numbers_that_no_finding_can_have_are_not_understood(browser: TestClient, number: int) -> None:
    for path, body in (("/api/next", {"after": number}), ("/api/heartbeat", {"number": number})):
        answer = post(browser, path, body)
        assert (answer.status_code, answer.json()["reason"]) == (422, "invalid")
    assert post(browser, *accept(TURIN, number)).json()["reason"] == "already_decided"
    assert post(browser, *accept(TURIN, start=number)).json()["reason"] == "invalid"
    assert post(browser, *accept(TURIN, end=number)).json()["reason"] == "invalid"


def test_the_largest_number_that_sqlite_holds_is_understood(browser: TestClient) -> None:
    assert post(browser, "/api/heartbeat", {"number": 2**63 - 1}).status_code == 200
    assert post(browser, "/api/next", {"after": 2**63 - 1}).json()["item"]["number"] == TURIN


def let_the_disk_be_full(review: Review, full: bool = True) -> None:
    """The file may not grow any more."""
    pages = review._store._connection.execute("PRAGMA page_count").fetchone()[0]
    review._store._connection.execute(f"PRAGMA max_page_count = {pages if full else 1_000_000}")


def decide_until_it_fails(browser: TestClient, review: Review) -> tuple[int, Response]:
    """How many decisions fit, and what the first one hears that does not."""
    version = 0
    while True:
        answer = post(browser, *accept(TURIN, version, label="L" * 100))
        if answer.status_code != 200:
            return version, answer
        version += 1
        assert version < 1000


def test_a_full_disk_is_said_and_nothing_is_half_stored(browser: TestClient, review: Review) -> None:
    let_the_disk_be_full(review)
    stored, answer = decide_until_it_fails(browser, review)
    assert (answer.status_code, answer.json()["reason"]) == (503, "storage")
    assert answer.json()["message"] == "Nothing was stored, because the disk is full — make room, and try again."
    assert review.view("ada-12345678", TURIN).version == stored
    let_the_disk_be_full(review, False)
    assert post(browser, *accept(TURIN, stored)).status_code == 200


def test_a_decision_is_not_stored_if_the_next_finding_cannot_be_given(
    browser: TestClient, review: Review, monkeypatch
) -> None:
    def fails(*arguments: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(review._store, "lease", fails)
    answer = post(browser, *accept(TURIN))
    assert (answer.status_code, answer.json()["message"]) == (
        503,
        "Nothing was stored, because review.sqlite cannot be used (disk I/O error)"
        " — see that the folder can be written, and try again.",
    )
    assert {count.status for count in review.counts()} == {"open"}
    monkeypatch.undo()
    assert post(browser, *accept(TURIN)).status_code == 200


def test_words_and_gaps_are_those_of_the_raw_text(tmp_path: Path) -> None:
    text = "他在 北京👩‍👩‍👧工作。"
    sentence = Sentence(("他", "在", "北", "京", "👩‍👩‍👧", "工作", "。"), (Entity(4, 5, "PER"),), text=text)
    corpus = Corpus((sentence,))
    folder = write_audit(tmp_path / "chinese", corpus, [finding(corpus, 0, 2, 4, "LOC")])
    with Review(AuditFolder.open(folder)) as opened:
        client = TestClient(
            create_app(opened, AccessPolicy(TOKEN)), base_url=ADDRESS, headers={"Authorization": f"Bearer {TOKEN}"}
        )
        view = post(client, "/api/next", {}).json()["item"]
    assert view["text"] == "北京"
    assert "".join(gap + word for gap, word in zip(view["gaps"], [*view["words"], ""], strict=True)) == text
    assert (view["start"], view["end"], view["entities"][0]["start"]) == (2, 4, 4)


@pytest.mark.parametrize(
    "label", ["PER\x00", "\x1b[31mPER", "PER\x7f", "P\u202eER", "PER\ufeff", "P ER", "P\u2028ER", ""]
)
def test_labels_with_invisible_characters_are_refused(browser: TestClient, review: Review, label: str) -> None:
    answer = post(browser, *accept(TURIN, label=label))
    assert (answer.status_code, answer.json()["reason"]) == (409, "invalid")
    assert "no spaces or control characters" in answer.json()["message"]
    assert {count.status for count in review.counts()} == {"open"}


@pytest.mark.parametrize("label", ["PER", "人名", "می\u200cروم", "person/author", "B-PER"])
def test_labels_of_any_language_are_taken(browser: TestClient, label: str) -> None:
    assert post(browser, *accept(TURIN, label=label)).status_code == 200


def test_a_name_cannot_change_how_others_see_the_page(browser: TestClient) -> None:
    assert post(browser, "/api/reviewer", {"name": "\x1b[2JAda\u202e\n L."}).json() == {"name": "[2JAda L."}


def test_decisions_are_not_acknowledged_after_the_database_was_deleted(browser: TestClient, review: Review) -> None:
    assert post(browser, *accept(TURIN)).status_code == 200
    (review.folder.path / "review.sqlite").unlink()
    for path, body in (accept(MAY), ("/api/next", {}), ("/api/heartbeat", {"number": MAY}), ("/api/undo", {})):
        answer = post(browser, path, body)
        assert (answer.status_code, answer.json()["reason"]) == (503, "storage"), path
        assert "was deleted, moved or replaced while it was in use — move it back, or" in answer.json()["message"]
    assert browser.get("/api/review", headers=ADA).status_code == 503


def test_a_database_that_is_moved_back_is_used_again(browser: TestClient, review: Review) -> None:
    path = review.folder.path / "review.sqlite"
    path.rename(path.with_name("moved.sqlite"))
    assert post(browser, *accept(TURIN)).status_code == 503
    path.with_name("moved.sqlite").rename(path)
    assert post(browser, *accept(TURIN)).status_code == 200


def test_a_large_body_is_refused_before_it_is_read(browser: TestClient) -> None:
    for size, status in ((MAX_BODY + 1, 413), (MAX_BODY, 422)):
        answer = browser.post("/api/next", content=b"x" * size, headers=ADA | JSON)
        assert (answer.status_code, answer.json()["reason"]) == (status, "invalid")
    pieces = browser.post("/api/next", content=iter([b"{", b"}"]), headers=ADA | JSON)
    assert pieces.status_code == 411


def test_a_program_that_holds_the_database_stops_neither_the_page_nor_the_server(review: Review) -> None:
    """More requests wait for the database than there are threads; the page comes nevertheless."""
    queue = WorkQueue(review.together, max_waiting=50, max_seconds=0.5)
    app = create_app(review, AccessPolicy(TOKEN), queue)
    review._store._connection.execute("PRAGMA busy_timeout = 2000")
    other = sqlite3.connect(review.folder.path / "review.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def use() -> tuple[list[Response], Response, float]:
        headers = ADA | {"Authorization": f"Bearer {TOKEN}"}
        async with AsyncClient(transport=ASGITransport(app), base_url=ADDRESS, headers=headers) as client:
            waiting = [asyncio.create_task(client.post("/api/next", json={})) for _ in range(60)]
            await asyncio.sleep(0.2)
            began = time.perf_counter()
            script = await client.get("/static/review.js")
            seconds = time.perf_counter() - began
            return await asyncio.gather(*waiting), script, seconds

    answers, script, seconds = asyncio.run(use())
    other.execute("ROLLBACK")
    other.close()
    assert (script.status_code, script.text[:2]) == (200, "//")
    assert seconds < 1
    assert {(answer.status_code, answer.json()["reason"]) for answer in answers} == {(503, "storage")}
    messages = [answer.json()["message"] for answer in answers]
    assert sum("the server is busy" in message for message in messages) >= 10
    assert any("another program has been writing to review.sqlite" in message for message in messages)
