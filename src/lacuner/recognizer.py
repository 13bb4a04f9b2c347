"""The recognizer: train, predict, evaluate, save, load."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, overload

import torch

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.as_corpus import Data, LabelSets, as_corpus, several_texts
from lacuner.corpus.as_corpus import same_text as merge_same_text
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.sources import UNNAMED
from lacuner.corpus.tokenize import CHARACTER_SPLITTINGS, Splitting
from lacuner.encoders.device import find_device, on_device
from lacuner.encoders.processes import Processes
from lacuner.errors import ConfigError, DataError, ModelError, TrainingError
from lacuner.evaluation import Scores, score_entities
from lacuner.evaluation.export import MAX_LOSS, ExportReport, compare_models
from lacuner.hub import find_model_folder, push_to_hub
from lacuner.inference.backends import BackendName, convert
from lacuner.inference.predict import predict_pairs, predict_texts
from lacuner.inference.prediction import Prediction, Predictions, Text
from lacuner.matching import Dictionary, Matcher
from lacuner.model_folder import ModelFolder, check_target, is_model_folder, read_model_folder, write_model_folder
from lacuner.models.model import Model
from lacuner.training.checkpoints import RunFolder
from lacuner.training.loop import Observer, fingerprint
from lacuner.training.prepare import choose_split, locate_reports, prepare_passages, with_trusted
from lacuner.training.progress import shown_progress
from lacuner.training.run import TrainingRun
from lacuner.training.settings import RunSettings, resolve_settings
from lacuner.training.streaming import of_one_source, refuse_rescoring, stored_corpus

logger = logging.getLogger(__name__)

Names = Dictionary | Matcher
"""Names to find in addition to the model's entities."""
Device = str | torch.device | None
"""``cpu``, ``cuda``, ``cuda:1``, ``mps``, …; by default a GPU if available."""


@dataclass(frozen=True)
class TrainingRecord:
    """Record of a model's training."""

    best_epoch: int = 0
    seconds: float = 0.0
    history: tuple[dict[str, Any], ...] = ()
    data: dict[str, int] = field(default_factory=dict)
    dev: dict[str, Any] | None = None
    fingerprint: str = ""
    reports: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    """Reports of the stages of training, each stored as a JSON Lines file in the model folder."""
    kept: str = "model"
    """Which of the models trained was kept: the final ``model``, or one of a stage or a round that is better on dev data."""


