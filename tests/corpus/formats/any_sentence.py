"""Any sentence, with all that a sentence can know; for tests of formats that keep everything."""

from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, Span

WORDS = [
    "Ada",
    "New York",
    "PERSON",
    "O",
    "-",
    "?",
    "B-PER",
    "東",
    "😀",
    "e\u0301",
    '"',
    "a,b",
    "עדה",
    "\u2028",
    "\u00a0",
]
LABELS = ["PER", "LOC", "geo-loc", "x #y", "-", "B-PER", "国名"]
_STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_VALUES = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
FIELDS = st.dictionaries(
    st.sampled_from(["id", "meta", "cats", "_", "lacuner", "kb_id", "ner_tags", "tags", "note", "extra", ""]),
    st.recursive(_VALUES | _STRINGS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_STRINGS, inner, max_size=2)),
    max_size=3,
)  # fmt: skip


@st.composite
def any_sentences(draw, words=WORDS):
    tokens = draw(st.lists(st.sampled_from(words), max_size=6))
    spans = [(i, j) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1)]
    chosen = draw(st.lists(st.sampled_from(spans), max_size=4)) if spans else []
    entities = {}
    for start, end in chosen:
        label, score = draw(st.sampled_from(LABELS)), draw(st.sampled_from([None, 0.5, 0.123456]))
        source = draw(st.sampled_from([None, "human", "somebody"]))
        entities[start, end, label] = Entity(start, end, label, None, score, source, draw(FIELDS))
    free = [span for span in spans if span not in chosen]
    rejected = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
    text, offsets = None, None
    if draw(st.booleans()):
        text, offsets = draw(st.sampled_from(["", " ", "x: ", "\n"])), []
        for token in tokens:
            shown = draw(st.sampled_from([token, token, token, token + "!"]))
            offsets.append((len(text), len(text) + len(shown)))
            text += shown + draw(st.sampled_from(["", " ", "  ", "\n", " | "]))
    return Sentence(
        tuple(tokens),
        tuple(entities.values()),
        tuple(Span(start, end, draw(st.sampled_from([None, "me"])), draw(FIELDS)) for start, end in rejected),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.sampled_from([None, None, frozenset({"PER"}), frozenset(LABELS)])),
        unknown_tokens=frozenset(draw(st.lists(st.sampled_from(range(len(tokens))), max_size=3)) if tokens else ()),
        text=text,
        token_offsets=None if offsets is None else tuple(offsets),
        extra=draw(FIELDS),
    )
