import io
from itertools import islice

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats import conll
from lacuner.corpus.formats.conll import read_conll, write_conll
from lacuner.corpus.formats.format import ReadOptions, WriteOptions
from lacuner.corpus.formats.tag_schemes import SCHEMES
from lacuner.errors import DataError

ADA = Sentence(("Ada", "left", "New", "York"), (Entity(0, 1, "PER"), Entity(2, 4, "LOC")))


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with this content; ``read.report`` says what was repaired, ``read.path`` where it was."""

    def read_content(content, strict=False, **options):
        read_content.report = ReadingReport(strict=strict)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_conll(path, read_content.report, **options))

    path = read_content.path = tmp_path / "data.conll"
    return read_content


def error_of(read, content, **options):
    """The message without the folder."""
    with pytest.raises(DataError) as raised:
        read(content, **options)
    return str(raised.value).removeprefix(f"{read.path.parent}/")


def written(*sentences, scheme="bio2"):
    file = io.StringIO()
    write_conll(sentences, file, WriteOptions(scheme))
    return file.getvalue()


@pytest.mark.parametrize("separator", ["\t", " ", "   ", ",", ", ", ";", "|"])
def test_columns_may_be_separated_by_anything_usual(read, separator):
    rows = [("Ada", "B-PER"), ("left", "O"), ("New", "B-LOC"), ("York", "I-LOC")]
    assert read("".join(f"{separator.join(row)}\n" for row in rows)) == [ADA]


@pytest.mark.parametrize("separator", ["\t", " ", ","])
def test_the_tag_is_in_the_last_of_several_columns(read, separator):
    rows = [
        ("Ada", "NNP", "I-NP", "B-PER"),
        ("left", "VBD", "I-VP", "O"),
        ("New", "NNP", "B-NP", "B-LOC"),
        ("York", "NNP", "", "I-LOC") if separator != " " else ("York", "NNP", "I-LOC"),
    ]
    assert read("".join(f"{separator.join(row)}\n" for row in rows)) == [ADA]


def test_the_tag_may_be_asked_for_in_another_column(read, monkeypatch):
    monkeypatch.setattr(conll, "LOOK_AHEAD", 1)
    content = "Ada B-PER 0\nleft O 0\nNew B-LOC 1\nYork I-LOC 1\n\nOslo O 1\n"
    assert read(content, column=1) == [ADA, Sentence(("Oslo",))]
    flags = read(content, column=2, scheme="io")
    assert [sentence.entities for sentence in flags] == [(Entity(0, 2, "0"), Entity(2, 4, "1")), (Entity(0, 1, "1"),)]
    assert error_of(read, "Ada\tO\t0\n\nleft\tO\n", column=2) == (
        "data.conll:3: only 2 columns: 'left\\tO' — the tag belongs in column 3"
    )


def test_a_word_may_be_the_separator_of_another_file(read):
    assert read("1,000\tO\nNew York\tB-LOC\n; \tO\n")[0].tokens == ("1,000", "New York", "; ")
    assert read("New York, NY\tB-LOC\n")[0].tokens == ("New York, NY",)
    assert read("1,000 O\n3,5 O\nkg O\n")[0].tokens == ("1,000", "3,5", "kg")


def test_spaces_at_the_end_of_a_line_mean_nothing(read):
    assert read("Ada B-PER \nleft O  \nNew B-LOC\nYork I-LOC\n") == [ADA]
    assert read("Ada\tB-PER \nleft\tO\nNew\tB-LOC\nYork\tI-LOC  \n") == [ADA]


def test_a_comma_in_quotes_is_a_word(read):
    content = 'Ada,NNP,B-PER\n",",",",O\nso,RB,O\n"""",``,O\n",``,O\n'
    assert read(content) == [Sentence(("Ada", ",", "so", '"', '"'), (Entity(0, 1, "PER"),))]


def test_a_blank_line_ends_a_sentence_and_several_are_like_one(read):
    content = "\n\nAda\tB-PER\n\n \n\t\nBob\tB-PER\n\n\n"
    assert [sentence.tokens for sentence in read(content)] == [("Ada",), ("Bob",)]


