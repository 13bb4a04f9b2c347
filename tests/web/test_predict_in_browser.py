"""The page of a server of models, in a real browser."""

import json
import shutil
import threading
from collections.abc import Iterator

import pytest

from lacuner import Recognizer
from lacuner.corpus.display.colors import Palette
from lacuner.web.access import AccessPolicy
from lacuner.web.limits import ManyConnections
from lacuner.web.predict_app import PAGES, RequestLimits, create_app
from lacuner.web.served_models import ServedModels
from lacuner.web.server import address, listen, serve

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; make setup installs it")
Page, expect = playwright.Page, playwright.expect
expect.set_options(timeout=20_000)

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; make setup installs it where it can")
TOKEN = "a-token-for-tests"
TEXT = "Ada moved 😀 to New York ."


@pytest.fixture(scope="module")
def url(model: Recognizer) -> str:
    ready, sock = threading.Event(), listen("127.0.0.1", 0)
    app = create_app(
        ServedModels.of(toy=model, other=model),
        AccessPolicy(TOKEN, pages=PAGES, api="/"),
        limits=RequestLimits(4000, max_texts=30),
    )
    threading.Thread(target=serve, args=(app, sock, ready.set, ManyConnections), daemon=True).start()
    assert ready.wait(20)
    return address("127.0.0.1", sock.getsockname()[1], TOKEN)


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, url: str) -> Iterator[Page]:
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda said: page.problems.append(said.text) if said.type == "error" else None)
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    yield page
    assert page.problems == []
    context.close()


def find(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.click("#find")
    expect(page.locator("#notice")).to_contain_text("entit")


def test_entities_are_shown_in_color_with_label_and_score(page: Page, model: Recognizer) -> None:
    find(page, TEXT)
    shown = page.locator("#shown .entity")
    expect(shown).to_have_count(2)
    person, place = model.predict(TEXT)
    expect(shown.nth(0)).to_have_text(f"Ada{person.label} {person.score:.2f}")
    expect(shown.nth(1)).to_have_text(f"New York{place.label} {place.score:.2f}")
    colors = [shown.nth(index).evaluate("node => getComputedStyle(node).backgroundColor") for index in (0, 1)]
    assert len({*colors, "rgba(0, 0, 0, 0)"}) == 3
    palette = Palette.of(model.labels)
    assert [shown.nth(index).get_attribute("data-color") for index in (0, 1)] == [
        str(palette.number(entity.label)) for entity in (person, place)
    ]
    rows = page.locator("#rows tr")
    expect(rows.nth(1)).to_have_text(f"New YorkLOC{place.score:.4f}{place.start}–{place.end}")
    assert "token" not in page.url


def test_the_answer_is_copied_as_json(page: Page, model: Recognizer) -> None:
    find(page, TEXT)
    page.click("#copy")
    expect(page.locator("#notice")).to_have_text("Copied.")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert [(e["start"], e["end"], e["label"]) for e in copied["entities"]] == [
        (e.start, e.end, e.label) for e in model.predict(TEXT)
    ]


def test_markup_is_shown_as_text_and_nothing_is_lost(page: Page) -> None:
    text = "<img src=x onerror=alert(1)> Ada\n\n  moved 😀 to <b>Turin</b> ."
    find(page, text)
    assert page.locator("#shown img").count() == 0
    words = page.eval_on_selector_all("#shown .word", "words => words.map(word => word.textContent).join('')")
    assert words == text


def test_lines_are_read_one_by_one_unless_told_otherwise(page: Page, model: Recognizer) -> None:
    lines = ["Ada moved 😀 to Turin .", "", *["New York is far from Turin ."] * 120]
    whole, expected, begin = "\n".join(lines), [], 0
    for line, entities in zip(lines, model.predict(lines), strict=True):
        expected += [(begin + e.start, begin + e.end, e.label, e.text) for e in entities]
        begin += len(line) + 1

    def found() -> list[tuple[int, int, str, str]]:
        find(page, whole)
        page.click("#copy")
        expect(page.locator("#notice")).to_have_text("Copied.")
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        return [(e["start"], e["end"], e["label"], e["text"]) for e in copied["entities"]]

    assert found() == expected
    assert all(whole[start:end] == text for start, end, _, text in expected)
    page.problems.clear()  # the browser itself notes the status 413
    page.uncheck("#lines")
    assert found() == [(e.start, e.end, e.label, e.text) for e in model.predict(whole)]


def test_options_reach_the_model(page: Page) -> None:
    page.fill("#min-score", "1")
    find(page, TEXT)
    expect(page.locator("#notice")).to_have_text("0 entities.")
    page.fill("#min-score", "0")
    page.check("#nested")
    page.select_option("#model", "other")
    expect(page.locator("#about")).to_have_text("other: LOC, PER")
    page.locator("#text").press("Control+Enter")
    expect(page.locator("#shown .entity").first).to_be_visible()


def test_an_error_is_shown_in_a_sentence(page: Page) -> None:
    page.fill("#text", "a" * 5000)
    page.click("#find")
    expect(page.locator("#notice")).to_have_text("The request has more than 4,000 bytes.")
    page.problems.clear()  # the browser itself notes the status 413


def test_without_the_token_the_page_says_what_to_do(chromium, url: str) -> None:
    page = chromium.new_context().new_page()
    page.goto(url.partition("#")[0])
    expect(page.locator("#notice")).to_contain_text("This page needs a token")
    page.context.close()


def test_programs_find_what_the_server_answers(page: Page, url: str) -> None:
    page.goto(url.partition("#")[0] + "docs")
    expect(page.locator("#routes summary").first).to_be_visible()
    titles = page.locator("#routes summary b").all_text_contents()
    assert {"POST /predict", "POST /analyze", "GET /metrics"} <= set(titles)
    page.locator("#routes summary", has_text="POST /predict").click()
    expect(page.locator("#routes code", has_text="min_score").first).to_be_visible()


def test_the_page_fits_a_telephone(chromium, url: str) -> None:
    context = chromium.new_context(viewport={"width": 360, "height": 640})
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    find(page, TEXT)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()
