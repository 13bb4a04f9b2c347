"""Training on data larger than memory: written to disk once, then read batch by batch."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from lacuner.corpus import Corpus, Sentence
from lacuner.corpus.sources import UNNAMED, named_sources
from lacuner.corpus.stored import StoredSentences, store_sentences
from lacuner.encoders.processes import Processes
from lacuner.errors import ConfigError
from lacuner.methods.method import Method
from lacuner.methods.parts import MethodPart
from lacuner.methods.stages import Stage
from lacuner.storage import scratch_folder

_IN_MEMORY = "which needs all of it in memory — leave out --streaming"


@contextmanager
def stored_corpus(sentences: Callable[[], Iterable[Sentence]], beside: Path, processes: Processes) -> Iterator[Corpus]:
    """Yield sentences as a temporary corpus on disk, deleted on exit.

    Args:
        sentences: called in the main process only.
        beside: path next to which the corpus is written.
        processes: all processes that use the corpus; the path must be visible to all of them.
    """
    with scratch_folder(beside) if processes.is_main else nullcontext() as folder:
        if folder is not None:
            store_sentences(sentences(), folder)
        written = processes.merge({} if folder is None else {0: str(folder)})
        yield Corpus(StoredSentences(Path(written[0])))
        processes.wait()  # until no process needs it


def of_one_source(sentences: Iterable[Sentence], name: str = UNNAMED) -> Iterator[Sentence]:
    """Pass sentences through, but reject several named sources: estimating their reliability requires all of the data.

    Args:
        sentences: such as those of one file.
        name: the source of entities without one.
    """
    known: dict[str, None] = {}
    for sentence in sentences:
        known |= named_sources([sentence], name)
        if len(known) > 1:
            raise ConfigError(
                f"--streaming: the training data names several sources ({', '.join(known)}), {_IN_MEMORY}, or merge them "
                "first (lacuner merge)"
            )
        yield sentence


def refuse_rescoring(method: Method) -> None:
    """Reject methods that need a pass over all training data during training."""
    for kind, part in method.parts():
        if type(part).rescores_at is not MethodPart.rescores_at:
            raise ConfigError(
                f"--streaming: {kind}={part.name} looks at all training data while it trains, {_IN_MEMORY}, or choose "
                "another method"
            )


def refuse_other_models(corpus: Corpus, stage: Stage, title: str) -> None:
    """Refuse to train a stage's models on a corpus on disk, unless the stage supports it."""
    if corpus.is_lazy and not stage.streams:
        raise ConfigError(
            f"--streaming: the method trains other models first ({title}) and asks them about the training data, "
            f"{_IN_MEMORY}, or the stage (--set teacher=none, --set stage=none)"
        )
