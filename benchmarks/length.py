"""How cost grows with the length of one sentence: a file without blank lines is one, whatever it holds.

Every row is a command's work on a single sentence of 100 to 100,000 words, without files and start-up. The table shows its time
per word, relative to that with 1,000 words: 1 everywhere is linear, 100 at the right end is quadratic.

    python benchmarks/length.py [--longest N] [--figure FILE]
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.analysis.figures import check_figure_path, look, save_figure
from lacuner.audit.audit import Audit
from lacuner.audit.model import AuditModel
from lacuner.corpus import Span
from lacuner.corpus.masking import mask_sentences
from lacuner.corpus.statistics import Gaps, Statistics
from lacuner.evaluation.mistakes import find_mistakes
from lacuner.features.batches import plan_batches
from lacuner.inference.passages import cut_for_training
from lacuner.matching import Dictionary, Matcher
from lacuner.matching.annotation import annotate_sentences
from lacuner.methods.parts import Step
from lacuner.sample import read_names, read_sample
from lacuner.supervision.posterior import SpanProbabilities
from lacuner.supervision.spans import build_targets

LENGTHS = (100, 1_000, 10_000, 100_000)
YARDSTICK = 1_000
LABELS = ("O", "LOC", "MISC", "ORG", "PER")
WIDTH = 8
ROUNDS = 3
BATCH_TOKENS = 1024
SETTINGS = {"encoder.vectors": "none", "head": "product", "head.max_span_width": WIDTH}


def document(words: int) -> Sentence:
    """The sample's sentences one after the other, as one, with its text, so that words have offsets in characters."""
    tokens: list[str] = []
    entities: list[Entity] = []
    sample = read_sample("train")
    while len(tokens) < words:
        for sentence in sample:
            entities += (replace(e, start=len(tokens) + e.start, end=len(tokens) + e.end) for e in sentence.entities)
            tokens += sentence.tokens
    kept = tuple(entity for entity in entities if entity.end <= words)
    return Sentence(tuple(tokens[:words]), kept, text=" ".join(tokens[:words]))


def prepare(gold: Sentence, model: Recognizer) -> dict[str, Callable[[], Any]]:
    """What is measured, by its name."""
    corpus = Corpus((gold,))
    (masked, hidden), *_ = mask_sentences(corpus, 0.5, seed=1)
    moved = [Entity(e.start, e.end + 1, e.label) for e in gold.entities[::5] if e.end < len(gold)]
    distant = replace(masked, entities=tuple({*masked.entities, *moved}))
    rejected = replace(gold, entities=(), non_entities=tuple(Span(e.start, e.end) for e in hidden), complete=False)
    matcher = Matcher(Dictionary.of(read_names()))
    predicted = _probabilities(gold)

    def mask() -> None:
        for sentence, gone in mask_sentences(corpus, 0.5, seed=1):
            sentence.texts_of(gone)

    def inspect() -> None:
        Statistics.count([distant])
        Gaps.count([(distant, gold)])

    def train() -> None:
        passages = cut_for_training(corpus).corpus
        method, network = model.settings.method, model.model
        lengths = network.encoder.index.lengths(passages.tokens)
        for batch in plan_batches(lengths, BATCH_TOKENS):
            sentences = [passages[index] for index in batch]
            inputs = network.encoder.index.collate([sentence.tokens for sentence in sentences])
            step = Step(0, 1, torch.Generator().manual_seed(0))
            torch.autograd.backward(method.training_loss(network, inputs, network.targets(sentences), step))
        network.zero_grad()

    def audit() -> None:
        fitted = AuditModel.of(predicted, Corpus((masked,)), LABELS)
        found = tuple(fitted.findings(Corpus((masked,)), 0.1))
        about = {"sentences": 1, "entities": len(masked.entities)}
        with tempfile.TemporaryDirectory() as folder:
            Audit(Corpus((masked,)), found, fitted.estimate(), about).write(Path(folder))

    return {
        "predict, words": lambda: model.predict(gold),
        "predict, raw text": lambda: model.predict(gold.raw_text),
        "train, every passage once": train,
        f"spans of at most {WIDTH} words, uncut": lambda: build_targets([gold], LABELS).partition(WIDTH),
        "mask": mask,
        "inspect --gold": inspect,
        "annotate, with rejected spans": lambda: annotate_sentences(matcher, [rejected]),
        "evaluate --errors": lambda: list(find_mistakes([(gold, distant.entities)])),
        "audit, without its models": audit,
    }


