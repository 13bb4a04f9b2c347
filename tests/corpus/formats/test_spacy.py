"""spaCy itself reads what we write, and writes what we read."""

import gc
import gzip
import zlib

import numpy as np
import pytest
import spacy
import srsly
from any_sentence import any_sentences
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, SpanGroup
from spacy.tokens import Span as SpacySpan
from spacy.training import Example

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.errors import DataError

NLP = spacy.blank("en")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.spacy"


def docs_of(path):
    """The documents as spaCy reads them."""
    return list(DocBin().from_disk(path).get_docs(NLP.vocab))


def read_docs(path, *docs, **options):
    DocBin(docs=docs, store_user_data=True, **options).to_disk(path)
    return Corpus.read(path)


def spans_of(doc, *spans):
    return [SpacySpan(doc, start, end, label=label) for start, end, label in spans]


def found(spans):
    return [(span.start, span.end, span.label_) for span in spans]


@given(corpus=st.lists(any_sentences(), max_size=3))
def test_any_corpus_comes_back_with_everything_that_is_known(tmp_path_factory, corpus):
    path = tmp_path_factory.getbasetemp() / "any.spacy"
    write_sentences(corpus, path)
    report = ReadingReport()
    again = list(stream_sentences(path, report=report))
    assert [sentence_to_record(sentence) for sentence in again] == [sentence_to_record(s) for s in corpus]
    assert not report.counts.keys() & {"changed sentences", "fields left out", "duplicate entities"}, report.counts
    for doc, sentence in zip(docs_of(path), corpus, strict=True):
        assert sentence.text is None or doc.text == sentence.text
        assert {(e.label_, e.text) for e in doc.ents} <= {
            (e.label, text) for e, text in zip(sentence.entities, sentence.texts_of(sentence.entities), strict=True)
        } or sentence.text is None


def test_what_is_not_annotated_is_missing_unless_the_sentence_is_complete(path):
    entity = Entity(0, 1, "PER")
    words = ("Ada", "left", "Turin")
    corpus = [
        Sentence(words, (entity,)),
        Sentence(words, (entity,), complete=True),
        Sentence(words, (entity,), complete=True, unknown_tokens=frozenset({2})),
        Sentence(words, (entity,), complete=True, annotated_labels=frozenset({"PER"})),
        Sentence(words, (Entity(2, 3, "LOC"),), complete=True, annotated_labels=frozenset({"PER", "LOC"})),
    ]
    Corpus(corpus).write(path)
    assert [[token.ent_iob_ for token in doc] for doc in docs_of(path)] == [
        ["B", "", ""],
        ["B", "O", "O"],
        ["B", "O", ""],
        ["B", "", ""],  # a word that is no PER may be a LOC
        ["O", "O", "B"],
    ]
    assert list(Corpus.read(path)) == corpus


def test_spacy_learns_nothing_from_what_is_missing(path):
    """Words that are missing cost nothing, and a document of such words costs nothing at all."""
    words = ("Ada", "left", "Turin", "for", "Oslo", ".")
    entity = Entity(0, 1, "PER")
    Corpus([Sentence(words, (entity,)), Sentence(words, (entity,), complete=True), Sentence(words)]).write(path)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner", config={"incorrect_spans_key": "incorrect_spans"})
    annotated, complete, nothing = (Example(Doc(nlp.vocab, words=list(words)), doc) for doc in docs_of(path))
    optimizer = nlp.initialize(lambda: [annotated, complete])

    def loss(example):
        return nlp.update([example], sgd=False, losses={}, drop=0.0)["ner"]

    first = loss(annotated)
    for _ in range(5):
        nlp.update([annotated, complete], sgd=optimizer, losses={})
    assert loss(nothing) == 0
    assert 0 < loss(annotated) < first
    assert loss(complete) > 1.5 * loss(annotated)