def test_the_last_sentence_needs_no_blank_line(read):
    assert [sentence.tokens for sentence in read("Ada\tB-PER\n\nBob\tB-PER")] == [("Ada",), ("Bob",)]


def test_an_empty_file_has_no_sentences(read):
    assert read("") == read("\n\n") == []


def test_a_document_begins_a_sentence_and_is_none(read):
    content = "-DOCSTART- -X- O O\n\nAda NNP I-NP B-PER\n-DOCSTART- -X- O O\nBob NNP I-NP B-PER\n"
    assert [sentence.tokens for sentence in read(content)] == [("Ada",), ("Bob",)]


def test_windows_files_are_read(read):
    assert read("\ufeffAda\tB-PER\r\nleft\tO\r\nNew\tB-LOC\r\nYork\tI-LOC\r\n\r\n") == [ADA]


def test_a_word_may_be_a_space_or_an_emoji(read):
    content = " \tO\n\u3000\tO\n👩\u200d🚀\tB-PER\n\u00a0\tI-PER\n"
    assert read(content) == [Sentence((" ", "\u3000", "👩\u200d🚀", "\u00a0"), (Entity(2, 4, "PER"),))]


@pytest.mark.parametrize(
    "tags",
    [
        "I-PER I-PER B-PER O I-geo-loc I-geo-loc I-geo-loc",
        "B-PER I-PER B-PER O B-geo-loc I-geo-loc I-geo-loc",
        "B-PER E-PER S-PER O B-geo-loc I-geo-loc E-geo-loc",
        "B-PER E-PER S-PER O B-geo-loc M-geo-loc E-geo-loc",
        "B-PER L-PER U-PER O B-geo-loc I-geo-loc L-geo-loc",
    ],
    ids=["iob1", "bio2", "bioes", "bmes", "bilou"],
)
def test_the_scheme_is_found_out(read, tags):
    content = "".join(f"w\t{tag}\n" for tag in tags.split())
    assert read(content)[0].entities == (Entity(0, 2, "PER"), Entity(2, 3, "PER"), Entity(4, 7, "geo-loc"))
    assert not read.report.counts


@pytest.mark.parametrize("prefix", ["I-", ""])
def test_io_is_found_out_with_and_without_a_prefix(read, prefix):
    content = f"a\t{prefix}geo-loc\nb\t{prefix}geo-loc\nc\t{prefix}PER.NOM\nd\tO\n"
    assert read(content)[0].entities == (Entity(0, 2, "geo-loc"), Entity(2, 3, "PER.NOM"))


def test_the_scheme_may_be_given(read):
    content = "a\tI-PER\nb\tB-PER\n"
    both = (Entity(0, 1, "PER"), Entity(1, 2, "PER"))
    assert read(content, scheme="iob1")[0].entities == both
    assert not read.report.counts
    assert read(content, scheme="bio2")[0].entities == both
    assert read.report.counts == {"repaired tags": 1}


def test_labels_are_split_at_the_first_hyphen(read):
    content = "a\tB-geo-loc\nb\tI-geo-loc\nc\tB-PER.NOM\n"
    assert read(content)[0].entities == (Entity(0, 2, "geo-loc"), Entity(2, 3, "PER.NOM"))


def test_what_is_not_tagged_is_unknown_in_an_ordinary_file(read):
    sentence = read("Ada\tB-PER\nleft\tO\n")[0]
    assert not sentence.complete
    assert sentence.possible_labels(1, 2, {"PER"}) == {"O", "PER"}


@pytest.mark.parametrize("tag", ["-", "?"])
def test_a_sentence_that_says_unknown_means_outside_where_it_says_outside(read, tag):
    first, second = read(f"Ada\tB-PER\nleft\tO\nTurin\t{tag}\n\nBob\tO\n")
    assert first == Sentence(
        ("Ada", "left", "Turin"), (Entity(0, 1, "PER"),), complete=True, unknown_tokens=frozenset({2})
    )
    assert first.possible_labels(1, 2, {"PER"}) == {"O"}
    assert first.possible_labels(2, 3, {"PER"}) == {"O", "PER"}
    assert second == Sentence(("Bob",))


