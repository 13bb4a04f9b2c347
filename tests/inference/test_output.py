import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest

from lacuner import Entity, Sentence
from lacuner.inference.output import OutputOptions, PredictionInput, PredictionReport

VOID = {"meta"}


class Page(HTMLParser):
    """The elements of a page, which must all be closed in order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.ids: list[str | None] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        assert not [name for name, _ in attrs if name in ("src", "style") or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def written(format: str, items: Sequence[tuple[PredictionInput, Sequence[Entity]]], title: str = "Entities") -> str:
    output, report = OutputOptions(format, title), PredictionReport()  # type: ignore[arg-type]
    writer = output.writer(["PER", "LOC"], "words")
    texts = [writer.write(number, item, entities, report) for number, (item, entities) in enumerate(items, 1)]
    report.labels.update({"PER": 0, "LOC": 0})
    report.labels.update(entity.label for _, entities in items for entity in entities)
    return output.beginning() + "".join(texts) + output.end(report)


def raw(text: str) -> PredictionInput:
    return PredictionInput(text, {"text": text})


EVIL = "<script>alert(1)</script>"


def test_a_page_is_one_whole_document_without_scripts_or_other_files() -> None:
    words = PredictionInput(Sentence(("Bob", "left")), {"tokens": ["Bob", "left"]})
    items = [(raw(f"Ada {EVIL}"), [Entity(0, 3, EVIL, score=0.5)]), (raw(""), []), (words, [Entity(0, 1, "PER")])]
    shown = written("html", items, EVIL)
    page = Page(shown)
    assert shown.startswith("<!DOCTYPE html>")
    assert {"script", "img", "link"} & page.elements == set()
    assert "http" not in shown
    assert "url(" not in shown
    assert page.ids == ["t1", "t2", "t3", "summary"]
    assert page.text.count(EVIL) == 5, "the title twice, the text, its label, and the label in the summary"
    assert "Bob PER left" in page.text


def test_a_page_without_texts_is_a_page() -> None:
    assert "0 entities in 0 texts" in Page(written("html", [])).text


def test_labels_have_the_same_colors_in_texts_and_in_the_summary() -> None:
    shown = written("html", [(raw("Ada in Turin"), [Entity(0, 3, "PER"), Entity(7, 12, "LOC")])])
    marks = dict(re.findall(r'<mark data-color="(\d)" title="(\w+)"', shown))
    legend = dict(re.findall(r'<span data-color="(\d)"><bdi class="tag">(\w+)<', shown))
    assert marks == legend
    assert sorted(marks.values()) == ["LOC", "PER"]


def test_text_has_brackets_and_a_line_for_each_text() -> None:
    items = [(raw("Ada moved"), [Entity(0, 3, "PER")]), (raw(""), [])]
    assert written("text", items) == "[Ada PER] moved\n\n"


@pytest.mark.parametrize(("format", "lost"), [("html", 1), ("text", 1), ("jsonl", 0)])
def test_records_with_fields_that_are_not_shown_are_counted(format: str, lost: int) -> None:
    report = PredictionReport()
    writer = OutputOptions(format).writer(["PER"], "words")  # type: ignore[arg-type]
    for record in ({"text": "Ada", "id": 3}, {"text": "Ada", "label": [[0, 1, "X"]]}):
        writer.write(1, PredictionInput("Ada", record), [], report)
    assert report.with_fields == lost