def test_spacy_learns_from_rejected_spans(path):
    rejected = Sentence(("Ada", "left"), non_entities=(Span(0, 1),))
    Corpus([rejected, Sentence(("Bo",), (Entity(0, 1, "PER"),)), Sentence(("X",), (Entity(0, 1, "ORG"),))]).write(path)
    first, *others = docs_of(path)
    assert found(first.spans["incorrect_spans"]) == [(0, 1, "ORG"), (0, 1, "PER")]  # whatever the label
    nlp = spacy.blank("en")
    ner = nlp.add_pipe("ner", config={"incorrect_spans_key": "incorrect_spans"})
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc) for doc in others])
    example = Example(Doc(nlp.vocab, words=["Ada", "left"]), first)
    assert ner.moves.has_gold(example)
    assert nlp.update([example], sgd=False, losses={}, drop=0.0)["ner"] > 0
    assert Corpus.read(path)[0] == rejected


def test_a_span_that_is_rejected_with_some_labels_only_stays_unknown(path):
    doc, other = Doc(NLP.vocab, words=["Ada", "left"]), Doc(NLP.vocab, words=["Oslo"])
    doc.spans["incorrect_spans"] = spans_of(doc, (0, 1, "PER"))
    other.ents = spans_of(other, (0, 1, "LOC"))
    corpus = read_docs(path, doc, other)
    assert corpus[0].non_entities == ()
    assert corpus.report.counts == {"spans rejected with some labels only": 1}
    assert read_docs(path, doc)[0].non_entities == (Span(0, 1),)  # there is no other label
    doc.ents = spans_of(doc, (0, 1, "LOC"))
    corpus = read_docs(path, doc, other)
    assert (corpus[0].entities, corpus[0].non_entities) == ((Entity(0, 1, "LOC"),), ())
    assert not corpus.report.counts


def test_overlapping_entities_are_in_a_group_of_every_document(path):
    nested = Sentence(("Bank", "of", "Italy"), (Entity(0, 3, "ORG", score=0.75), Entity(2, 3, "LOC", score=0.5)))
    ambiguous = Sentence(("Jordan", "left"), (Entity(0, 1, "LOC"), Entity(0, 1, "PER")), complete=True)
    flat = Sentence(("Ada",), (Entity(0, 1, "PER"),))
    Corpus([nested, ambiguous, flat]).write(path)
    first, second, third = docs_of(path)
    assert (found(first.ents), found(first.spans["sc"])) == ([(0, 3, "ORG")], [(0, 3, "ORG"), (2, 3, "LOC")])
    assert list(first.spans["sc"].attrs["scores"]) == [0.75, 0.5]
    assert [token.ent_iob_ for token in second] == ["", "O"]  # nobody knows which of the two it is
    assert found(third.spans["sc"]) == [(0, 1, "PER")]
    assert list(Corpus.read(path)) == [nested, ambiguous, flat]
    Corpus([flat]).write(path)
    assert not docs_of(path)[0].spans


def test_the_words_and_the_text_of_spacy_are_read(path):
    text = "  Ada's friend   didn't\n\ngo to New York. "
    doc = NLP(text)
    first = next(token.i for token in doc if token.text == "New")
    doc.set_ents(spans_of(doc, (1, 2, "PER"), (first, first + 2, "LOC")), default="missing")
    (sentence,) = read_docs(path, doc)
    assert sentence.text == text
    assert list(sentence.tokens) == [token.text for token in doc if not token.is_space]
    assert sentence.offsets() == [(token.idx, token.idx + len(token)) for token in doc if not token.is_space]
    assert sentence.texts_of(sentence.entities) == ["Ada", "New York"]
    assert not sentence.complete
    assert sentence.unknown_tokens == frozenset()