def test_broken_tags_are_repaired_counted_and_located(read):
    content = "Ada\tB-PER\n\nGrace\tI-PER\nHopper\tI-PER\nin\tO\nTurin\tI-LOC\n\nAlan\tB-PER\nOslo\tB-LOC\n"
    assert read(content)[1].entities == (Entity(0, 2, "PER"), Entity(3, 4, "LOC"))
    assert read.report.counts == {"repaired tags": 2}
    assert read.report.examples == {
        "repaired tags": f"{read.path}:3: I-PER continues nothing; an entity begins here now"
    }


def test_strict_refuses_broken_tags(read):
    assert error_of(read, "Ada\tB-PER\n\nin\tO\nTurin\tI-LOC\nBob\tB-PER\n", strict=True) == (
        "data.conll:4: I-LOC continues nothing; an entity begins here now — correct the tag (the file reads as BIO2)"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Ada\tB-PER\nsleeps\n",
            "data.conll:2: one column only: 'sleeps' — write the word, a tab and its tag",
        ),
        (
            "Ada B-PER\nsleeps\n",
            "data.conll:2: one column only: 'sleeps' — write the word, a tab and its tag",
        ),
        (
            "Ada\tB-PER\n\nBob\tPER\n",
            "data.conll:3: the tag 'PER' is neither O nor a prefix and a label such as B-PER"
            " — correct the tag (the file reads as BIO2)",
        ),
        ("Ada\tB-PER\n\tO\n", "data.conll:2: the word is empty — give it at least one character"),
        ("Ada\tB-PER\nBob\t\n", "data.conll:2: the tag of 'Bob' is empty — write O, a tag such as B-PER, or ?"),
        (
            b"Ada\tB-PER\nZo\xeb\tB-PER\n",
            "data.conll:2: byte 0xeb is not UTF-8 — convert the file, e.g. iconv -f latin1 -t utf-8",
        ),
        (
            '\n# lacuner: {"complete": tru\nAda\tB-PER\n',
            "data.conll:2: the line '# lacuner:' does not hold a JSON object"
            " (Expecting value: line 1 column 14 (char 13)) — correct or remove it",
        ),
        (
            "# lacuner: [1]\nAda\tB-PER\n",
            "data.conll:1: the line '# lacuner:' does not hold a JSON object"
            " (it holds something else) — correct or remove it",
        ),
        (
            '# lacuner: {"non_entities": [[0, 2]]}\nAda\tB-PER\n',
            "data.conll:2: Span(start=0, end=2, source=None) ends after the last of 1 words — correct the record",
        ),
    ],
)
def test_a_broken_file_is_refused_with_place_and_remedy(read, content, message):
    assert error_of(read, content) == message


def test_a_broken_line_is_found_after_the_sentences_looked_at_first(read, monkeypatch):
    monkeypatch.setattr(conll, "LOOK_AHEAD", 1)
    assert error_of(read, "Ada\tB-PER\n\nBob\tB-PER\nsleeps\n").startswith("data.conll:4: one column only")


@pytest.mark.parametrize("look_ahead", [1, 5, 6])
def test_where_in_a_file_something_is_unknown_changes_no_other_sentence(read, monkeypatch, look_ahead):
    ordinary, partly = "Ada\tB-PER\nleft\tO\n\n", "?\t?\nleft\tO\n\n"
    monkeypatch.setattr(conll, "LOOK_AHEAD", look_ahead)
    late, early = read(ordinary * 5 + partly), read(partly + ordinary * 5)
    assert late[:5] == early[1:] == read(ordinary * 5)
    assert late[5] == early[0] == Sentence(("?", "left"), complete=True, unknown_tokens=frozenset({0}))


def test_only_the_beginning_of_a_file_is_looked_at(read, tmp_path, monkeypatch):
    monkeypatch.setattr(conll, "LOOK_AHEAD", 2)
    path = tmp_path / "long.conll"
    path.write_text("Ada\tB-PER\n\n" * 3 + "broken\n")
    assert len(list(islice(read_conll(path, ReadingReport()), 3))) == 3


