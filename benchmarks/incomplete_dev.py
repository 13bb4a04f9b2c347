"""Which epoch does dev data with gaps choose: by F1, and by the PU estimate of ``--dev-incomplete``?

    python benchmarks/incomplete_dev.py [--methods full uniform …] [--hidden 0.5 0.7] [--seeds 1 2 3]
                                        [--out docs/results/incomplete_dev.jsonl] [--table]

Trains on the first 2,000 sentences of CoNLL-03 with labels hidden, and hides as many in the dev data. After each epoch the
model is scored on the dev data with gaps and on the complete one; the latter only says how good the choices were. What is in
the output file already is not run again.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

from lacuner import Corpus
from lacuner.evaluation import Scores, score_entities
from lacuner.methods.models import build_model
from lacuner.training.judging import find_in
from lacuner.training.settings import resolve_settings
from lacuner.training.trainer import fit

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("LACUNER_DATA", ROOT.parent / "shared" / "data")) / "conll03"
EPOCHS = 8


def run(method: str, hidden: float, seed: int) -> dict[str, Any]:
    corpus = Corpus(tuple(Corpus.read(DATA / "train.gold.conll"))[:2000]).mask(hidden, seed)
    gold = Corpus(tuple(Corpus.read(DATA / "dev.conll"))[:1000])
    gaps = gold.mask(hidden, seed + 100)
    overrides = {"training.epochs": EPOCHS, "training.seed": seed, "training.patience": "none"}
    settings = resolve_settings(method, overrides=overrides)
    torch.manual_seed(seed)
    model = build_model(settings.encoder.create(corpus.tokens), settings.method, ("O", *corpus.labels))
    epochs: list[dict[str, float]] = []

    def evaluate() -> Scores:
        found = find_in(model, [sentence.tokens for sentence in gold])
        true, seen = (score_entities(zip(dev, found, strict=True)) for dev in (gold, gaps))
        epochs.append({"f1": seen.f1, "pu": seen.pu_estimate, "true_f1": true.f1})
        return seen

    fit(model, corpus, settings.training, evaluate)
    return {"method": method, "hidden": hidden, "seed": seed, "epochs": epochs}


def true_f1(result: dict[str, Any], chosen_by: str) -> float:
    """F1 in percent, on complete dev data, of the epoch that a criterion chooses."""
    best = max(result["epochs"], key=lambda epoch: epoch[chosen_by])
    return 100 * float(best["true_f1"])


def table(results: list[dict[str, Any]]) -> str:
    lines = [
        "| method, labels hidden in train and dev | by F1 | by PU estimate | best epoch there is |",
        "| --- | --: | --: | --: |",
    ]
    for method, hidden in sorted({(result["method"], result["hidden"]) for result in results}):
        rows = [result for result in results if (result["method"], result["hidden"]) == (method, hidden)]
        cells = [[true_f1(row, criterion) for row in rows] for criterion in ("f1", "pu", "true_f1")]
        shown = (f"{statistics.mean(c):.1f} ± {statistics.stdev(c) if len(c) > 1 else 0:.1f}" for c in cells)
        lines.append(f"| `{method}`, {hidden:.0%} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["full", "uniform"])
    parser.add_argument("--hidden", type=float, nargs="+", default=[0.5, 0.7])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "incomplete_dev.jsonl")
    parser.add_argument("--table", action="store_true", help="train nothing, show what there is")
    arguments = parser.parse_args()
    lines = arguments.out.read_text(encoding="utf-8").splitlines() if arguments.out.exists() else []
    results = [json.loads(line) for line in lines]
    done = {(result["method"], result["hidden"], result["seed"]) for result in results}
    cells = [(m, h, s) for s in arguments.seeds for m in arguments.methods for h in arguments.hidden]
    with arguments.out.open("a", encoding="utf-8") as file:
        for cell in [] if arguments.table else [cell for cell in cells if cell not in done]:
            results.append(run(*cell))
            file.write(json.dumps(results[-1]) + "\n")
            file.flush()
            print(*cell, *(f"{true_f1(results[-1], name):.2f}" for name in ("f1", "pu", "true_f1")), file=sys.stderr)
    print(table(results))


if __name__ == "__main__":
    main()
