from html.parser import HTMLParser
from pathlib import Path

import pytest

from lacuner.audit.audit import Audit
from lacuner.audit.finding import Finding
from lacuner.audit.model import Estimate
from lacuner.audit.page import write_page
from lacuner.corpus import Corpus, Entity, Sentence

EVIL = "<script>alert('x')</script>&amp;\""


class Reader(HTMLParser):
    """The elements of a page, and its text as a reader sees it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def page(
    tmp_path: Path, suggested: str = "LOC", annotated: str = "LOC", word: str = "Turin", name: str = "x"
) -> Reader:
    """The report of a sentence with a missing entity, an annotated one beside it, and one with a doubtful label."""
    sentence = Sentence((word, "met", "Ada", "Bo"), (Entity(2, 3, annotated), Entity(3, 4, annotated)))
    findings = (
        Finding(0, 0, 1, suggested, 0.9, "missing", word),
        Finding(0, 3, 4, suggested, 0.8, "label", "Bo", Entity(3, 4, annotated)),
    )
    estimate = Estimate(3.0, 2.0, 4.0, {suggested: (3.0, 2.0, 4.0)}, 0.5)
    about = {"corpus": name, "entities": 2, "sentences": 1}
    write_page(tmp_path / "report.html", Audit(Corpus([sentence]), findings, estimate, about))
    return Reader((tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("what", "times"), [("suggested", 5), ("annotated", 4), ("word", 2), ("name", 2)]
)  # suggested: table, navigation, heading and two marks; annotated: two and one beside the findings, and one in words
def test_nothing_that_a_corpus_holds_becomes_markup(tmp_path: Path, what: str, times: int) -> None:
    plain, evil = page(tmp_path), page(tmp_path, **{what: EVIL})
    assert evil.elements == plain.elements
    assert "script" not in evil.elements
    assert evil.text.count(EVIL) == times, "and it can be read as it is"
