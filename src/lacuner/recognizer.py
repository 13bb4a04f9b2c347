"""The recogniser: train, predict, evaluate, save, load."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast, overload

import torch
from accelerate import PartialState

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.tokenize import Passage, Splitting, are_characters, split_passages, split_words
from lacuner.errors import ConfigError, TrainingError
from lacuner.evaluation import Scores, score_entities
from lacuner.methods.composition import SpanMethod
from lacuner.methods.method import Method
from lacuner.methods.scl_rai import SpanContrast
from lacuner.methods.tagging import Anything, TokenMethod
from lacuner.model_folder import ModelFolder, check_target, is_model_folder, read_model_folder, write_model_folder
from lacuner.models.model import Model
from lacuner.supervision.tags import flat
from lacuner.training.checkpoints import RunFolder
from lacuner.training.judging import find_in
from lacuner.training.loop import Observer, fingerprint
from lacuner.training.run import TrainingRun
from lacuner.training.settings import RunSettings, resolve_settings

logger = logging.getLogger(__name__)

_READ_AHEAD = 1024
"""Sentences that prediction sorts by length at a time; a stream never holds more."""
_LONGEST_PASSAGE = 256
"""Raw text with more words is searched in passages that end where sentences do."""

Text = str | Sequence[str] | Sentence


@dataclass(frozen=True)
class TrainingRecord:
    """What a model remembers of its making."""

    best_epoch: int = 0
    seconds: float = 0.0
    history: tuple[dict[str, Any], ...] = ()
    data: dict[str, int] = field(default_factory=dict)
    dev: dict[str, Any] | None = None
    fingerprint: str = ""
    reports: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    """What stages of training have found out; each stands in the model folder as a file of JSON Lines."""


class Recognizer:
    """Finds named entities. Made by :meth:`train` or :meth:`from_pretrained`.

    Attributes:
        labels: what it can find.
        settings: everything that it was trained with.
        split: how it splits raw text into words.
        record: how its training went.
    """

    def __init__(self, model: Model, settings: RunSettings, split: Splitting, record: TrainingRecord) -> None:
        self.model = model.eval()
        self.settings = settings
        self.split: Splitting = split
        self.record = record

    @property
    def labels(self) -> tuple[str, ...]:
        return self.model.labels[1:]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def to(self, device: str | torch.device) -> "Recognizer":
        """Move to another device."""
        self.model.to(device)
        self.model.memory = {name: value.to(device) for name, value in self.model.memory.items()}
        return self

    def __repr__(self) -> str:
        method, encoder = self.settings.method.name, self.settings.encoder.name
        return f"Recognizer(method={method!r}, encoder={encoder!r}, labels={', '.join(self.labels)})"

    @classmethod
    def train(
        cls,
        train: Corpus,
        dev: Corpus | None = None,
        *,
        method: str | None = None,
        encoder: str | None = None,
        trusted: Corpus | None = None,
        epochs: int | None = None,
        seed: int | None = None,
        dev_incomplete: bool = False,
        settings: Mapping[str, Any] | RunSettings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        observer: Observer | None = None,
    ) -> "Recognizer":
        """Train a recogniser on annotation with gaps.

        Args:
            train: sentences; what is not annotated in them is unknown, unless they are ``complete``.
            dev: annotated sentences on which the best epoch is chosen. Without them the last epoch is kept.
            method: a preset (``lacuner methods`` lists them).
            encoder: ``recurrent``, ``flat``, ``bert-word``, ``lebert``, or the name or folder of a Hugging Face encoder.
            trusted: sentences that are annotated completely: what is not annotated in them is no entity.
            epochs: short for ``settings={"training.epochs": …}``.
            seed: short for ``settings={"training.seed": …}``.
            dev_incomplete: the dev sentences have gaps, too; short for ``settings={"training.select": "pu"}``.
            settings: dotted keys and values as with ``--set``; or everything, as :func:`resolve_settings` returns it.
            out: the model folder to write. A checkpoint of each epoch is kept beside it until training has ended.
            resume: go on from that checkpoint, if there is one.
            observer: told about progress.
        """
        if isinstance(settings, RunSettings):
            if (method, encoder, epochs, seed) != (None,) * 4 or dev_incomplete:
                raise TypeError(
                    "method, encoder, epochs, seed and dev_incomplete stand in the settings already; give one or the other"
                )
        else:
            overrides = dict(settings or {})
            given = {
                "training.epochs": epochs,
                "training.seed": seed,
                "training.select": "pu" if dev_incomplete else None,
            }
            overrides |= {key: value for key, value in given.items() if value is not None}
            settings = resolve_settings(method, encoder, overrides)
        whole = _whole(train, trusted)
        settings = settings.for_corpus(whole, dev or ())
        corpus = _prepare(whole, dev, settings)
        key = fingerprint(settings.model_dump_json(), [corpus, dev], settings.encoder.files)
        checkpoints = None
        if out is not None:
            check_target(Path(out))
            checkpoints = RunFolder(Path(f"{out}.training"), key)
            if resume and not checkpoints.exists() and is_model_folder(Path(out)):
                return cls._finished(out, key)
            if not resume:
                if checkpoints.exists():
                    logger.warning("An unfinished run in %s is thrown away (--resume goes on).", checkpoints.folder)
                checkpoints.remove()
        began = time.perf_counter()
        with torch.random.fork_rng():  # the caller's randomness stays what it was
            workshop = TrainingRun(corpus, dev, settings, checkpoints, resume, observer or Observer())
            model, result = workshop.train()
        recognizer = cls(model, settings, _choose_split(settings, corpus), TrainingRecord(fingerprint=key))
        best = result.history[result.best_epoch - 1].get("dev")
        if dev is not None and (model.memory or model.threshold):
            best = recognizer.evaluate(dev).as_dict()
        recognizer.record = TrainingRecord(
            best_epoch=result.best_epoch,
            seconds=round(time.perf_counter() - began, 2),
            history=result.history,
            data={"sentences": len(corpus), "entities": sum(len(sentence.entities) for sentence in corpus)},
            dev=best,
            fingerprint=key,
            reports=_with_places(workshop.reports, whole, 0 if trusted is None else len(trusted)),
        )
        if checkpoints is not None and out is not None and PartialState().is_main_process:
            recognizer.save_pretrained(out)
            checkpoints.remove()
        return recognizer

    @classmethod
    def _finished(cls, out: str | Path, key: str) -> "Recognizer":
        """The model of a run that is resumed although it has ended."""
        recognizer = cls.from_pretrained(out)
        if recognizer.record.fingerprint != key:
            raise TrainingError(
                f"{out} holds a model that was trained with other data or settings — "
                "train without --resume to replace it, or choose another folder"
            )
        logger.info("%s is finished already; there is nothing to resume.", out)
        return recognizer

    @overload  # a string is a sequence of strings, too, but nobody means that
    def predict(  # type: ignore[overload-overlap]
        self, text: str | Sentence, *, nested: bool = ..., min_score: float = ...
    ) -> list[Entity]: ...
    @overload
    def predict(
        self, text: Sequence[str], *, tokens: Literal[True], nested: bool = ..., min_score: float = ...
    ) -> list[Entity]: ...
    @overload
    def predict(self, text: Sequence[Text], *, nested: bool = ..., min_score: float = ...) -> list[list[Entity]]: ...
    @overload
    def predict(
        self, text: Iterator[Text], *, nested: bool = ..., min_score: float = ...
    ) -> Iterator[list[Entity]]: ...

    def predict(
        self, text: Text | Iterable[Text], *, tokens: bool = False, nested: bool = False, min_score: float = 0.0
    ) -> Any:
        """Find entities.

        One text gives a list of entities, a list of texts a list of such lists, an iterator or generator of texts an
        iterator that works in constant memory. A text is a string, or words: a :class:`Sentence` or a list of words
        inside a list of texts; with ``tokens=True`` the argument itself is one list of words.

        Offsets count characters where raw text was given, words where words were.
        """
        if tokens:
            return next(self._predict_all(iter([list(cast(Sequence[str], text))]), nested, min_score))
        if isinstance(text, str | Sentence):
            return next(self._predict_all(iter([text]), nested, min_score))
        if isinstance(text, Sequence):
            return list(self._predict_all(iter(cast(Sequence[Text], text)), nested, min_score))
        return self._predict_all(iter(text), nested, min_score)

    def evaluate(self, corpus: Iterable[Sentence]) -> Scores:
        """Exact-match precision, recall and F1 on annotated sentences."""
        return score_entities(self.predict_pairs(corpus))

    def predict_pairs(
        self, corpus: Iterable[Sentence], nested: bool = False, min_score: float = 0.0
    ) -> Iterator[tuple[Sentence, list[Entity]]]:
        """Each sentence with what is found in it, in words; streamed."""
        sentences = iter(corpus)
        while chunk := list(islice(sentences, _READ_AHEAD)):
            yield from zip(chunk, self._find([s.tokens for s in chunk], nested, min_score), strict=True)

    def _predict_all(self, texts: Iterator[Text], nested: bool, min_score: float) -> Iterator[list[Entity]]:
        while chunk := list(islice(texts, _READ_AHEAD)):
            jobs = [_Job.of(text, self.split) for text in chunk]
            found = iter(self._find([words for job in jobs for words in job.sentences()], nested, min_score))
            for job in jobs:
                yield job.collect(islice(found, len(job.passages)))

    def _find(self, sentences: Sequence[Sequence[str]], nested: bool, min_score: float) -> list[list[Entity]]:
        return find_in(self.model, sentences, nested, min_score)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model folder. It takes its name when it is whole; one that is there already is replaced."""
        write_model_folder(Path(folder), ModelFolder(self.model, self.settings, self.split, dict(vars(self.record))))

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str | torch.device | None = None) -> "Recognizer":
        """Load a model folder. Nothing in it is executed.

        Args:
            folder: the folder.
            device: where the model runs; by default on a GPU if there is one.
        """
        loaded = read_model_folder(Path(folder))
        known = {item.name for item in fields(TrainingRecord)}
        record = TrainingRecord(**{name: value for name, value in loaded.record.items() if name in known})
        recognizer = cls(loaded.model, loaded.settings, loaded.split, record)
        return recognizer.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


