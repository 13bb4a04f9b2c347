"""Experiments: what is trained and measured in a run."""

import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from lacuner.analysis.audit_quality import Suggestion, measure_audit, rank_by_cleanlab
from lacuner.analysis.missampling import count_missampling
from lacuner.analysis.o_values import measure_o_values
from lacuner.analysis.threshold_size import measure_threshold_size
from lacuner.analysis.uncertainty import measure_uncertainty
from lacuner.audit.audit import audit_corpus, fit_audit_model
from lacuner.bench import knowledge_base
from lacuner.bench.corpora import Corpora, check_files, read_corpora, read_dictionary
from lacuner.bench.knowledge_base import match_names, match_settings
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.reviewing import review_perfectly
from lacuner.bench.runs import Run
from lacuner.bench.significance import pack, sentence_counts
from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.evaluation import score_entities
from lacuner.models.model import batches_of
from lacuner.models.span_model import SpanModel
from lacuner.recognizer import Recognizer
from lacuner.training.loop import Observer
from lacuner.version import __version__

_REVIEWED = 200
"""Number of findings reviewed in the review experiment."""
_MAX_VECTORS = 400
"""Number of entities, and of other spans, drawn as points."""


def run_experiment(run: Run, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
    """Train, select on dev data, evaluate once on test data; return the result for JSON."""
    corpora = read_corpora(run, paths)
    check_files(run, paths)
    began, worked = time.perf_counter(), time.process_time()
    result = _EXPERIMENTS[run.config["experiment"]](run, corpora, paths, observer)
    result |= {
        "version": __version__,
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - worked, 2),
        "peak_memory_mb": _peak_memory(),
        "threads": torch.get_num_threads(),
        "sentences": {name: len(corpus) for name, corpus in (("train", corpora.train), ("test", corpora.test))},
        "entities": sum(len(sentence.entities) for sentence in corpora.train),
    }
    return run.as_dict() | result