def test_words_outside_are_unknown_unless_the_document_has_missing_values(path):
    doc = Doc(NLP.vocab, words=["Ada", "left", "Turin"])
    doc.ents = spans_of(doc, (0, 1, "PER"))
    corpus = read_docs(path, doc)
    assert not corpus[0].complete
    assert "they may not have been annotated" in next(iter(corpus.report.remarks))
    doc.set_ents(spans_of(doc, (0, 1, "PER")), missing=[doc[2:3]], default="outside")
    (sentence,) = read_docs(path, doc)
    assert (sentence.complete, sentence.unknown_tokens) == (True, {2})
    doc.set_ents([], blocked=[doc[0:2]], default="missing")
    (sentence,) = read_docs(path, doc)
    assert (sentence.entities, sentence.complete, sentence.unknown_tokens) == ((), True, {2})


def test_fields_of_documents_and_entities_are_handed_on(path):
    doc = Doc(NLP.vocab, words=["Ada", " ", "left"], spaces=[True, False, False], user_data={"id": 7, "text": "x"})
    Doc.set_extension("origin", default=None, force=True)
    SpacySpan.set_extension("note", default=None, force=True)
    doc._.origin = {"page": [1, 2]}
    doc[0:1]._.note = "x"
    doc.cats = {"news": 1.0}
    doc.ents = [SpacySpan(doc, 0, 2, label="PER", kb_id="Q7259", span_id="ada")]
    doc.spans["sc"] = SpanGroup(doc, spans=spans_of(doc, (0, 2, "PER")), attrs={"scores": np.array([0.25], "float32")})
    doc.spans["other"] = spans_of(doc, (2, 3, "X"))
    doc[2].tag_ = "VBD"
    corpus = read_docs(path, doc)
    (sentence,) = corpus
    assert sentence.extra == {"id": 7, "_": {"origin": {"page": [1, 2]}}, "cats": {"news": 1.0}}
    (entity,) = sentence.entities
    assert (entity, entity.score) == (Entity(0, 1, "PER"), 0.25)
    assert corpus.report.counts == {"annotation that is not read": 1, "fields left out": 1}
    assert any("attributes of words are not read: " in remark and "TAG" in remark for remark in corpus.report.remarks)
    corpus.write(path)
    (again,) = docs_of(path)
    assert (again.user_data["id"], again._.origin, again.cats) == (7, {"page": (1, 2)}, {"news": 1.0})
    del doc.spans["sc"]
    assert dict(read_docs(path, doc)[0].entities[0].extra) == {"kb_id": "Q7259", "id": "ada"}


def test_what_was_changed_in_spacy_counts(path):
    """Sources and completeness are kept beside the document; after a change, they may be about something else."""
    sentence = Sentence(("Ada", "left", "Oslo"), (Entity(0, 1, "PER", source="me"),), complete=True, extra={"id": 1})
    Corpus([sentence]).write(path)
    (doc,) = docs_of(path)
    doc.set_ents(spans_of(doc, (2, 3, "LOC")), default="missing")
    corpus = read_docs(path, doc)
    assert list(corpus) == [Sentence(sentence.tokens, (Entity(2, 3, "LOC"),))]
    assert corpus[0].extra == {"id": 1}
    assert corpus.report.counts == {"changed sentences": 1}


def test_a_word_that_continues_nothing_begins_an_entity(path):
    words = ["Ada", "left", "Oslo"]
    doc = Doc(NLP.vocab, words=words, ents=["B-PER", "O", "B-LOC"])
    content = srsly.msgpack_loads(zlib.decompress(DocBin(docs=[doc]).to_bytes()))
    rows = np.frombuffer(content["tokens"], dtype="uint64").reshape(3, -1).copy()
    rows[2, content["attrs"].index(spacy.attrs.ENT_IOB)] = 1
    content["tokens"] = rows.tobytes()
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(content)))
    corpus = Corpus.read(path)
    assert corpus[0].entities == (Entity(0, 1, "PER"), Entity(2, 3, "LOC"))
    assert corpus.report.counts == {"repaired tags": 1}