@dataclass(frozen=True)
class _Job:
    """A text to be searched: its words, the passages that they are searched in, and the way back to the text."""

    words: Sequence[str]
    passages: Sequence[Passage]
    text: str | None = None
    offsets: Sequence[tuple[int, int]] = ()

    @classmethod
    def of(cls, text: Text, split: Splitting) -> "_Job":
        if not isinstance(text, str):
            words = text.tokens if isinstance(text, Sentence) else tuple(text)
            return cls(words, [Passage(0, len(words), 0, len(words))])
        offsets = split_words(text, split)
        passages = split_passages(text, offsets, _LONGEST_PASSAGE)
        return cls([text[start:end] for start, end in offsets], passages, text, offsets)

    def sentences(self) -> list[Sequence[str]]:
        return [self.words[passage.begin : passage.end] for passage in self.passages]

    def collect(self, found: Iterable[list[Entity]]) -> list[Entity]:
        """The entities of the passages as entities of the text; each is taken from the passage that it begins in."""
        entities: list[Entity] = []
        for passage, inside in zip(self.passages, found, strict=True):
            free_from = max((entity.end for entity in entities), default=0)
            for entity in inside:
                start, end = passage.begin + entity.start, passage.begin + entity.end
                if passage.own_begin <= start < passage.own_end and start >= free_from:
                    entities.append(replace(entity, start=start, end=end))
        return [self._located(entity) for entity in entities]

    def _located(self, entity: Entity) -> Entity:
        if self.text is None:
            return replace(entity, text=" ".join(self.words[entity.start : entity.end]))
        start, end = self.offsets[entity.start][0], self.offsets[entity.end - 1][1]
        return replace(entity, start=start, end=end, text=self.text[start:end])


