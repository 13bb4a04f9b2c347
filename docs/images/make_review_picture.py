"""Makes review.png: the review page with an audit of the built-in sample.

Run it from a clone after ``make setup``: ``.venv/bin/python docs/images/make_review_picture.py``. It needs chromium.
40 % of the sample's labels are hidden, an audit looks for them (about a minute), and the page is shown after some decisions.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from lacuner import Entity
from lacuner.audit.folder import AuditFolder
from lacuner.review.decisions import Action
from lacuner.review.review import Review
from lacuner.sample import read_sample

OUT = Path(__file__).with_name("review.png")
WIDTH, HEIGHT = 1200, 650
REVIEWER = "perfect"
DECISIONS = 40
EXAMPLE = "Ada Lovelace"
"""The finding that is shown: its sentence has another person, which is annotated."""


def main() -> None:
    """Audit, review, take the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--audit", type=Path, help="use an audit that this script has made before, or keep a new one here"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.audit or Path(temporary) / "audit"
        if not (folder / "summary.json").exists():
            make_audit(Path(temporary) / "news.conll", folder)
        take_picture(folder, review_some(folder))


def make_audit(corpus: Path, folder: Path) -> None:
    """Hide labels of the sample, and look for them."""
    read_sample("train").mask(0.4, seed=1).write(corpus)
    command = [
        sys.executable,
        "-m",
        "lacuner",
        "audit",
        str(corpus),
        "--out",
        str(folder),
        "--epochs",
        "12",
        "--seed",
        "1",
    ]
    subprocess.run(command, check=True)


def review_some(folder: Path) -> int:
    """Decide about the first findings as the complete labels say; the number of the finding to show."""
    gold = read_sample("train")
    audit = AuditFolder.open(folder)
    with Review(audit, clock=lambda: 0.0) as review:  # nothing is held when the page opens
        for _ in range(DECISIONS):
            view, _ = review.next(REVIEWER)
            assert view is not None
            item = view.item
            found = Entity(item.start, item.end, item.label)
            action: Action = "accept" if found in gold[item.sentence].entities else "reject"
            review.decide(REVIEWER, item.number, view.version, action, on_overlap="replace")
    return next(number for number, finding in enumerate(audit.findings()) if finding.text == EXAMPLE)


def take_picture(folder: Path, number: int) -> None:
    """The page as it shows one finding."""
    command = [sys.executable, "-m", "lacuner", "review", str(folder), "--no-browser", "--json", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            after = {"after": number - 1}
            page.route("**/api/next", lambda route: route.continue_(post_data=route.request.post_data_json | after))
            page.goto(url)
            page.wait_for_selector("#item:not([hidden])")
            page.screenshot(path=OUT)
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
