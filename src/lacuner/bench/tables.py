"""Tables of a report, as Markdown; tables without content are empty strings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from statistics import mean
from typing import Any

from lacuner.bench.convergence import MAX_GAIN, found_nothing, gain_in_tail, is_converged, tail_length
from lacuner.bench.recipe import ALL_LABELS
from lacuner.bench.results import DIGITS, MIN_SEEDS, Results, best_rows, is_trained, spread, test_f1
from lacuner.bench.significance import RESAMPLES, Difference

_SURE = 0.05
"""Maximum p of a significant difference."""
_SMALLEST_GAP = 5.0
"""Minimum gap in points of F1, so that the fraction closed is distinguishable from noise."""
_BETTER, _WORSE, _FEWER = "↑", "↓", "†"
NOT_CONVERGED = "‡"
"""Marks figures of runs that have not converged."""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is left-aligned, the others right-aligned."""
    first, *others = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (head, *rows))
    return "\n".join([first, f"| --- |{' --: |' * (len(head) - 1)}", *others])


def main_table(results: Results) -> str:
    """F1 of every row and column, with the papers' figures and significance marks."""
    cells = {(row, column): _f1_cell(results, row, column) for row in results.rows for column in results.columns}
    rows = [row for row in results.rows if any(cells[row, column] for column in results.columns)]
    if not rows:
        return ""
    averages = _averages(results, rows) if len(results.columns) > 1 else {}
    lines = [
        [coded(row), *(cells[row, column] for column in results.columns), *([averages[row]] if averages else [])]
        for row in rows
    ]
    head = ["", *results.columns, *(["mean"] if averages else [])]
    return f"{markdown_table(head, lines)}\n\n{' '.join(_notes(results, ''.join(cells.values())))}"


def _f1_cell(results: Results, row: str, column: str) -> str:
    """``**mean ± deviation**`` of the best, with marks, and the paper's figure in parentheses."""
    values = results.values(row, column, test_f1)
    if not values:
        return ""
    text = emphasized(spread(values), (row, column) in results.winners)
    difference = results.differences.get((row, column))
    if difference is not None and difference.p < _SURE:
        text += _BETTER if difference.f1 > 0 else _WORSE
    if len(values) < results.max_seeds and is_trained(results.cells[row, column][0]):
        text += _FEWER
    if not results.is_converged(row, column):
        text += NOT_CONVERGED
    paper = _paper(results, row, column)
    return text if paper is None else f"{text} ({_quoted(paper)})"


def _quoted(figure: float) -> Decimal:
    """Round a figure of a paper half up in decimal: 46.55 becomes 46.6, whatever its binary representation."""
    return Decimal(str(figure)).quantize(Decimal(1).scaleb(-DIGITS), ROUND_HALF_UP)


def emphasized(text: str, is_best: bool) -> str:
    """Make the text bold if it is the best of its column."""
    return f"**{text}**" if is_best and text else text


def _averages(results: Results, rows: Iterable[str]) -> dict[str, str]:
    """The mean over all columns of each complete row; the best one is bold."""
    means: dict[str, float] = {}
    for row in rows:
        values = [results.values(row, column, test_f1) for column in results.columns]
        if all(values):
            means[row] = round(mean(map(mean, values)), DIGITS)
    best = best_rows({row: value for row, value in means.items() if not row.endswith(ALL_LABELS)})
    return {row: emphasized(f"{means[row]:.{DIGITS}f}", row in best) if row in means else "" for row in rows}


def _notes(results: Results, shown: str) -> Iterator[str]:
    """Explain the marks that occur in a table."""
    yield f"F1 on {results.data} data in percent, mean ± standard deviation over seeds."
    if results.dev_columns and results.data != "dev":
        yield f"{', '.join(results.dev_columns)}: on dev data."
    if "**" in shown:
        yield "Bold: the best of its column."
    if _FEWER in shown:
        yield f"{_FEWER} fewer seeds than the others."
    if NOT_CONVERGED in shown:
        yield f"{NOT_CONVERGED} not converged: dev F1 was still rising when its epochs were over, or it stayed 0."
    if "(" in shown:
        encoder = results.title.recipe.paper_encoder
        yield f"In brackets: what the paper reports{encoder and f', for {encoder}'}."
    foreign = _columns_of_other_dictionaries(results)
    if foreign:
        names = " and ".join(
            f"`{method}`" for method in dict.fromkeys(method for methods in foreign.values() for method in methods)
        )
        yield (
            f"The training labels of {', '.join(foreign)} were not made with the dictionary of {names}, which is only another "
            "source there."
        )
    if _BETTER in shown or _WORSE in shown:
        yield (
            f"{_BETTER} better and {_WORSE} worse than `{results.title.recipe.baseline}`, p < {_SURE:g} "
            f"(paired bootstrap over sentences, Student's t over seeds; {RESAMPLES:,} resamples)."
        )
    if results.too_few_seeds:
        yield f"Significance is not tested with fewer than {MIN_SEEDS} seeds."