def check_training(train: Corpus, dev: Corpus | None, settings: RunSettings, trusted: Corpus | None = None) -> None:
    """Refuse what :meth:`Recognizer.train` would refuse, without training."""
    _check(_with_words(_whole(train, trusted)), dev, settings)


def _whole(train: Corpus, trusted: Corpus | None) -> Corpus:
    return train if trusted is None else trusted.as_complete() + train


def _with_words(corpus: Corpus) -> Corpus:
    return Corpus(tuple(sentence for sentence in corpus if sentence.tokens), corpus.report)


def _check(corpus: Corpus, dev: Corpus | None, settings: RunSettings) -> None:
    if not corpus:
        raise TrainingError("there is no sentence to train on — give a corpus that is not empty")
    if not any(sentence.entities for sentence in corpus):
        raise TrainingError("no entity is annotated in the training data — annotate some, or check the tag column")
    _check_sense(corpus, dev, settings)


def _prepare(train: Corpus, dev: Corpus | None, settings: RunSettings) -> Corpus:
    """Training sentences that can be learned from; says what cannot."""
    corpus = _with_words(train)
    _check(corpus, dev, settings)
    if len(corpus) < len(train):
        logger.warning("%d sentences without words are left out.", len(train) - len(corpus))
    _warn_of_lost_entities(corpus, settings.method)
    if dev is not None and not any(sentence.entities for sentence in dev):
        logger.warning(
            "No entity is annotated in the dev data, so it cannot tell which epoch is best; the last is kept."
        )
    for label in sorted(set(dev.labels if dev is not None else ()) - set(corpus.labels)):
        logger.warning("The label %s is in the dev data only; none of its entities can be found.", label)
    return corpus


