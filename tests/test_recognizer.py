import copy
import string
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner import Corpus, Entity, Recognizer, Sentence, TrainingError
from lacuner.corpus.tokenize import split_words
from lacuner.errors import ConfigError, LacunerError, ModelError
from lacuner.evaluation import score_entities
from lacuner.inference.passages import MAX_PASSAGE
from lacuner.matching import Dictionary, Matcher
from lacuner.methods.uniform import Uniform
from lacuner.training.loop import Observer
from lacuner.training.settings import resolve_settings

WORDS = ["Grace", "Hopper", "Ada", "moved", "to", "Oslo", "New", "York", ".", ",", "7th", "é", "円", "🙂", "x\u200b"]
TEXT = "Grace Hopper moved to Oslo ."
TAGGER = {"encoder.vectors": "none", "encoder.word_size": 20, "encoder.hidden": 24}


def found(entities: list[Entity]) -> list[tuple[str | None, str]]:
    return [(entity.text, entity.label) for entity in entities]


def test_one_text_gives_entities_with_character_offsets(model):
    entities = model.predict(TEXT)
    assert found(entities) == [("Grace Hopper", "PER"), ("Oslo", "LOC")]
    assert [TEXT[entity.start : entity.end] for entity in entities] == ["Grace Hopper", "Oslo"]
    assert all(0 < entity.score <= 1 and entity.source == "model" for entity in entities)


def test_many_texts_give_a_list_for_each(model):
    assert model.predict([TEXT, "", "nothing here"])[1:] == [[], model.predict("nothing here")]
    assert model.predict([TEXT])[0] == model.predict(TEXT)
    assert model.predict([]) == []


def test_words_give_word_offsets(model):
    entities = model.predict(TEXT.split(), tokens=True)
    assert [(e.start, e.end, e.label, e.text) for e in entities] == [
        (0, 2, "PER", "Grace Hopper"),
        (4, 5, "LOC", "Oslo"),
    ]
    assert model.predict([TEXT.split()]) == [entities]
    assert model.predict(Sentence(tuple(TEXT.split()))) == entities


def test_a_generator_is_worked_off_as_it_comes(model):
    taken = []

    def texts():
        for number in range(3_000):
            taken.append(number)
            yield TEXT

    results = model.predict(texts())
    assert taken == []
    assert found(next(results)) == [("Grace Hopper", "PER"), ("Oslo", "LOC")]
    assert len(taken) < 3_000
    assert sum(1 for _ in results) == 2_999


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_predicting_text_equals_predicting_its_words(model, words):
    text = " ".join(words)
    offsets = split_words(text, model.split)
    by_words = model.predict([text[a:b] for a, b in offsets], tokens=True) if offsets else []
    expected = [(offsets[e.start][0], offsets[e.end - 1][1], e.label) for e in by_words]
    assert [(e.start, e.end, e.label) for e in model.predict(text)] == expected


def test_odd_texts_are_no_problem(model):
    for text in ["", " ", "\n", "🙂", "\u200b", "\x00", "a", "円" * 50, "🙂 " * 20, "x" * 5_000, string.printable]:
        assert isinstance(model.predict(text), list)


def test_a_long_document_is_searched_to_its_end(model):
    text = "nothing to see here . " * 400 + TEXT
    entities = model.predict(text)
    assert ("Oslo", "LOC") in found(entities)
    assert all(text[entity.start : entity.end] == entity.text for entity in entities)


def test_a_sentence_of_2000_words_is_trained_on_and_searched_to_its_end(toy, model, small_settings):
    words = ("here",) * 1_994 + ("Ada", "moved", "to", "New", "York", ".")
    long = Sentence(words, (Entity(1_994, 1_995, "PER"), Entity(1_997, 1_999, "LOC")))
    one_word = Sentence(("Ada",), (Entity(0, 1, "PER"),))
    assert Entity(1_997, 1_999, "LOC") in model.predict(long)
    corpus = toy + Corpus((long, one_word))
    trained = Recognizer.train(corpus, toy, method="uniform", epochs=15, settings=small_settings)
    assert trained.evaluate(toy).f1 > 0.8
    assert Entity(1_997, 1_999, "LOC") in trained.predict(long)


