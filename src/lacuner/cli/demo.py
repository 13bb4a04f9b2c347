"""``lacuner demo``."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lacuner.cli.console import print_json, say
from lacuner.cli.options import Device, Json
from lacuner.corpus import Corpus, Entity, Sentence


def demo(
    probability: Annotated[
        float, typer.Option(min=0, max=1, metavar="P", help="Fraction of the training entities to hide.")
    ] = 0.7,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for masking and training.")] = 1,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training data.")] = 15,
    device: Device = None,
    json: Json = False,
) -> None:
    """Show on the built-in sample how much F1 missing labels cost, and how much of it can be recovered.

    Trains four models: one on complete labels, and three with most labels hidden: with ordinary training, with ordinary
    training and a threshold tuned on dev data, and with the method `lacuner`, which first trains two other models. Takes two
    or three minutes.

    Example: `lacuner demo`
    """
    from lacuner.cli.progress import TerminalObserver
    from lacuner.recognizer import Recognizer
    from lacuner.sample import read_sample

    began = time.perf_counter()
    train, dev, test = (read_sample(split) for split in ("train", "dev", "test"))
    masked = train.mask(probability, seed)
    total, left = (sum(len(s.entities) for s in corpus) for corpus in (train, masked))
    say(
        f"{len(train)} training sentences; {total - left:,} of their {total:,} entity labels are hidden, {left:,} are left."
    )
    runs: dict[str, tuple[str, str, Corpus, dict[str, Any]]] = {
        "complete": ("all labels, ordinary training", "full", train, {}),
        "full": ("gaps, ordinary training", "full", masked, {}),
        "threshold": ("gaps, ordinary training, threshold", "full", masked, {"training.fit_threshold": True}),
        "lacuner": ("gaps, lacuner", "lacuner", masked, {}),
    }
    results: dict[str, Any] = {}
    found: dict[str, Sequence[Sequence[Entity]]] = {}
    for key, (title, method, corpus, settings) in runs.items():
        model = Recognizer.train(
            corpus,
            dev,
            method=method,
            epochs=epochs,
            seed=seed,
            settings=settings,
            device=device,
            observer=TerminalObserver(f"{title:<35}"),
        )
        scores = model.evaluate(test)
        found[key] = model.predict([list(sentence.tokens) for sentence in test])
        results[key] = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    lost = results["complete"]["f1"] - results["full"]["f1"]
    regained = {
        key: (results[key]["f1"] - results["full"]["f1"]) / lost if lost else 0.0 for key in ("threshold", "lacuner")
    }
    seconds = time.perf_counter() - began
    if json:
        print_json(
            {"hidden": total - left, "entities": total, "test": results, "regained": regained, "seconds": seconds}
        )
        return
    print(f"\n{f'test data ({len(test)} sentences)':<38} precision  recall     F1")
    for key, (title, *_) in runs.items():
        values = (100 * results[key][name] for name in ("precision", "recall", "f1"))
        print("{:<38} {:9.1f}  {:6.1f}  {:5.1f}".format(title, *values))
    print(
        f"\nThe gaps cost {100 * lost:.1f} points of F1. A threshold brings back {regained['threshold']:.0%} of them, "
        f"lacuner {regained['lacuner']:.0%}.\n"
    )
    print(_worked_sentence(test, found))
    say(f"\n{seconds:.0f} seconds. Next: lacuner train YOUR.conll --dev DEV.conll --out model")


def _worked_sentence(test: Corpus, found: dict[str, Sequence[Sequence[Entity]]]) -> str:
    """The test sentence in which lacuner finds most of what ordinary training misses."""

    def gain(index: int) -> tuple[int, int]:
        gold = set(test[index].entities)
        right = {key: len(gold & set(found[key][index])) for key in ("full", "lacuner")}
        return right["lacuner"] - right["full"], -len(test[index])

    index = max(range(len(test)), key=gain)
    sentence = test[index]
    rows = {
        "truth": sentence.entities,
        "ordinary training": found["full"][index],
        "lacuner": found["lacuner"][index],
    }
    lines = ["The test sentence where the difference is greatest:", f"  {' '.join(sentence.tokens)}"]
    lines += [f"  {name:<18} {_show(sentence, entities)}" for name, entities in rows.items()]
    return "\n".join(lines)


def _show(sentence: Sentence, entities: Any) -> str:
    return ", ".join(f"{sentence.text_of(e.start, e.end)} ({e.label})" for e in entities) or "nothing"
