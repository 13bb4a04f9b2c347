"""Rows of ``make speed`` about prediction: backends, latency, and other libraries.

What is compared runs in turns on the same sentences; times are those of the processor, in one thread. Libraries that
are not there are left out, and said so. GLiNER asks for an older transformers, but runs with today's:
``pip install --no-deps --target FOLDER gliner sentencepiece``, then ``PYTHONPATH=FOLDER make speed``.
"""

import importlib.util
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.encoders import Encoder
from lacuner.encoders.transformer import TransformerEncoder
from lacuner.evaluation import score_entities
from lacuner.features.batches import plan_batches
from lacuner.inference.backends import convert
from lacuner.inference.predict import find_entities
from lacuner.methods.registry import registry
from lacuner.models.model import batches_of, evaluating
from lacuner.models.span_filter import SpanFilter
from lacuner.models.span_model import SpanModel

LABELS = ("O", "LOC", "MISC", "ORG", "PER")
WIDTH = 8
ROUNDS = 5
TRAIN, EPOCHS, TIMED = 1000, 5, 300  # sentences
SPACY_EPOCHS = 30  # at most; the best on the dev data counts
EXPORTED, EXPORTED_EPOCHS = 1500, 6  # sentences that an exported tagger is trained on
SEARCHED = 1500  # sentences that models are trained on whose search is timed
BATCH_WORDS = 4096  # as predict has them
BOOK = 500_000  # characters

Row = dict[str, Any]


def data_folder() -> Path:
    """Where the corpora are, if they are there."""
    return Path(os.environ.get("LACUNER_DATA", Path(__file__).parents[2] / "shared" / "data"))


def compare(name: str, ours: Callable[[], Any], yardstick: str, theirs: Callable[[], Any], words: int) -> Row:
    """Processor time of ours relative to theirs, in turns; the first round warms up."""
    ratios, rates = [], []
    for turn in range(ROUNDS + 1):
        seconds = {}
        for which, run in (("ours", ours), ("theirs", theirs))[:: 1 if turn % 2 else -1]:
            began = time.process_time()
            run()
            seconds[which] = time.process_time() - began
        if turn:
            ratios.append(seconds["ours"] / seconds["theirs"])
            rates.append(words / seconds["ours"])
    return {
        "name": name,
        "phase": "predict",
        "ratio": round(statistics.median(ratios), 3),
        "yardstick": yardstick,
        "words_per_second": round(statistics.median(rates)),
    }


def compare_backends(label: str, encoder: str, train: Corpus, dev: Corpus) -> list[Row]:
    """Exported taggers against the same trained tagger in torch; F1 of both stands in the row."""
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript")):
        print("onnx, onnxscript or onnxruntime are not installed: rows of backends are left out")
        return []
    trained = Recognizer.train(train, method="crf", encoder=encoder, epochs=EXPORTED_EPOCHS, progress=False)
    model = trained.model
    tokens, words = _some(dev)
    rows = []
    for backend in ("onnx", "onnx-int8"):
        exported = convert(model, backend)

        def run(model: Any) -> None:
            model.encoder.index.clear_cache()
            find_entities(model, tokens)

        name = f"{backend} ({label}, crf, F1 {_f1(exported, dev):.2f})"
        yardstick = f"torch (F1 {_f1(model, dev):.2f})"
        rows.append(compare(name, lambda e=exported: run(e), yardstick, lambda: run(model), words))  # type: ignore[misc]
    return rows


def _f1(model: Any, corpus: Corpus) -> float:
    """In percent."""
    return 100 * score_entities(zip(corpus, find_entities(model, corpus.tokens), strict=True)).f1


def compare_span_libraries(label: str, make: Callable[[], Encoder], corpus: Corpus) -> list[Row]:
    """Our span model against pairs of markers and GLiNER, with random weights of the same encoder."""
    torch.manual_seed(0)
    model = registry().method("full").build_model(make(), LABELS).eval()
    encoder = model.encoder
    assert isinstance(encoder, TransformerEncoder)
    tokens, words = _some(corpus)
    name = f"full ({label}, width)"

    def ours() -> None:
        encoder.index.clear_cache()
        find_entities(model, tokens)

    rows = [compare(name, ours, "pairs of markers", lambda: _score_markers(encoder, tokens), words)]
    if importlib.util.find_spec("gliner") is None:
        print("gliner is not installed: its row is left out")
        return rows
    theirs = _gliner(encoder)
    texts = [list(sentence) for sentence in tokens]
    return [*rows, compare(name, ours, "GLiNER, 4 labels", lambda: theirs(texts), words)]


