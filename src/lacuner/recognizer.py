"""The recogniser: train, predict, evaluate, save, load."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast, overload

import torch
from accelerate import PartialState

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.tokenize import CHARACTER_SPLITTINGS, Splitting, guess_splitting
from lacuner.encoders.device import default_device, find_device, has_bf16
from lacuner.errors import ConfigError, TrainingError
from lacuner.evaluation import Scores, score_entities
from lacuner.inference.passages import MAX_PASSAGE, TrainingPassages, cut_for_training, long_sentences
from lacuner.inference.predict import Text, predict_pairs, predict_texts
from lacuner.matching import Dictionary, Matcher
from lacuner.model_folder import ModelFolder, check_target, is_model_folder, read_model_folder, write_model_folder
from lacuner.models.model import Model
from lacuner.training.checkpoints import RunFolder
from lacuner.training.loop import Observer, fingerprint
from lacuner.training.run import TrainingRun
from lacuner.training.settings import RunSettings, resolve_settings

logger = logging.getLogger(__name__)

Names = Dictionary | Matcher
"""Names to find beside the model's entities."""
_HARDLY_A_SENTENCE = 2000
"""Words from which on a sentence is more likely a file without blank lines."""


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
        return self.model.device

    def to(self, device: str | torch.device | None) -> "Recognizer":
        """Move to another device; by default to a GPU, if there is one."""
        self.model.to(find_device(device))
        return self

    def __repr__(self) -> str:
        method, encoder = self.settings.method.name, self.settings.encoder.name
        return f"Recognizer(method={method!r}, encoder={encoder!r}, labels={', '.join(self.labels)})"

    @classmethod
    def train(
        cls,
        train: Corpus | Iterable[Sentence],
        dev: Corpus | Iterable[Sentence] | None = None,
        *,
        method: str | None = None,
        encoder: str | None = None,
        trusted: Corpus | Iterable[Sentence] | None = None,
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
            train: a corpus, or sentences; what is not annotated in them is unknown, unless they are ``complete``.
            dev: annotated sentences on which the best epoch is chosen. Without them the last epoch is kept.
            method: a preset (``lacuner methods`` lists them).
            encoder: ``recurrent``, ``flat``, ``bert-word``, ``lebert``, or the name or folder of a Hugging Face encoder.
            trusted: sentences that are annotated completely: what is not annotated in them is no entity.
            epochs: short for ``settings={"training.epochs": …}``.
            seed: short for ``settings={"training.seed": …}``.
            dev_incomplete: the dev sentences have gaps, too; short for ``settings={"training.metric": "pu"}``.
            settings: dotted keys and values as with ``--set``; or everything, as :func:`resolve_settings` returns it.
            out: the model folder to write. A checkpoint of each epoch is kept beside it until training has ended.
            resume: continue from that checkpoint, if there is one.
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
                "training.metric": "pu" if dev_incomplete else None,
            }
            overrides |= {key: value for key, value in given.items() if value is not None}
            settings = resolve_settings(method, encoder, overrides)
        dev = None if dev is None else _as_corpus(dev, "dev")
        trusted = None if trusted is None else _as_corpus(trusted, "trusted")
        corpus = _together(_as_corpus(train, "train"), trusted)
        settings = settings.for_data(corpus, dev)
        prepared = _prepare(corpus, dev, settings)
        key = fingerprint(settings.model_dump_json(), [prepared.corpus, dev], settings.encoder.files)
        with ExitStack() as stack:
            folder = None
            if out is not None:
                check_target(Path(out))
                folder = RunFolder(Path(f"{out}.training"), key)
                # Of several processes that train together, one holds the folder for all.
                is_main = PartialState(cpu=default_device().type == "cpu").is_main_process
                if is_main:
                    stack.enter_context(folder.claimed())
                if resume and not folder.has_progress() and is_model_folder(Path(out)):
                    if is_main:
                        folder.remove()
                    return cls._finished(out, key)
                if is_main and not resume:
                    if folder.has_progress():
                        logger.warning("An unfinished run in %s is discarded (--resume continues it).", folder.folder)
                    folder.clear()
            began = time.perf_counter()
            with torch.random.fork_rng():  # the caller's randomness stays what it was
                run = TrainingRun(prepared.corpus, dev, settings, folder, resume, observer or Observer())
                model, result = run.train()
            recognizer = cls(model, settings, _choose_split(settings, prepared.corpus), TrainingRecord(fingerprint=key))
            best = result.history[result.best_epoch - 1].get("dev")
            if dev is not None and (model.state or model.threshold):
                best = recognizer.evaluate(dev, nested=settings.training.nested).as_dict()
            recognizer.record = TrainingRecord(
                best_epoch=result.best_epoch,
                seconds=round(time.perf_counter() - began, 2),
                history=result.history,
                data={
                    "sentences": len({sentence for sentence, _ in prepared.origin}),
                    "entities": sum(len(sentence.entities) for sentence in prepared.corpus),
                },
                dev=best,
                fingerprint=key,
                reports=_as_given(run.reports, prepared, 0 if trusted is None else len(trusted)),
            )
            if folder is not None and out is not None and PartialState().is_main_process:
                recognizer.save_pretrained(out)
                folder.remove()
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
        self, text: str | Sentence, *, nested: bool = ..., min_score: float = ..., dictionary: Names | None = ...
    ) -> list[Entity]: ...
    @overload
    def predict(
        self,
        text: Sequence[str],
        *,
        tokens: Literal[True],
        nested: bool = ...,
        min_score: float = ...,
        dictionary: Names | None = ...,
    ) -> list[Entity]: ...
    @overload
    def predict(
        self, text: Sequence[Text], *, nested: bool = ..., min_score: float = ..., dictionary: Names | None = ...
    ) -> list[list[Entity]]: ...
    @overload
    def predict(
        self, text: Iterator[Text], *, nested: bool = ..., min_score: float = ..., dictionary: Names | None = ...
    ) -> Iterator[list[Entity]]: ...

    def predict(
        self,
        text: Text | Iterable[Text],
        *,
        tokens: bool = False,
        nested: bool = False,
        min_score: float = 0.0,
        dictionary: Names | None = None,
    ) -> Any:
        """Find entities.

        One text gives a list of entities, a list of texts a list of such lists, an iterator or generator of texts an
        iterator that works in constant memory. A text is a string, or words: a :class:`Sentence` or a list of words
        inside a list of texts; with ``tokens=True`` the argument itself is one list of words.

        Offsets count characters where raw text was given, words where words were.

        With a ``dictionary``, its names are entities, too (:func:`~lacuner.inference.combination.combine`);
        ``min_score`` does not concern them. A :class:`~lacuner.matching.Matcher` is built once, a
        :class:`~lacuner.matching.Dictionary` is made into one in each call.
        """
        names = self._matcher(dictionary)
        if tokens:
            return next(self._predict_all([list(cast(Sequence[str], text))], nested, min_score, names))
        if isinstance(text, str | Sentence):
            return next(self._predict_all([text], nested, min_score, names))
        found = self._predict_all(text, nested, min_score, names)
        return list(found) if isinstance(text, Sequence) else found

    def evaluate(
        self,
        corpus: Iterable[Sentence],
        nested: bool = False,
        dictionary: Names | None = None,
    ) -> Scores:
        """Exact-match precision, recall and F1 on annotated sentences, of the model or of model and dictionary together.

        ``nested`` keeps entities that overlap better ones.
        """
        return score_entities(self.predict_pairs(corpus, nested, dictionary=dictionary))

    def predict_pairs(
        self,
        corpus: Iterable[Sentence],
        nested: bool = False,
        min_score: float = 0.0,
        dictionary: Names | None = None,
    ) -> Iterator[tuple[Sentence, list[Entity]]]:
        """Each sentence with what is found in it, in words; streamed."""
        return predict_pairs(self.model, corpus, nested, min_score, dictionary=self._matcher(dictionary))

    def _predict_all(
        self, texts: Iterable[Text], nested: bool, min_score: float, dictionary: Matcher | None
    ) -> Iterator[list[Entity]]:
        return predict_texts(self.model, texts, self.split, nested, min_score, dictionary=dictionary)

    def _matcher(self, dictionary: Names | None) -> Matcher | None:
        """Finds the names in text that is cut as the training data was."""
        if isinstance(dictionary, Dictionary):
            return Matcher(dictionary, characters=self.split in CHARACTER_SPLITTINGS)
        return dictionary

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
        return recognizer.to(device)