def test_words_alone_are_taken_only_where_tags_are_not_needed(read):
    content = "Ada\nleft \n\nNew\u00a0York\n"
    assert [sentence.tokens for sentence in read(content, options=ReadOptions(tagged=False))] == [
        ("Ada", "left"),
        ("New\u00a0York",),
    ]
    assert error_of(read, content).startswith("data.conll:1: one column only: 'Ada'")


def test_tags_are_read_where_they_are_not_needed(read):
    assert read("Ada\tB-PER\nleft\tO\n", options=ReadOptions(tagged=False)) == [
        Sentence(("Ada", "left"), (Entity(0, 1, "PER"),))
    ]


def test_what_is_written_is_a_word_a_tab_and_a_tag():
    assert written(ADA) == "Ada\tB-PER\nleft\tO\nNew\tB-LOC\nYork\tI-LOC\n\n"
    assert written(Sentence(("Bob",)), Sentence(("x",))) == "Bob\tO\n\nx\tO\n\n"


def test_every_scheme_can_be_written_and_is_read_again(read):
    for scheme in SCHEMES:
        assert read(written(ADA, scheme=scheme)) == [ADA]


def test_what_tags_cannot_say_stands_before_the_sentence():
    sentence = Sentence(
        ("Ada", "left"),
        (Entity(0, 1, "PER", source="human"),),
        non_entities=(Span(1, 2, "reviewer"),),
        complete=True,
        annotated_labels=frozenset({"PER", "LOC"}),
    )
    assert written(sentence) == (
        '# lacuner: {"non_entities": [{"start": 1, "end": 2, "source": "reviewer"}], "complete": true, '
        '"annotated_labels": ["LOC", "PER"], "sources": ["human"]}\n'
        "Ada\tB-PER\nleft\tO\n\n"
    )


def test_a_status_line_belongs_to_one_sentence(read):
    content = '# lacuner: {"complete": true, "sources": [null, "reviewer"]}\nAda\tB-PER\nOslo\tB-LOC\n\nBob\tB-PER\n'
    first, second = read(content)
    assert first.complete
    assert [entity.source for entity in first.entities] == [None, "reviewer"]
    assert not second.complete
    assert second.entities[0].source is None


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('# lacuner: {"complete": true}\n\nBob\tB-PER\n', 1),
        ('Ada\tB-PER\n\n# lacuner: {"complete": true}\n-DOCSTART-\nBob\tB-PER\n', 3),
        ('Bob\tB-PER\n\n# lacuner: {"complete": true}\n', 3),
        ('# lacuner: {"complete": true}\n# lacuner: {}\nBob\tB-PER\n', 1),
    ],
    ids=["before a blank line", "before a document", "at the end", "before another one"],
)
def test_a_status_line_without_its_sentence_says_nothing_about_others_and_is_counted(read, content, line):
    assert not any(sentence.complete for sentence in read(content))
    assert read.report.counts == {"status lines without a sentence": 1}
    assert read.report.examples["status lines without a sentence"].startswith(f"{read.path}:{line}: ")
    assert error_of(read, content, strict=True).startswith(f"data.conll:{line}: ")


def test_fields_that_we_do_not_know_and_given_offsets_are_in_the_status_line(read):
    sentence = Sentence(
        ("Bo",),
        (Entity(0, 1, "PER", score=0.5, source="model", extra={"id": 7, "sources": "two"}),),
        text="Bobo met Bo",
        token_offsets=((9, 11),),
        extra={"id": "a1", "sources": [1], "extra": {"deep": None}},
    )
    (again,) = read(written(sentence))
    assert again == sentence
    assert again.extra == sentence.extra
    assert again.offsets() == [(9, 11)]
    (entity,) = again.entities
    assert (entity.score, entity.source, entity.extra) == (0.5, "model", {"id": 7, "sources": "two"})
    assert not read.report.counts


def test_an_unknown_field_written_by_hand_is_kept_too(read):
    assert read('# lacuner: {"id": 3}\nAda\tB-PER\n')[0].extra == {"id": 3}


