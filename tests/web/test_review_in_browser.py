"""The review as people use it: the command, a real browser, keys and mouse."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from handmade_audit import finding, small_audit, statuses, write_audit
from lacuner import Corpus, Entity, Sentence
from lacuner.audit.folder import AuditFolder
from lacuner.review.review import Review
from lacuner.web.access import AccessPolicy
from lacuner.web.review_app import create_app
from lacuner.web.server import address, listen, serve

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; make setup installs it")
Page, expect = playwright.Page, playwright.expect
expect.set_options(timeout=20_000)  # every decision waits for the disk, which may be busy

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; make setup installs it where it can")
TOKEN = "a-token-for-tests"


class Server:
    """The server of a review, in a thread."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder, self.port = folder, port

    def start(self) -> "Server":
        ready = threading.Event()
        sock = listen("127.0.0.1", self.port)
        self.port = sock.getsockname()[1]
        self.url = address("127.0.0.1", self.port, TOKEN)
        self.review = Review(AuditFolder.open(self.folder))
        app = create_app(self.review, AccessPolicy(TOKEN))
        self.thread = threading.Thread(target=serve, args=(app, sock, ready.set), daemon=True)
        self.thread.start()
        assert ready.wait(20)
        return self

    def stop(self) -> None:
        """The thread ends with the tests."""
        self.review.close()

    def statuses(self) -> dict[str, int]:
        with Review(AuditFolder.open(self.folder)) as review:
            return statuses(review)

    def sentence_of(self, number: int) -> Sentence:
        with Review(AuditFolder.open(self.folder)) as review:
            return review.view("somebody-else", number).sentence


