"""Train named-entity recognizers from annotation with gaps."""

from typing import TYPE_CHECKING, Any

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.errors import ConfigError, DataError, LacunerError, ModelError, TrainingError
from lacuner.version import __version__

if TYPE_CHECKING:
    from lacuner.client import Client
    from lacuner.recognizer import Recognizer

__all__ = [
    "Client",
    "ConfigError",
    "Corpus",
    "DataError",
    "Entity",
    "LacunerError",
    "ModelError",
    "Recognizer",
    "Sentence",
    "Span",
    "TrainingError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch lazily, so that ``lacuner inspect`` and ``import lacuner`` stay fast."""
    if name == "Recognizer":
        from lacuner.recognizer import Recognizer

        return Recognizer
    if name == "Client":
        from lacuner.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