def _columns_of_other_dictionaries(results: Results) -> dict[str, list[str]]:
    """Columns whose matched dictionary did not produce the training labels, with the methods that match it."""
    found: dict[str, list[str]] = {}
    for column in results.columns:
        for row in results.rows:
            first = next(iter(results.cells.get((row, column), ())), None)
            if (
                first is None
                or is_trained(first)
                or not results.title.recipe.dataset_of(first["data"]).other_dictionary
            ):
                continue
            found.setdefault(column, []).append(first["method"])
    return found


def _paper(results: Results, row: str, column: str) -> float | None:
    records = results.cells.get((row, column))
    if not records or records[0].get("complete"):
        return None
    figures, method = results.title.recipe.paper, records[0]["method"]
    return figures.get(f"{method} · {records[0]['encoder']}", figures.get(method, {})).get(column)


def convergence_list(results: Results) -> str:
    """Runs that were still improving when their epochs ended, and those that never found anything."""
    lines = []
    for record in results.records:
        if is_converged(record):
            continue
        where = f"{results.column(record)}, {results.row(record)}, seed {record['seed']}"
        if found_nothing(record):
            lines.append(f"* {where}: no entity of the dev data is found in any of {len(record['epochs'])} epochs")
            continue
        planned = record["planned_epochs"]
        gain = gain_in_tail(record["epochs"], planned)
        assert gain is not None, "otherwise it would be converged"
        lines.append(f"* {where}: +{100 * gain:.1f} points in the last {tail_length(planned)} of {planned} epochs")
    if not lines:
        return ""
    note = (
        f"Dev F1 rose by more than {100 * MAX_GAIN:g} point, and by more than its standard error, in the last fifth of the "
        "planned epochs, or it never rose above 0. A longer run may end higher."
    )
    return "\n".join([note, "", *lines])


def gap_table(results: Results) -> str:
    """Fraction of the gap closed, ``(F1 - F1 of naive) / (F1 with all labels - F1 of naive)``, of the means."""
    recipe = results.title.recipe
    if recipe.naive is None:
        return ""
    rows = []
    for row in results.rows:
        first = next((records[0] for (name, _), records in results.cells.items() if name == row), None)
        if first is None or first.get("complete") or first["method"] == recipe.naive:
            continue
        cells = []
        for column in results.columns:
            naive = results.row(first | {"method": recipe.naive})
            known = [results.values(name, column, test_f1) for name in (row, naive, f"{naive}{ALL_LABELS}")]
            if all(known):
                ours, low, high = map(mean, known)
                cells.append(f"{(ours - low) / (high - low):.0%}" if high - low >= _SMALLEST_GAP else "—")
            else:
                cells.append("")
        if any(cells):
            rows.append([coded(row), *cells])
    if not rows:
        return ""
    note = f"0 %: `{recipe.naive}` trained on labels with gaps; 100 %: `{recipe.naive}` trained on all labels."
    if any("—" in row for row in rows):
        note += f" —: the gaps cost less than {_SMALLEST_GAP:g} points."
    note += _closed_by_reference(results, rows)
    return f"{markdown_table(['', *results.columns], rows)}\n\n{note}"


def _closed_by_reference(results: Results, rows: Iterable[Sequence[str]]) -> str:
    """The fraction of the gap that the reference method closes."""
    reference = results.title.recipe.reference
    found = [(name, cell) for name, *cells in rows for cell in cells if reference and name == coded(reference)]
    shown = [f"{cell} in {column}" for (_, cell), column in zip(found, results.columns, strict=False) if "%" in cell]
    if not shown:
        return ""
    return f" `{reference}` alone closes {', '.join(shown)}; a method has to close more."