class Recognizer:
    """Finds named entities. Created by :meth:`train` or :meth:`from_pretrained`.

    Attributes:
        labels: the labels that it predicts.
        settings: everything that it was trained with.
        split: how it splits raw text into words.
        record: how its training went.
        backend: what computes word vectors: ``torch``, or the backend that the model was exported to.
    """

    def __init__(
        self,
        model: Model,
        settings: RunSettings,
        split: Splitting,
        record: TrainingRecord,
        backend: BackendName = "torch",
    ) -> None:
        self.model = model.eval()
        self.backend: BackendName = backend
        self.settings = settings
        self.split: Splitting = split
        self.record = record

    @property
    def labels(self) -> tuple[str, ...]:
        return self.model.labels[1:]

    @property
    def device(self) -> torch.device:
        return self.model.device

    def to(self, device: Device) -> "Recognizer":
        """Move to another device; by default to a GPU, if available."""
        self.model.to(find_device(device))
        return self

    def __repr__(self) -> str:
        method, encoder = self.settings.method.name, self.settings.encoder.name
        return f"Recognizer(method={method!r}, encoder={encoder!r}, labels={', '.join(self.labels)})"

    @classmethod
    def train(
        cls,
        train: Data | LabelSets,
        dev: Data | None = None,
        *,
        same_text: bool = False,
        trust: Mapping[str, float] | None = None,
        method: str | None = None,
        encoder: str | None = None,
        trusted: Data | None = None,
        epochs: int | None = None,
        seed: int | None = None,
        dev_incomplete: bool = False,
        settings: Mapping[str, Any] | RunSettings | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        streaming: bool = False,
        workers: int = 1,
        device: Device = None,
        progress: bool | None = None,
        observer: Observer | None = None,
    ) -> "Recognizer":
        """Train a recognizer on incompletely annotated data.

        Args:
            train: a corpus, sentences, or the path of a file; unannotated text is unknown, unless a sentence is ``complete``.
                With ``same_text``, several of them.
            same_text: ``train`` is a list of several annotations of the same text, or a mapping from source names to these,
                as in ``{"dict": …, "llm": …}``. They are merged, and ``by_source`` keeps the annotation of each source.
            trust: votes of each source where sources contradict each other; 1 by default.
            dev: annotated sentences, on which the best epoch is selected. Without them, the last epoch is kept.
            method: a preset (``lacuner methods`` lists them).
            encoder: ``recurrent``, ``flat``, ``bert-word``, ``lebert``, or the name or folder of a Hugging Face encoder.
            trusted: completely annotated sentences: unannotated text in them is no entity.
            epochs: short for ``settings={"training.epochs": …}``.
            seed: short for ``settings={"training.seed": …}``.
            dev_incomplete: the dev sentences are incomplete, too; short for ``settings={"training.metric": "pu"}``.
            settings: dotted keys and values as with ``--set``; or everything, as returned by :func:`resolve_settings`.
            out: the model folder to write. A checkpoint of each epoch is kept next to it until training has finished.
            resume: continue from that checkpoint, if any.
            streaming: do not hold the training data in memory: it is read once, written next to ``out``, and read from there
                batch by batch. ``train`` may be a generator of sentences.
            workers: number of a stage's models (teachers, voters, an ensemble) that are trained in parallel, each in a
                process.
            device: where to train, such as ``cpu`` or ``cuda:1``; by default a GPU if available.
            progress: display progress. By default only in a terminal or notebook; ``True`` also writes plain lines elsewhere,
                ``False`` is silent.
            observer: receives progress instead.
        """
        with ExitStack() as stack:
            chosen = stack.enter_context(on_device(device))
            settings = _resolve(settings, method, encoder, epochs, seed, dev_incomplete)
            split: Splitting = "words" if settings.split == "auto" else settings.split
            dev = None if dev is None else as_corpus(dev, "dev", split)
            trusted = None if trusted is None else as_corpus(trusted, "trusted", split)
            processes = Processes.join(chosen)
            stack.enter_context(processes.reporting_loss())
            if workers > 1 and processes.count > 1:
                raise ConfigError("--workers and --processes share the same cores — give only one of them")
            if streaming:
                _check_streaming(settings, out, same_text)
                sentences = partial(_stream_training_data, train, trusted, trust, split)
                stored = stored_corpus(sentences, Path(f"{out}.sentences"), processes)
                corpus = stack.enter_context(stored)
            else:
                corpus = with_trusted(_training_data(train, same_text, trust, split), trusted)
            settings = settings.for_data(corpus, dev)
            prepared = prepare_passages(corpus, dev, settings)
            key = fingerprint(settings.model_dump_json(), [prepared.corpus, dev], settings.encoder.files)
            # Of several processes that train together, one locks the folder for all, and shows progress.
            processes.agree(key, "processes read different data or settings — give all of them the same files")
            is_main, folder = processes.is_main, None
            if out is not None:
                check_target(Path(out))
                folder = RunFolder(Path(f"{out}.training"), key)
                if is_main:
                    stack.enter_context(folder.claimed())
                if resume and not folder.has_progress() and is_model_folder(Path(out)):
                    if is_main:
                        folder.remove()
                    return cls._finished(out, key)
                if is_main and not resume:
                    folder.begin_again()
                processes.wait()
            began = time.perf_counter()
            if observer is None:
                observer = stack.enter_context(shown_progress(progress if is_main else False, settings.training.metric))
            with torch.random.fork_rng(
                [chosen] if chosen.type == "cuda" else []
            ):  # the caller's random state is restored
                run = TrainingRun(prepared.corpus, dev, settings, folder, resume, observer, workers)
                model, result, trained_with, kept = run.train()
            settings = settings.with_method(trained_with)
            recognizer = cls(model, settings, choose_split(settings, prepared.corpus), TrainingRecord(fingerprint=key))
            best = result.history[result.best_epoch - 1].get("dev")
            if dev is not None and (model.state or model.threshold):
                best = recognizer.evaluate(dev, nested=settings.training.nested).as_dict()
            recognizer.record = TrainingRecord(
                best_epoch=result.best_epoch,
                seconds=round(time.perf_counter() - began, 2),
                history=result.history,
                data={
                    "sentences": prepared.sentences,
                    "entities": sum(len(sentence.entities) for sentence in prepared.corpus),
                },
                dev=best,
                fingerprint=key,
                reports=locate_reports(run.reports, prepared, 0 if trusted is None else len(trusted)),
                kept=kept,
            )
            if folder is not None and out is not None and is_main:
                recognizer.save_pretrained(out)
                folder.remove()
            return recognizer

    @classmethod
    def _finished(cls, out: str | Path, key: str) -> "Recognizer":
        """Load the model of a resumed run that has already finished."""
        recognizer = cls.from_pretrained(out)
        if recognizer.record.fingerprint != key:
            raise TrainingError(
                f"{out} holds a model that was trained with other data or settings — "
                "train without --resume to replace it, or choose another folder"
            )
        logger.info("%s is already finished; there is nothing to resume.", out)
        return recognizer

    @overload  # a string is also a sequence of strings
    def predict(  # type: ignore[overload-overlap]
        self,
        text: str | Sentence,
        *,
        nested: bool = ...,
        min_score: float = ...,
        dictionary: Names | None = ...,
        device: Device = ...,
    ) -> Prediction: ...
    @overload
    def predict(
        self,
        text: Sequence[str],
        *,
        tokens: Literal[True],
        nested: bool = ...,
        min_score: float = ...,
        dictionary: Names | None = ...,
        device: Device = ...,
    ) -> Prediction: ...
    @overload
    def predict(
        self,
        text: Sequence[Text],
        *,
        nested: bool = ...,
        min_score: float = ...,
        dictionary: Names | None = ...,
        device: Device = ...,
    ) -> Predictions: ...
    @overload
    def predict(
        self,
        text: Iterator[Text],
        *,
        nested: bool = ...,
        min_score: float = ...,
        dictionary: Names | None = ...,
        device: Device = ...,
    ) -> Iterator[Prediction]: ...

    def predict(
        self,
        text: Text | Iterable[Text],
        *,
        tokens: bool = False,
        nested: bool = False,
        min_score: float = 0.0,
        dictionary: Names | None = None,
        device: Device = None,
    ) -> Any:
        """Find entities.

        One text gives a list of entities, a list of texts a list of such lists, an iterator or generator of texts an iterator
        that works in constant memory. A text is a string, or words: a :class:`Sentence`, or a list of words inside a list of
        texts; with ``tokens=True`` the argument itself is one list of words.

        Offsets are in characters for raw text, in words for tokenized text. Notebooks display the lists as texts with their
        entities; ``to_pandas`` converts them to a data frame.

        With a ``dictionary``, its names are entities, too (:func:`~lacuner.inference.combination.combine`), regardless of
        ``min_score``. A :class:`~lacuner.matching.Matcher` is reused, a :class:`~lacuner.matching.Dictionary` is compiled in
        each call.

        A ``device`` moves the model there first, where it stays; by default it runs where it is.
        """
        if device is not None:
            self.to(device)
        if not 0 <= min_score <= 1:
            raise ValueError(f"min_score is a probability between 0 and 1; {min_score} is not")
        names = self._matcher(dictionary)
        if tokens:
            return next(self._predict_all([list(cast(Sequence[str], text))], nested, min_score, names))
        if isinstance(text, str | Sentence):
            return next(self._predict_all([text], nested, min_score, names))
        if not isinstance(text, Iterable) or isinstance(text, bytes | Mapping):
            raise TypeError(f"text is a string, a Sentence, or several of these, but not {repr(text)[:60]}")
        found = self._predict_all(text, nested, min_score, names)
        return Predictions(found) if isinstance(text, Sequence) else found

    def evaluate(
        self,
        data: Data,
        nested: bool = False,
        dictionary: Names | None = None,
    ) -> Scores:
        """Exact-match precision, recall and F1 on annotated sentences, of the model, combined with a dictionary if given.

        ``data`` is what :meth:`train` accepts, or an iterator of sentences, which is streamed. ``nested`` keeps entities that
        overlap better ones.
        """
        sentences = data if isinstance(data, Iterator) else as_corpus(data, "data", self.split)
        return score_entities(self.predict_pairs(sentences, nested, dictionary=dictionary))

    def predict_pairs(
        self,
        corpus: Iterable[Sentence],
        nested: bool = False,
        min_score: float = 0.0,
        dictionary: Names | None = None,
    ) -> Iterator[tuple[Sentence, list[Entity]]]:
        """Yield each sentence with its predicted entities, in word offsets; streaming."""
        return predict_pairs(self.model, corpus, nested, min_score, dictionary=self._matcher(dictionary))

    def _predict_all(
        self, texts: Iterable[Text], nested: bool, min_score: float, dictionary: Matcher | None
    ) -> Iterator[Prediction]:
        return predict_texts(self.model, texts, self.split, nested, min_score, dictionary=dictionary)

    def _matcher(self, dictionary: Names | None) -> Matcher | None:
        """A matcher that tokenizes names as the training data was tokenized."""
        if isinstance(dictionary, Dictionary):
            return Matcher(dictionary, characters=self.split in CHARACTER_SPLITTINGS)
        if dictionary is not None and not isinstance(dictionary, Matcher):
            raise TypeError(
                "dictionary is a Dictionary, such as Dictionary.read('names.tsv'), or a Matcher, but not "
                f"{repr(dictionary)[:60]}"
            )
        return dictionary

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model folder atomically; an existing model is replaced."""
        write_model_folder(Path(folder), self._content())

    def export(
        self,
        folder: str | Path,
        check: Data,
        backend: BackendName = "onnx-int8",
        *,
        allow_loss: float = MAX_LOSS,
        nested: bool = False,
    ) -> ExportReport:
        """Write a model folder whose encoder runs in another backend, unless F1 on annotated sentences drops too far.

        Args:
            folder: to write; it can be loaded like any other model folder.
            check: annotated sentences, such as the dev data: a corpus, sentences, or the path of a file.
            backend: ``onnx`` or ``onnx-int8``; both for Hugging Face encoders only.
            allow_loss: points of F1 that may be lost.
            nested: keep entities that overlap better ones when F1 is measured.
        """
        check_target(Path(folder))
        corpus = as_corpus(check, "check", self.split)
        if not any(sentence.entities for sentence in corpus):
            raise DataError("there are no entities to check the export by", "give annotated sentences")
        other = Recognizer(convert(self.model, backend), self.settings, self.split, self.record, backend)
        report = compare_models(self.model, other.model, corpus, backend, nested)
        if report.loss > allow_loss:
            raise ModelError(
                f"{report} — nothing is written, because F1 falls by {report.loss:.2f} points, and {allow_loss:g} are "
                "allowed; allow more (--allow-loss), or use another backend"
            )
        other.save_pretrained(folder)
        return report

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the model to the Hugging Face hub as ``user/model``, and return the URL of the commit.

        Options are those of :func:`lacuner.hub.push_to_hub`: ``private``, ``token``, ``revision``, ``message``, and for the
        model card ``language`` and ``license``.
        """
        return push_to_hub(self._content(), name, **options)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        device: Device = None,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
    ) -> "Recognizer":
        """Load a model from its folder, or from the Hugging Face hub. Nothing in it is executed.

        Args:
            folder: the folder; or, if there is none of that name, a model on the hub: ``user/model``.
            device: where the model runs; by default a GPU if available.
            revision: a branch, tag or commit on the hub.
            token: for private models on the hub; by default the one stored by ``hf auth login``.
        """
        loaded = read_model_folder(find_model_folder(folder, revision, token))
        known = {item.name for item in fields(TrainingRecord)}
        record = TrainingRecord(**{name: value for name, value in loaded.record.items() if name in known})
        recognizer = cls(loaded.model, loaded.settings, loaded.split, record, loaded.backend)
        return recognizer.to(device)

    def _content(self) -> ModelFolder:
        return ModelFolder(self.model, self.settings, self.split, dict(vars(self.record)), self.backend)