def document(toy: Corpus, count: int) -> Sentence:
    """Many sentences as one, one after the other."""
    tokens: list[str] = []
    entities: list[Entity] = []
    for number in range(count):
        sentence = toy[number % len(toy)]
        entities += [Entity(len(tokens) + e.start, len(tokens) + e.end, e.label) for e in sentence.entities]
        tokens += sentence.tokens
    return Sentence(tuple(tokens), tuple(entities))


def test_a_document_is_trained_on_evaluated_and_searched_in_the_same_passages(toy, model, small_settings, monkeypatch):
    long = document(toy, 100)
    assert len(long) > 2 * MAX_PASSAGE
    index, longest = type(model.model.encoder.index), []
    collate = index.collate

    def spy(self, sentences):
        longest.append(max(map(len, sentences)))
        return collate(self, sentences)

    monkeypatch.setattr(index, "collate", spy)
    corpus = Corpus((long, *toy))
    for method in ("uniform", "lacuner"):  # lacuner fits a threshold
        trained = Recognizer.train(corpus, corpus, method=method, epochs=2, settings=small_settings)
        assert trained.record.dev == trained.evaluate(corpus).as_dict()
        assert trained.evaluate(Corpus((long,))) == score_entities([(long, trained.predict(long))])
        text = " ".join(long.tokens)
        assert found(trained.predict(text)) == found(trained.predict(long))
    assert MAX_PASSAGE - 10 < max(longest) <= MAX_PASSAGE