def check_training(train: Corpus, dev: Corpus | None, settings: RunSettings, trusted: Corpus | None = None) -> None:
    """Refuse what :meth:`Recognizer.train` would refuse, without training."""
    _check(_with_words(_together(train, trusted)), dev, settings)


def _as_corpus(sentences: Corpus | Iterable[Sentence], name: str) -> Corpus:
    if isinstance(sentences, Corpus):
        return sentences
    if isinstance(sentences, str | Path):
        raise TypeError(f"{name} is a file name, not a corpus; give Corpus.read({str(sentences)!r})")
    corpus = Corpus(tuple(sentences))
    for sentence in corpus:
        if not isinstance(sentence, Sentence):
            raise TypeError(f"{name} is a corpus, or a list of sentences, but it holds {repr(sentence)[:60]}")
    return corpus


def _together(train: Corpus, trusted: Corpus | None) -> Corpus:
    return train if trusted is None else trusted.as_complete() + train


def _with_words(corpus: Corpus) -> Corpus:
    return Corpus(tuple(sentence for sentence in corpus if sentence.tokens), corpus.report)


def _check(corpus: Corpus, dev: Corpus | None, settings: RunSettings) -> None:
    """Refuse data and settings that make no sense together."""
    if not corpus:
        raise TrainingError("there is no sentence to train on — give a corpus that is not empty")
    if not any(sentence.entities for sentence in corpus):
        raise TrainingError("no entity is annotated in the training data — annotate some, or check the tag column")
    complete = sum(sentence.complete for sentence in corpus)
    if settings.training.metric == "pu" and dev is None:
        raise ConfigError(
            "training.metric=pu (--dev-incomplete) chooses on dev data, but there is none — give --dev, too"
        )
    if settings.trusted.fraction is not None and complete in (0, len(corpus)):
        which = "no sentence is" if not complete else "all sentences are"
        raise ConfigError(
            f"trusted.fraction={settings.trusted.fraction:g} weighs complete sentences against others, but {which} "
            "complete — give both kinds (--trusted), or leave it out"
        )
    settings.method.check(settings.training_data(corpus, dev))


