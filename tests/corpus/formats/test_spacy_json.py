import json

import pytest
import spacy
from any_sentence import any_sentences
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from spacy.training import Example

from lacuner import corpus as ours
from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError

NLP = spacy.blank("en")
TUPLES = [["Ada's friend left.", {"entities": [[0, 3, "PER"]]}], ["In New York", {"entities": [[3, 11, "LOC"]]}]]
WANTED = [
    (("Ada", "'s", "friend", "left", "."), (Entity(0, 1, "PER"),)),
    (("In", "New", "York"), (Entity(1, 3, "LOC"),)),
]


@pytest.fixture
def read(tmp_path):
    def read_text(content, format="spacy_json"):
        path = tmp_path / "data.json"
        path.write_text(content)
        return Corpus.read(path, format)

    return read_text


@given(corpus=st.lists(any_sentences(), max_size=3))
def test_any_corpus_comes_back_with_everything_that_is_known(tmp_path_factory, corpus):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    write_sentences(corpus, path, "spacy_json")
    again = list(stream_sentences(path, "spacy_json"))
    assert [sentence_to_record(sentence) for sentence in again] == [sentence_to_record(s) for s in corpus]
    for line, sentence in zip(path.read_text().split("\n"), corpus, strict=False):
        record = json.loads(line)
        if sentence.tokens and not any(token.isspace() for token in sentence.tokens):  # spaCy adds spaces itself
            doc = Doc(NLP.vocab).from_json({key: record[key] for key in ("text", "ents", "tokens")})
            assert doc.text == record["text"]
            assert len(doc.ents) == len(record["ents"])


FILES = {
    "tuples in lines": "\n".join(map(json.dumps, TUPLES)),
    "tuples in an array": json.dumps(TUPLES, indent=2),
    "tuples in an array of one line": json.dumps(TUPLES),
    "NER Annotator": json.dumps({"classes": ["PER"], "annotations": [TUPLES[0], None, TUPLES[1]]}),
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_training_tuples_are_read(read, content):
    assert [(sentence.tokens, sentence.entities) for sentence in read(content)] == WANTED


def test_training_tuples_are_read_by_the_name_of_the_file(read):
    assert [(s.tokens, s.entities) for s in read(FILES["tuples in lines"], None)] == WANTED


def test_spacy_reads_our_tuples(tmp_path):
    path = tmp_path / "data.jsonl"
    Corpus([Sentence(tokens, entities) for tokens, entities in WANTED]).write(path, "spacy_tuples")
    for line, (_, entities) in zip(path.read_text().splitlines(), WANTED, strict=True):
        text, annotations = json.loads(line)
        example = Example.from_dict(NLP.make_doc(text), annotations)
        assert [ent.label_ for ent in example.reference.ents] == [entity.label for entity in entities]
    assert [(s.tokens, s.entities) for s in Corpus.read(path, "spacy_tuples")] == WANTED


@pytest.mark.parametrize("format", ["spacy_json", None])
def test_documents_are_read_with_their_words_and_groups(read, format):
    doc = NLP("Ada's bank, the Bank of  Italy")
    doc.ents = [Span(doc, 5, 9, label="ORG")]
    doc.spans["sc"] = [Span(doc, 5, 9, label="ORG"), Span(doc, 8, 9, label="LOC", kb_id="Q38")]
    doc.spans["incorrect_spans"] = [Span(doc, 0, 1, label=""), Span(doc, 2, 3, label="LOC")]
    doc.spans["other"] = [Span(doc, 0, 1, label="X")]
    doc.cats = {"news": 1.0}
    corpus = read(json.dumps(doc.to_json()) + "\n", format)
    (sentence,) = corpus
    assert sentence.text == doc.text
    assert list(sentence.tokens) == [token.text for token in doc if not token.is_space]
    assert [(*shown, dict(entity.extra)) for shown, entity in zip(
        ((sentence.text_of(e.start, e.end), e.label) for e in sentence.entities), sentence.entities, strict=True
    )] == [("Bank of  Italy", "ORG", {}), ("Italy", "LOC", {"kb_id": "Q38"})]  # fmt: skip
    assert [sentence.text_of(span.start, span.end) for span in sentence.non_entities] == ["Ada"]
    assert sentence.extra["cats"] == {"news": 1.0}
    assert corpus.report.counts["annotation that is not read"] == 1
    assert corpus.report.counts["spans rejected with some labels only"] == 1


REFUSED = {
    "no JSON": ("{", "not JSON"),
    "a number": ("5", "there is no list of documents or training tuples"),
    "numbers": ("[1]", "there is neither a document of spaCy nor a training tuple"),
    "an object without text": ('{"ents": []}', "there is neither a document of spaCy nor a training tuple"),
    "tags": ('["Ada", {"entities": ["B-PER"]}]', "is not an entity"),
    "spans outside": ('["Ada", {"entities": [[0, 9, "PER"]]}]', "ends after the text's 3 characters"),
    "a group that is none": (
        '{"text": "a", "ents": [], "tokens": [], "spans": {"sc": 5}}',
        'the group "sc" of "spans" must be a list of spans',
    ),
    "twice the key": ('["a", {"entities": [], "entities": []}]', "the key 'entities' occurs twice"),
}


@pytest.mark.parametrize(("content", "what"), REFUSED.values(), ids=REFUSED)
def test_what_is_none_of_it_is_refused(read, content, what):
    with pytest.raises(DataError, match=what):
        read(content)


def test_rows_of_tags_are_read_as_json_lines_too(read):
    rows = [{"tokens": ["Ada", "left"], "ner_tags": ["B-PER", "O"]}, {"tokens": ["Oslo"], "ner_tags": ["B-LOC"]}]
    corpus = read("\n".join(map(json.dumps, rows)), None)
    assert [sentence.entities for sentence in corpus] == [(Entity(0, 1, "PER"),), (Entity(0, 1, "LOC"),)]


def test_a_rejected_span_that_differs_from_an_entity_by_a_space_alone_is_known_by_the_entity(tmp_path):
    sentence = Sentence(("Ada", "\u2028"), (Entity(0, 1, "PER"),), (ours.Span(0, 2),))
    Corpus([sentence]).write(tmp_path / "a.jsonl", "spacy_json")
    assert list(Corpus.read(tmp_path / "a.jsonl", "spacy_json")) == [sentence]