def difference_table(results: Results, other: str | None) -> str:
    """Differences of F1 from another method, with p-values."""
    differences = results.differences if other == results.title.recipe.baseline else results.differences_to(other)
    table = _grid(results, lambda row, column: _difference(differences.get((row, column))))
    note = (
        "Points of F1 with their 95 % interval, and p; paired bootstrap over sentences, Student's t over seeds; "
        f"{RESAMPLES:,} resamples."
    )
    return table and f"{table}\n\n{note}"


def _difference(found: Difference | None) -> str:
    if found is None:
        return ""
    p = "< 0.001" if found.p < 0.001 else f"{found.p:.3f}"
    return f"{100 * found.f1:+.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}] {p}"


def best_seed_table(results: Results) -> str:
    """Test F1 of each method's seed with the highest dev F1: what somebody gets who trains it with every seed."""

    def cell(row: str, column: str) -> str:
        records = results.cells.get((row, column), [])
        is_chosen_elsewhere = results.data != "dev" and column not in results.dev_columns
        if len(records) < MIN_SEEDS or not is_chosen_elsewhere or any(record["hidden"] for record in records):
            return ""  # where labels are hidden, every seed has other data
        best = max(records, key=lambda record: record["dev"]["f1"])
        found = test_f1(best)
        return "" if found is None else f"{found:.{DIGITS}f}"

    table = _grid(results, cell)
    note = (
        "A method that trains several models should be compared with as many trainings of another: this is test F1 of the "
        "seed with the highest dev F1."
    )
    return table and f"{table}\n\n{note}"


def precision_table(results: Results) -> str:
    """Precision and recall on test data."""

    def cell(row: str, column: str) -> str:
        pair = [
            results.values(row, column, lambda record, name=name: record.get("test", {}).get(name))  # type: ignore[misc]
            for name in ("precision", "recall")
        ]
        return f"{100 * mean(pair[0]):.1f} / {100 * mean(pair[1]):.1f}" if all(pair) else ""

    return _grid(results, cell)


def o_value_table(results: Results) -> str:
    """How well low O-values identify hidden entities, by epoch."""
    measured = [record for record in results.records if "o_values" in record]
    if not measured:
        return ""
    rows = []
    epochs = max(len(record["o_values"]["epochs"]) for record in measured)
    for row in results.rows:
        for epoch in range(epochs):

            def precision(record: Mapping[str, Any], epoch: int = epoch) -> float | None:
                known = record["o_values"]["epochs"]
                return 100 * float(known[epoch]["average_precision"]) if epoch < len(known) else None

            cells = [spread(results.values(row, column, precision)) for column in results.columns]
            rows.append([f"{coded(row)}, epoch {epoch + 1}", *cells])
    note = "Average precision (in percent) of low O-values as a detector of words of hidden entities."
    return f"{markdown_table(['', *results.columns], rows)}\n\n{note}"


def missampling_table(results: Results) -> str:
    """The missampling rate, mean over epochs."""
    if not any("missampling" in record for record in results.records):
        return ""

    def rate(record: Mapping[str, Any]) -> float | None:
        epochs = record.get("missampling")
        return 100 * mean(epoch["rate"] for epoch in epochs) if epochs else None

    table = _grid(results, lambda row, column: spread(results.values(row, column, rate), 3))
    return f"{table}\n\nPercentage of a sentence's negatives that are hidden entities, mean over epochs."


def threshold_table(results: Results) -> str:
    """F1 with thresholds fitted on increasing numbers of dev sentences."""
    records = [record for record in results.records if "threshold-size" in record]
    if not records:
        return ""
    rows = []
    sizes = sorted({one["sentences"] for record in records for one in record["threshold-size"][:-1]})
    for row in results.rows:
        for size in (*sizes, None):
            name = {0: "no threshold", None: "all dev sentences"}.get(size, f"{size} dev sentences")
            cells = [spread(threshold_values(results, row, column, size)) for column in results.columns]
            if any(cells):
                rows.append([f"{coded(row)}, {name}", *cells])
    note = (
        "F1 on test data in percent, with a threshold fitted on that many random dev sentences; mean ± standard deviation "
        "over draws and seeds."
    )
    return f"{markdown_table(['', *results.columns], rows)}\n\n{note}"


