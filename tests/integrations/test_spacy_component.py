"""Inside pipelines of spaCy itself."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import spacy
import srsly
from spacy import displacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

import lacuner
from lacuner.corpus import Corpus
from lacuner.errors import ConfigError, LacunerError, ModelError
from lacuner.integrations.spacy import LacunerPipe

TEXT = "Grace  Hopper moved to\nNew York ."
FOUND = [("Grace  Hopper", "PER"), ("New York", "LOC")]


@pytest.fixture
def nlp(model_folder):
    """Makes a pipeline that ends in our component."""

    def make(*before, language="en", **config):
        made = spacy.blank(language)
        for factory in before:
            made.add_pipe(factory)
        made.add_pipe("lacuner", config={"model": str(model_folder), **config})
        return made

    return make


def shown(spans):
    return [(span.text, span.label_) for span in spans]


def test_entities_are_those_that_the_model_finds_in_spacys_words(nlp, model):
    doc = nlp()(TEXT)
    assert shown(doc.ents) == FOUND
    words = [token.text for token in doc if not token.is_space]
    assert [token.is_space for token in doc].count(True) == 2
    wanted = model.predict(words, tokens=True)
    assert [ent._.lacuner_score for ent in doc.ents] == [pytest.approx(entity.score, abs=1e-6) for entity in wanted]
    assert {token.ent_iob_ for token in doc} == {"B", "I", "O"}


def test_spacys_own_words_are_used(nlp, model):
    """Nobody cuts the text again: a name that is one token stays one word of the model."""
    pipeline = nlp()
    words = ["Ada", "moved", "to", "New York", "."]
    doc = pipeline(Doc(pipeline.vocab, words=words))
    wanted = [(entity.start, entity.end, entity.label) for entity in model.predict(words, tokens=True)]
    assert [(ent.start, ent.end, ent.label_) for ent in doc.ents] == wanted
    assert (0, 1, "PER") in wanted


def test_texts_without_words_have_no_entities(nlp):
    assert [len(doc.ents) for doc in nlp().pipe(["", "  ", "\n"])] == [0, 0, 0]


def test_batches_give_what_single_texts_give(nlp):
    pipeline = nlp()
    texts = [TEXT, "Ada moved to Oslo .", "", "Kurt moved to Graz .\n"] * 5
    for batch_size in (1, 3, 100):
        assert [shown(doc.ents) for doc in pipeline.pipe(texts, batch_size=batch_size)] == [
            shown(pipeline(text).ents) for text in texts
        ]
    pairs = list(pipeline.pipe([(text, number) for number, text in enumerate(texts)], as_tuples=True))
    assert [number for _, number in pairs] == list(range(20))


def test_entities_may_be_a_group_of_spans_with_scores(nlp):
    doc = nlp(spans_key="sc", nested=True)(TEXT)
    assert not doc.ents
    assert set(FOUND) <= set(shown(doc.spans["sc"]))
    scores = doc.spans["sc"].attrs["scores"]
    assert len(scores) == len(doc.spans["sc"])
    assert all(0 < score <= 1 for score in scores)
    with pytest.raises(ConfigError, match=r"doc\.ents cannot hold nested entities; give spans_key, too"):
        nlp(nested=True)


def test_entities_that_are_less_probable_can_be_left_out(nlp):
    assert nlp(min_score=1.0)(TEXT).ents == ()


@pytest.mark.parametrize(("overwrite", "first"), [(False, ("Grace", "NAME")), (True, ("Grace  Hopper", "PER"))])
def test_entities_of_other_components_stay_unless_they_are_overwritten(nlp, overwrite, first):
    pipeline = nlp("entity_ruler", overwrite=overwrite)
    pipeline.get_pipe("entity_ruler").add_patterns(
        [{"label": "NAME", "pattern": "Grace", "id": "g"}, {"label": "VERB", "pattern": "moved"}]
    )
    doc = pipeline(TEXT)
    assert shown(doc.ents) == [first, ("moved", "VERB"), FOUND[1]]
    assert doc.ents[0].ent_id_ == ("" if overwrite else "g")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_group_of_spans_is_added_to_unless_it_is_overwritten(nlp, overwrite):
    pipeline = nlp(spans_key="sc", overwrite=overwrite)
    doc = pipeline.make_doc(TEXT)
    doc.spans["sc"] = [Span(doc, 0, 1, label="NAME")]
    for _ in range(2):  # what is there already is not added again
        doc = pipeline.get_pipe("lacuner")(doc)
    assert shown(doc.spans["sc"]) == ([] if overwrite else [("Grace", "NAME")]) + FOUND


def test_it_stands_beside_a_trained_component(nlp):
    pipeline = spacy.blank("en")
    ner = pipeline.add_pipe("ner")
    ner.add_label("X")
    pipeline.initialize()
    pipeline.add_pipe("lacuner", source=nlp())
    doc = pipeline(TEXT)
    taken = {token.i for token in doc if token.ent_type_ == "X"}
    ours = [ent for ent in nlp()(TEXT).ents if taken.isdisjoint(range(ent.start, ent.end))]
    assert shown(ent for ent in doc.ents if ent.label_ != "X") == shown(ours)
    assert pipeline.pipe_names == ["ner", "lacuner"]


def test_a_saved_pipeline_brings_its_model(nlp, model_folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(model_folder, copy)
    nlp("sentencizer", model=str(copy)).to_disk(tmp_path / "pipeline")
    assert (tmp_path / "pipeline" / "lacuner" / "model" / "model.safetensors").exists()
    shutil.rmtree(copy)
    loaded = spacy.load(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "pipeline")
    assert loaded.pipe_names == ["sentencizer", "lacuner"]
    assert shown(loaded(TEXT).ents) == FOUND
    loaded.to_disk(tmp_path / "again")
    loaded.to_disk(tmp_path / "again")
    assert shown(spacy.load(tmp_path / "again")(TEXT).ents) == FOUND


def test_a_pipeline_in_bytes_brings_its_model(nlp):
    data = nlp().to_bytes()
    empty = spacy.blank("en")
    empty.add_pipe("lacuner")
    assert shown(empty.from_bytes(data)(TEXT).ents) == FOUND


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", srsly.msgpack_dumps([1]), srsly.msgpack_dumps({}), srsly.msgpack_dumps({"config.json": 1})]
    + [srsly.msgpack_dumps({name: b"x"}) for name in ("../escaped", "/escaped", "config.json")],
)
def test_bytes_that_hold_no_model_are_refused(data, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(LacunerError):
        LacunerPipe().from_bytes(data)
    assert not list(tmp_path.iterdir())


def test_a_component_without_a_model_says_so():
    pipeline = spacy.blank("en")
    pipeline.add_pipe("lacuner")
    with pytest.raises(ModelError, match=r"the component has no model; give one: nlp.add_pipe"):
        pipeline("Ada")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("lacuner", config={"model": "nowhere"})
    with pytest.raises(LacunerError, match="nowhere"):
        pipeline("Ada")


def test_what_becomes_of_errors_is_the_pipelines_decision(nlp, monkeypatch):
    pipeline = nlp()
    monkeypatch.setattr(LacunerPipe, "predict", lambda self, docs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pipeline(TEXT)
    seen = []
    pipeline.set_error_handler(lambda name, component, docs, error: seen.append((name, len(docs))))
    assert list(pipeline.pipe(["a", "b"])) == []
    assert seen == [("lacuner", 2)]


def test_spacy_evaluates_it(nlp):
    pipeline = nlp()
    reference = pipeline(TEXT)
    scores = pipeline.evaluate([Example(pipeline.make_doc(TEXT), reference)])
    assert (scores["ents_f"], set(scores["ents_per_type"])) == (1.0, {"PER", "LOC"})
    assert pipeline.get_pipe("lacuner").labels == ("LOC", "PER")
    assert pipeline.analyze_pipes()["problems"]["lacuner"] == []


def test_displacy_shows_it(nlp):
    page = displacy.render(nlp()(TEXT), style="ent", jupyter=False)
    assert page.count("<mark") == 2
    assert "New York" in page
    page = displacy.render(nlp(spans_key="sc")(TEXT), style="span", jupyter=False)
    assert "PER" in page


def test_what_it_finds_is_read_as_a_corpus(nlp, tmp_path):
    DocBin(docs=nlp().pipe([TEXT]), store_user_data=True).to_disk(tmp_path / "found.spacy")
    (sentence,) = Corpus.read(tmp_path / "found.spacy")
    assert sentence.texts_of(sentence.entities) == [text for text, _ in FOUND]


def test_spacy_finds_it_through_the_entry_point(model_folder, tmp_path):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (factory,) = project["project"]["entry-points"]["spacy_factories"].items()
    information = tmp_path / "lacuner_entry-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: lacuner-entry\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[spacy_factories]\n{} = {}\n".format(*factory))
    code = (
        "import sys, spacy; nlp = spacy.blank('en');"
        f"nlp.add_pipe('lacuner', config={{'model': {str(model_folder)!r}}});"
        "assert 'lacuner.recognizer' not in sys.modules;"
        "print([ent.text for ent in nlp('Ada moved to Turin .').ents])"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(lacuner.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "['Ada', 'Turin']"), done.stderr