def _training_data(
    train: Data | LabelSets, same_text: bool, trust: Mapping[str, float] | None, split: Splitting
) -> Corpus:
    """Training data as one corpus, with named sources if there are several."""
    if same_text:
        return merge_same_text(cast(LabelSets, train), trust, "train", split)
    if trust:
        raise ConfigError("trust applies to several annotations of the same text — give these with same_text=True")
    return several_texts([(UNNAMED, as_corpus(cast(Data, train), "train", split))])


def _check_streaming(settings: RunSettings, out: str | Path | None, same_text: bool) -> None:
    if out is None:
        raise ConfigError("streaming writes the training data beside the model folder — give out, too")
    if same_text:
        raise ConfigError("--streaming reads one sentence at a time, and --same-text compares them — merge them first")
    refuse_rescoring(settings.method)


def _stream_training_data(
    train: Data | LabelSets, trusted: Corpus | None, trust: Mapping[str, float] | None, split: Splitting
) -> Iterator[Sentence]:
    """Yield the sentences of :func:`_training_data`, preceded by trusted ones."""
    if trust:
        raise ConfigError("trust applies to several annotations of the same text — give these with same_text=True")
    yield from () if trusted is None else trusted.as_complete()
    if isinstance(train, str | Path):
        report = ReadingReport()
        yield from of_one_source(stream_sentences(train, report=report, split=split))
        report.log()
    elif isinstance(train, Iterator):
        yield from of_one_source(train)
    else:
        yield from of_one_source(as_corpus(cast(Data, train), "train", split))


def _resolve(
    settings: Mapping[str, Any] | RunSettings | None,
    method: str | None,
    encoder: str | None,
    epochs: int | None,
    seed: int | None,
    dev_incomplete: bool,
) -> RunSettings:
    """Resolve settings from the arguments of :meth:`Recognizer.train`."""
    if isinstance(settings, RunSettings):
        if (method, encoder, epochs, seed) != (None,) * 4 or dev_incomplete:
            raise TypeError(
                "method, encoder, epochs, seed and dev_incomplete stand in the settings already; give one or the other"
            )
        return settings
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings is a dict such as {{'training.epochs': 3}}, but not {repr(settings)[:60]}")
    given = {
        "training.epochs": epochs,
        "training.seed": seed,
        "training.metric": "pu" if dev_incomplete else None,
    }
    overrides = dict(settings or {}) | {key: value for key, value in given.items() if value is not None}
    return resolve_settings(method, encoder, overrides)