def test_training_says_what_it_does_with_a_file_without_blank_lines(toy, small_settings, small_tensors, caplog):
    """It is one sentence of thousands of words, and costs no more than they would in sentences."""
    caplog.set_level("INFO")
    endless = document(toy, 450)
    assert len(endless) > 2_000
    with small_tensors(len(endless) ** 2 // 5):
        Recognizer.train(
            Corpus((endless,)), Corpus((endless, *toy)), method="uniform", epochs=1, settings=small_settings
        )
    longest = f"the longest has {len(endless):,}."
    assert f"1 sentence is longer than 256 words and is read in passages; {longest}" in caplog.text
    assert f"1 sentence of the dev data is longer than 256 words and is read in passages; {longest}" in caplog.text
    advice = "Such a sentence is split into passages of at most 256 words; if the file lacks blank lines "
    advice += "between its sentences, add them."
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"1 sentence has 2,000 words or more. {advice}" in warnings
    assert f"1 sentence of the dev data has 2,000 words or more. {advice}" in warnings


def test_a_long_sentence_that_may_be_one_is_no_reason_to_warn(toy, small_settings, caplog):
    caplog.set_level("INFO")
    Recognizer.train(Corpus((document(toy, 60), *toy)), method="uniform", epochs=1, settings=small_settings)
    assert "is read in passages" in caplog.text
    assert "blank lines" not in caplog.text


def test_what_training_says_about_documents_counts_them_as_they_were_given(toy, small_settings, caplog, monkeypatch):
    caplog.set_level("INFO")
    monkeypatch.setattr("lacuner.inference.passages.MAX_PASSAGE", 8)
    wide = Sentence(("x",) * 20, (Entity(2, 12, "LOC"),))
    corpus = Corpus((document(toy, 7), Sentence(()), wide, toy[3]))
    trained = Recognizer.train(corpus, method="uniform", epochs=1, settings=small_settings)
    assert trained.record.data == {"sentences": 3, "entities": 14 + 2}
    assert "2 sentences are longer than" in caplog.text
    assert "1 span is longer than a passage" in caplog.text
    assert "1 sentence without words is left out" in caplog.text


def test_entities_never_overlap_unless_nested_ones_are_wanted(model):
    eager = copy.deepcopy(model)
    with torch.no_grad():
        eager.model.head.classifier.bias[0] -= 100  # nothing is left alone
    flat, nested = eager.predict(TEXT), eager.predict(TEXT, nested=True)
    assert len(nested) == 6 * 7 / 2 > len(flat) > 0
    assert all(one.end <= other.start for one, other in pairwise(flat))
    assert set(flat) <= set(nested)


def test_a_name_across_two_passages_is_found_once(model, monkeypatch):
    for module in ("passages", "predict"):
        monkeypatch.setattr(f"lacuner.inference.{module}.MAX_PASSAGE", 9)
    for filler in range(12):
        text = "here " * filler + "Grace Hopper moved to Oslo" + " here" * 12
        entities = model.predict(text)
        assert entities == sorted(set(entities))
        assert all(one.end <= other.start for one, other in pairwise(entities))
        assert all(text[entity.start : entity.end] == entity.text for entity in entities)


def test_a_minimum_score_leaves_out_the_less_probable(model):
    everything = model.predict(TEXT)
    threshold = max(entity.score for entity in everything)
    assert [e for e in everything if e.score >= threshold] == model.predict(TEXT, min_score=threshold)


def test_a_dictionary_is_searched_in_every_kind_of_text(model):
    names = Dictionary.of([("Rome", "LOC"), ("YORK", "PER")])
    text = "Ada moved from Rome to Oslo ."
    found = model.predict(text, dictionary=names)
    assert Entity(15, 19, "LOC") in found
    assert [e.text for e in found if e.source == "dictionary"] == ["Rome"]
    assert {e.text for e in found} == {e.text for e in model.predict(text)} | {"Rome"}
    assert model.predict([text], dictionary=names) == [found] == list(model.predict(iter([text]), dictionary=names))
    by_words = model.predict(text.split(), tokens=True, dictionary=names)
    assert [e.text for e in by_words] == [e.text for e in found]
    assert model.predict(Sentence(tuple(text.split())), dictionary=names) == by_words
    ignoring = Matcher(names, ignore_case=True)
    assert Entity(0, 4, "PER") in model.predict("York sleeps", dictionary=ignoring, min_score=1.0)
    assert Entity(0, 4, "PER") not in model.predict("York sleeps", dictionary=names, min_score=1.0)


def test_a_dictionary_counts_in_an_evaluation(model, toy):
    sentence = Sentence(("nobody", "likes", "Zanzibar"), (Entity(2, 3, "LOC"),))
    names = Dictionary.of([("Zanzibar", "LOC")])
    corpus = Corpus((*toy, sentence))
    assert model.evaluate(corpus, dictionary=names).recall >= model.evaluate(corpus).recall
    assert model.evaluate([sentence], dictionary=names).recall == 1.0


def test_a_dictionary_is_cut_as_the_model_cuts_text(model):
    reads_characters = Recognizer(model.model, model.settings, "characters", model.record)
    found = reads_characters.predict("我在上海", dictionary=Dictionary.of([("上海", "LOC")]))
    assert [e for e in found if e.source == "dictionary"] == [Entity(2, 4, "LOC")]


def test_labels_for_some_types_only_become_one_model(toy, small_settings):
    """A corpus labeled for PER only and one for LOC only give a model that finds both, with either method."""
    people = Corpus(tuple(Sentence(s.tokens, s.entities[:1]) for s in toy)).with_annotated_labels({"PER"})
    places = Corpus(tuple(Sentence(s.tokens, s.entities[1:]) for s in toy)).with_annotated_labels({"LOC"})
    assert {e.label for s in people for e in s.entities} == {"PER"}
    for method, corpus in (("full", people + places), ("uniform", people.as_complete() + places.as_complete())):
        trained = Recognizer.train(corpus, toy, method=method, epochs=40, settings=small_settings)
        scores = trained.evaluate(toy).labels
        assert scores["PER"].f1 > 0.9
        assert scores["LOC"].f1 > 0.9


def test_what_nobody_looked_for_is_not_held_against_the_model(toy, small_settings):
    """The same labels without saying what was looked for teach the model that half of the entities are none."""
    people = Corpus(tuple(Sentence(s.tokens, s.entities[:1]) for s in toy))
    places = Corpus(tuple(Sentence(s.tokens, s.entities[1:]) for s in toy))
    naive = Recognizer.train(people + places, toy, method="full", epochs=40, settings=small_settings)
    honest_corpus = people.with_annotated_labels({"PER"}) + places.with_annotated_labels({"LOC"})
    honest = Recognizer.train(honest_corpus, toy, method="full", epochs=40, settings=small_settings)
    assert honest.evaluate(toy).recall > naive.evaluate(toy).recall + 0.2


def test_trusted_sentences_teach_what_is_no_entity(toy, small_settings, monkeypatch):
    """Negative sampling without any draw has no negatives; trusted sentences are where they come from."""
    monkeypatch.setattr(Uniform, "sample", lambda self, context: torch.empty(0, dtype=torch.long))
    distant = toy[:12]
    alone = Recognizer.train(distant, toy, method="uniform", epochs=30, settings=small_settings)
    helped = Recognizer.train(distant, toy, method="uniform", epochs=30, settings=small_settings, trusted=toy[12:])
    assert alone.evaluate(toy).precision < 0.5
    assert helped.evaluate(toy).f1 > 0.9


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        (Corpus(()), "no sentence to train on"),
        (Corpus((Sentence(()),)), "no sentence to train on"),
        (Corpus((Sentence(("no", "entity")),)), "no entity is annotated"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(corpus, message):
    with pytest.raises(TrainingError, match=message):
        Recognizer.train(corpus)


def test_labels_that_differ_in_case_only_are_named(toy, small_settings, caplog):
    Recognizer.train(toy, toy[:3].rename_labels({"LOC": "Loc"}), method="full", epochs=1, settings=small_settings)
    assert "The labels LOC and Loc differ only in case" in caplog.text


def test_dev_data_without_sentences_is_refused(toy):
    with pytest.raises(TrainingError, match="no sentence in the dev data"):
        Recognizer.train(toy, Corpus(()))


def test_sentences_without_words_are_left_out_and_counted(toy, small_settings, caplog):
    Recognizer.train(toy + Corpus((Sentence(()), Sentence(()))), epochs=1, settings=small_settings)
    assert "2 sentences without words" in caplog.text


@pytest.mark.parametrize("method", ["uniform", "lacuner"])
def test_a_label_that_is_only_in_dev_is_reported_and_counts_as_missed(toy, small_settings, caplog, method):
    dev = toy + Corpus((Sentence(("Euro",), (Entity(0, 1, "MISC"),)),))
    trained = Recognizer.train(toy, dev, method=method, epochs=1, settings=small_settings)
    assert "The label MISC is in the dev data only" in caplog.text
    assert trained.evaluate(dev).labels["MISC"].support == 1


def test_entities_wider_than_the_limit_are_reported(toy, small_settings, caplog):
    narrow = small_settings | {"head": "width", "head.hidden": 16, "head.max_span_width": 1}
    trained = Recognizer.train(toy, method="uniform", epochs=1, settings=narrow)
    assert "15 of 50 entities have more than 1 words" in caplog.text
    assert all(e.end - e.start == 1 for s in toy for e in trained.predict(s))


def test_one_label_is_enough(toy, small_settings):
    people = Corpus(tuple(Sentence(s.tokens, s.entities[:1]) for s in toy))
    trained = Recognizer.train(people, people, method="full", epochs=30, settings=small_settings)
    assert trained.labels == ("PER",)
    assert trained.evaluate(people).f1 > 0.9


def test_tokens_of_whitespace_and_emoji_are_words_like_others(small_settings, minilm):
    odd = Corpus((Sentence((" ", "🙂", "\u3000", "\u200b", "Ada"), (Entity(1, 2, "PER"), Entity(3, 4, "LOC"))),) * 8)
    quick = {"training.encoder_learning_rate": 2e-4, "training.head_learning_rate": 5e-3, "head": "product"}
    for encoder, more in (("recurrent", small_settings), (minilm, quick)):
        settings = more | {"training.batch_tokens": 16}
        trained = Recognizer.train(odd, odd, method="full", encoder=encoder, epochs=30, settings=settings)
        assert trained.predict(odd[0]) == list(odd[0].entities)


def test_text_split_into_characters_is_noticed(small_settings):
    corpus = Corpus((Sentence(tuple("张三在上海住了很多年"), (Entity(0, 2, "PER"), Entity(3, 5, "LOC"))),))
    assert Recognizer.train(corpus, epochs=1, settings=small_settings).split == "characters"
    assert Recognizer.train(corpus, epochs=1, settings=small_settings | {"split": "words"}).split == "words"


@pytest.mark.data
def test_gaps_cost_recall_and_negative_sampling_brings_it_back(data_folder):
    """On the first 2,000 sentences of CoNLL-03 with 70 % of the entities hidden."""
    train = Corpus.read(data_folder / "conll03" / "train.gold.conll")[:2_000].mask(0.7, seed=1)
    dev = Corpus.read(data_folder / "conll03" / "dev.conll")[:1_000]
    scores = {}
    for method in ("full", "uniform"):
        scores[method] = Recognizer.train(train, dev, method=method, epochs=8, settings={"head": "width"}).evaluate(dev)
    assert scores["uniform"].f1 > scores["full"].f1 + 0.05
    assert scores["uniform"].recall > scores["full"].recall + 0.1


def test_the_callers_randomness_is_left_alone(toy, small_settings):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Recognizer.train(toy, epochs=1, settings=small_settings)
    assert torch.equal(torch.rand(3), expected)


def test_settings_and_arguments_that_contradict_are_refused(toy):
    with pytest.raises(TypeError, match="one or the other"):
        Recognizer.train(toy, method="full", settings=resolve_settings("uniform"))


@pytest.mark.parametrize("there", [True, False], ids=["hardware", "emulation"])
def test_bf16_without_hardware_for_it_works_with_a_warning(toy, toy_bert, caplog, monkeypatch, there):
    monkeypatch.setattr("lacuner.training.prepare.has_bf16", lambda device: there)
    warning = "training.precision=bf16: this processor is not known to have bfloat16 instructions"
    trained = Recognizer.train(toy[:2], encoder=toy_bert, epochs=1, settings={"training.precision": "bf16"})
    assert trained.settings.training.precision == "bf16"
    assert (warning in caplog.text) != there
    caplog.clear()
    Recognizer.train(toy[:2], encoder=toy_bert, epochs=1)
    assert warning not in caplog.text


def test_dev_data_without_entities_cannot_choose_an_epoch(toy, small_settings, caplog):
    dev = Corpus(tuple(Sentence(sentence.tokens) for sentence in toy))
    trained = Recognizer.train(toy, dev, method="uniform", epochs=3, settings=small_settings)
    assert "No entity is annotated in the dev data" in caplog.text
    assert trained.record.best_epoch == 3


@pytest.mark.parametrize(
    ("corpora", "overrides", "message"),
    [
        ({"train": 0}, {"trusted.fraction": 0.5}, r"^trusted\.fraction=0\.5 .* no sentence is complete — .*--trusted"),
        (
            {"trusted": 0},
            {"trusted.fraction": 0.5},
            r"^trusted\.fraction=0\.5 .* all sentences are complete — give both",
        ),
        ({"train": 0}, {"training.metric": "pu"}, r"^training\.metric=pu .* there is none — give --dev"),
        (
            {"train": 1},
            {"contrast": "span-contrast", "contrast.contrast_non_entities": False},
            r"^contrast\.contrast_non_entities=false .* there is only PER — leave it out, or set contrast=none",
        ),
    ],
)
def test_settings_that_the_data_gives_no_sense_to_are_refused(toy, small_settings, corpora, overrides, message):
    choices = [toy, Corpus(tuple(Sentence(sentence.tokens, sentence.entities[:1]) for sentence in toy))]
    arguments = {"train": Corpus(())} | {name: choices[number] for name, number in corpora.items()}
    with pytest.raises(ConfigError, match=message) as caught:
        Recognizer.train(**arguments, method="uniform", epochs=1, settings=small_settings | overrides)
    assert "\n" not in str(caught.value)


def test_incomplete_dev_data_is_short_for_a_setting(toy, small_settings):
    gappy = toy.mask(0.5)
    short = Recognizer.train(toy, gappy, epochs=2, dev_incomplete=True, settings=small_settings)
    assert short.settings.training.metric == "pu"
    long = Recognizer.train(toy, gappy, epochs=2, settings=small_settings | {"training.metric": "pu"})
    assert long.settings == short.settings
    assert long.record.dev == short.record.dev
    with pytest.raises(TypeError, match="one or the other"):
        Recognizer.train(toy, gappy, dev_incomplete=True, settings=resolve_settings("uniform"))


def test_wide_entities_are_found_if_they_are_to_be_covered(toy, small_settings, caplog):
    narrow = small_settings | {"head": "width", "head.hidden": 16, "head.max_span_width": 1}
    for quantile, max_width in (("none", 1), (0.5, 1), (0.9, 2)):
        caplog.clear()
        trained = Recognizer.train(
            toy, method="uniform", epochs=1, settings=narrow | {"training.width_quantile": quantile}
        )
        assert trained.settings.method.head.max_span_width == max_width
        assert trained.model.max_span_width == max_width
        assert ("cannot be found" in caplog.text) == (max_width == 1)


NESTED = Corpus(
    tuple(
        Sentence(("University", "of", city, "opened", "."), (Entity(0, 3, "ORG"), Entity(2, 3, "LOC")))
        for city in ("Oslo", "Jena", "Graz", "Turin", "Bern", "Lyon")
    )
)


@pytest.mark.parametrize("method", ["full", "lacuner"])
def test_nested_entities_can_be_evaluated_and_used_to_choose_the_best_epoch(small_settings, method):
    """A flat reading finds one of two; whether dev data counts both is a setting."""
    reached = {}
    for nested in (False, True):
        settings = small_settings | {"training.nested": nested, "training.patience": "none"}
        trained = Recognizer.train(Corpus([*NESTED] * 5), NESTED, method=method, epochs=40, settings=settings)
        scores = {flag: trained.evaluate(NESTED, nested=flag) for flag in (False, True)}
        assert trained.record.dev == scores[nested].as_dict()
        best = max(record["dev"]["f1"] for record in trained.record.history)
        assert trained.record.history[trained.record.best_epoch - 1]["dev"]["f1"] == best
        assert scores[False].recall <= 0.5
        assert scores[False] == score_entities((s, trained.predict(s)) for s in NESTED)
        assert scores[True] == score_entities((s, trained.predict(s, nested=True)) for s in NESTED)
        reached[nested] = scores[nested]
    assert reached[True].recall > 0.9
    assert reached[True].support == reached[False].support == 2 * len(NESTED)


def test_a_tagger_evaluates_no_nested_entities(toy, small_settings):
    settings = {key: value for key, value in small_settings.items() if not key.startswith("head")}
    tagger = Recognizer.train(toy, method="crf", epochs=1, settings=settings)
    with pytest.raises(ConfigError, match="a tagger cannot find nested entities"):
        tagger.evaluate(toy, nested=True)


class Epochs(Observer):
    """Counts epochs, and can do something after the first."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.ended, self.meanwhile = 0, meanwhile

    def epoch_ended(self, record):
        self.ended += 1
        if self.ended == 1:
            self.meanwhile()


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_somebody_else_beside_the_model_is_left_alone(toy, small_settings, tmp_path, resume):
    """It has the name of the folder for checkpoints; training refuses to begin."""
    theirs = tmp_path / "news.training"
    (theirs / "model" / "epoch-0001").mkdir(parents=True)
    (theirs / "model" / "epoch-0001" / "slides.txt").write_text("years of work")
    (theirs / "notes.safetensors").write_text("not what it seems")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    epochs = Epochs()
    with pytest.raises(ModelError, match=r"news\.training .* choose another --out") as caught:
        Recognizer.train(toy, epochs=2, settings=small_settings, out=tmp_path / "news", resume=resume, observer=epochs)
    assert "\n" not in str(caught.value)
    assert epochs.ended == 0
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_a_file_where_checkpoints_would_be_is_refused_before_training(toy, small_settings, tmp_path):
    (tmp_path / "news.training").write_text("years of work")
    epochs = Epochs()
    with pytest.raises(ModelError, match=r"news\.training .* choose another --out"):
        Recognizer.train(toy, epochs=2, settings=small_settings, out=tmp_path / "news", observer=epochs)
    assert epochs.ended == 0
    assert (tmp_path / "news.training").read_text() == "years of work"


@pytest.mark.parametrize("resume", [False, True])
def test_two_runs_into_one_folder_exclude_each_other(toy, small_settings, tmp_path, resume):
    arguments = {"epochs": 2, "settings": small_settings, "out": tmp_path / "news"}
    alone = Recognizer.train(toy, **arguments | {"out": tmp_path / "alone"})
    refused = []

    def meanwhile() -> None:
        with pytest.raises(LacunerError, match=r"^another run is training in .* — wait for it") as caught:
            Recognizer.train(toy, resume=resume, **arguments)
        refused.append(caught.value)

    Recognizer.train(toy, observer=Epochs(meanwhile), **arguments)
    assert len(refused) == 1
    model, expected = (folder / "model.safetensors" for folder in (tmp_path / "news", tmp_path / "alone"))
    assert model.read_bytes() == expected.read_bytes(), "the first run was not disturbed"
    assert alone.record.best_epoch == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "news"]


TOGETHER = """
import sys
from lacuner import Corpus, Recognizer
from lacuner.training.settings import parse_assignments
corpus = Corpus.read(sys.argv[1])
Recognizer.train(corpus, corpus, method="uniform", epochs=1, settings=parse_assignments(sys.argv[3:]), out=sys.argv[2])
"""


def test_processes_that_train_together_share_a_folder(toy, small_settings, tmp_path):
    (tmp_path / "together.py").write_text(TOGETHER)
    toy.write(tmp_path / "toy.conll")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    settings = [f"{key}={value}" for key, value in small_settings.items()]
    command = [*launch, "together.py", "toy.conll", str(tmp_path / "out" / "news"), *settings]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["news"]
    assert Recognizer.from_pretrained(tmp_path / "out" / "news").labels == ("LOC", "PER")


def test_a_device_that_is_not_there_is_refused_in_one_sentence(model, model_folder):
    for move in (copy.deepcopy(model).to, lambda name: Recognizer.from_pretrained(model_folder, name)):
        with pytest.raises(ConfigError, match="'gpu'") as caught:
            move("gpu")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("available", [False, True])
def test_an_apple_gpu_is_used_where_there_is_one(toy, model, model_folder, small_settings, monkeypatch, available):
    """To predict and to train; without the hardware, this is as far as it can be seen."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: available)
    expected = torch.device("mps" if available else "cpu")
    moved, begun = [], []
    monkeypatch.setattr(type(model.model), "to", lambda self, device: moved.append(device))
    Recognizer.from_pretrained(model_folder)
    assert moved == [expected]

    class BegunError(Exception):
        pass

    def begin(self: object, device: torch.device) -> None:
        begun.append(device)
        raise BegunError

    monkeypatch.setattr("lacuner.models.model.Model.to", begin)
    for device in (None, "cpu"):
        with pytest.raises(BegunError):
            Recognizer.train(toy, method="crf", epochs=1, settings=TAGGER, device=device)
    assert begun == [expected, torch.device("cpu")]


def test_a_model_runs_where_it_is_told_to(model, model_folder, monkeypatch):
    moved: list[torch.device] = []
    monkeypatch.setattr(type(model.model), "to", lambda self, device: moved.append(device))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    model.predict(TEXT)
    assert moved == []
    model.predict(TEXT, device="cuda:1")
    Recognizer.from_pretrained(model_folder, device="cuda")
    Recognizer.from_pretrained(model_folder, device="cpu")
    assert moved == [torch.device("cuda:1"), torch.device("cuda"), torch.device("cpu")]


def test_a_device_that_is_not_there_is_refused_before_training_and_prediction(toy, model, tmp_path):
    for run in (partial(Recognizer.train, toy, out=tmp_path / "m"), partial(model.predict, TEXT)):
        with pytest.raises(ConfigError, match=r"^the device 'cuda:7' is not available on this machine; give cpu$"):
            run(device="cuda:7")
    assert not list(tmp_path.iterdir())


def test_threads_that_share_a_recognizer_find_what_one_thread_finds(model, toy):
    texts = [" ".join(sentence.tokens) for sentence in toy]
    expected = [model.predict(text) for text in texts]
    assert any(expected)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(model.predict, texts * 8))
    assert found == expected * 8
    assert [e.score for one in found for e in one] == [e.score for one in expected * 8 for e in one]


def test_threads_that_share_a_transformer_find_what_one_thread_finds(toy, minilm, monkeypatch):
    """What the tokenizer remembers of recent sentences is thrown away all the time, because there is room for few."""
    for name in ("_KEPT_SENTENCES", "_CACHE_SIZE"):
        monkeypatch.setattr(f"lacuner.features.subwords.{name}", 2, raising=False)
    trained = Recognizer.train(toy[:6], encoder=minilm, method="full", epochs=1)
    batches = [[f"{name} moved to Oslo {number} ." for name in ("Ada", "Kurt", "Alan")] for number in range(12)]
    expected = [trained.predict(batch) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(trained.predict, batches * 4))
    assert found == expected * 4


def test_sentences_and_files_are_corpora(toy, small_settings, tmp_path):
    settings = small_settings | {"training.epochs": 1}
    toy.write(tmp_path / "toy.jsonl")
    toy[:2].write(tmp_path / "trusted.conll")
    same = Recognizer.train(toy, toy, method="full", trusted=toy[:2], settings=settings)
    listed = Recognizer.train(list(toy), iter(toy), method="full", trusted=list(toy[:2]), settings=settings)
    path, trusted = tmp_path / "toy.jsonl", tmp_path / "trusted.conll"
    read = Recognizer.train(str(path), path, method="full", trusted=trusted, settings=settings)
    assert listed.record.fingerprint == read.record.fingerprint == same.record.fingerprint


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (7, "^train is a corpus, a list of sentences, a dataset, or the path of a file, but not 7$"),
        (
            ["Ada left"],
            "^train is a corpus, a list of sentences, a dataset, or the path of a file, but it holds 'Ada left'$",
        ),
    ],
)
def test_what_is_no_corpus_is_refused_with_what_to_give(train, message):
    with pytest.raises(TypeError, match=message):
        Recognizer.train(train)


