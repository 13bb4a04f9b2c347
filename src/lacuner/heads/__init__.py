"""Heads: word vectors → scores of spans or tags, and decoding.

To add a head, add a module to this folder that lists its settings in ``PARTS``; a third-party package names such a module in
the entry-point group ``lacuner.heads``.
"""

from collections.abc import Mapping

from lacuner.heads.biaffine import BiaffineConfig
from lacuner.heads.crf import CrfConfig
from lacuner.heads.product import ProductConfig
from lacuner.heads.scores import SpanHead, SpanHeadConfig, SpanScores
from lacuner.heads.softmax import SoftmaxConfig
from lacuner.heads.tagging import TagHead, TagHeadConfig
from lacuner.heads.width import WidthConfig
from lacuner.registry import Registry

REGISTRY = Registry("lacuner.heads", {"span head": SpanHeadConfig, "tag head": TagHeadConfig})
SPAN_HEADS: Mapping[str, type[SpanHeadConfig]] = REGISTRY.entries("span head")
TAG_HEADS: Mapping[str, type[TagHeadConfig]] = REGISTRY.entries("tag head")

__all__ = [
    "SPAN_HEADS",
    "TAG_HEADS",
    "BiaffineConfig",
    "CrfConfig",
    "ProductConfig",
    "SoftmaxConfig",
    "SpanHead",
    "SpanHeadConfig",
    "SpanScores",
    "TagHead",
    "TagHeadConfig",
    "WidthConfig",
]
