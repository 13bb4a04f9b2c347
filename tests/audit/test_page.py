import re
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


ESTIMATE = Estimate(1.0, 0.0, 2.0, {"LOC": (1.0, 0.0, 2.0)}, 0.5)


def findings_shown(folder: Path, sentence: Sentence, *findings: Finding) -> list[str]:
    audit = Audit(Corpus((sentence,)), findings, ESTIMATE, {"sentences": 1, "entities": len(sentence.entities)})
    write_page(folder / "report.html", audit)
    shown = r'<li><div class="text" dir="auto">(.*?)</div><span class="about">'
    return re.findall(shown, (folder / "report.html").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("at_least", "said"), [(False, "About 3,000 entities"), (True, "At least 2,000 entities")])
def test_the_headline_says_at_least_where_that_is_all_that_can_be_said(
    tmp_path: Path, at_least: bool, said: str
) -> None:
    estimate = Estimate(3000.0, 2000.0, 9000.0, {"LOC": (3000.0, 2000.0, 9000.0)}, 0.5, at_least)
    audit = Audit(Corpus((Sentence(("Turin",)),)), (), estimate, {"sentences": 1, "entities": 0})
    write_page(tmp_path / "report.html", audit)
    written = Reader((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert said in written
    assert ("with 95 % confidence" in written) == (not at_least)


@pytest.mark.parametrize(
    ("entities", "recovered", "said"),
    [
        (500, 0.8, []),
        (500, 0.29, ["find only 29%"]),
        (500, 0.3, []),
        (99, 0.8, ["So few"]),
        (9, 0.0, ["So few", "only 0%"]),
    ],
)
def test_the_page_says_why_its_numbers_say_little(
    tmp_path: Path, entities: int, recovered: float, said: list[str]
) -> None:
    about = {"sentences": 1, "entities": entities, "recovered": recovered}
    audit = Audit(Corpus((Sentence(("Turin",)),)), (), ESTIMATE, about)
    write_page(tmp_path / "report.html", audit)
    written = Reader((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert written.count("say little") == len(said)
    assert all(words in written for words in said)


def test_a_finding_is_marked_in_its_whole_sentence(tmp_path: Path) -> None:
    text = " Ada <3  Turin and New York ."
    sentence = Sentence(("Ada", "<3", "Turin", "and", "New", "York", "."), (Entity(4, 6, "LOC"),), text=text)
    assert findings_shown(tmp_path, sentence, Finding(0, 2, 3, "LOC", 0.9, "missing", "Turin")) == [
        ' Ada &lt;3  <mark class="suggested" data-color="0" title="LOC">Turin<bdi class="tag"> LOC</bdi></mark> and '
        '<mark data-color="0" title="LOC">New York<bdi class="tag"> LOC</bdi></mark> .'
    ]


def test_of_a_long_sentence_the_words_around_a_finding_are_shown(tmp_path: Path) -> None:
    """Entities that the cut goes through are not highlighted, so that all that is opened is closed."""
    words = tuple(f"w{number}" for number in range(2000))
    entities = (Entity(0, 1, "PER"), Entity(740, 750, "PER"), Entity(760, 761, "PER"), Entity(1255, 1260, "PER"))
    (shown,) = findings_shown(tmp_path, Sentence(words, entities), Finding(0, 1000, 1002, "LOC", 0.9, "missing", ""))
    known = '<mark data-color="3" title="PER">w760<bdi class="tag"> PER</bdi></mark>'
    assert shown.startswith(f"… {' '.join(words[744:760])} {known} w761")
    assert shown.endswith(f" {' '.join(words[1002:1258])} …")
    assert shown.count("<mark") == shown.count("</mark>") == 2


def test_the_page_of_a_long_sentence_does_not_show_it_again_and_again(tmp_path: Path) -> None:
    sentence = Sentence(("word",) * 20_000)
    found = [Finding(0, word, word + 1, "LOC", 0.9, "missing", "word") for word in range(0, 20_000, 100)]
    shown = findings_shown(tmp_path, sentence, *found)
    assert len(shown) == 200
    assert max(map(len, shown)) < 4_000


@pytest.mark.parametrize(("old", "words"), [(Entity(0, 1, "PER"), "Ada"), (Entity(2, 4, "LOC"), "New  York")])
def test_a_doubt_says_which_words_are_annotated(tmp_path: Path, old: Entity, words: str) -> None:
    sentence = Sentence(("Ada", "in", "New", "York"), (old,), text="Ada in New  York")
    findings_shown(tmp_path, sentence, Finding(0, old.start, old.end, "ORG", 0.9, "label", "", old))
    assert (
        f"90% · another label; annotated: “{words}” {old.label} · sentence 1" in (tmp_path / "report.html").read_text()
    )