def _prepare(given: Corpus, dev: Corpus | None, settings: RunSettings) -> TrainingPassages:
    """What can be learned from; says what cannot."""
    _check(_with_words(given), dev, settings)
    prepared = cut_for_training(given)
    empty = sum(not sentence.tokens for sentence in given)
    if empty:
        logger.warning("%d sentences without words are left out.", empty)
    for what, corpus in (("", given), (" of the dev data", dev)):
        _say_what_is_long(what, long_sentences(corpus or ()))
    if prepared.lost:
        logger.warning("%d spans are longer than a passage of %d words and are left out.", prepared.lost, MAX_PASSAGE)
    unlearnable = settings.method.unlearnable(prepared.corpus)
    if unlearnable is not None:
        logger.warning(unlearnable)
    if settings.training.precision == "bf16" and not has_bf16(default_device()):
        logger.warning(
            "training.precision=bf16: this processor is not known to have bfloat16 instructions; "
            "emulated ones are several times slower than fp32."
        )
    if dev is not None and not any(sentence.entities for sentence in dev):
        logger.warning(
            "No entity is annotated in the dev data, so it cannot tell which epoch is best; the last is kept."
        )
    for label in sorted(set(dev.labels if dev is not None else ()) - set(prepared.corpus.labels)):
        logger.warning("The label %s is in the dev data only; none of its entities can be found.", label)
    return prepared


def _say_what_is_long(what: str, long: Sequence[int]) -> None:
    """Say how many sentences are cut, given their words, and how many are so long that they can hardly be sentences."""
    if long:
        logger.info(
            "%d sentences%s are longer than %d words and are read in passages; the longest has %s.",
            len(long),
            what,
            MAX_PASSAGE,
            f"{max(long):,}",
        )
    endless = [length for length in long if length >= _HARDLY_A_SENTENCE]
    if endless:
        logger.warning(
            "%d sentences%s have %s words or more. They are cut into passages of at most %d words; if the file lacks blank "
            "lines between its sentences, put them in.",
            len(endless),
            what,
            f"{_HARDLY_A_SENTENCE:,}",
            MAX_PASSAGE,
        )


def _as_given(
    reports: Mapping[str, Sequence[dict[str, Any]]], prepared: TrainingPassages, trusted: int
) -> dict[str, tuple[dict[str, Any], ...]]:
    """Reports that count sentences and words as the data does that was given; trusted sentences are counted apart."""

    def located(record: dict[str, Any]) -> dict[str, Any]:
        sentence, first = prepared.origin[record["sentence"]]
        moved = record | ({"token": record["token"] + first} if "token" in record else {})
        if sentence < trusted:
            return moved | {"sentence": sentence, "trusted": True}
        return moved | {"sentence": sentence - trusted}

    return {name: tuple(map(located, records)) for name, records in reports.items()}


def _choose_split(settings: RunSettings, corpus: Corpus) -> Splitting:
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
