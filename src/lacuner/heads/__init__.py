"""Word vectors → scores of the spans that are asked for, and decoding."""

from lacuner.heads.biaffine import BiaffineConfig
from lacuner.heads.product import ProductConfig
from lacuner.heads.scores import SpanHead, SpanScores
from lacuner.heads.width import WidthConfig

HeadConfig = ProductConfig | WidthConfig | BiaffineConfig
SPAN_HEADS: dict[str, type[HeadConfig]] = {"product": ProductConfig, "width": WidthConfig, "biaffine": BiaffineConfig}

__all__ = ["SPAN_HEADS", "BiaffineConfig", "HeadConfig", "ProductConfig", "SpanHead", "SpanScores", "WidthConfig"]