def _train(run: Run, corpora: Corpora, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
    train, trusted, missampling = corpora.train, corpora.trusted, None
    if "missampling" in run.config["measure"]:
        assert corpora.hidden is not None, "plan() has checked"
        observer = missampling = count_missampling(train, corpora.hidden, observer, trusted)
    model = Recognizer.train(train, corpora.dev, trusted=trusted, settings=run.settings(paths), observer=observer)
    record = model.record
    assert record.dev is not None
    result = {
        "dev": _short(record.dev),
        "dev_support": record.dev["support"],
        "kept": record.kept,
        "best_epoch": record.best_epoch,
        "epochs": [round(epoch["dev"]["f1"], 5) for epoch in record.history],
        "planned_epochs": model.settings.training.epochs,
        "training_seconds": round(sum(epoch["seconds"] for epoch in record.history), 2),
        **_tested(model.predict_pairs(corpora.test)),
    }
    if missampling is not None:
        result["missampling"] = [epoch.as_dict() for epoch in missampling.epochs]
    if "vectors" in run.config["measure"]:
        result["vectors"] = project(*span_vectors(model, corpora.test, run.seed), run.seed)
    if "threshold-size" in run.config["measure"]:
        sizes = measure_threshold_size(model, corpora.dev, corpora.test, run.seed)
        result["threshold-size"] = [size.as_dict() for size in sizes]
    return result


def _match(run: Run, corpora: Corpora, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
    """Evaluate dictionary matching alone."""
    dictionary, settings = read_dictionary(run, paths), match_settings(run.config["settings"])
    on_dev, on_test = (match_names(dictionary, corpus, settings) for corpus in (corpora.dev, corpora.test))
    return {"dev": _short(score_entities(on_dev).as_dict()), **_tested(on_test)}


def _measure_uncertainty(run: Run, corpora: Corpora, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
    assert corpora.hidden is not None, "plan() has checked"
    settings = run.settings(paths)
    measured = measure_uncertainty(
        corpora.train, corpora.hidden, corpora.dev, settings, run.seed, corpora.test, lambda name: observer
    )
    return {
        "oracle_dev_f1": measured.oracle_dev_f1,
        "rows": {
            f"{band}-k": {
                "dev": {"f1": result.dev_f1},
                "test": {"f1": result.test_f1},
                "uncertainty": result.uncertainty,
                "negatives": result.negatives,
            }
            for band, result in measured.bands.items()
        },
        "ratio": measured.ratio,
    }


def _measure_o_values(run: Run, corpora: Corpora, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
    assert corpora.hidden is not None, "plan() has checked"
    return {"o_values": measure_o_values(corpora.train, corpora.hidden, run.settings(paths), observer).as_dict()}


def _audit(run: Run, corpora: Corpora, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
    """Evaluate an audit, ranked in its own way and in cleanlab's; reads neither dev nor test data."""
    train, gold = corpora.train, corpora.gold
    assert gold is not None, "plan() has checked"
    fitted, _ = fit_audit_model(train, run.settings(paths), observer=lambda title: observer)

    def missing(min_probability: float | None) -> list[Suggestion]:
        found = fitted.findings(train, min_probability)
        return [(f.sentence, f.start, f.end, f.label) for f in found if f.kind == "missing"]

    rankings = {
        run.method: missing(0.0),
        f"{run.method}, ranked by cleanlab": rank_by_cleanlab(fitted.predicted, train, fitted.labels),
    }
    rows = {name: {"audit": measure_audit(ranked, train, gold).as_dict()} for name, ranked in rankings.items()}
    rows[run.method]["audit"]["estimate"] = fitted.estimate().as_dict()
    rows[run.method]["audit"]["listed"] = measure_audit(missing(None), train, gold).as_dict()
    return {"rows": rows}


def _review(run: Run, corpora: Corpora, paths: PathTemplates, observer: Observer) -> dict[str, Any]:
    """Train, audit the training data, review the first findings, and train again."""
    assert corpora.gold is not None, "plan() has checked"
    rows = {run.method: _train(run, corpora, paths, observer)}
    with tempfile.TemporaryDirectory() as folder:
        found = audit_corpus(corpora.train, run.settings(paths), observer=lambda title: observer)
        found.write(Path(folder))
        reviewed = review_perfectly(Path(folder), corpora.gold, _REVIEWED)
    after = _train(run, replace(corpora, train=reviewed), paths, observer)
    rows[f"{run.method}, {_REVIEWED} findings reviewed"] = after
    return {"rows": rows}


_EXPERIMENTS: dict[str, Callable[[Run, Corpora, PathTemplates, Observer], dict[str, Any]]] = {
    "training": _train,
    knowledge_base.EXPERIMENT: _match,
    "uncertainty": _measure_uncertainty,
    "o-values": _measure_o_values,
    "audit": _audit,
    "review": _review,
}


@torch.no_grad()
def span_vectors(model: Recognizer, corpus: Corpus, seed: int) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Hidden layers of entities and of as many random other spans, with their labels: ``(N, h), (N,)``."""
    inner = cast(SpanModel, model.model)  # plan() has checked
    generator = np.random.default_rng([seed, 11])
    vectors: list[npt.NDArray[np.float32]] = []
    labels: list[str] = []
    known = set(inner.labels)
    sentences = Corpus(tuple(s for s in corpus.as_complete() if s.tokens and known >= {e.label for e in s.entities}))
    for chosen, tokens in batches_of(inner, sentences.tokens, range(len(sentences))):
        targets = inner.targets([sentences[index] for index in chosen]).to(inner.device)
        for hidden, label in inner.hidden_layers(inner.encode(tokens), targets):
            entities, others = (np.flatnonzero(mask) for mask in ((label > 0).cpu(), (label == 0).cpu()))
            drawn = generator.permutation(others)[: max(len(entities), 1)]
            for rows in (entities, drawn):
                vectors.append(hidden[torch.from_numpy(rows)].cpu().numpy())
                labels += [inner.labels[number] for number in label[torch.from_numpy(rows)].tolist()]
    table = np.concatenate(vectors)
    inside = np.array([label != inner.labels[0] for label in labels])
    kept = [generator.permutation(np.flatnonzero(part))[:_MAX_VECTORS] for part in (inside, ~inside)]
    order = np.sort(np.concatenate(kept))
    return table[order], [labels[index] for index in order]


def project(vectors: npt.NDArray[np.float32], labels: list[str], seed: int) -> list[dict[str, Any]]:
    """Project the vectors to the plane with t-SNE."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, max(1.0, (len(vectors) - 1) / 3))
    points = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)
    return [
        {"x": round(float(x), 2), "y": round(float(y), 2), "label": label}
        for (x, y), label in zip(points, labels, strict=True)
    ]


def _tested(pairs: Iterable[tuple[Sentence, list[Entity]]]) -> dict[str, Any]:
    """Scores on test data, and the counts of each sentence."""
    pairs = list(pairs)
    counts = {name: pack(values) for name, values in sentence_counts(pairs).items()}
    return {"test": _short(score_entities(pairs).as_dict()), "counts": counts}


def _short(scores: dict[str, Any]) -> dict[str, float]:
    return {name: round(scores[name], 5) for name in ("precision", "recall", "f1")}


def _peak_memory() -> int:
    """Peak memory in megabytes, of this process alone: on Linux, ``ru_maxrss`` starts from that of the parent."""
    try:
        (peak,) = re.findall(
            r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE
        )
        return round(int(peak) / 2**10)
    except (OSError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(peak / (2**20 if sys.platform == "darwin" else 2**10))
