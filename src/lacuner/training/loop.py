"""The training loop."""

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from lacuner.corpus import Corpus, Sentence
from lacuner.encoders.device import default_device
from lacuner.encoders.processes import Processes
from lacuner.errors import TrainingError
from lacuner.evaluation import Scores
from lacuner.features.batches import plan_batches
from lacuner.methods.method import Method
from lacuner.methods.parts import Step
from lacuner.models.model import Model
from lacuner.supervision.spans import Spans
from lacuner.training.checkpoints import CheckpointFolder, Progress, WeightAverage, put_weights, trained_weights
from lacuner.training.epochs import EpochSampler
from lacuner.training.settings import TrainingConfig

logger = logging.getLogger(__name__)

METRICS: dict[str, Callable[[Scores], float]] = {
    "f1": lambda scores: scores.f1,
    "pu": lambda scores: scores.pu_estimate,
}
"""Metrics for selecting an epoch or a threshold on dev data."""


class Observer:
    """Callbacks of training, such as for progress display. The base class does nothing."""

    def stage_started(self, title: str) -> None:
        """Training of a model begins: one of several if the method has stages."""

    def epoch_started(self, epoch: int, epochs: int, words: int) -> None:
        """``epoch`` counts from 1; ``words`` is the number of words in it."""

    def negatives_drawn(self, sentences: Sequence[int], spans: Spans) -> None:
        """These unknown spans were sampled as negatives; ``sentences`` are the batch's corpus indices, row by row."""

    def batch_done(self, words: int) -> None:
        """A training step on a batch of this many words is done."""

    def epoch_ended(self, record: dict[str, Any]) -> None:
        """``record`` is the epoch's line in ``metrics.jsonl``."""


@dataclass(frozen=True)
class TrainingResult:
    """Outcome of training. The model has the weights of its best epoch."""

    best_epoch: int
    history: tuple[dict[str, Any], ...]
    best_quality: float = -1.0
    """``training.metric`` of the best epoch."""


class _Objective(nn.Module):
    """The training loss as a module that Accelerate can prepare."""

    def __init__(self, model: Model, method: Method, processes: Processes) -> None:
        super().__init__()
        self.model, self.method, self.processes = model, method, processes

    def forward(self, inputs: Any, targets: Any, step: Step) -> Tensor:
        with self.processes.dividing(self.model.encoder, step.number):
            return self.method.training_loss(self.model, inputs, targets, step)


def fit(
    model: Model,
    method: Method,
    sampler: EpochSampler,
    config: TrainingConfig,
    evaluate: Callable[[], Scores] | None = None,
    checkpoints: CheckpointFolder | None = None,
    resume: bool = False,
    observer: Observer | None = None,
) -> TrainingResult:
    """Train ``model`` and leave it with its best weights.

    Args:
        model: newly initialized.
        method: defines the loss.
        sampler: the sentences of each epoch, with at least one word each.
        config: training settings.
        evaluate: scores the model on dev data after every epoch; without it, all epochs run and the last one is kept.
        checkpoints: where the state after each epoch is saved.
        resume: continue from the last checkpoint, if any.
        observer: receives progress.
    """
    assert config.epochs is not None, "TrainingConfig.for_corpus fills it in"
    assert config.precision != "auto", "TrainingConfig.for_encoder decides it"
    observer = observer or Observer()
    accelerator, device, processes = training_place()
    model.to(device)
    pretrained = list(model.encoder.pretrained.parameters())
    known = set(map(id, pretrained))
    optimizer = torch.optim.AdamW(
        [
            {"params": pretrained, "peak": config.encoder_learning_rate},
            {
                "params": [weight for weight in model.parameters() if id(weight) not in known],
                "peak": config.head_learning_rate,
            },
        ],
        betas=(0.9, config.beta2),
        weight_decay=config.weight_decay,
        fused=True,
    )
    sizes = [len(sentence) for sentence in sampler.corpus]
    method.begin_training(model, len(sampler.corpus), sizes)
    model.encoder.train_in(config.precision)
    learner = accelerator.prepare_model(_Objective(model, method, processes), evaluation_mode=True)
    optimizer = accelerator.prepare_optimizer(optimizer)
    progress, best = Progress(), trained_weights(model)
    average = None if config.ema_epochs is None else WeightAverage(model)
    if resume and checkpoints is not None:
        found = checkpoints.load(model, optimizer, average, processes.count)
        if found is not None:
            progress, best = found
            logger.info("Resuming after epoch %d.", progress.epochs_done)
    processes.agree(progress.epochs_done, "processes find different checkpoints — give an --out that all of them share")
    lengths = list(model.encoder.index.lengths(sentence.tokens for sentence in sampler.corpus))
    for epoch in range(progress.epochs_done, config.epochs):
        if _out_of_patience(progress, config):
            break
        began = time.perf_counter()
        chosen = sampler.indices(epoch)
        words = sum(sizes[index] for index in chosen)
        observer.epoch_started(epoch + 1, config.epochs, words)
        generator = _seed(config.seed, epoch)
        plan = plan_batches([lengths[index] for index in chosen], config.batch_tokens, (config.seed, epoch))
        batches = [[chosen[number] for number in batch] for batch in plan]
        learner.train()
        total = 0.0
        for number, indices in enumerate(batches):
            sentences = [sampler.sentence(index, epoch) for index in indices]
            done = (epoch + number / len(batches)) / config.epochs
            _set_rates(optimizer, done, config.warmup)
            inputs = model.encoder.index.collate([s.tokens for s in sentences]).to(device)
            targets = model.targets(sentences, sampler.supervision_of(indices)).to(device)
            step = Step(
                epoch,
                config.epochs,
                generator,
                indices,
                watch=partial(observer.negatives_drawn, indices),
                progress=done,
                batch=number,
                number=progress.steps_done + number,
            )
            if method.rescores_at(step):
                everything = range(len(sampler.corpus))
                taken = [sampler.sentence(index, epoch) for index in everything]
                with processes.dividing(model.encoder, step.number):
                    method.rescore(model, taken, sampler.supervision_of(everything), step)
            method.before_step(model, step)
            loss: Tensor = learner(inputs, targets, step)
            _check_finite(loss, indices, sentences)
            optimizer.zero_grad()
            accelerator.backward(loss)
            processes.average_gradients(learner.parameters())
            norm = accelerator.clip_grad_norm_(learner.parameters(), config.max_grad_norm)
            if accelerator.scaler is None:  # half precision may overflow; its scaler then skips the step
                _check_finite(norm, indices, sentences)
            optimizer.step()
            if average is not None and config.ema_epochs is not None:
                average.update(model, config.ema_epochs * len(batches))
            total += loss.item()
            observer.batch_done(sum(map(len, sentences)))
        seconds = time.perf_counter() - began
        record: dict[str, Any] = {"epoch": epoch + 1, "loss": total / len(batches), "seconds": round(seconds, 2)}
        record["words_per_second"] = round(words / seconds)
        unaveraged = trained_weights(model) if average is not None else None
        if average is not None:
            put_weights(model, average.weights)
        quality = 0.0
        if evaluate is not None:
            scores = evaluate()
            quality = METRICS[config.metric](scores)
            record["dev"] = scores.as_dict()
        progress.epochs_done = epoch + 1
        progress.steps_done += len(batches)
        progress.history.append(record)
        # While F1 is still 0, prefer the later epoch.
        if evaluate is None or quality > progress.best_quality or progress.best_quality == 0:
            progress.best_epoch = epoch + 1
            progress.best_quality = quality if evaluate is not None else progress.best_quality
            best = trained_weights(model)
        if unaveraged is not None:
            put_weights(model, unaveraged)
        if checkpoints is not None and processes.is_main:
            checkpoints.save(model, optimizer, progress, best, average, processes.count)
        observer.epoch_ended(record)
    put_weights(model, best)
    model.eval()
    return TrainingResult(progress.best_epoch, tuple(progress.history), progress.best_quality)


