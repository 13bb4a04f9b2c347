"""``lacuner annotate``."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lacuner.cli.console import number_of, print_json, say, track
from lacuner.cli.help import DATA, MATCHING, OUTPUT, RUNNING
from lacuner.cli.options import (
    Address,
    Engine,
    InputFormat,
    Json,
    MergeFile,
    NamesLabel,
    ShardSize,
    Strict,
    Texts,
    read_names,
    refuse_mixing,
)
from lacuner.errors import ConfigError

if TYPE_CHECKING:
    from lacuner.corpus.files import ReadingReport
    from lacuner.matching.annotation import AnnotationReport, TextSource
    from lacuner.matching.case import CaseEstimate
    from lacuner.matching.dictionary import Dictionary
    from lacuner.matching.matcher import Matcher

_MAX_WORDS = 256
"""Texts with more words are documents; as many are predicted at once."""
_SHOWN = 20
"""Names that the report shows."""


def annotate(
    inputs: Texts,
    dictionary: Annotated[
        Path,
        typer.Option(
            "--dictionary",
            "-d",
            metavar="FILE",
            help="Names to find: one `NAME<TAB>LABEL` per line, .csv, .jsonl, or spaCy patterns.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Output file; - is standard output. FOLDER/ writes one file per shard of the input, so that "
            "an interrupted command can be resumed.",
            show_default=False,
        ),
    ],
    label: NamesLabel = None,
    phrases: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Names whose label is not known, one per line. Their words are marked as unknown.",
            show_default=False,
            rich_help_panel=MATCHING,
        ),
    ] = None,
    ignore_case: Annotated[
        bool,
        typer.Option("--ignore-case", help="Ignore case, except for names marked `exact`.", rich_help_panel=MATCHING),
    ] = False,
    variants: Annotated[
        bool,
        typer.Option(
            "--variants",
            help="Also match names with different punctuation: Al Qaeda for Al-Qaeda, US for U.S.",
            rich_help_panel=MATCHING,
        ),
    ] = False,
    min_length: Annotated[
        int, typer.Option(min=1, help="Ignore names with fewer characters.", rich_help_panel=MATCHING)
    ] = 1,
    stop: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Names to ignore, one per line.", show_default=False, rich_help_panel=MATCHING
        ),
    ] = None,
    ambiguous: Annotated[
        Literal["drop", "first", "both-unknown"],
        typer.Option(
            metavar="CHOICE",
            help="What to do with names that have several labels: `drop` them, take the `first` label, or "
            "leave their matches unlabeled (`both-unknown`).",
            rich_help_panel=MATCHING,
        ),
    ] = "drop",
    split: Annotated[
        Literal["auto", "words", "whitespace", "characters", "single-characters"],
        typer.Option(
            metavar="CHOICE",
            help="Split raw text into `words`, at `whitespace`, into `characters` (adjacent letters and "
            "digits form one word), or into `single-characters`. `auto`: characters if most of the text "
            "is Chinese, Japanese, Thai or similar.",
            rich_help_panel=DATA,
        ),
    ] = "auto",
    documents: Annotated[
        Literal["auto", "split", "keep"],
        typer.Option(
            metavar="CHOICE",
            help="Split texts into sentences (`split`) or keep them whole (`keep`). "
            f"`auto`: split texts longer than {_MAX_WORDS} words.",
            rich_help_panel=DATA,
        ),
    ] = "auto",
    input_format: InputFormat = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of processes.", show_default="one per available core", rich_help_panel=RUNNING
        ),
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    shard_size: ShardSize = 16,
    merge: MergeFile = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Output format: jsonl, conll, or another format that is written line by line.",
            show_default="from the name of --out; jsonl in a folder",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    unmatched: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the names that never matched to this file.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Annotate text with a dictionary of names. Everything else stays unknown.

    Inputs of any size are streamed. A third column in the dictionary, `exact` or `ignore`, overrides --ignore-case for a
    name. Long texts are split into sentences, which record their text (document) and their position in it (offset).

    Example: `lacuner annotate news.txt --dictionary names.tsv --out distant.jsonl`
    """
    from lacuner.cli.parts import check_inputs, check_output, exit_unless, is_folder, make_parts, plan_parts
    from lacuner.corpus.corpus import log_losses, open_for_writing
    from lacuner.corpus.files import STANDARD_INPUT, ReadingReport, refuse_overwriting
    from lacuner.corpus.formats.registry import format_of
    from lacuner.matching.annotation import AnnotationReport
    from lacuner.matching.case import SpreadSample, estimate_ignoring_case
    from lacuner.matching.dictionary import Dictionary, read_stop_list
    from lacuner.streams.annotate import Matchers, ShardAnnotator, ShardSummary, annotate_stream
    from lacuner.streams.engine import make_engine
    from lacuner.streams.fingerprints import digest_of
    from lacuner.streams.inputs import expand

    check_output(out, merge, unmatched)
    refuse_mixing(out, json)
    in_parts = is_folder(out)
    if in_parts:
        written = format_of(merge or out, format or (None if merge else "jsonl")).name
    else:
        written = format_of(out, format).name if out != STANDARD_INPUT else format or "jsonl"
    files = expand(inputs)
    read: dict[str, Sequence[str | Path | None]] = {
        "an input": files,
        "the dictionary": [dictionary],
        "the stop list": [stop],
        "the phrases": [phrases],
    }
    for option, path in (("--out", out), ("--merge", merge)):
        if path is not None:
            refuse_overwriting(path, read, option)
    check_inputs(inputs, out, merge, f".{written}")
    if unmatched is not None:
        refuse_overwriting(unmatched, read | {"the output": [out, merge]}, "--unmatched")
    report = ReadingReport(strict=strict)
    found = AnnotationReport()
    estimates: list[CaseEstimate | None] = []
    pool = make_engine(engine, workers, address=address)
    done, characters = True, False
    with ExitStack() as opened:
        file = None if in_parts else opened.enter_context(open_for_writing(out))
        rest = None if unmatched is None else opened.enter_context(open_for_writing(unmatched))
        names = read_names(dictionary, strict, label)
        listed = Dictionary.read_phrases(phrases, strict) if phrases else None
        stopped = read_stop_list(stop) if stop else []
        used = names.without(stopped, min_length)
        if not used.entries:
            raise ConfigError("--stop and --min-length remove all names of the list")
        untyped = None if listed is None else listed.without(stopped, min_length)
        max_words = {"auto": _MAX_WORDS, "split": 0, "keep": None}[documents]
        matchers = Matchers(used, untyped, ignore_case, ambiguous, variants, stopped)
        if file is None:
            digests = {"dictionary": digest_of(dictionary), "stop": digest_of(stop), "phrases": digest_of(phrases)}
            options = {"label": label, "ignore_case": ignore_case, "variants": variants, "min_length": min_length}
            options |= {"ambiguous": ambiguous, "split": split, "documents": documents, "strict": strict}
            made_with = {"command": "annotate", **digests, **options}
            plan = plan_parts(files, made_with, shard_size, input_format, f".{written}")
            matchers.get(characters=False)  # before processes are copied, which share it then
            work = ShardAnnotator(matchers, written, input_format, split, max_words, strict)
            total = ShardSummary()

            def add(content: dict[str, Any]) -> int:
                total.add(content)
                return int(content["found"]["texts"])

            def counts() -> dict[str, Any]:
                keys = ("texts", "sentences", "words", "labels")
                return {key: value for key, value in total.found.as_dict().items() if key in keys}

            done = make_parts(pool, work, plan, out, merge, add, counts)
            found, report, characters = total.found, total.reading, total.characters
            _say_notes(total.notes)
        else:
            sources = _open_inputs(files, input_format, split, report)
            for (chosen, characters), group in groupby(sources, lambda texts: (texts.split, texts.characters)):
                matcher, unknown = matchers.get(characters)
                sample = SpreadSample()
                texts = sample.watch(track(chain.from_iterable(each.texts for each in group), "texts"))
                first = found.texts + 1
                found.add(annotate_stream(matcher, texts, file, written, chosen, pool, out, first, unknown, max_words))
                if not ignore_case:
                    estimates.append(estimate_ignoring_case(matcher, sample.texts, chosen))
        matcher, _ = matchers.get(characters)
        never = list(found.never_found(matcher))
        if rest is not None:
            rest.writelines(f"{entry.surface}\t{entry.label}\n" for entry in never)
    report.log()
    log_losses(found.losses, out)
    _show(found, names, matcher, len(never), ambiguous, _total(estimates), json)
    exit_unless(done)