def compare_span_search(train: Corpus, dev: Corpus) -> list[Row]:
    """Trained models of spans against the bare encoder on the same batches, with and without their filter of words.

    A row with a filter says how many sentences, also of other corpora if they are there, have other entities than without it.
    """
    rows = []
    tests = [data_folder() / name / "test.conll" for name in ("conll03", "wikigold", "wnut16", "bc5cdr")]
    others = [words for path in tests if path.is_file() for words in Corpus.read(path).tokens]
    one_model = {"lacuner": {"stage": "none"}}  # the best of several may be a tagger
    for method in ("lacuner", "full", "uniform"):
        settings = one_model.get(method)
        recognizer = Recognizer.train(train, dev[:TIMED], method=method, settings=settings, progress=False)
        rows += time_span_search(recognizer, dev[TIMED:].tokens, f"{method} (recurrent, {{}})", others)
    return rows


def time_span_search(
    recognizer: Recognizer, sentences: Sequence[Sequence[str]], name: str, others: Sequence[Sequence[str]] = ()
) -> list[Row]:
    """Rows of one model; ``name`` has a place for what is searched. Entities of ``others`` are compared, too."""
    model = recognizer.model
    assert isinstance(model, SpanModel)
    span_filter = model.span_filter
    sentences = [words for words in sentences if words]
    batches = [[sentences[index] for index in batch] for batch in plan_batches([*map(len, sentences)], BATCH_WORDS)]
    inputs = [model.encoder.index.collate(batch) for batch in batches]

    def search(chosen: SpanFilter | None) -> list[list[Entity]]:
        model.span_filter = chosen
        with evaluating(model):
            found = [entities for batch in batches for entities in model.entities(model.encode(batch))]
        model.span_filter = span_filter
        return found

    def bare() -> None:
        with evaluating(model):
            for batch in inputs:
                model.encoder(batch)

    words = sum(map(len, sentences))
    rows = [compare(name.format("all spans"), lambda: search(None), "bare BiLSTM", bare, words)]
    if span_filter is None:
        print(f"{name.format('filtered')}: there is no filter, its row is left out")
        return rows
    row = compare(name.format("filtered"), lambda: search(span_filter), "bare BiLSTM", bare, words)
    compared = [words for words in (*sentences, *others) if words]
    found = []
    for model.span_filter in (None, span_filter):
        found.append(find_entities(model, compared))
    different = sum(one != other for one, other in zip(*found, strict=True))
    return [*rows, row | {"different_sentences": different, "sentences": len(compared)}]


def compare_spacy(corpus: Corpus, dev: Corpus) -> list[Row]:
    """Our default against spaCy's ``ner``, both trained on the same sentences; F1 of both stands in the row."""
    if importlib.util.find_spec("spacy") is None:
        print("spacy is not installed: its row is left out")
        return []
    train = corpus[:TRAIN]
    ours = Recognizer.train(train, dev[:TIMED], epochs=EPOCHS, progress=False)
    nlp = _train_spacy(train, dev[:TIMED])
    checked = dev[TIMED : 3 * TIMED]
    theirs = _spacy_f1(nlp, checked)
    f1 = ours.evaluate(checked).f1
    tokens, words = checked.tokens, sum(map(len, checked))
    name, yardstick = f"lacuner (recurrent, F1 {100 * f1:.1f})", f"spaCy ner (F1 {100 * theirs:.1f})"

    def run_spacy() -> None:
        for _ in nlp.pipe([_document(nlp, sentence) for sentence in checked], batch_size=256):
            pass

    rows = [compare(name, lambda: find_entities(ours.model, tokens), yardstick, run_spacy, words)]
    return rows + measure_texts(ours, corpus)


