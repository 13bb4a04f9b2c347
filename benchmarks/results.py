"""The figures of the README: CoNLL-03 with all labels and with 70 % of them hidden, several seeds.

    python benchmarks/results.py [--seeds 1 2 3] [--out docs/results/conll03.json]

Needs the corpora below LACUNER_DATA (conll03/train.gold.conll, dev.conll, test.conll). Runs that are in the output file
already are not run again.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from lacuner import Corpus, Recognizer
from lacuner.cli.console import set_up_logging
from lacuner.cli.progress import TerminalObserver
from lacuner.version import __version__

ROOT = Path(__file__).parents[1]
EPOCHS = 12
RUNS = {
    "gold": ("all labels, `full`", "full", 0.0),
    "masked-full": ("70 % hidden, `full`", "full", 0.7),
    "masked-uniform": ("70 % hidden, `uniform`", "uniform", 0.7),
    "masked-lacuner": ("70 % hidden, `lacuner`", "lacuner", 0.7),
}


def run(name: str, seed: int, data: Path) -> dict[str, Any]:
    _, method, hidden = RUNS[name]
    train = Corpus.read(data / "train.gold.conll")
    dev, test = Corpus.read(data / "dev.conll"), Corpus.read(data / "test.conll")
    began = time.perf_counter()
    model = Recognizer.train(
        train.mask(hidden, seed) if hidden else train,
        dev,
        method=method,
        epochs=EPOCHS,
        seed=seed,
        observer=TerminalObserver(f"{name} {seed}"),
    )
    seconds = time.perf_counter() - began
    assert model.record.dev is not None
    scores = model.evaluate(test).as_dict()
    return {
        "run": name,
        "seed": seed,
        "version": __version__,
        "settings": model.settings.model_dump(mode="json"),
        "best_epoch": model.record.best_epoch,
        "dev_f1": model.record.dev["f1"],
        "test": scores,
        "seconds": round(seconds, 1),
    }


def table(results: list[dict[str, Any]]) -> str:
    lines = ["| training data, method | test precision | recall | F1 |", "| --- | --: | --: | --: |"]
    for name, (title, _, _) in RUNS.items():
        rows = [result for result in results if result["run"] == name]
        if rows:
            cells = [spread([100 * row["test"][key] for row in rows]) for key in ("precision", "recall", "f1")]
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "conll03.json")
    arguments = parser.parse_args()
    set_up_logging()
    data = Path(os.environ.get("LACUNER_DATA", ROOT.parent / "shared" / "data")) / "conll03"
    if not data.is_dir():
        parser.error(f"there is no folder {data}; LACUNER_DATA says where the corpora are")
    results: list[dict[str, Any]] = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    done = {(result["run"], result["seed"]) for result in results}
    for seed in arguments.seeds:
        for name in RUNS:
            if (name, seed) not in done:
                results.append(run(name, seed, data))
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