@pytest.mark.parametrize(
    ("status", "what"),
    [
        ('{"extra": {"tokens": []}}', "\"extra\" holds 'tokens' — rename the field"),
        (
            '{"extra": 3}',
            "the line '# lacuner:' does not hold a JSON object (\"extra\" is none) — correct or remove it",
        ),
    ],
)
def test_fields_that_would_replace_ours_are_refused(read, status, what):
    assert error_of(read, f"# lacuner: {status}\nAda\tB-PER\n") == f"data.conll:1: {what}"


@pytest.mark.parametrize("status", ['{"sources": ["human"]}', '{"entity_fields": [{}]}', '{"entity_fields": [1, 2]}'])
def test_fields_of_other_entities_are_left_out_and_counted(read, status):
    (sentence,) = read(f"# lacuner: {status}\nAda\tB-PER\nBob\tB-PER\n")
    assert [(entity.source, entity.extra) for entity in sentence.entities] == [(None, {}), (None, {})]
    assert sum(read.report.counts.values()) == 1


def test_a_number_sign_is_a_word(read):
    assert read("#\tO\n# lacuner\tB-PER\n")[0].tokens == ("#", "# lacuner")


def test_an_incomplete_sentence_does_not_become_complete_beside_unknown_words(read):
    corpus = [
        Sentence(("Ada", "left"), complete=True, unknown_tokens=frozenset({1})),
        Sentence(("Bob", "left")),
        Sentence(("Cy", "left"), unknown_tokens=frozenset({0})),
    ]
    assert read(written(*corpus)) == corpus


def test_unknown_words_inside_an_entity_stay_unknown(read):
    sentence = Sentence(("New", "York"), (Entity(0, 2, "LOC"),), complete=True, unknown_tokens=frozenset({1}))
    assert read(written(sentence)) == [sentence]


def test_a_byte_order_mark_inside_the_first_word_survives(read):
    sentence = Sentence(("\ufeffAda", "left"))
    assert read(written(sentence)) == [sentence]


@pytest.mark.parametrize(
    ("sentence", "what"),
    [
        (Sentence(()), "sentence 2 has no words, which columns cannot show"),
        (Sentence(("a\tb",)), r"sentence 2: the word 'a\tb' does not fit on a line"),
        (Sentence(("a\nb",)), r"sentence 2: the word 'a\nb' does not fit on a line"),
        (Sentence(("",)), "sentence 2: the word '' does not fit on a line"),
        (Sentence(("-DOCSTART-",)), "sentence 2: the word '-DOCSTART-' does not fit on a line"),
        (Sentence(("# lacuner: {}",)), "sentence 2: the word '# lacuner: {}' does not fit on a line"),
        (Sentence(("a",), (Entity(0, 1, "x\ty"),)), r"sentence 2: the tag 'B-x\ty' does not fit on a line"),
        (Sentence(("a",), (Entity(0, 1, "x "),)), "sentence 2: the tag 'B-x ' does not fit on a line"),
        (
            Sentence(("a", "b"), (Entity(0, 2, "PER"), Entity(1, 2, "LOC"))),
            "sentence 2: Entity(start=0, end=2, label='PER') and Entity(start=1, end=2, label='LOC') overlap;"
            " tags can only hold entities that do not",
        ),
    ],
)
def test_what_columns_cannot_hold_is_refused(sentence, what):
    with pytest.raises(DataError) as raised:
        write_conll([ADA, sentence], io.StringIO(), WriteOptions(name="out.conll"))
    assert str(raised.value) == f"out.conll: {what} — write JSON Lines (.jsonl) instead"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Ada\tB-PER # who?\nleft\tO\n",
            "data.conll:1: a comment follows the tag: 'B-PER # who?' — correct the tag (the file reads as BIO2)",
        ),
        (
            "Ada B-PER # who?\nleft O # .\n",
            "data.conll: there are tags in column 2, but not in the last one, where they belong"
            " — write two columns, the word and its tag",
        ),
        (
            '# lacuner: {"tokens": ["Bob", "left"]}\nAda\tB-PER\nleft\tO\n',
            'data.conll:1: the line says "tokens", as the columns do — remove it there',
        ),
        (
            '# lacuner: {"entities": []}\nAda\tB-PER\n',
            'data.conll:1: the line says "entities", as the columns do — remove it there',
        ),
        (
            '# lacuner: {"unknown_tokens": [0]}\nAda\t?\nleft\t?\n',
            'data.conll:1: "unknown_tokens" lacks words that are tagged as unknown — add them, or leave it out',
        ),
        (
            '# lacuner: {"complete": true, "complete": false}\nAda\tB-PER\n',
            "data.conll:1: the line '# lacuner:' does not hold a JSON object"
            " (the key 'complete' occurs twice) — correct or remove it",
        ),
        (
            f'# lacuner: {{"x": {"[" * 5000}{"]" * 5000}}}\nAda\tB-PER\n',
            "data.conll:1: the line '# lacuner:' does not hold a JSON object"
            " (lists and objects are nested more than 100 deep) — correct or remove it",
        ),
        (
            '# lacuner: {"x": "\\ud800"}\nAda\tB-PER\n',
            "data.conll:1: the line '# lacuner:' does not hold a JSON object"
            " (there is half of a surrogate pair) — correct or remove it",
        ),
        (
            'Ada B-PER\n# lacuner: {"complete": true}\nleft O\n',
            "data.conll:2: the line '# lacuner:' is inside a sentence — put it right before the sentence",
        ),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(read, content, message):
    assert error_of(read, content) == message


