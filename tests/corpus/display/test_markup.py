from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.display.colors import Palette
from lacuner.corpus.display.marks import Mark, printable
from lacuner.corpus.display.markup import END_PAGE, begin_page, marked_up, notebook_output, tag, text_block

EVIL = "<script>alert('x')</script>&amp;\"><img src=x onerror=y>"
PALETTE = Palette.of(["PER", "LOC", "ORG"])


class Reader(HTMLParser):
    """The elements and attributes of a page, and its text as a reader sees it, without labels."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.titles: list[str | None] = []
        self.open: list[str] = []
        self.text = self.tags = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"class", "data-color", "title", "dir"}
        self.elements.append(tag)
        self.open.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"bdi", "style"} & set(self.open):
            self.tags += data
        else:
            self.text += data


def test_an_entity_is_a_mark_with_label_score_and_source():
    marks = [Mark(0, 12, "PER", 0.98765, "model"), Mark(22, 27, "LOC")]
    assert marked_up("Ada Lovelace moved to Turin.", marks, PALETTE) == (
        '<mark data-color="3" title="PER, score 0.9877, model">Ada Lovelace'
        '<bdi class="tag"> PER <small>0.99</small></bdi></mark>'
        ' moved to <mark data-color="0" title="LOC">Turin<bdi class="tag"> LOC</bdi></mark>.'
    )


def test_nested_entities_are_drawn_nested():
    shown = marked_up("New York Times", [Mark(0, 8, "LOC"), Mark(0, 14, "ORG")], PALETTE)
    assert shown.index('data-color="2"') < shown.index('data-color="0"') < shown.index(" LOC</bdi></mark> Times<bdi")


@given(
    st.text(st.characters(exclude_categories=[]) | st.sampled_from("<>&'\"\r\n\0\x1b\u202e\u0301🙂"), min_size=1),
    st.text(min_size=1),
    st.data(),
)
@example(EVIL, EVIL, None)
def test_no_text_and_no_label_becomes_markup(text, label, data):
    start = 0 if data is None else data.draw(st.integers(0, len(text) - 1))
    end = len(text) if data is None else data.draw(st.integers(start + 1, len(text)))
    read = Reader(text_block(text, [Mark(start, end, label, 0.5)], PALETTE))
    assert read.elements == ["div", "mark", "bdi", "small"]
    assert read.text == printable(text[:start]) + printable(text[start:end]) + printable(text[end:])
    name = "no entity" if label == "O" else label
    assert read.tags == f" {printable(name)} 0.50"
    assert read.titles == [f"{printable(name)}, score 0.5000"]
    text_block(text, [Mark(start, end, label)], PALETTE).encode("utf-8")


def test_a_title_does_not_become_markup():
    assert f"<title>{'&lt;script&gt;'}x</title>" in begin_page("<script>x")
    assert begin_page("x").count("<main") == END_PAGE.count("</main>") == 1


def test_a_label_of_a_legend_has_its_color():
    assert tag("a<b", Palette.of(["a<b"])).endswith('><bdi class="tag">a&lt;b</bdi></span>')


def test_a_notebook_shows_a_sentence_with_its_entities_and_what_was_rejected():
    sentence = Sentence(("Ada", "<3", "May"), (Entity(0, 1, "PER"),), (Span(2, 3),))
    shown = sentence._repr_html_()
    read = Reader(shown)
    assert read.text == "Ada <3 May"
    assert read.titles == ["PER", "no entity"]
    assert shown.startswith('<div class="lacuner"><style>')
    assert 'data-color="none"' in shown


@pytest.mark.parametrize(("count", "about"), [(3, "Corpus(3 sentences"), (30, "the first 10 of Corpus(30 sentences")])
def test_a_notebook_shows_the_first_sentences_of_a_corpus(count, about):
    read = Reader(
        Corpus([Sentence(("Ada", str(number)), (Entity(0, 1, "PER"),)) for number in range(count)])._repr_html_()
    )
    assert read.elements.count("mark") == min(count, 10)
    assert f"{about}, {count} entities, labels PER)" in read.text


def test_styles_of_a_notebook_concern_nothing_else():
    style = notebook_output([]).partition("<style>")[2].partition("</style>")[0]
    selectors = [rule.rpartition("{")[0].split("{")[-1] for rule in style.split("}") if "{" in rule]
    assert len(selectors) > 10
    assert all(part.strip().startswith(".lacuner") for selector in selectors for part in selector.split(","))