def training_place() -> tuple[Accelerator, torch.device, Processes]:
    """Return the accelerator, the device, and this process's index.

    Accelerate fixes the device once per process, but a later run in the same process may use another one. So a process that
    trains alone places tensors itself, and only processes that train together leave it to Accelerate.
    """
    processes = Processes.join(default_device())
    accelerator = Accelerator(device_placement=False)
    return accelerator, default_device() if processes.count == 1 else accelerator.device, processes


def fingerprint(settings: str, corpora: Sequence[Corpus | None], files: Sequence[Path] = ()) -> str:
    """Hash of a run's settings and all its data, to tell runs apart.

    Args:
        settings: as JSON.
        corpora: training and dev data.
        files: other files whose content matters; unreadable ones are skipped, and reported where they are used.
    """
    digest = hashlib.sha256(settings.encode())
    for path in filter(Path.is_file, files):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    for corpus in corpora:
        digest.update(b"\0corpus\0")
        for sentence in corpus or ():
            described = (
                sentence.tokens,
                sentence.entities,
                sentence.non_entities,
                sentence.complete,
                sorted(sentence.annotated_labels or ()),
                sentence.annotated_labels is None,
                sorted(sentence.unknown_tokens),
                *sentence.by_source,
            )
            digest.update(repr(described).encode())
    return digest.hexdigest()


def _out_of_patience(progress: Progress, config: TrainingConfig) -> bool:
    # A model that finds no entities yet has not converged.
    if not isinstance(config.patience, int) or progress.best_quality <= 0:
        return False
    return progress.epochs_done - progress.best_epoch >= config.patience


def _seed(seed: int, epoch: int) -> torch.Generator:
    """Seed all randomness of an epoch, so that repeating it after an interruption gives the same result in all processes."""
    dropout, drawing = np.random.SeedSequence([seed, epoch, 0]).generate_state(2)
    torch.manual_seed(int(dropout))
    return torch.Generator().manual_seed(int(drawing))


def _set_rates(optimizer: Any, done: float, warmup: float) -> None:
    """Linear warmup, then linear decay to zero; ``done`` is the fraction of training completed."""
    factor = done / warmup if done < warmup else (1 - done) / (1 - warmup)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * max(factor, 1e-3)


def _check_finite(value: Tensor, indices: Sequence[int], sentences: Sequence[Sentence]) -> None:
    if torch.isfinite(value):
        return
    shown = "; ".join(f"{i}: {' '.join(s.tokens[:6])} …" for i, s in list(zip(indices, sentences, strict=True))[:5])
    more = f" and {len(indices) - 5} more" if len(indices) > 5 else ""
    raise TrainingError(
        f"the loss or its gradient is {value.item()} in the batch with sentences {shown}{more} (counted from 0) — "
        "lower the learning rates (--set training.encoder_learning_rate=…) or look at these sentences"
    )
