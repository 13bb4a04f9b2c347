"""BioC XML: the library of the format reads what we write, and we read what it writes."""

import bioc
import pytest
from bioc import biocxml

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import DataError

TEXT = "😀 Ada <Lovelace> & left"
SENTENCE = Sentence(
    ("😀", "Ada", "<", "Lovelace", ">", "&", "left"), (Entity(1, 4, "PER"),), text=TEXT, extra={"id": "a"}
)


def collection(*passages, annotations=()):
    """One document; an annotation is (id, label, [(offset, length), …], text), and belongs to the last passage."""
    made, document = bioc.BioCCollection(), bioc.BioCDocument()
    document.id = "7"
    document.infons["journal"] = "x"
    for offset, text in passages:
        passage = bioc.BioCPassage()
        passage.offset, passage.text = offset, text
        passage.infons["type"] = "abstract"
        document.add_passage(passage)
    for key, label, locations, text in annotations:
        annotation = bioc.BioCAnnotation()
        annotation.id, annotation.text = key, text
        annotation.infons |= {"type": label, "identifier": "D1"}
        for location in locations:
            annotation.add_location(bioc.BioCLocation(*location))
        passage.add_annotation(annotation)
    relation = bioc.BioCRelation()
    relation.id = "R1"
    relation.infons["type"] = "with"
    relation.add_node(bioc.BioCNode("T1", "a"))
    document.add_relation(relation)
    made.add_document(document)
    return made


def test_the_library_reads_what_we_write(tmp_path):
    Corpus([SENTENCE, Sentence(("Bo",))]).write(tmp_path / "a.xml")
    with (tmp_path / "a.xml").open(encoding="utf-8") as file:
        first, second = biocxml.load(file).documents
    (annotation,) = first.passages[0].annotations
    assert (first.id, first.passages[0].text) == ("a", TEXT)
    assert (annotation.infons["type"], annotation.text) == ("PER", "Ada <Lovelace")
    assert (annotation.total_span.offset, annotation.total_span.length) == (2, 13)
    assert second.passages[0].text == "Bo"


def test_we_read_what_the_library_writes_and_write_it_again(tmp_path):
    annotations = [("T1", "Disease", [(13, 3)], "flu"), ("T2", "Body", [(18, 4), (33, 3)], "left arm")]
    made = collection((0, "Title & 😀"), (10, "A\u00a0 flu, left and right arm"), annotations=annotations[:1])
    made.documents[0].passages[1].text = "A, flu; left and right arm"
    with (tmp_path / "a.xml").open("w", encoding="utf-8") as file:
        biocxml.dump(made, file)
    corpus = Corpus.read(tmp_path / "a.xml", strict=True)
    (sentence,) = corpus
    assert sentence.text == "Title & 😀\nA, flu; left and right arm"
    assert sentence.texts_of(sentence.entities) == ["flu"]
    corpus.write(tmp_path / "b.xml")
    with (tmp_path / "b.xml").open(encoding="utf-8") as file:
        (again,) = biocxml.load(file).documents
    (before,) = made.documents
    assert again.infons == before.infons
    assert [(p.offset, p.text, p.infons) for p in again.passages] == [
        (p.offset, p.text, p.infons) for p in before.passages
    ]
    assert [a.infons for a in again.annotations] == [a.infons for a in before.annotations]
    assert [(r.id, r.infons, [n.refid for n in r.nodes]) for r in again.relations] == [("R1", {"type": "with"}, ["T1"])]


def test_several_locations_are_covered_counted_and_written_again(tmp_path):
    made = collection((5, "left and right arm"), annotations=[("T2", "Body", [(5, 4), (20, 3)], "left arm")])
    (tmp_path / "a.xml").write_text(biocxml.dumps(made), encoding="utf-8")
    corpus = Corpus.read(tmp_path / "a.xml")
    assert corpus[0].texts_of(corpus[0].entities) == ["left and right arm"]
    assert corpus.report.counts == {"discontinuous entities": 1}
    corpus.write(tmp_path / "b.xml")
    with (tmp_path / "b.xml").open(encoding="utf-8") as file:
        (annotation,) = biocxml.load(file).documents[0].passages[0].annotations
    assert [(place.offset, place.length) for place in annotation.locations] == [(5, 4), (20, 3)]


@pytest.mark.parametrize("offsets", [(0, 3), (0, 2), (100_000, 500_000), (4, 900)])
def test_whatever_passages_count_their_entities_are_found(tmp_path, offsets):
    first, second = offsets
    made = collection((first, "Ada"), (second, "Bo left"), annotations=[("T1", "PER", [(second, 2)], "Bo")])
    (tmp_path / "a.xml").write_text(biocxml.dumps(made), encoding="utf-8")
    corpus = Corpus.read(tmp_path / "a.xml", strict=True)
    assert corpus[0].texts_of(corpus[0].entities) == ["Bo"]
    assert len(corpus[0].text) < 2000


def test_sentences_of_passages_are_read(tmp_path):
    (tmp_path / "a.xml").write_text(
        "<collection><document><id>1</id><passage><infon key='p'>q</infon><offset>0</offset><sentence><offset>0</offset>"
        "<text>Ada.</text></sentence><sentence><offset>5</offset><text>Bo.</text><annotation id='1'>"
        "<infon key='type'>PER</infon><location offset='5' length='2'/></annotation></sentence><annotation id='2'>"
        "<infon key='type'>PER</infon><location offset='0' length='3'/></annotation></passage></document></collection>"
    )
    corpus = Corpus.read(tmp_path / "a.xml", strict=True)
    assert corpus[0].text == "Ada.\nBo."
    assert corpus[0].texts_of(corpus[0].entities) == ["Ada", "Bo"]
    assert "sentences of passages are read as passages" in " ".join(corpus.report.remarks)


def test_a_character_that_xml_cannot_hold_is_refused(tmp_path):
    with pytest.raises(DataError, match="sentence 1 has a character that XML cannot hold — write JSON Lines"):
        Corpus([Sentence(("a\x00",))]).write(tmp_path / "a.xml")
    assert not list(tmp_path.iterdir())