def measure_texts(recognizer: Recognizer, corpus: Corpus) -> list[Row]:
    """Raw text as people give it, against the bare encoder on the same words."""
    model = recognizer.model
    texts = [" ".join(sentence.tokens) for sentence in corpus]
    many = (texts * (10_000 // len(texts) + 1))[:10_000]
    book = "\n\n".join(" ".join(texts[begin : begin + 5]) for begin in range(0, len(texts), 5))
    rows = []
    for name, given in (("one short text", texts[0]), ("10,000 short texts", many), ("a book of 500 kB", book[:BOOK])):
        listed = [given] if isinstance(given, str) else given
        tokens = [text.split() for text in listed]
        if name.startswith("a book"):
            tokens = [tokens[0][begin : begin + 256] for begin in range(0, len(tokens[0]), 256)]
        with evaluating(model):
            inputs = [
                model.encoder.index.collate(batch)
                for _, batch in batches_of(model, tokens, [i for i, each in enumerate(tokens) if each])
            ]

        def bare(inputs: Sequence[Any] = inputs) -> None:
            with evaluating(model):
                for batch in inputs:
                    model.encoder(batch)

        words = sum(map(len, tokens))
        repeat = 50 if len(listed) == 1 and words < 100 else 1
        rows.append(
            compare(
                f"predict, {name} (recurrent)",
                lambda given=given, repeat=repeat: [recognizer.predict(given) for _ in range(repeat)],  # type: ignore[misc]
                "bare BiLSTM",
                lambda bare=bare, repeat=repeat: [bare() for _ in range(repeat)],  # type: ignore[misc]
                words * repeat,
            )
        )
    return rows


def _some(corpus: Corpus) -> tuple[list[tuple[str, ...]], int]:
    tokens = [sentence.tokens for sentence in corpus[:TIMED] if sentence.tokens]
    return tokens, sum(map(len, tokens))


@torch.no_grad()
def _score_markers(encoder: TransformerEncoder, sentences: Sequence[Sequence[str]]) -> None:
    """The encoder's share of a span model with a pair of markers for each span, 128 pairs after each copy of a sentence.

    Markers attend to the sentence and to each other; the yardstick leaves out even the mask that keeps pairs apart.
    """
    encoder.index.clear_cache()
    inputs = []
    for words in sentences:
        spans = sum(min(WIDTH, len(words) - start) for start in range(len(words)))
        pieces = encoder.index.collate([words]).pieces[0]
        for begin in range(0, spans, 128):
            pairs = min(128, spans - begin)
            inputs.append(torch.cat([pieces, torch.full((2 * pairs,), 5)])[:512])
    inputs.sort(key=len)
    for begin in range(0, len(inputs), 8):
        padded = torch.nn.utils.rnn.pad_sequence(inputs[begin : begin + 8], batch_first=True)
        encoder.model(input_ids=padded, attention_mask=(padded != 0).long())


def _gliner(encoder: TransformerEncoder) -> Callable[[list[list[str]]], None]:
    """GLiNER with this encoder's architecture and random weights."""
    from gliner import GLiNER, GLiNERConfig

    settings = encoder.model.config.to_dict()
    config = GLiNERConfig(
        model_name=encoder.config.model,
        encoder_config=settings,
        hidden_size=settings["hidden_size"],
        max_width=WIDTH,
        max_len=512,
        span_mode="markerV0",
    )
    model = GLiNER.from_config(config) if hasattr(GLiNER, "from_config") else GLiNER(config)
    model.eval()

    def run(sentences: list[list[str]]) -> None:
        with torch.no_grad():
            model.inference([" ".join(words) for words in sentences], list(LABELS[1:]), batch_size=32)

    return run


def _document(nlp: Any, sentence: Sentence) -> Any:
    from spacy.tokens import Doc

    return Doc(nlp.vocab, words=list(sentence.tokens))


def _spacy_f1(nlp: Any, corpus: Corpus) -> float:
    documents = nlp.pipe([_document(nlp, sentence) for sentence in corpus])
    found = [[Entity(e.start, e.end, e.label_) for e in document.ents] for document in documents]
    return score_entities(zip(corpus, found, strict=True)).f1


def _train_spacy(train: Corpus, dev: Corpus) -> Any:
    """spaCy's default ``ner``, as it is after the epoch that is best on the dev data."""
    import spacy
    from spacy.training import Example
    from spacy.util import minibatch

    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = []
    for sentence in train:
        document = _document(nlp, sentence)
        entities = [document[e.start : e.end] for e in sentence.entities]
        spans = [(span.start_char, span.end_char, e.label) for span, e in zip(entities, sentence.entities, strict=True)]
        examples.append(Example.from_dict(document, {"entities": spans}))
    optimizer = nlp.initialize(lambda: examples)
    generator = random.Random(1)
    best, kept = -1.0, b""
    for _ in range(SPACY_EPOCHS):
        generator.shuffle(examples)
        for batch in minibatch(examples, 32):
            nlp.update(batch, sgd=optimizer, drop=0.2)
        f1 = _spacy_f1(nlp, dev)
        if f1 > best:
            best, kept = f1, nlp.to_bytes()
    return nlp.from_bytes(kept)
