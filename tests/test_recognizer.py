import copy
import string
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner import Corpus, Entity, Recognizer, Sentence, TrainingError
from lacuner.corpus.tokenize import split_words
from lacuner.errors import ConfigError
from lacuner.methods.uniform import Uniform
from lacuner.training.settings import resolve_settings

WORDS = ["Grace", "Hopper", "Ada", "moved", "to", "Oslo", "New", "York", ".", ",", "7th", "é", "円", "🙂", "x\u200b"]
TEXT = "Grace Hopper moved to Oslo ."


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


def test_labels_for_some_types_only_become_one_model(toy, small_settings):
    """A corpus labelled for PER only and one for LOC only give a model that finds both, with either method."""
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


def test_threads_that_share_a_recognizer_find_what_one_thread_finds(model: Recognizer, toy: Corpus) -> None:
    texts = [" ".join(sentence.tokens) for sentence in toy]
    expected = [model.predict(text) for text in texts]
    assert any(expected)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(model.predict, texts * 8))
    assert found == expected * 8
