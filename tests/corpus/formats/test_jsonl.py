import io
import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import ReadOptions
from lacuner.corpus.formats.jsonl import read_jsonl, write_jsonl
from lacuner.errors import DataError

TEXT = "Ada Lovelace left Turin."
TOKENS = ("Ada", "Lovelace", "left", "Turin", ".")
ADA = Sentence(TOKENS, (Entity(0, 2, "PER"), Entity(3, 4, "LOC")), text=TEXT)


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with these lines; ``read.report`` says what was repaired, ``read.path`` where it was."""

    def read_content(*lines, strict=False, split="words"):
        read_content.report = ReadingReport(strict=strict)
        shown = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(shown), encoding="utf-8")
        return list(read_jsonl(path, read_content.report, ReadOptions(split)))

    path = read_content.path = tmp_path / "data.jsonl"
    return read_content


def error_of(read, *lines, **options):
    """The message without the folder."""
    with pytest.raises(DataError) as raised:
        read(*lines, **options)
    return str(raised.value).removeprefix(f"{read.path.parent}/")


def test_our_own_form_counts_words(read):
    record = {"tokens": list(TOKENS), "entities": [[0, 2, "PER"], {"start": 3, "end": 4, "label": "LOC"}]}
    assert read(record) == [Sentence(TOKENS, (Entity(0, 2, "PER"), Entity(3, 4, "LOC")))]


@pytest.mark.parametrize(
    "record",
    [
        {"entities": [[0, 12, "PER"], [18, 23, "LOC"]]},
        {"entities": [{"start": 0, "end": 12, "label": "PER"}, {"start": 18, "end": 23, "label": "LOC"}]},
        {
            "ents": [{"start": 0, "end": 12, "label": "PER"}, {"start": 18, "end": 23, "label": "LOC"}],
            "sents": [{"start": 0, "end": 24}],
            "spans": {},
            "tokens": [
                {"id": 0, "start": 0, "end": 3, "tag": "NNP"},
                {"id": 1, "start": 4, "end": 12, "tag": "NNP"},
                {"id": 2, "start": 13, "end": 17, "tag": "VBD"},
                {"id": 3, "start": 18, "end": 23, "tag": "NNP"},
                {"id": 4, "start": 23, "end": 24, "tag": "."},
            ],
        },
        {"id": 1, "label": [[0, 12, "PER"], [18, 23, "LOC"]]},
        {"id": 1, "labels": [[0, 12, "PER"], [18, 23, "LOC"]], "Comments": []},
        {
            "id": 1,
            "entities": [
                {"id": 7, "label": "PER", "start_offset": 0, "end_offset": 12},
                {"id": 8, "label": "LOC", "start_offset": 18, "end_offset": 23},
            ],
            "relations": [],
        },
        {
            "tokens": [
                {"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": True},
                {"text": "Lovelace", "start": 4, "end": 12, "id": 1, "ws": True},
                {"text": "left", "start": 13, "end": 17, "id": 2, "ws": True},
                {"text": "Turin", "start": 18, "end": 23, "id": 3, "ws": False},
                {"text": ".", "start": 23, "end": 24, "id": 4, "ws": False},
            ],
            "spans": [
                {"start": 0, "end": 12, "token_start": 0, "token_end": 1, "label": "PER"},
                {"start": 18, "end": 23, "token_start": 3, "token_end": 3, "label": "LOC"},
            ],
            "answer": "accept",
            "_input_hash": 1,
        },
    ],
    ids=["spaCy", "objects", "Doc.to_json", "doccano label", "doccano labels", "doccano relations", "Prodigy"],
)
def test_character_spans_of_other_tools_become_word_spans(read, record):
    assert read({"text": TEXT} | record) == [ADA]
    assert not read.report.counts


def test_words_are_those_that_the_tool_had_seen(read):
    tokens = [{"text": "New York", "start": 0, "end": 8}, {"text": "\n", "start": 8, "end": 9}]
    record = {"text": "New York\n", "tokens": tokens, "spans": [{"start": 0, "end": 8, "label": "LOC"}]}
    assert read(record) == [Sentence(("New York",), (Entity(0, 1, "LOC"),), text="New York\n")]


def test_text_is_split_as_asked(read):
    record = {"text": "東京へ 行く", "entities": [[0, 2, "LOC"]]}
    assert read(record, split="characters")[0].tokens == ("東", "京", "へ", "行", "く")
    assert read(record, split="characters")[0].entities == (Entity(0, 2, "LOC"),)
    assert read(record, split="whitespace")[0].tokens == ("東京へ", "行く")


def test_offsets_count_characters_not_bytes_or_surrogates(read):
    record = {"text": "👩\u200d🚀 Zoë", "entities": [[4, 7, "PER"]]}
    sentence = read(record)[0]
    assert sentence.text_of(sentence.entities[0].start, sentence.entities[0].end) == "Zoë"


def test_fields_that_we_do_not_know_are_handed_on(read):
    known = {"text": TEXT, "entities": [{"start": 0, "end": 12, "label": "PER", "id": 7, "note": None}]}
    unknown = {"id": "a1", "meta": {"page": 3}, "label": "positive", "extra": [1], "spans": {}}
    (sentence,) = read(known | unknown)
    assert sentence == Sentence(TOKENS, (Entity(0, 2, "PER"),), text=TEXT)
    assert sentence.extra == unknown
    assert sentence.entities[0].extra == {"id": 7, "note": None}
    file = io.StringIO()
    write_jsonl([sentence], file)
    (again,) = read(file.getvalue())
    assert again == sentence
    assert again.extra == unknown
    assert again.entities[0].extra == {"id": 7, "note": None}


@pytest.mark.parametrize(
    "record",
    [
        {"label": [[0, 3, "PER"]], "entities": []},
        {"labels": [[0, 3, "PER"]], "label": []},
        {"spans": [{"start": 0, "end": 3, "label": "PER", "token_start": 0, "token_end": 0}]},
        {"ents": [{"start": 0, "end": 3, "label": "PER"}], "spans": []},
    ],
)
def test_spans_that_were_read_are_not_handed_on_as_well(read, record):
    (sentence,) = read({"text": "Ada left", "id": 1} | record)
    assert sentence.entities == (Entity(0, 1, "PER"),)
    assert sentence.extra == {"id": 1}
    assert sentence.entities[0].extra == {}


def test_given_offsets_are_kept_and_not_searched_again(read):
    tokens = [{"text": "Bo", "start": 9, "end": 11, "id": 0, "tag": "NNP"}]
    given = {"text": "Bobo met Bo", "tokens": tokens, "spans": [{"start": 9, "end": 11, "label": "PER"}]}
    (sentence,) = read(given)
    assert sentence.offsets() == [(9, 11)]
    assert sentence.extra == {"token_fields": [{"tag": "NNP"}]}
    file = io.StringIO()
    write_jsonl([sentence], file)
    (again,) = read(file.getvalue())
    assert again == sentence
    assert again.offsets() == [(9, 11)]
    assert again.extra == sentence.extra


def test_offsets_that_a_search_would_find_are_not_written(read):
    tokens = [{"start": 0, "end": 3}, {"start": 4, "end": 8}]
    file = io.StringIO()
    write_jsonl(read({"text": "Ada left", "tokens": tokens}), file)
    assert json.loads(file.getvalue()) == {"text": "Ada left", "tokens": ["Ada", "left"], "entities": []}


def test_words_may_be_spelled_otherwise_in_the_text_if_their_offsets_are_given(read):
    record = {"text": '"Ada', "tokens": ["``", "Ada"], "token_offsets": [[0, 1], [1, 4]]}
    (sentence,) = read(record)
    assert sentence.text_of(0, 1) == '"'
    assert not read.report.counts


@pytest.mark.parametrize(
    ("offsets", "what"),
    [
        ([[0, 3]], "token_offsets has 1 pairs for 2 words"),
        ([[0, 3], [2, 8]], "token_offsets must lie inside the text, in order, and hold at least one character each"),
        ([[0, 3], [4, 9]], "token_offsets must lie inside the text, in order, and hold at least one character each"),
        ([[0, 3], [4, 4]], "token_offsets must lie inside the text, in order, and hold at least one character each"),
        ([[0, 3], [4]], '"token_offsets" must be a list of pairs of whole numbers'),
    ],
)
def test_wrong_token_offsets_are_refused(read, offsets, what):
    record = {"text": "Ada left", "tokens": ["Ada", "left"], "token_offsets": offsets}
    assert error_of(read, record) == f"data.jsonl:1: {what} — correct the record"


def test_rejected_spans_of_a_text_count_characters_too(read):
    record = {"text": TEXT, "entities": [[0, 12, "PER"]], "non_entities": [{"start": 18, "end": 23, "source": "me"}]}
    sentence = read(record)[0]
    assert sentence.non_entities == (Span(3, 4),)
    assert sentence.non_entities[0].source == "me"


def test_source_and_score_of_a_character_span_are_kept(read):
    record = {"text": TEXT, "spans": [{"start": 0, "end": 12, "label": "PER", "source": "model", "score": 0.5}]}
    entity = read(record)[0].entities[0]
    assert (entity.source, entity.score) == ("model", 0.5)


def test_a_text_without_annotation_is_read(read):
    assert read({"text": TEXT}) == [Sentence(TOKENS, text=TEXT)]
    assert read({"text": ""}) == [Sentence((), text="")]


def test_a_sentence_may_have_no_words(read):
    assert read({"tokens": [], "entities": []}) == [Sentence(())]


def test_blank_lines_and_an_empty_file_are_nothing(read):
    assert read("") == []
    assert read("", '{"tokens": ["Ada"]}', " ", "") == [Sentence(("Ada",))]


def test_an_entity_that_ends_inside_a_word_is_moved_and_counted(read):
    assert read({"text": TEXT, "entities": [[0, 7, "PER"]]})[0].entities == (Entity(0, 2, "PER"),)
    assert read.report.counts == {"entities moved to word borders": 1}
    assert read.report.examples["entities moved to word borders"] == (
        f"{read.path}:1: Entity(start=0, end=7, label='PER') ends inside a word; it covers 'Ada Lovelace' now"
    )


def test_spaces_around_an_entity_do_not_matter(read):
    assert read({"text": TEXT, "entities": [[12, 18, "X"], [17, 24, "Y"]]})[0].entities == (
        Entity(2, 3, "X"),
        Entity(3, 5, "Y"),
    )
    assert not read.report.counts


def test_an_entity_without_words_is_left_out_and_counted(read):
    assert read({"text": TEXT, "entities": [[3, 4, "PER"]]})[0].entities == ()
    assert read.report.counts == {"empty entities": 1}


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_what_was_not_accepted_in_prodigy_is_left_out_and_counted(read, answer):
    assert read({"text": TEXT, "answer": answer}, {"text": "Bob", "answer": "accept"}) == [
        Sentence(("Bob",), text="Bob")
    ]
    assert read.report.counts == {"unaccepted records": 1}


@pytest.mark.parametrize(
    "record",
    [
        {"text": TEXT, "entities": [[0, 7, "PER"]]},
        {"text": TEXT, "entities": [[3, 4, "PER"]]},
        {"text": TEXT, "answer": "reject"},
        {"tokens": ["Ada"], "entities": [[0, 1, "PER"], [0, 1, "PER"]]},
    ],
)
def test_strict_refuses_what_would_be_repaired(read, record):
    assert error_of(read, {"text": "Bob"}, record, strict=True).startswith("data.jsonl:2: ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"tokens": ["Ada"]',
            "not JSON: Expecting ',' delimiter at column 19 — write one JSON object a line",
        ),
        ('["Ada"]', "the line is not a JSON object — write one JSON object a line"),
        (
            {"words": ["Ada"], "id": 1},
            'neither "tokens" (a list of words) nor "text" (a string) is there; keys that are not read: words, id'
            " — add one of them",
        ),
        ({"tokens": ["Ada", None]}, '"tokens" must be a list of strings — correct the record'),
        ({}, 'neither "tokens" (a list of words) nor "text" (a string) is there — add one of them'),
        (
            {"text": "Ada", "entities": [[0, 4, "PER"]]},
            "Entity(start=0, end=4, label='PER') ends after the text's 3 characters — correct its offsets",
        ),
        (
            {"text": "Ada", "non_entities": [[0, 4]]},
            "Span(start=0, end=4, source=None) ends after the text's 3 characters — correct its offsets",
        ),
        (
            {"text": "Ada", "entities": [[-1, 2, "PER"]]},
            "[-1, 2, 'PER'] is not an entity (a span needs 0 <= start < end, not [-1, 2))"
            " — write [start, end, label] with start < end",
        ),
        (
            {"tokens": ["Ada"], "entities": [[0, 2, "PER"]]},
            "Entity(start=0, end=2, label='PER') ends after the last of 1 words — correct the record",
        ),
        ({"tokens": ["Ada", ""]}, '"tokens" must be a list of non-empty strings — correct the record'),
        (
            '{"tokens": ["\\ud83d"]}',
            "there is half of a surrogate pair — write the whole character",
        ),
    ],
)
def test_a_broken_line_is_refused_with_place_and_remedy(read, line, message):
    assert error_of(read, {"text": "Bob"}, line) == f"data.jsonl:2: {message}"


@pytest.mark.parametrize(
    "tokens",
    [
        [{"text": "Ada"}],
        [{"start": 0, "end": "3"}],
        [{"start": 0, "end": 4}],
        [{"start": -1, "end": 3}],
        [{"start": 2, "end": 3}, {"start": 0, "end": 1}],
        [{"start": 0, "end": 3}, {"start": 2, "end": 3}],
        ["Ada", {"start": 0, "end": 3}],
        [None],
        "Ada",
        3,
    ],
)
def test_tokens_must_lie_in_the_text_in_order(read, tokens):
    assert error_of(read, {"text": "Ada", "tokens": tokens}) == (
        'data.jsonl:1: "tokens" must have start and end inside the text, in order — correct the record'
    )


def test_escaped_emoji_are_whole_characters(read):
    assert read('{"tokens": ["\\ud83d\\ude00"]}')[0].tokens == ("😀",)


def test_what_is_written_is_one_object_a_line_in_plain_letters():
    file = io.StringIO()
    write_jsonl([Sentence(("Zoë", "a\nb")), Sentence(("😀",), (Entity(0, 1, "X"),), complete=True)], file)
    assert file.getvalue() == (
        '{"tokens": ["Zoë", "a\\nb"], "entities": []}\n'
        '{"tokens": ["😀"], "entities": [{"start": 0, "end": 1, "label": "X"}], "complete": true}\n'
    )


@pytest.mark.parametrize("key", ["spans", "label", "ner_tags"])
def test_labels_beside_words_that_would_be_overlooked_are_refused(tmp_path, key):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"tokens": ["Ada"], key: [[0, 1, "PER"]]}))
    with pytest.raises(DataError, match=f'a.jsonl:1: "{key}" is given with "tokens"'):
        Corpus.read(path)


def test_an_empty_list_of_entities_does_not_hide_labels_under_another_key(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Ada sleeps", "entities": [], "label": [[0, 3, "PER"]]}))
    assert [entity.label for entity in Corpus.read(path)[0].entities] == ["PER"]


PER = [[0, 3, "PER"]]
SPAN = [{"start": 0, "end": 3, "label": "PER"}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"entities": PER, "ents": SPAN}, 'there are spans under two keys, "entities" and "ents" — keep the intended ones'),
        ({"spans": SPAN, "label": PER}, 'there are spans under two keys, "spans" and "label" — keep the intended ones'),
        ({"spans": {"sc": SPAN}}, '"spans" must be a list — write [[start, end, label], …]'),
        ({"ents": SPAN, "spans": {"sc": SPAN}}, '"spans" must be a list — write [[start, end, label], …]'),
        ({"entities": 5}, '"entities" must be a list — write [[start, end, label], …]'),
        ({"entities": False}, '"entities" must be a list — write [[start, end, label], …]'),
        ({"entities": {"PER": PER}}, '"entities" must be a list — write [[start, end, label], …]'),
        ({"ents": "Ada"}, '"ents" must be a list — write [[start, end, label], …]'),
        (
            {"entities": None, "ner_tags": ["B-PER", "O"]},
            '"ner_tags" is given with "text", but not the words that it belongs to'
            ' — give them as "tokens", and "entities" that count words',
        ),
    ],
)  # fmt: skip
def test_annotation_that_would_be_overlooked_is_refused(read, fields, message):
    assert error_of(read, {"text": "Ada left"} | fields) == f"data.jsonl:1: {message}"


@pytest.mark.parametrize("entities", [[], None, [[0, 1, "LOC"]]])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spans", SPAN),
        ("spans", {"sc": SPAN}),
        ("ents", SPAN),
        ("label", PER),
        ("ner_tags", ["B-PER", "O"]),
        ("ner_tags", [1, 0]),
        ("tags", ["O", "O"]),
    ],
)
def test_no_list_of_entities_hides_other_annotation_of_words(read, entities, key, value):
    record = {"tokens": ["Ada", "left"], "entities": entities, key: value}
    assert error_of(read, record).startswith(f'data.jsonl:1: "{key}" is given with "tokens"')


def test_groups_of_spans_that_are_empty_and_keywords_are_no_annotation(read):
    fields = {"spans": {"sc": []}, "tags": ["news"], "label": ["sport", "news"], "labels": "x"}
    assert read({"text": "Ada left"} | fields, strict=True)[0].extra == fields
    assert read({"tokens": ["Ada"], "entities": []} | fields, strict=True)[0].extra == fields


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("annotations", PER),
        ("annotations", [{"result": [{"value": {"start": 0, "end": 3, "labels": ["PER"]}}]}]),
        ("annotations", [{"label": ["PER"], "points": [{"start": 0, "end": 2, "label": "PER"}]}]),
        ("ner", [[0, 0, "PER"]]),
        ("gold", {"sc": SPAN}),
        ("bio", ["B-PER", "O"]),
    ],
)
def test_keys_that_look_like_annotation_are_named(read, key, value):
    for record in ({"text": "Ada left"}, {"tokens": ["Ada", "left"], "entities": []}):
        assert read(record | {key: value})[0].extra == {key: value}
        assert read.report.counts == {"annotation that is not read": 1}
        assert f'"{key}" looks like annotation, but is not read' in read.report.examples["annotation that is not read"]
        assert error_of(read, record | {key: value}, strict=True).startswith(f'data.jsonl:1: "{key}" looks like')


@pytest.mark.parametrize("key", ["words", "tokenized"])
def test_words_that_are_not_read_are_named(read, key):
    assert read({"text": "Ada left", key: ["Ada", "left"]})[0].extra == {key: ["Ada", "left"]}
    assert read.report.counts == {"words that are not read": 1}


def test_every_field_that_is_not_read_is_in_the_report(read):
    read({"text": "Ada", "id": 1, "meta": {}}, {"tokens": ["Ada"], "entities": [], "id": 2}, strict=True)
    assert read.report.unread == {"id": 2, "meta": 1}
    assert not read.report.counts


def test_offsets_without_words_are_left_out_and_counted(read):
    assert read({"text": "Ada left", "token_offsets": [[0, 8]]})[0].tokens == ("Ada", "left")
    assert read.report.counts == {"token offsets left out": 1}


@pytest.mark.parametrize("score", [10**400, "nan", "inf", "much", [1]])
def test_a_score_is_a_finite_number(read, score):
    record = {"text": "Ada", "entities": [{"start": 0, "end": 3, "label": "PER", "score": score}]}
    assert "is not an entity" in error_of(read, record)


@pytest.mark.parametrize("format", ["prodigy", "doccano"])
@pytest.mark.parametrize(("key", "value"), [("entities", PER), ("ents", SPAN), ("spans", {"sc": SPAN})])
def test_spans_under_the_key_of_another_tool_are_not_lost(tmp_path, format, key, value):
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"text": "Ada left", key: value}))
    if (format, key) == ("doccano", "entities"):
        assert len(Corpus.read(path, format)[0].entities) == 1
    else:
        with pytest.raises(DataError, match=f'"{key}"'):
            Corpus.read(path, format)


@pytest.mark.parametrize("name", ["type", "entity_group", "entity", "class", "tag", "category", "entity_type"])
def test_a_label_may_have_the_name_that_another_tool_has_for_it(read, name):
    record = {"text": TEXT, "entities": [{"start": 0, "end": 12, name: "PER", "score": 0.5, "word": "Ada Lovelace"}]}
    (entity,) = read(record)[0].entities
    assert (entity.label, entity.score, entity.extra) == ("PER", 0.5, {"word": "Ada Lovelace"})
    record["entities"][0]["label"] = "X"
    (entity,) = read(record)[0].entities
    assert (entity.label, entity.extra[name]) == ("X", "PER")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "PER", "class": "x"}, "type and class may each be its label"),
        ({"entity": "B-PER", "index": 1, "word": "A"}, 'call the pipeline with aggregation_strategy="simple"'),
        ({"type": 3}, "an entity lacks 'label'"),
    ],
)
def test_an_entity_without_one_label_is_refused(read, fields, message):
    assert message in error_of(read, {"text": TEXT, "entities": [{"start": 0, "end": 3} | fields]})


def test_an_array_and_indented_objects_are_read(read):
    one, other = {"text": "Ada", "entities": [[0, 3, "PER"]]}, {"tokens": ["Bo"]}
    wanted = read(one, other)
    assert read(json.dumps([one, other])) == wanted
    assert read(json.dumps([one, other], indent=2)) == wanted
    assert read(json.dumps(one, indent=2), json.dumps(other, indent=2)) == wanted
    assert read("[]") == []


@pytest.mark.parametrize("value", [[{"from": 0, "to": 3, "what": "PER"}], "Ada: PER", {"PER": ["Ada"]}])
def test_a_file_without_entities_names_the_keys_that_may_hold_them(read, value):
    read({"text": "Ada left", "annotation": value, "id": 1}, {"text": "Bo", "annotation": [], "id": 2})
    assert read.report.counts == {"files without entities": 1}
    assert (
        "no entity was read; keys that are not read: annotation, id" in read.report.examples["files without entities"]
    )
    assert "keys that are not read: annotation" in error_of(read, {"text": "Ada", "annotation": value}, strict=True)


def test_texts_without_annotation_are_no_reason_to_warn(read):
    read({"text": "Ada left", "id": 1, "meta": {"page": 3}}, {"text": "Bo", "label": "news"}, strict=True)