def test_evaluation_takes_what_training_takes(toy, small_settings, tmp_path):
    toy.write(tmp_path / "toy.jsonl")
    trained = Recognizer.train(toy, method="full", epochs=1, settings=small_settings)
    expected = trained.evaluate(toy)
    assert (
        trained.evaluate(tmp_path / "toy.jsonl")
        == trained.evaluate(list(toy))
        == trained.evaluate(iter(toy))
        == expected
    )
    with pytest.raises(TypeError, match=r"^data is a corpus, .*, but not 7$"):
        trained.evaluate(7)
    with pytest.raises(TypeError, match=r"^text is a string, a Sentence, or several of these, but not 7$"):
        trained.predict(7)


def test_training_is_shown_where_somebody_asks_for_it(toy, small_settings, capfd):
    arguments = {"method": "full", "epochs": 2, "settings": small_settings}
    Recognizer.train(toy[:15], toy[15:], **arguments)
    Recognizer.train(toy[:15], toy[15:], **arguments, progress=False)
    Recognizer.train(toy[:15], toy[15:], **arguments, progress=True, observer=Observer())
    assert capfd.readouterr().err == ""
    Recognizer.train(toy[:15], toy[15:], **arguments, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.split("  loss")[0] for line in err.splitlines()] == ["epoch  1/2", "epoch  2/2"]
    assert err.count(" F1 ") == 2


