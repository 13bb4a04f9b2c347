"""XML is read element by element; what would expand, fetch or nest without end is refused."""

import pytest

from lacuner.corpus.formats.xml_elements import LINE, read_elements
from lacuner.errors import DataError


@pytest.fixture
def read(tmp_path):
    def read_content(content):
        (tmp_path / "a.xml").write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_elements(tmp_path / "a.xml", "all", "one"))

    return read_content


def test_elements_have_their_text_and_line(read):
    first, second = read("<all>\n<other>x</other><one>a<b>c</b></one>\n<one k='v'/></all>")
    assert (first.text, first.findtext("b"), first.get(LINE)) == ("a", "c", "2")
    assert (second.get("k"), second.get(LINE)) == ("v", "3")


def test_nothing_is_nothing(read):
    assert read("") == read(" \n") == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_the_encoding_is_the_one_that_the_file_names(read, encoding):
    named = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    content = f"<?xml version='1.0' encoding='{named}'?><all><one>é</one></all>"
    assert [element.text for element in read(content.encode(encoding))] == ["é"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("<!DOCTYPE all [<!ENTITY a 'b'>]><all><one>&a;</one></all>", "a.xml:1: there is an entity 'a'"),
        ("<!DOCTYPE all [<!ENTITY a SYSTEM 'file:///etc/hostname'>]><all/>", "a.xml:1: there is an entity 'a'"),
        ("<!DOCTYPE all [<!ENTITY % p SYSTEM 'http://localhost/x'> %p;]><all/>", "a.xml:1: there is an entity 'p'"),
        ("<!DOCTYPE all SYSTEM 'x.dtd'><all><one>&alpha;</one></all>", "a.xml:1: there is an entity 'alpha'"),
        ("<all><one>&alpha;</one></all>", "a.xml:1: not XML: undefined entity"),
        ("<all>\n<one></all>", "a.xml:2: not XML: mismatched tag"),
        ("<all><one>", "a.xml:1: not XML: no element found"),
        ("<any/>", "a.xml:1: the outermost element is <any>, not <all>"),
        ("<all><one>" + "<b>" * 100, "a.xml:1: elements are nested more than 50 deep"),
        ("<?xml version='1.0' encoding='none-such'?><all/>", "a.xml: its encoding cannot be read"),
        ("Ada left", "a.xml:1: not XML: syntax error"),
    ],
)
def test_what_is_not_safe_or_not_whole_is_refused(read, content, what):
    with pytest.raises(DataError) as raised:
        read(content)
    assert what in str(raised.value)
