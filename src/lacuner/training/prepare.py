"""Preparation of training data: reject unusable data, split long sentences into passages, and warn about oddities."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from lacuner.corpus import Corpus
from lacuner.corpus.statistics import labels_alike
from lacuner.corpus.tokenize import CHARACTER_SPLITTINGS, Splitting, guess_splitting
from lacuner.encoders.device import default_device, has_bf16
from lacuner.errors import ConfigError, TrainingError
from lacuner.inference.passages import MAX_PASSAGE, TrainingPassages, cut_for_training, long_sentences
from lacuner.training.dev_data import remarks_on_dev
from lacuner.training.settings import RunSettings

logger = logging.getLogger(__name__)

_HARDLY_A_SENTENCE = 2000
"""Number of words above which a sentence is probably a file without blank lines."""


def check_training(train: Corpus, dev: Corpus | None, settings: RunSettings, trusted: Corpus | None = None) -> None:
    """Reject what :meth:`Recognizer.train` would reject, without training."""
    _check(_with_words(with_trusted(train, trusted)), dev, settings)


def prepare_passages(given: Corpus, dev: Corpus | None, settings: RunSettings) -> TrainingPassages:
    """Training data as passages; logs what cannot be learned."""
    _check(_with_words(given), dev, settings)
    prepared = cut_for_training(given)
    empty = sum(not sentence.tokens for sentence in given)
    if empty:
        logger.warning("%s left out.", _sentences_that_are(empty, " without words", "is", "are"))
    for what, corpus in (("", given), (" of the dev data", dev)):
        _say_what_is_long(what, long_sentences(corpus or ()))
    if prepared.lost:
        spans = "1 span is" if prepared.lost == 1 else f"{prepared.lost:,} spans are"
        logger.warning("%s longer than a passage of %d words and left out.", spans, MAX_PASSAGE)
    unlearnable = settings.method.unlearnable(prepared.corpus)
    if unlearnable is not None:
        logger.warning(unlearnable)
    if settings.training.precision == "bf16" and not has_bf16(default_device()):
        logger.warning(
            "training.precision=bf16: this processor is not known to have bfloat16 instructions; "
            "emulated ones are several times slower than fp32."
        )
    for alike in labels_alike((*prepared.corpus.labels, *(dev.labels if dev is not None else ()))):
        logger.warning("The labels %s differ only in case; they are treated as different labels.", " and ".join(alike))
    has_gaps = settings.training.metric == "pu"
    for remark in remarks_on_dev(prepared.corpus, dev, has_gaps) if dev is not None else ():
        logger.warning(remark)
    return prepared


def with_trusted(train: Corpus, trusted: Corpus | None) -> Corpus:
    """Trusted sentences, marked complete, followed by the others."""
    return train if trusted is None else trusted.as_complete() + train


def choose_split(settings: RunSettings, corpus: Corpus) -> Splitting:
    """How the model will split raw text: in the same way as ``corpus`` was tokenized."""
    if settings.split != "auto":
        return settings.split
    split = guess_splitting(corpus.tokens)
    if split in CHARACTER_SPLITTINGS:
        runs = "" if split == "characters" else ", letters and digits too"
        logger.info(
            "The training data is split into characters%s; raw text will be, too (--set split=words changes that).",
            runs,
        )
    return split


def locate_reports(
    reports: Mapping[str, Sequence[dict[str, Any]]], prepared: TrainingPassages, trusted: int
) -> dict[str, tuple[dict[str, Any], ...]]:
    """Translate sentence and token indices of reports back to the original data; trusted sentences are indexed separately."""

    def located(record: dict[str, Any]) -> dict[str, Any]:
        sentence, first = prepared.origin[record["sentence"]]
        moved = record | ({"token": record["token"] + first} if "token" in record else {})
        if sentence < trusted:
            return moved | {"sentence": sentence, "trusted": True}
        return moved | {"sentence": sentence - trusted}

    return {name: tuple(map(located, records)) for name, records in reports.items()}


def _check(corpus: Corpus, dev: Corpus | None, settings: RunSettings) -> None:
    """Reject incompatible data and settings."""
    if not corpus:
        raise TrainingError("there is no sentence to train on — give a corpus that is not empty")
    if not any(sentence.entities for sentence in corpus):
        raise TrainingError("no entity is annotated in the training data — annotate some, or check the tag column")
    if dev is not None and not dev:
        raise TrainingError("there is no sentence in the dev data — give a corpus that is not empty, or none")
    complete = sum(sentence.complete for sentence in corpus)
    if settings.training.metric == "pu" and dev is None:
        raise ConfigError("training.metric=pu (--dev-incomplete) needs dev data, but there is none — give --dev")
    if settings.trusted.fraction is not None and complete in (0, len(corpus)):
        which = "no sentence is" if not complete else "all sentences are"
        raise ConfigError(
            f"trusted.fraction={settings.trusted.fraction:g} weighs complete sentences against others, but {which} "
            "complete — give both kinds (--trusted), or leave it out"
        )
    settings.method.check(settings.training_data(corpus, dev))


def _with_words(corpus: Corpus) -> Corpus:
    if corpus.is_lazy:
        return corpus
    return Corpus(tuple(sentence for sentence in corpus if sentence.tokens), corpus.report)


def _say_what_is_long(what: str, long: Sequence[int]) -> None:
    """Log how many sentences are split, given their lengths, and how many are implausibly long."""
    if long:
        logger.info(
            "%s longer than %d words and %s read in passages; the longest has %s.",
            _sentences_that_are(len(long), what, "is", "are"),
            MAX_PASSAGE,
            "is" if len(long) == 1 else "are",
            f"{max(long):,}",
        )
    endless = [length for length in long if length >= _HARDLY_A_SENTENCE]
    if endless:
        logger.warning(
            "%s %s words or more. Such a sentence is split into passages of at most %d words; if the file lacks blank lines "
            "between its sentences, add them.",
            _sentences_that_are(len(endless), what, "has", "have"),
            f"{_HARDLY_A_SENTENCE:,}",
            MAX_PASSAGE,
        )


def _sentences_that_are(count: int, what: str, singular: str, plural: str) -> str:
    return f"1 sentence{what} {singular}" if count == 1 else f"{count:,} sentences{what} {plural}"
