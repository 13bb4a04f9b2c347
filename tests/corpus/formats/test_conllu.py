"""CoNLL-U: another parser reads what we write; whatever is in a file besides words and tags is kept or said."""

import conllu
import pytest

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.errors import DataError

ENGLISH = """# newdoc id = d
# sent_id = a
# text = Ada didn't see New York.
1\tAda\tAda\tPROPN\t_\t_\t4\tnsubj\t_\tNER=B-PER
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\t_\t_\t4\taux\t_\tNER=O
3\tn't\tnot\tPART\t_\tPolarity=Neg\t4\tadvmod\t_\tNER=O
3.1\tto\tto\tPART\t_\t_\t_\t_\t4:mark\t_
4\tsee\tsee\tVERB\t_\t_\t0\troot\t0:root\tNER=O
5\tNew\tNew\tPROPN\t_\t_\t6\tcompound\t_\tNER=B-LOC
6\tYork\tYork\tPROPN\t_\t_\t4\tobj\t_\tNER=I-LOC|SpaceAfter=No|Lang=en
7\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\tNER=O

"""


@pytest.fixture
def read(tmp_path):
    def read_content(content, **options):
        (tmp_path / "a.conllu").write_text(content, encoding="utf-8", newline="")
        return Corpus.read(tmp_path / "a.conllu", **options)

    return read_content


def test_a_file_comes_back_as_it_was(read, tmp_path):
    corpus = read(ENGLISH, strict=True)
    (sentence,) = corpus
    assert sentence.text == "Ada didn't see New York."
    assert sentence.texts_of(sentence.entities) == ["Ada", "New York"]
    assert sentence.extra["id"] == "a"
    corpus.write(tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_text(encoding="utf-8") == ENGLISH


def test_it_comes_back_through_json_lines(read, tmp_path):
    read(ENGLISH).write(tmp_path / "a.jsonl")
    Corpus.read(tmp_path / "a.jsonl").write(tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_text(encoding="utf-8") == ENGLISH


def test_another_parser_reads_what_we_write(tmp_path):
    text = "Ada's 😀 cat"
    made = Sentence(("Ada", "'s", "😀", "cat"), (Entity(0, 2, "PER", source="human"),), text=text, extra={"id": "x"})
    Corpus([made, Sentence(("Bo", "left"), complete=True)]).write(tmp_path / "a.conllu")
    first, second = conllu.parse((tmp_path / "a.conllu").read_text(encoding="utf-8"))
    assert (first.metadata["sent_id"], first.metadata["text"]) == ("x", text)
    assert [token["form"] for token in first] == list(made.tokens)
    assert [token["misc"]["NER"] for token in first] == ["B-PER", "I-PER", "O", "O"]
    assert [token["misc"].get("SpaceAfter") for token in first] == ["No", None, None, None]
    assert [token["id"] for token in second] == [1, 2]


@pytest.mark.parametrize("key", ["NER", "NE", "ner", "name"])
def test_tags_are_found_in_misc(read, key):
    assert read(ENGLISH.replace("NER=", f"{key}="))[0].entities == (Entity(0, 1, "PER"), Entity(4, 6, "LOC"))


@pytest.mark.parametrize(
    "content",
    [
        "# global.columns = ID FORM NER\n1\tAda\tB-PER\n2\tleft\tO\n",
        "# global.columns = ID FORM MISC X:NE\n1\tAda\t_\tB-PER\n2\tleft\tname=x\tO\n",
        "".join(
            f"{i}\t{w}{chr(9)}{chr(9).join('_' * 8)}\t{t}\n" for i, w, t in [(1, "Ada", "B-PER"), (2, "left", "O")]
        ),
        "".join(
            f"{i}\t{w}{chr(9)}{chr(9).join('_' * 7)}\t{t}\n" for i, w, t in [(1, "Ada", "B-PER"), (2, "left", "O")]
        ),
    ],
    ids=["a named column", "a named column beside MISC", "an eleventh column", "the last column"],
)
def test_tags_are_found_in_columns(read, content):
    assert read(content, strict=True).sentences == (Sentence(("Ada", "left"), (Entity(0, 1, "PER"),)),)


def test_a_text_with_other_words_is_handed_on_as_a_comment(read, tmp_path):
    content = ENGLISH.replace("2-3\tdidn't", "2-3\tdint").replace("Ada didn't", "Ada dint")
    corpus = read(content, strict=True)
    assert corpus[0].text is None
    assert "some texts do not have the words as they are" in " ".join(corpus.report.remarks)
    corpus.write(tmp_path / "out.conllu")
    assert sorted((tmp_path / "out.conllu").read_text(encoding="utf-8").split("\n")) == sorted(content.split("\n"))


def test_a_tag_of_several_words_at_once_is_said_to_be_left_out(read):
    corpus = read(ENGLISH.replace("2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_", "2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\tNER=B-X"))
    assert corpus.report.counts == {"lines that are no words": 1}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (ENGLISH.replace("NER=", "Note="), "a.conllu: there are no tags of named entities"),
        (ENGLISH.replace("NER=", "Entity=("), "(Entity=… is coreference, which is not read)"),
        (ENGLISH.replace("4\tsee", "5\tsee"), "a.conllu:9: the first column is '5' instead of 4"),
        (
            ENGLISH.replace("NER=B-PER", "NER=B-PER|NE=O"),
            "there are two places with tags: ner=… in MISC and ne=… in MISC",
        ),
        (ENGLISH.replace("\t_\tNER=B-PER", "\tNER=B-PER"), "there are 9 columns, but CoNLL-U has 10"),
        (ENGLISH.replace("\t_\tNER=B-LOC", "\tNER=B-LOC"), "a.conllu:10: 9 columns instead of 10"),
        (ENGLISH.replace("\nNER", "").replace("4\tsee", "# x\n4\tsee"), "a.conllu:9: a comment is inside a sentence"),
        (ENGLISH.replace("NER=B-PER", "NER=_"), "there are no tags of named entities"),
    ],
)
def test_what_cannot_be_read_is_refused(read, content, what):
    with pytest.raises(DataError) as raised:
        read(content)
    assert what in str(raised.value)


def test_words_alone_are_enough_where_no_tags_are_needed(tmp_path):
    (tmp_path / "a.conllu").write_text(ENGLISH.replace("NER=", "Note="), encoding="utf-8")
    (sentence,) = stream_sentences(tmp_path / "a.conllu", tagged=False)
    assert sentence.tokens[:2] == ("Ada", "did")


@pytest.mark.parametrize(
    "sentence",
    [Sentence(()), Sentence(("a\tb",)), Sentence(("a",), (Entity(0, 1, "X|Y"),)),
     Sentence(("a", "b"), (Entity(0, 2, "X"), Entity(1, 2, "Y")))],
)  # fmt: skip
def test_what_does_not_fit_into_columns_is_refused(tmp_path, sentence):
    with pytest.raises(DataError, match="write JSON Lines"):
        Corpus([sentence]).write(tmp_path / "a.conllu")