def _probabilities(gold: Sentence) -> SpanProbabilities:
    """As if a model had found every entity, and something that overlaps every second one."""
    others = [Span(max(0, e.start - 1), e.end) for e in gold.entities[::2]]
    sure = [(e.start, e.end, 0.05) for e in gold.entities]
    spans = sorted({*sure, *((s.start, s.end, 0.7) for s in others)})
    start, end, outside = (np.array(column) for column in zip(*spans, strict=True))
    rest = (1 - outside)[:, None] * np.array([[0.7, 0.1, 0.1, 0.1]])
    probabilities = np.concatenate([outside[:, None], rest], axis=1).astype(np.float32)
    return SpanProbabilities(np.zeros(len(spans), dtype=np.int64), start, end, probabilities)


def seconds(run: Callable[[], Any]) -> float:
    """The least of some rounds, in processor time: a busy machine makes none of them faster."""
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return min(taken)


def peak_memory(words: int) -> int:
    """Peak memory of a process that trains on one sentence and predicts it, in bytes."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_train_and_predict, (words,))


def _train_and_predict(words: int) -> int:
    torch.set_num_threads(1)
    work = prepare(document(words), small_model())
    for name in ("train, every passage once", "predict, words", "predict, raw text"):
        work[name]()
    status = Path("/proc/self/status").read_text()  # ru_maxrss would include the parent's peak
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def small_model() -> Recognizer:
    train = Corpus(tuple(islice(read_sample("train"), 100)))
    return Recognizer.train(train, method="full", epochs=3, settings=SETTINGS)


def draw(rows: dict[str, list[float]], lengths: list[int], path: Path) -> None:
    """Seconds over words, both logarithmic, with a line that is exactly linear."""
    from matplotlib.figure import Figure

    with look():
        figure = Figure(figsize=(10, 6), layout="constrained")
        axes = figure.subplots()
        for (name, taken), marker in zip(rows.items(), "osD^vPX*<", strict=False):
            axes.loglog(lengths, taken, marker=marker, label=name, linewidth=2)
        middle = sorted(taken[-1] for taken in rows.values())[len(rows) // 2]
        axes.loglog(lengths, [middle * n / lengths[-1] for n in lengths], color="black", ls=":", label="linear")
        axes.set(
            xlabel="words of one sentence", ylabel="seconds", title="Cost grows with the words, not with their square"
        )
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=11, frameon=False)
        save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="words of the longest sentence")
    parser.add_argument("--figure", type=Path, default=None, help="PNG or SVG file to write, too")
    arguments = parser.parse_args()
    if arguments.figure is not None:
        check_figure_path(arguments.figure)
    torch.set_num_threads(1)
    lengths = [length for length in LENGTHS if length <= max(arguments.longest, YARDSTICK)]
    model = small_model()
    rows: dict[str, list[float]] = {}
    for length in lengths:
        for name, run in prepare(document(length), model).items():
            rows.setdefault(name, []).append(seconds(run))
    memory = [peak_memory(length) for length in lengths]
    print("| time per word, relative to 1,000 words | " + " | ".join(f"{n:,}" for n in lengths) + " | seconds |")
    print("| --- |" + " --: |" * (len(lengths) + 1))
    unit = lengths.index(YARDSTICK)
    for name, taken in rows.items():
        ratios = [each / length / (taken[unit] / YARDSTICK) for each, length in zip(taken, lengths, strict=True)]
        print(f"| {name} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + f" | {taken[-1]:.2f} |")
    print("| peak memory of training and predicting, GB | " + " | ".join(f"{m / 2**30:.2f}" for m in memory) + " | |")
    build = Path("build")
    build.mkdir(exist_ok=True)
    content = {"words": lengths, "seconds": rows, "peak_memory": memory}
    (build / "length.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if arguments.figure is not None:
        draw(rows, lengths, arguments.figure)


if __name__ == "__main__":
    main()