def _total(estimates: "Sequence[CaseEstimate | None]") -> "CaseEstimate | None":
    """What all say together; None if one is not known."""
    known = [estimate for estimate in estimates if estimate is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(estimates) else None


def _open_inputs(
    inputs: Sequence[str | Path],
    input_format: str | None,
    split: Literal["auto", "words", "whitespace", "characters", "single-characters"],
    report: "ReadingReport",
) -> "Iterator[TextSource]":
    """The inputs, one after the other; what is special about one is said, unless the one before it was alike."""
    from lacuner.matching.annotation import read_texts
    from lacuner.streams.annotate import notes_about

    said: list[str] = []
    for path in inputs:
        texts = read_texts(path, input_format, split, report)
        notes = notes_about(texts, split)
        if notes != said:
            _say_notes({str(path): notes})
        said = notes
        yield texts


def _say_notes(notes: dict[str, list[str]]) -> None:
    """What is special about files; of those that are alike, the first one is named."""
    from lacuner.corpus.files import STANDARD_INPUT

    alike: dict[str, list[str]] = {}
    for path, said in sorted(notes.items()):
        for note in said:
            alike.setdefault(note, []).append("standard input" if path == STANDARD_INPUT else path)
    for note, paths in alike.items():
        others = f" (and {len(paths) - 1:,} other files)" if len(paths) > 1 else ""
        say(f"{paths[0]}{others}: {note}")


def _show(
    found: "AnnotationReport",
    names: "Dictionary",
    matcher: "Matcher",
    never: int,
    ambiguous: str,
    case: "CaseEstimate | None",
    json: bool,
) -> None:
    used, several = matcher.dictionary, matcher.ambiguous_entries
    frequent = found.most_frequent(used.entries, _SHOWN)
    if json:
        surfaces = [{"surface": entry.surface, "label": entry.label, "matches": count} for entry, count in frequent]
        result: dict[str, Any] = {"sentences": found.sentences, "tokens": found.words, "entities": found.matches}
        result |= {"labels": dict(sorted(found.labels.items())), "unlabeled": found.unlabeled, "kept": found.kept}
        result |= {"contradictions": found.contradictions, "texts": found.texts, "texts_cut": found.cut}
        result |= {"phrases": found.phrases, "inside_phrases": found.inside_phrases}
        result |= {
            "names": len(names),
            "left_out": len(names) - len(used),
            "ambiguous": several,
            "never_matched": never,
        }
        if case is not None:
            result["more_with_ignore_case"] = {"entities": case.scaled_to(found.words), "tokens_searched": case.words}
        print_json(result | {"most_frequent": surfaces})
        return
    sentences, words = number_of(found.sentences, "sentence"), number_of(found.words, "word")
    say(f"{number_of(found.matches, 'entity')} in {sentences} with {words}.")
    if not found.texts:
        say("warning: There is no text in the input.")
        return
    for label, count in sorted(found.labels.items(), key=lambda item: -item[1]):
        say(f"  {label:<12} {count:>10,}")
    if found.cut:
        say(f"{found.cut:,} of {found.texts:,} texts were split into sentences (--documents keep leaves them whole).")
    if found.phrases:
        say(f"{found.phrases:,} phrases without a label were found; their words are marked as unknown.")
    if found.inside_phrases:
        say(f"{found.inside_phrases:,} names inside longer phrases are not labeled.")
    if found.kept:
        say(f"{found.kept:,} existing entities are kept.")
    if found.contradictions:
        say(f"{found.contradictions:,} matches contradict the annotation of the input and are left out.")
    if len(used) < len(names):
        say(f"{len(names) - len(used):,} of {len(names):,} names are left out (--stop, --min-length).")
    if several:
        say(f"{several:,} names have several labels: {_WHAT_HAPPENS[ambiguous]} (--ambiguous).")
    if never:
        say(f"{never:,} of {len(used):,} names were never found (--unmatched FILE lists them).")
    else:
        say(f"All {len(used):,} names were found.")
    if case is not None:
        say(_what_case_hides(case, found))
    if frequent:
        say("Most frequent names; check them for errors, and exclude wrong ones with --stop:")
        for entry, count in frequent:
            say(f"  {count:>10,}  {entry.surface}  {entry.label}")


def _what_case_hides(case: "CaseEstimate", found: "AnnotationReport") -> str:
    more = case.scaled_to(found.words)
    if more <= 0:
        return "--ignore-case would find no more entities."
    growth = f" (+{more / found.matches:.0%})" if found.matches else ""
    if case.words == found.words:
        return f"--ignore-case would find {more:,} more entities{growth}."
    return f"--ignore-case would find about {more:,} more entities{growth}, estimated from {case.words:,} words."


_WHAT_HAPPENS = {
    "drop": "they are not matched",
    "first": "the first label is used",
    "both-unknown": "they are left without a label",
}