def changed(**fields):
    """A file in which some fields are wrong."""
    doc = Doc(NLP.vocab, words=["Ada", "left"])
    doc.ents = spans_of(doc, (0, 1, "PER"))
    doc.spans["sc"] = spans_of(doc, (0, 1, "PER"))
    content = srsly.msgpack_loads(zlib.decompress(DocBin(docs=[doc], store_user_data=True).to_bytes()))
    new = {key: value(content[key]) if callable(value) else value for key, value in fields.items()}
    return zlib.compress(srsly.msgpack_dumps({k: v for k, v in (content | new).items() if v is not None}))


def group(start, end):
    doc = Doc(NLP.vocab, words=["Ada"] * 99)
    doc.spans["sc"] = spans_of(doc, (start, end, "PER"))
    return doc.spans.to_bytes()


DAMAGED = {
    "text": b"Ada B-PER\n",
    "nothing": b"",
    "no message": zlib.compress(b"\xc1"),
    "a list": zlib.compress(srsly.msgpack_dumps([1])),
    "cut off": changed()[:-9],
    "no words": changed(tokens=None),
    "words that do not fit": changed(tokens=lambda tokens: tokens[:-8]),
    "lengths that do not fit": changed(lengths=np.array([3], dtype="int32").tobytes()),
    "negative lengths": changed(lengths=np.array([3, -1], dtype="int32").tobytes()),
    "no spaces": changed(spaces=b""),
    "strings that are missing": changed(strings=["left"]),
    "strings that are none": changed(strings=[1, 2]),
    "an attribute that there is not": changed(attrs=lambda attrs: [*attrs[:-1], 10**6]),
    "attributes that are none": changed(attrs=[]),
    "spans outside of the text": changed(span_groups=[group(0, 50)]),
    "spans that are no bytes": changed(span_groups=[[1]]),
    "too many groups": changed(span_groups=lambda groups: groups * 2),
    "user data that is a list": changed(user_data=[srsly.msgpack_dumps([1])]),
    "user data that is none": changed(user_data=[b"\xc1"]),
    "an array in place of lists": changed(cats=np.zeros(1)),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_in_one_sentence(path, content):
    path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"the file is damaged, or no DocBin of spaCy \(.+\) — write it again"
    ) as raised:
        Corpus.read(path)
    assert "\n" not in str(raised.value)
    assert gc.isenabled()


def test_nothing_in_a_file_is_made_into_an_object(path):
    """srsly would make arrays, complex numbers and whatever else packages register of what a stranger describes."""
    described = {b"nd": True, b"type": "O", b"kind": b"", b"shape": (1,), b"data": b"cos\nsystem\n"}
    doc = Doc(NLP.vocab, words=["Ada"], user_data={"a": 1})
    content = srsly.msgpack_loads(zlib.decompress(DocBin(docs=[doc], store_user_data=True).to_bytes()))
    content["user_data"] = [srsly.msgpack_dumps({"a": described, "b": {b"complex": True, b"data": "1j"}})]
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(content)))
    corpus = Corpus.read(path)
    assert corpus[0] == Sentence(("Ada",))
    assert corpus.report.counts == {"fields left out": 2}


def test_files_may_be_packed_once_more(tmp_path):
    corpus = Corpus([Sentence(("Ada",), (Entity(0, 1, "PER"),))])
    corpus.write(tmp_path / "a.spacy.gz")
    assert gzip.decompress((tmp_path / "a.spacy.gz").read_bytes())[:1] == b"\x78"
    assert list(Corpus.read(tmp_path / "a.spacy.gz")) == list(corpus)


def test_an_empty_word_is_refused_and_nothing_is_written(path):
    with pytest.raises(DataError, match="sentence 1 has an empty word, which spaCy refuses"):
        Corpus([Sentence(("Ada", ""))]).write(path)
    assert not path.exists()


def test_without_spacy_an_install_command_is_named(path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match="needs spaCy, which is not installed — install it with: pip install spacy"):
        Corpus.read(path)