class Command(Server):
    """``lacuner review`` in a process of its own."""

    def start(self) -> "Command":
        options = ["--no-browser", "--json", "--token", TOKEN, "--port", str(self.port)]
        command = [sys.executable, "-m", "lacuner", "review", str(self.folder), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.port = int(self.url.partition("127.0.0.1:")[2].partition("/")[0])
        return self

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        self.process.communicate(timeout=20)


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Starts a server that is stopped after the test."""
    servers: list[Server] = []

    def start_one(folder: Path, kind: type[Server] = Server) -> Server:
        servers.append(kind(folder).start())
        return servers[-1]

    yield start_one
    for server in servers:
        server.stop()


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., Page]]:
    """Opens a review as a new person would: in a browser without cookies."""
    contexts = []

    def open_page(server: Server, **options: object) -> Page:
        context = chromium.new_context(**options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda said: page.problems.append(said.text) if said.type == "error" else None)
        page.goto(server.url)
        page.wait_for_selector("#item:not([hidden]), #empty:not([hidden])")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def server(start, tmp_path: Path) -> Server:
    return start(small_audit(tmp_path / "audit"))


def marked(page: Page) -> str:
    """The words that would be accepted."""
    return page.eval_on_selector_all("mark .word", "words => words.map(word => word.textContent).join(' ')")


def question(page: Page, text: str) -> None:
    expect(page.locator("#question")).to_contain_text(text)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_findings_are_decided_with_single_keys(server: Server, visit) -> None:
    page = visit(server)
    question(page, "Is “Turin” a missing LOC?")
    press(page, "a")
    question(page, "“New York” is annotated as LOC. Is it rather “New York Times”, ORG?")
    assert server.statuses() == {"accepted": 1, "open": 6}  # stored before the next one is view
    press(page, "r")
    question(page, "“Arsenal” is annotated as LOC. Is it rather ORG?")
    press(page, "s")
    question(page, "“May” is annotated as PER. Is it no entity at all?")
    expect(page.locator("#progress")).to_have_text("2 of 7 decided: 1 accepted, 1 rejected · 1 skipped · 4 open")
    assert server.statuses() == {"accepted": 1, "rejected": 1, "skipped": 1, "open": 4}
    press(page, "u")
    question(page, "“Arsenal” is")
    press(page, "z")
    question(page, "“New York Times”")
    press(page, "Control+z")
    question(page, "Is “Turin”")
    expect(page.locator("#notice")).to_have_text("Undone: “Turin”.")
    press(page, "u")
    expect(page.locator("#notice")).to_contain_text("no decision of yours")
    assert server.statuses() == {"open": 7}
    assert page.problems == ["Failed to load resource: the server responded with a status of 409 (Conflict)"]


def test_labels_and_borders_follow_the_keys(server: Server, visit) -> None:
    page = visit(server)
    assert marked(page) == "Turin"
    press(page, "ArrowLeft", "2")
    assert marked(page) == "to Turin"
    press(page, "Shift+ArrowRight", "ArrowLeft", "ArrowRight")
    assert marked(page) == "to Turin ."
    expect(page.locator("mark .tag")).to_have_text("ORG")
    expect(page.locator("#accept-text")).to_have_text("add “to Turin .” ORG")
    press(page, "Shift+ArrowLeft", "a")
    question(page, "“New York Times”")
    assert server.sentence_of(0).entities == (Entity(0, 2, "PER"), Entity(3, 5, "ORG"))
    press(page, "ArrowRight")
    assert marked(page) == "York Times"
    press(page, "Escape")
    assert marked(page) == "New York Times"
    press(page, "0", "a")
    question(page, "“Arsenal” is")
    assert server.sentence_of(1).entities == ()


def test_words_are_marked_with_the_mouse(server: Server, visit) -> None:
    page = visit(server)
    word = page.locator("#sentence .word")
    word.nth(2).click()
    assert marked(page) == "moved"
    word.nth(4).click(modifiers=["Shift"])
    assert marked(page) == "moved to Turin"
    box = word.nth(3).bounding_box()
    end = word.nth(5).bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(end["x"] + 2, end["y"] + 5, steps=5)
    page.mouse.up()
    assert marked(page) == "to Turin ."
    page.get_by_role("button", name="end one word earlier").click()
    page.get_by_role("button", name="beginning one word later").click()
    assert marked(page) == "Turin"
    page.locator("#accept").click()
    question(page, "“New York Times”")
    assert server.sentence_of(0).entities == (Entity(0, 2, "PER"), Entity(4, 5, "LOC"))


def test_one_can_look_on_and_back_with_buttons(server: Server, visit) -> None:
    page = visit(server, viewport={"width": 360, "height": 740})
    page.get_by_role("button", name="Next").click()
    question(page, "“New York Times”")
    page.get_by_role("button", name="Previous").click()
    question(page, "Is “Turin”")
    page.get_by_role("button", name="Previous").click()
    question(page, "Is “May” a missing PER?")
    assert server.statuses() == {"open": 7}


def test_sentences_are_counted_from_one(server: Server, visit) -> None:
    page = visit(server)
    expect(page.locator("#facts")).to_have_text("missing · 95 % probable · sentence 1")
    press(page, "n")
    expect(page.locator("#facts")).to_contain_text("sentence 2")


def test_the_arrows_stay_under_the_pointer(server: Server, visit) -> None:
    for width in (360, 700, 1280):
        page = visit(server, viewport={"width": width, "height": 740})
        arrow = page.get_by_role("button", name="end one word later")
        before = arrow.bounding_box()
        arrow.click()
        expect(page.locator("#reset")).to_be_visible()
        assert arrow.bounding_box() == before


def test_a_label_can_be_typed(server: Server, visit) -> None:
    page = visit(server)
    press(page, "l")
    page.keyboard.type("CITY")
    press(page, "Enter")
    expect(page.locator("#other-dialog")).to_be_hidden()  # until then keys are typed into it
    expect(page.locator("mark .tag")).to_have_text("CITY")
    press(page, "a")
    question(page, "“New York Times”")
    assert Entity(4, 5, "CITY") in server.sentence_of(0).entities


def test_all_occurrences_are_decided_and_undone_at_once(server: Server, visit) -> None:
    page = visit(server)
    expect(page.locator("#all-occurrences-row")).to_contain_text("the 2 other open findings with these words")
    press(page, "o", "r")
    expect(page.locator("#notice")).to_have_text("Rejected: 3 findings with these words.")
    assert server.statuses() == {"rejected": 3, "open": 4}
    press(page, "u")
    expect(page.locator("#notice")).to_have_text("Undone: 3 findings.")
    assert server.statuses() == {"open": 7}


def test_findings_are_filtered(server: Server, visit) -> None:
    page = visit(server)
    page.get_by_label("Kind").select_option("boundary")
    question(page, "“New York Times”")
    expect(page.locator("#label option")).to_have_text(["all labels", "LOC (0)", "ORG (1)", "PER (0)", "no entity (0)"])
    press(page, "Tab")
    page.locator("#accept").click()
    expect(page.locator("#empty-title")).to_have_text("Nothing here")
    page.get_by_role("button", name="Show all 6 open findings").click()
    question(page, "Is “Turin”")
    page.locator("#status").focus()
    page.locator("#status").select_option("accepted")
    press(page, "Escape")
    question(page, "“New York Times”")
    expect(page.locator("#facts")).to_contain_text("accepted")
    press(page, "r")  # somebody thought better of it
    expect(page.locator("#empty-title")).to_be_visible()
    assert server.statuses() == {"rejected": 1, "open": 6}


def test_overlaps_are_asked_about(server: Server, visit) -> None:
    page = visit(server)
    for _ in range(5):
        press(page, "ArrowLeft")
    assert marked(page) == "Ada Lovelace moved to Turin"
    press(page, "a")
    expect(page.locator("#conflict-text")).to_contain_text(
        "overlaps “Ada Lovelace” (PER), which is annotated or accepted already"
    )
    expect(page.get_by_role("button", name="Replace it")).to_be_focused()
    press(page, "Escape")
    expect(page.locator("#conflict")).to_be_hidden()
    assert server.statuses() == {"open": 7}
    press(page, "a")
    expect(page.locator("#conflict")).to_be_visible()
    press(page, "k")
    question(page, "“New York Times”")
    assert server.sentence_of(0).entities == (Entity(0, 2, "PER"), Entity(0, 5, "LOC"))


def test_two_reviewers_see_different_findings_and_overwrite_nothing(server: Server, visit) -> None:
    ada, grace = visit(server), visit(server)
    ada.get_by_label("Your name").fill("Ada")
    press(ada, "Enter")
    question(ada, "Is “Turin”")
    question(grace, "“New York Times”")
    with Review(AuditFolder.open(server.folder)) as review:
        review._store._connection.execute("DELETE FROM leases")  # Ada was away for long
    press(grace, "p")
    question(grace, "Is “Turin”")
    press(ada, "a")
    question(ada, "“New York Times”")
    press(grace, "r")
    expect(grace.locator("#notice")).to_have_text("Ada accepted “Turin” meanwhile, so your decision was not stored.")
    assert server.statuses() == {"accepted": 1, "open": 6}
    press(grace, "u")
    expect(grace.locator("#notice")).to_contain_text("no decision of yours")
    assert server.statuses() == {"accepted": 1, "open": 6}


def test_a_killed_server_has_lost_nothing_and_the_page_goes_on(start, visit, tmp_path: Path) -> None:
    server = start(small_audit(tmp_path / "audit"), Command)
    page = visit(server)
    press(page, "a")
    question(page, "“New York Times”")
    press(page, "r")
    question(page, "“Arsenal” is")
    server.stop(signal.SIGKILL)
    press(page, "a")
    expect(page.locator("#notice")).to_contain_text("The server does not answer. What was decided is stored.")
    question(page, "“Arsenal” is")
    assert server.statuses() == {"accepted": 1, "rejected": 1, "open": 5}
    server.start()  # the same port and token, as one can ask for
    press(page, "a")
    question(page, "“May” is")
    assert server.statuses() == {"accepted": 2, "rejected": 1, "open": 4}
    press(page, "u")
    question(page, "“Arsenal” is")
    press(page, "u")
    question(page, "“New York Times”")
    assert server.statuses() == {"accepted": 1, "open": 6}


def test_what_cannot_be_stored_is_said_and_can_be_decided_again(server: Server, visit, monkeypatch) -> None:
    def fails(*arguments: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    page = visit(server)
    monkeypatch.setattr(server.review._store, "add_decision", fails)
    press(page, "a")
    expect(page.locator("#notice")).to_contain_text("Nothing was stored, because review.sqlite cannot be used")
    question(page, "Is “Turin”")
    monkeypatch.undo()
    press(page, "a")
    question(page, "“New York Times”")
    assert server.statuses() == {"accepted": 1, "open": 6}


EVIL = "<script>document.title='owned'</script>"
IMAGE = "<img/src=x/onerror=document.title='owned'>"


def test_markup_in_text_and_labels_is_text(start, visit, tmp_path: Path) -> None:
    corpus = Corpus((Sentence(("See", EVIL, IMAGE, "now"), (Entity(2, 3, "<b>PER"),)),))
    records = [finding(corpus, 0, 1, 2, "<i>LOC")]
    server = start(write_audit(tmp_path / "evil", corpus, records))
    page = visit(server)
    assert marked(page) == EVIL
    expect(page.locator("#question")).to_contain_text(EVIL)
    expect(page.locator("mark .tag")).to_have_text("<i>LOC")
    expect(page.locator("#sentence")).to_contain_text(IMAGE)
    assert page.locator("#sentence script, #sentence img, main b:not(#actions b), i").count() == 0
    assert page.title() == "Review of names.conll"
    press(page, "a")
    expect(page.locator("#notice")).to_have_text(f"Accepted: “{EVIL}”.")
    assert page.title() == "Review of names.conll"
    assert page.problems == []


def test_right_to_left_text_moves_with_the_arrows_that_one_sees(start, visit, tmp_path: Path) -> None:
    words = ("נסע", "דוד", "לוי", "אל", "תל", "אביב", "אתמול")
    corpus = Corpus((Sentence(words, (Entity(1, 3, "PER"),)), Sentence(("x",))))
    server = start(write_audit(tmp_path / "hebrew", corpus, [finding(corpus, 0, 4, 5, "LOC")]))
    page = visit(server)
    assert page.eval_on_selector("#sentence", "box => getComputedStyle(box).direction") == "rtl"
    press(page, "Shift+ArrowLeft")  # on the screen the sentence goes on to the left
    assert marked(page) == "תל אביב"
    press(page, "ArrowRight")
    assert marked(page) == "אל תל אביב"
    press(page, "ArrowLeft")
    first, second = (page.locator("#sentence .word").nth(place).bounding_box() for place in (4, 5))
    assert second["x"] < first["x"]
    press(page, "a")
    expect(page.locator("#empty-title")).to_have_text("Everything is decided")
    assert server.sentence_of(0).entities == (Entity(1, 3, "PER"), Entity(4, 6, "LOC"))


def test_emoji_and_combined_characters_do_not_shift_words(start, visit, tmp_path: Path) -> None:
    text = "👩‍👩‍👧 met José́ 🇳🇴 in 𝒪slo 🎉!"
    words = ("👩‍👩‍👧", "met", "José́", "🇳🇴", "in", "𝒪slo", "🎉", "!")
    corpus = Corpus((Sentence(words, (Entity(2, 3, "PER"),), text=text),))
    server = start(write_audit(tmp_path / "emoji", corpus, [finding(corpus, 0, 5, 6, "LOC")]))
    page = visit(server)
    assert marked(page) == "𝒪slo"
    assert page.eval_on_selector_all("#sentence .word", "all => all.map(word => word.textContent)") == list(words)
    expect(page.locator(".entity .word")).to_have_text("José́")
    page.locator("#sentence .word").nth(6).click(modifiers=["Shift"])
    press(page, "a")
    expect(page.locator("#empty-title")).to_have_text("Everything is decided")
    assert server.sentence_of(0).entities[1] == Entity(5, 7, "LOC")
    assert server.sentence_of(0).text_of(5, 7) == "𝒪slo 🎉"


def test_fifty_thousand_findings_open_at_once(start, visit, tmp_path: Path) -> None:
    corpus = Corpus(tuple(Sentence((f"Name{number}", "met", "Ada", "in", "Turin")) for number in range(25_000)))
    records = [finding(corpus, number, 0, 1, "PER", 0.9 - number / 1e5) for number in range(25_000)]
    records += [finding(corpus, number, 4, 5, "LOC", 0.5 - number / 1e5) for number in range(25_000)]
    server = start(write_audit(tmp_path / "many", corpus, records))
    page = visit(server)
    expect(page.locator("#progress")).to_contain_text("0 of 50,000 decided")
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(len(answer.body())))
    began = time.perf_counter()
    page.reload()
    question(page, "Is “Name0”")
    opened = time.perf_counter()
    for number in range(1, 11):
        press(page, "a")
        question(page, f"Is “Name{number}”")
    done = time.perf_counter()
    page.locator("#label").select_option("LOC")
    question(page, "Is “Turin”")
    expect(page.locator("#all-occurrences-row")).to_contain_text("the 24,999 other open findings")
    assert opened - began < 5  # generous: the machine may be busy
    assert (done - opened) / 10 < 1
    assert max(sizes) < 40_000
    assert server.statuses() == {"accepted": 10, "open": 49_990}


def test_what_is_left_is_said_in_words(server: Server, visit) -> None:
    page = visit(server)
    expect(page.locator("#left")).to_have_text(
        "Of the 7 undecided findings, about 5 are right, going by their probabilities."
    )
    expect(page.locator("#left-beyond")).to_have_text(
        "The audit estimated that 12 entities are missing in the corpus (between 8 and 16), in the list or not."
    )
    press(page, "a")
    expect(page.locator("#left-beyond")).to_contain_text("1 missing one is accepted, so about 11 are left.")


def test_when_everything_is_decided_the_page_says_how_to_go_on(server: Server, visit) -> None:
    page = visit(server)
    for number in range(7):
        expect(page.locator("#progress")).to_contain_text(f"{7 - number} open")
        press(page, "s" if number == 3 else "a")
    expect(page.locator("#empty-title")).to_have_text("Everything is decided, except for what was skipped")
    expect(page.locator("#empty-text")).to_contain_text("--export reviewed.jsonl")
    page.get_by_role("button", name="Look at the 1 skipped").click()
    question(page, "Is it no entity at all?")


@pytest.fixture
def short_server(start, tmp_path: Path) -> Server:
    """A review with a single finding."""
    corpus = Corpus((Sentence(("Ada", "left", "Turin")),))
    return start(write_audit(tmp_path / "short", corpus, [finding(corpus, 0, 2, 3, "LOC")]))


@pytest.mark.parametrize("width", [360, 1280])
def test_the_last_decision_can_be_undone_without_a_keyboard(short_server: Server, visit, width: int) -> None:
    page = visit(short_server, viewport={"width": width, "height": 740}, has_touch=True)
    page.locator("#accept").tap()
    expect(page.locator("#empty-title")).to_have_text("Everything is decided")
    for name in ("accept", "reject", "skip", "previous", "next", "all-occurrences-row"):
        expect(page.locator(f"#{name}")).to_be_hidden()
    expect(page.locator("#undo")).to_be_in_viewport()
    page.locator("#undo").tap()
    question(page, "Is “Turin”")
    expect(page.locator("#accept")).to_be_visible()
    expect(page.locator("#notice")).to_have_text("Undone: “Turin”.")
    assert short_server.statuses() == {"open": 1}


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_key_that_is_held_down_decides_about_one_finding(server: Server, visit, key: str) -> None:
    page = visit(server)
    page.locator("#reject").focus()
    for _ in range(8):
        page.keyboard.down(key)
        page.wait_for_timeout(60)
    page.keyboard.up(key)
    question(page, "“New York Times”")
    expect(page.locator("#reject")).to_be_focused()
    page.wait_for_timeout(200)
    assert server.statuses() == {"rejected": 1, "open": 6}
    press(page, key)
    question(page, "“Arsenal” is")


def test_a_double_click_is_one_decision_and_a_click_afterwards_the_next(server: Server, visit) -> None:
    page = visit(server)
    page.locator("#reject").dblclick(delay=120)
    question(page, "“New York Times”")
    page.wait_for_timeout(200)
    assert server.statuses() == {"rejected": 1, "open": 6}
    page.locator("#reject").click()
    question(page, "“Arsenal” is")


def test_a_key_that_is_held_down_does_not_answer_the_question_about_overlaps(server: Server, visit) -> None:
    page = visit(server)
    page.locator("#sentence .word").nth(0).click(modifiers=["Shift"])
    assert marked(page) == "Ada Lovelace moved to Turin"
    page.locator("#accept").focus()
    for _ in range(8):
        page.keyboard.down("Enter")
        page.wait_for_timeout(60)
    page.keyboard.up("Enter")
    expect(page.locator("#conflict-replace")).to_be_focused()
    assert server.statuses() == {"open": 7}


def test_the_focus_stays_where_one_can_go_on(server: Server, visit) -> None:
    page = visit(server)
    press(page, "ArrowLeft")
    page.locator("#reset").focus()
    press(page, "Enter")
    expect(page.locator("#reset")).to_be_hidden()
    expect(page.locator("#sentence")).to_be_focused()
    press(page, "ArrowLeft")
    page.locator("#reset").focus()
    press(page, "ArrowRight")  # back to the suggestion in another way
    expect(page.locator("#sentence")).to_be_focused()
    page.locator("#other-button").focus()
    press(page, "Enter")
    page.keyboard.type("CITY")
    press(page, "Enter")
    expect(page.locator("mark .tag")).to_have_text("CITY")
    expect(page.locator("#other-button")).to_be_focused()
    page.locator("#all-occurrences").focus()
    press(page, "r")
    question(page, "“New York Times”")
    expect(page.locator("#all-occurrences")).to_be_hidden()
    expect(page.locator("#sentence")).to_be_focused()


def test_the_focus_finds_the_way_when_nothing_is_left_and_back(short_server: Server, visit) -> None:
    page = visit(short_server)
    page.locator("#accept").focus()
    press(page, "Enter")
    expect(page.locator("#empty-button")).to_be_focused()
    press(page, "u")
    question(page, "Is “Turin”")
    expect(page.locator("#sentence")).to_be_focused()
    press(page, "a")
    expect(page.locator("#empty-button")).to_be_focused()
    page.locator("#status").focus()
    page.locator("#status").select_option("rejected")
    expect(page.locator("#empty-title")).to_have_text("Everything is decided")
    expect(page.locator("#status")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 1280])
def test_the_page_fits_and_can_be_read(server: Server, visit, scheme: str, width: int) -> None:
    page = visit(server, color_scheme=scheme, viewport={"width": width, "height": 740})
    for number in range(4):
        question(page, ("Turin", "New York Times", "Arsenal", "May")[number])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(FAINT_TEXT) == []
        for name in ("accept", "reject", "skip", "undo", "previous", "next"):
            box = page.locator(f"#{name}").bounding_box()
            assert box["height"] >= 36
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert page.eval_on_selector(f"#{name}", "button => button.scrollWidth <= button.clientWidth")
        press(page, "n")
    press(page, "?")
    expect(page.get_by_role("dialog", name="How to review")).to_be_visible()
    assert page.evaluate(FAINT_TEXT) == []
    press(page, "Escape")
    expect(page.locator("#help")).to_be_hidden()


FAINT_TEXT = """() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const style = getComputedStyle(node);
    if (!own || !node.checkVisibility({ visibilityProperty: true }) || node.closest(".unseen, option, noscript")) continue;
    const [one, other] = [luminance(parse(style.color)), luminance(behind(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) faint.push(`${node.tagName}#${node.id} ${node.textContent} ${ratio}`);
  }
  return faint;
}"""


def test_everything_has_a_name_and_can_be_reached_with_the_keyboard(server: Server, visit) -> None:
    page = visit(server)
    for role, name in [
        ("combobox", "Show"), ("combobox", "Kind"), ("textbox", "Your name"), ("progressbar", "Decided findings"),
        ("button", "Accept A add “Turin” LOC"), ("button", "Reject R “Turin” is no entity"), ("button", "Skip"),
        ("button", "Undo"), ("button", "beginning one word earlier"), ("button", "end one word later"),
        ("checkbox", "also decide about"), ("button", "LOC 1"), ("group", "Label"),
    ]:  # fmt: skip
        expect(page.get_by_role(role, name=name).first).to_be_visible()
    expect(page.get_by_role("button", name="LOC 1")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#announcer")).to_contain_text("Is “Turin” a missing LOC? 95 % probable. Ada Lovelace moved")
    reached = set()
    for _ in range(40):
        press(page, "Tab")
        active = "[document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]"
        name, outline = page.evaluate(active)
        if name:
            assert outline != "none", name
        reached.add(name)
    assert reached >= {
        "status",
        "kind",
        "label",
        "name",
        "help-button",
        "start-left",
        "end-right",
        "all-occurrences",
        "accept",
        "undo",
    }
    page.locator("#reject").focus()
    press(page, "Space")
    question(page, "“New York Times”")
    assert server.statuses() == {"rejected": 1, "open": 6}


def test_shortcuts_can_be_switched_off_and_typing_is_no_shortcut(server: Server, visit) -> None:
    page = visit(server)
    page.get_by_label("Your name").focus()
    page.keyboard.type("sara")
    press(page, "Enter", "?")
    page.get_by_label("Letters and numbers are shortcuts").uncheck()
    press(page, "Escape", "a", "r", "s")
    page.reload()
    question(page, "Is “Turin”")
    press(page, "a")
    assert page.get_by_label("Your name").input_value() == "sara"
    assert server.statuses() == {"open": 7}


def test_the_page_asks_nobody_else_and_the_token_leaves_the_address(server: Server, visit) -> None:
    page = visit(server)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    question(page, "Is “Turin”")
    assert len(asked) > 5
    assert all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in asked)
    assert page.url == f"http://127.0.0.1:{server.port}/"
    assert page.evaluate("document.cookie") == ""


def test_a_page_without_the_token_says_what_to_open_and_takes_it_in_the_same_tab(server: Server, chromium) -> None:
    stranger = chromium.new_context()
    page = stranger.new_page()
    page.goto(f"http://127.0.0.1:{server.port}/")
    expect(page.locator("#notice")).to_contain_text("This page needs a token: open the whole address")
    page.goto(server.url)  # only the fragment differs, so the browser itself loads nothing
    question(page, "Is “Turin”")
    assert page.url == f"http://127.0.0.1:{server.port}/"
    page.reload()
    question(page, "Is “Turin”")
    stranger.close()


def test_pages_of_other_servers_cannot_decide(server: Server, visit) -> None:
    heard: list[str] = []

    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.path} {self.headers}")
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>elsewhere</title>")

        def log_message(self, *arguments: object) -> None:
            pass

    page = visit(server)
    elsewhere = HTTPServer(("127.0.0.1", 0), Foreign)  # the same machine is the same site, so cookies would come along
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    page.goto(f"http://127.0.0.1:{elsewhere.server_port}/")
    attack = """async (url) => {
      const options = { method: "POST", credentials: "include", body: JSON.stringify({ version: 0, action: "accept" }) };
      const send = (more) => fetch(url, { ...options, ...more }).then(() => "sent", () => "blocked");
      return [await send({ mode: "no-cors" }), await send({ headers: { "X-Reviewer": "evil-12345678" } })];
    }"""
    assert page.evaluate(attack, f"http://127.0.0.1:{server.port}/api/items/0/decide") == ["blocked", "blocked"]
    elsewhere.shutdown()
    assert heard
    assert not any(TOKEN in request or "Cookie" in request for request in heard)
    assert page.evaluate("[...Object.values(sessionStorage), ...Object.values(localStorage)]") == []
    assert server.statuses() == {"open": 7}


def test_a_corpus_that_changed_since_the_audit_is_said_on_the_page(start, visit, tmp_path: Path) -> None:
    source = tmp_path / "train.conll"
    source.write_text("Turin\tB-LOC\n", encoding="utf-8")
    folder = small_audit(tmp_path / "audit", source)
    source.write_text("Oslo\tB-LOC\n", encoding="utf-8")
    page = visit(start(folder))
    expect(page.locator("#warning")).to_contain_text("train.conll has changed since the audit")
    expect(page.locator("#warning")).to_contain_text("nothing is lost")