def threshold_values(results: Results, row: str, column: str, sentences: int | None) -> list[float]:
    """F1 in percent with thresholds from this many dev sentences, of every draw and seed; None: all dev sentences."""
    return [
        100 * f1
        for record in results.cells.get((row, column), ())
        if "threshold-size" in record
        for *parts, whole in (record["threshold-size"],)
        for one in ([whole] if sentences is None else parts)
        if sentences in (None, one["sentences"])
        for f1 in one["f1"]
    ]


def audit_table(results: Results) -> str:
    """Precision of the first findings, and average precision."""
    if not any("audit" in record for record in results.records):
        return ""

    def figure(name: str) -> Callable[[Mapping[str, Any]], float | None]:
        def value(record: Mapping[str, Any]) -> float | None:
            found = record["audit"]
            return 100 * float(found["average_precision"] if name == "AP" else found["precision"][name])

        return value

    rows = [
        [coded(row), name if name == "AP" else f"first {name}"]
        + [spread(results.values(row, column, figure(name))) for column in results.columns]
        for row in results.rows
        for name in ("100", "500", "1000", "AP")
    ]
    note = (
        "Percentage of the suggested entities that are really missing, with these boundaries and this label. AP: average "
        "precision; missing entities that are not suggested count as never found."
    )
    return f"{markdown_table(['', '', *results.columns], rows)}\n\n{note}"


def estimate_table(results: Results) -> str:
    """Estimated and true numbers of missing entities."""
    measured = [record for record in results.records if "estimate" in record.get("audit", ())]
    if not measured:
        return ""

    def cell(row: str, column: str) -> str:
        records = [r["audit"] for r in results.cells.get((row, column), ()) if "estimate" in r["audit"]]
        return ", ".join(_estimate(r["estimate"], r["missing"]) for r in records)

    note = (
        "For each seed: the estimate with its 95 % interval, the true number (entities that overlap nothing annotated), "
        "and the error of the estimate. *At least*: most of the missing names are annotated nowhere, so that only a lower "
        "bound is claimed."
    )
    return f"{_grid(results, cell)}\n\n{note}"


def _estimate(estimate: Mapping[str, Any], missing: int) -> str:
    total, low, high = (estimate[name] for name in ("total", "low", "high"))
    if estimate.get("at_least"):
        return f"at least {low:,.0f} ({total:,.0f} expected) of {missing:,}"
    return f"{total:,.0f} [{low:,.0f}, {high:,.0f}] of {missing:,}: {total / max(missing, 1) - 1:+.0%}"


def listed_table(results: Results) -> str:
    """How many findings an audit lists by default, and how many of them are right."""

    def cell(row: str, column: str) -> str:
        records = [r["audit"] for r in results.cells.get((row, column), ()) if "listed" in r.get("audit", ())]
        return ", ".join(
            f"{r['listed']['found']:,} of {r['missing']:,}, {r['listed']['right'] / max(r['listed']['found'], 1):.0%} right"
            for r in records
        )

    table = _grid(results, cell)
    note = "For each seed: findings of missing entities that are listed by default, the number that is really missing, and "
    return table and f"{table}\n\n{note}how many of the findings are among them."


def cost_table(results: Results) -> str:
    """Time and memory."""

    def cell(row: str, column: str) -> str:
        cpu = results.values(row, column, lambda record: record.get("cpu_seconds"))
        memory = results.values(row, column, lambda record: record.get("peak_memory_mb"))
        return f"{mean(cpu):,.0f} s, {max(memory) / 1000:.1f} GB" if cpu and memory else ""

    table = _grid(results, cell)
    return table and f"{table}\n\nProcessor seconds of a run, mean over seeds; greatest peak memory."


def _grid(results: Results, cell: Callable[[str, str], str]) -> str:
    rows = [[coded(row), *(cell(row, column) for column in results.columns)] for row in results.rows]
    rows = [row for row in rows if any(row[1:])]
    return markdown_table(["", *results.columns], rows) if rows else ""


def coded(row: str) -> str:
    """Format the method's name in a row as code."""
    name = row.removesuffix(ALL_LABELS)
    method, dot, encoder = name.partition(" · ")
    return f"`{method}`{dot}{encoder}{row.removeprefix(name)}"