def test_only_a_document_line_begins_a_document(read):
    assert read("-DOCSTART-Bob B-PER\nleft O\n")[0].tokens == ("-DOCSTART-Bob", "left")
    assert [sentence.tokens for sentence in read("-DOCSTART-\tO\nAda\tO\n")] == [("Ada",)]
    assert [sentence.tokens for sentence in read("-DOCSTART-,O\nAda,O\n")] == [("Ada",)]
    assert not read.report.counts


def test_an_entity_at_the_beginning_of_a_document_is_said_to_be_left_out(read):
    assert read("-DOCSTART- B-PER\nAda B-PER\n") == [Sentence(("Ada",), (Entity(0, 1, "PER"),))]
    assert read.report.counts == {"tagged document lines": 1}


def test_a_word_may_begin_like_a_document(read):
    sentence = Sentence(("-DOCSTART-Bob", "-DOCSTART--"))
    assert read(written(sentence)) == [sentence]


@pytest.mark.parametrize("value", ["5", '"human"', '{"a": 1}', "true"])
def test_sources_that_are_no_list_are_left_out_and_counted(read, value):
    (sentence,) = read(f'# lacuner: {{"sources": {value}}}\nAda\tB-PER\n')
    assert sentence.entities[0].source is None
    assert read.report.counts == {"sources left out": 1}


def test_what_is_known_about_words_without_tags_is_kept(read):
    content = '# lacuner: {"complete": true, "id": 3}\nAda\nleft\n'
    (sentence,) = read(content, options=ReadOptions(tagged=False))
    assert (sentence.tokens, sentence.complete, sentence.extra) == (("Ada", "left"), True, {"id": 3})


def test_a_label_that_would_look_like_a_comment_is_refused():
    with pytest.raises(DataError, match="the tag 'B-x # y' does not fit on a line"):
        written(Sentence(("a",), (Entity(0, 1, "x # y"),)))


def test_lines_that_begin_documents_are_written_again(tmp_path):
    path = tmp_path / "data.conll"
    content = "Ada\tO\n\n-DOCSTART-\tO\n\nBob\tB-PER\n\nleft\tO\n\n-DOCSTART-\tO\n\nTurin\tO\n\n"
    path.write_text(content, encoding="utf-8")
    corpus = Corpus.read(path)
    assert [dict(sentence.extra) for sentence in corpus] == [{}, {"-DOCSTART-": True}, {}, {"-DOCSTART-": True}]
    corpus.write(tmp_path / "other.jsonl")
    Corpus.read(tmp_path / "other.jsonl").write(tmp_path / "again.conll")
    assert (tmp_path / "again.conll").read_text(encoding="utf-8") == content


def test_a_field_that_only_looks_like_the_mark_of_a_document_stays_a_field(tmp_path):
    Corpus((Sentence(("Ada",), extra={"-DOCSTART-": "no"}),)).write(tmp_path / "a.conll")
    assert Corpus.read(tmp_path / "a.conll")[0].extra == {"-DOCSTART-": "no"}
