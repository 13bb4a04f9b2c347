"""The report of a benchmark: tables, figures, and how they were made."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lacuner.bench.results import Results
from lacuner.bench.tables import (
    audit_table,
    best_seed_table,
    convergence_list,
    cost_table,
    difference_table,
    estimate_table,
    gap_table,
    listed_table,
    main_table,
    missampling_table,
    o_value_table,
    precision_table,
    threshold_table,
)
from lacuner.corpus.corpus import open_for_writing

REPORT = "report.md"


def write_report(results: Results, out: Path, figures: bool = True) -> Path:
    """Write ``report.md``, and figures next to it."""
    drawn: list[tuple[str, str]] = []
    if figures:
        from lacuner.bench.figures import draw_figures

        drawn = draw_figures(results, out)
    with open_for_writing(out / REPORT) as file:
        file.write(report(results, drawn))
    return out / REPORT


def report(results: Results, figures: Sequence[tuple[str, str]] = ()) -> str:
    """The whole report as Markdown; ``figures`` are captions and files."""
    recipe = results.title.recipe
    parts = [f"# {recipe.title}", recipe.about.strip(), _described(results)]
    sections: tuple[tuple[str, Callable[[Results], str]], ...] = (
        ("", main_table),
        ("Fraction of the gap that is closed", gap_table),
        (f"Differences to `{recipe.baseline}`", partial(difference_table, other=recipe.baseline)),
        (f"Differences to `{recipe.reference}`", partial(difference_table, other=recipe.reference)),
        ("The seed that is best on dev data", best_seed_table),
        ("Not converged", convergence_list),
        ("Precision and recall", precision_table),
        ("O-values", o_value_table),
        ("Missampling", missampling_table),
        ("Thresholds from few dev sentences", threshold_table),
        ("What an audit finds", audit_table),
        ("What an audit lists", listed_table),
        ("How many are missing", estimate_table),
        ("Cost", cost_table),
    )
    for heading, make in sections:
        text = make(results)
        if text:
            parts += ([f"## {heading}"] if heading else []) + [text]
    if figures:
        parts.append("## Figures")
        parts += [f"![{caption}]({file})" for caption, file in figures]
    if results.failures:
        parts += ["## Failed", "\n".join(f"* {reason}" for reason in results.failures.values())]
    return "\n\n".join(part for part in parts if part) + "\n"


def headline(results: Results) -> str:
    """The main table of the results."""
    return main_table(results) or o_value_table(results) or audit_table(results)


def _described(results: Results) -> str:
    title = results.title
    seeds = sorted({record["seed"] for record in results.records})
    versions = sorted({record["version"] for record in results.records})
    how = "Epochs are selected on dev data; the selected weights are tested once."
    if title.recipe.experiment == "audit":
        how = "Models are trained for all epochs and predict sentences that they have not seen."
    elif results.data == "dev":
        how = "Epochs are selected on the reported dev data itself."
    elif results.dev_columns:
        how += f" In {', '.join(results.dev_columns)}, epochs are selected on the reported data itself."
    command = f"`lacuner bench {title.name} --profile {title.profile}`"
    if not results.records:
        return f"{command}: no run has a result yet."
    count = f"{len(results.records)} results"
    if title.runs is not None and results.runs_done < title.runs:
        count = f"**{results.runs_done} of {title.runs} runs so far**"
    return f"{command}: {count}, seeds {', '.join(map(str, seeds))}, lacuner {', '.join(versions)}. {how}"
