"""A component of spaCy pipelines: ``nlp.add_pipe("lacuner", config={"model": FOLDER})``.

spaCy finds it through the entry point ``spacy_factories``, so that nothing has to be imported.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import filter_spans, minibatch

from lacuner.corpus import Entity
from lacuner.errors import ConfigError, ModelError

if TYPE_CHECKING:  # torch is loaded with the model, and not whenever spaCy looks for components
    from lacuner.recognizer import Recognizer

SCORE = "lacuner_score"
"""Custom attribute of spans: ``span._.lacuner_score`` is the probability of an entity, or ``None``."""
_MODEL_FOLDER = "model"
_DEFAULTS = {
    "model": None,
    "spans_key": None,
    "overwrite": False,
    "nested": False,
    "min_score": 0.0,
    "device": None,
}


class LacunerPipe(Pipe):  # type: ignore[misc]
    """Finds entities with a Lacuner model, in the words that spaCy has cut.

    The model is loaded when it is needed first, because a pipeline that was saved brings its own.

    Args:
        name: of the component.
        model: a model folder.
        spans_key: write entities to ``doc.spans[spans_key]`` instead of ``doc.ents``, with their scores in ``attrs``.
        overwrite: replace what is there. Otherwise, entities of other components stay, and ours that overlap them are left
            out; in a group of spans, ours are added.
        nested: keep entities that overlap better ones; needs ``spans_key``.
        min_score: leave out entities that are less probable.
        device: where the model runs; by default on a GPU if there is one.
    """

    def __init__(
        self,
        name: str = "lacuner",
        model: str | Path | None = None,
        spans_key: str | None = None,
        overwrite: bool = False,
        nested: bool = False,
        min_score: float = 0.0,
        device: str | None = None,
    ) -> None:
        if nested and spans_key is None:
            raise ConfigError("doc.ents cannot hold nested entities; give spans_key, too, such as 'sc'")
        self.name = name
        self.model = model
        self.spans_key = spans_key
        self.overwrite = overwrite
        self.nested = nested
        self.min_score = min_score
        self.device = device
        self.scorer = get_ner_prf if spans_key is None else None
        self._recognizer: Recognizer | None = None

    @property
    def recognizer(self) -> "Recognizer":
        """The model."""
        if self._recognizer is None:
            if self.model is None:
                what = 'the component has no model; give one: nlp.add_pipe("lacuner", config={"model": FOLDER})'
                raise ModelError(what)
            self._recognizer = self._load(self.model)
        return self._recognizer

    @property
    def labels(self) -> tuple[str, ...]:
        """What the model can find; nothing, as long as a pipeline that is being loaded has not brought its model."""
        if self._recognizer is None and (self.model is None or not Path(self.model).is_dir()):
            return ()
        return self.recognizer.labels

    def __call__(self, doc: Doc) -> Doc:
        """Find the entities of one document."""
        return next(iter(self.pipe([doc])), doc)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the entities of documents, so many at a time."""
        handle_error = self.get_error_handler()
        for docs in minibatch(stream, size=batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
            except Exception as error:  # what becomes of it is the pipeline's decision
                handle_error(self.name, self, docs, error)
            else:
                yield from docs

    def predict(self, docs: Sequence[Doc]) -> list[list[Span]]:
        """The entities of each document, with their scores, without setting them."""
        places = [[token.i for token in doc if not token.is_space] for doc in docs]
        words = [[doc[index].text for index in place] for doc, place in zip(docs, places, strict=True)]
        found = self.recognizer.predict(words, nested=self.nested, min_score=self.min_score)
        return [
            [_span(doc, place, entity) for entity in entities]
            for doc, place, entities in zip(docs, places, found, strict=True)
        ]

    def set_annotations(self, docs: Iterable[Doc], found: Iterable[Sequence[Span]]) -> None:
        """Write entities where they belong."""
        for doc, spans in zip(docs, found, strict=True):
            if self.spans_key is not None:
                self._set_group(doc, list(spans), self.spans_key)
                continue
            first, second = (spans, doc.ents) if self.overwrite else (doc.ents, spans)
            taken = {index for span in first for index in range(span.start, span.end)}
            free = [span for span in second if taken.isdisjoint(range(span.start, span.end))]
            doc.set_ents(filter_spans([*first, *free]), default="outside")
            for token in (token for span in (first if self.overwrite else free) for token in span):
                token.ent_id = 0  # of an entity that was here before

    def _set_group(self, doc: Doc, spans: list[Span], key: str) -> None:
        before = [] if self.overwrite or key not in doc.spans else list(doc.spans[key])
        spans = before + [span for span in spans if span not in before]
        scores = [span._.get(SCORE) for span in spans]
        attrs = {} if None in scores else {"scores": scores}
        doc.spans[key] = SpanGroup(doc, name=key, attrs=attrs, spans=spans)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the model inside the pipeline's folder."""
        self.recognizer.save_pretrained(Path(path) / _MODEL_FOLDER)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "LacunerPipe":
        """Load the model from the pipeline's folder."""
        self._recognizer = self._load(Path(path) / _MODEL_FOLDER)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The files of the model folder, packed."""
        import srsly

        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / _MODEL_FOLDER
            self.recognizer.save_pretrained(folder)
            files = {
                path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
            }
        return bytes(srsly.msgpack_dumps(files))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "LacunerPipe":
        """The way back. Nothing in the files is executed, and none is written elsewhere."""
        from srsly import msgpack

        try:
            files = msgpack.unpackb(data, raw=False, object_pairs_hook=dict)
            right = all(isinstance(name, str) and isinstance(content, bytes) for name, content in files.items())
        except (ValueError, TypeError, AttributeError) as error:
            raise ModelError(f"the bytes hold no model of this component ({error})") from None
        with tempfile.TemporaryDirectory() as parent:
            folder = (Path(parent) / _MODEL_FOLDER).resolve()
            paths = {folder / name: content for name, content in files.items()} if right else {}
            if not paths or not all(path.resolve().is_relative_to(folder) for path in paths):
                raise ModelError("the bytes hold no model of this component — save it again with to_bytes")
            for path, content in paths.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self._recognizer = self._load(folder)
        return self

    def _load(self, folder: str | Path) -> "Recognizer":
        from lacuner.recognizer import Recognizer

        return Recognizer.from_pretrained(folder, self.device)


@Language.factory(  # type: ignore[untyped-decorator]
    "lacuner",
    default_config=_DEFAULTS,
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0},
)
def make_component(
    nlp: Any,
    name: str,
    model: str | None,
    spans_key: str | None,
    overwrite: bool,
    nested: bool,
    min_score: float,
    device: str | None,
) -> LacunerPipe:
    """The component, as spaCy makes it from the settings in ``config``."""
    return LacunerPipe(name, model, spans_key, overwrite, nested, min_score, device)


def _span(doc: Doc, place: Sequence[int], entity: Entity) -> Span:
    """An entity of words as a span of tokens, of which some are spaces."""
    span = Span(doc, place[entity.start], place[entity.end - 1] + 1, label=entity.label)
    if entity.score is not None:
        span._.set(SCORE, round(entity.score, 6))
    return span


if not Span.has_extension(SCORE):
    Span.set_extension(SCORE, default=None)