def test_a_model_that_a_stage_made_a_tagger_is_one_when_it_is_loaded(toy, small_settings, tmp_path):
    settings = small_settings | {"stage.student": "tagger"}
    trained = Recognizer.train(toy, toy, method="lacuner", epochs=2, settings=settings, out=tmp_path / "m")
    loaded = Recognizer.from_pretrained(tmp_path / "m")
    for model in (trained, loaded):
        method = model.settings.method
        assert (method.name, method.level, method.head.name) == ("lacuner", "token", "crf")
        assert method.stage.name == "distillation"
        assert model.settings.training.width_quantile is None
    assert loaded.predict(toy.tokens) == trained.predict(toy.tokens)
    again = Recognizer.train(toy, toy, method="lacuner", epochs=2, settings=settings, out=tmp_path / "m", resume=True)
    assert again.record == loaded.record, "it is done already"


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        (["Ada", 3], {}, TypeError, "^a text is a string, a Sentence, or a list of words, but not 3$"),
        ([["Ada", 3]], {}, TypeError, r"^a text is a string, .* but not \['Ada', 3\]$"),
        (b"Ada", {}, TypeError, "^text is a string, a Sentence, or several of these, but not b'Ada'$"),
        ({"text": "Ada"}, {}, TypeError, "^text is a string, .* but not {'text': 'Ada'}$"),
        ("Ada", {"dictionary": "names.tsv"}, TypeError, "^dictionary is a Dictionary, .* but not 'names.tsv'$"),
        ("Ada", {"min_score": 5}, ValueError, "^min_score is a probability between 0 and 1; 5 is not$"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_what_to_give(model, text, options, error, message):
    with pytest.raises(error, match=message):
        model.predict(text, **options)


def test_settings_are_a_dict(toy):
    with pytest.raises(TypeError, match=r"^settings is a dict such as {'training.epochs': 3}, but not 'a=b'$"):
        Recognizer.train(toy, settings="a=b")