def _warn_of_lost_entities(corpus: Corpus, method: Method) -> None:
    """Say which annotated entities the method cannot learn."""
    if isinstance(method, TokenMethod):
        spans = [{(entity.start, entity.end) for entity in sentence.entities} for sentence in corpus]
        lost = sum(len(places) - len(flat(sentence.entities)) for places, sentence in zip(spans, corpus, strict=True))
        if lost:
            logger.warning(
                "%d of %d entities overlap others; a tagger cannot learn them (a span-level method can).",
                lost, sum(map(len, spans)),
            )  # fmt: skip
        return
    assert isinstance(method, SpanMethod)
    widest = method.head.max_span_width
    widths = [entity.end - entity.start for sentence in corpus for entity in sentence.entities]
    too_wide = 0 if widest is None else sum(width > widest for width in widths)
    if too_wide:
        logger.warning(
            "%d of %d entities have more than %d words and cannot be found (--set head.max_span_width=%d finds all).",
            too_wide, len(widths), widest, max(widths),
        )  # fmt: skip


def _with_places(
    reports: Mapping[str, Sequence[dict[str, Any]]], whole: Corpus, trusted: int
) -> dict[str, tuple[dict[str, Any], ...]]:
    """Reports that count sentences as the data does that was given: sentences without words too, trusted ones apart."""
    places: list[dict[str, Any]] = [
        {"sentence": place - trusted} if place >= trusted else {"sentence": place, "trusted": True}
        for place, sentence in enumerate(whole)
        if sentence.tokens
    ]
    return {name: tuple(record | places[record["sentence"]] for record in records) for name, records in reports.items()}


def _check_sense(corpus: Corpus, dev: Corpus | None, settings: RunSettings) -> None:
    """Refuse settings that this data gives no sense to."""
    complete = sum(sentence.complete for sentence in corpus)
    if settings.training.select == "pu" and dev is None:
        raise ConfigError(
            "training.select=pu (--dev-incomplete) chooses on dev data, but there is none — give --dev, too"
        )
    if settings.trusted.share is not None and complete in (0, len(corpus)):
        which = "no sentence is" if not complete else "all sentences are"
        raise ConfigError(
            f"trusted.share={settings.trusted.share:g} weighs complete sentences against others, but {which} complete — "
            "give both kinds (--trusted), or leave it out"
        )
    method = settings.method
    if isinstance(method, TokenMethod):
        _check_tagger(corpus, method)
        return
    assert isinstance(method, SpanMethod)
    contrast = method.contrast
    if isinstance(contrast, SpanContrast) and not contrast.contrast_non_entities and len(corpus.labels) == 1:
        raise ConfigError(
            f"contrast.contrast_non_entities=false compares labels of entities, but there is only {corpus.labels[0]} — "
            "leave it out, or set contrast=none"
        )
    if method.teacher is not None and complete == len(corpus):
        logger.info("All sentences are complete, so there is nothing for a teacher to judge.")


def _check_tagger(corpus: Corpus, method: TokenMethod) -> None:
    """Refuse to train a tagger whose parts do not fit together, or that would see entities everywhere."""
    weighs = method.stage is not None and method.stage.weighs
    if not isinstance(method.untagged, Anything):
        if weighs and method.stage is not None:
            raise ConfigError(
                f"stage={method.stage.name} weighs the tags of untagged words, but untagged={method.untagged.name} leaves no "
                "choice — set untagged=anything, or stage=none"
            )
        return
    if method.sampling or method.balance or weighs:
        return
    if not any(sentence.complete or sentence.non_entities for sentence in corpus):
        raise ConfigError(
            f"{method.name} cannot learn what is no entity: no sentence is complete, and no span rejected — "
            "give complete sentences (--trusted), or draw non-entities (--set sampling=spans --set sampling.label=O)"
        )


def _choose_split(settings: RunSettings, corpus: Corpus) -> Splitting:
    if settings.split != "auto":
        return settings.split
    words = [token for sentence in corpus for token in sentence.tokens]
    if not are_characters(words) or len(words) == len(corpus):
        return "words"
    logger.info("The training data is split into characters; raw text will be, too (--set split=words changes that).")
    return "characters"
