"""Sentences with three-valued annotation: reading, writing, masking, counting."""

from lacuner.corpus.corpus import Corpus
from lacuner.corpus.sentence import OUTSIDE, Entity, Sentence, Source, SourceAnnotation, Span

__all__ = ["OUTSIDE", "Corpus", "Entity", "Sentence", "Source", "SourceAnnotation", "Span"]
