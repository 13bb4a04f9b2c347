"""English corpora: newswire, Wikipedia, tweets, biomedical abstracts."""

from functools import partial
from pathlib import Path

from lacuner.bench.originals.distribution import NOT_STATED, Distribution, Original, Repository, Target, labeled, lines
from lacuner.bench.originals.relabeling import cut_like, renamed, with_entities_of
from lacuner.bench.originals.shapes import (
    read_columns,
    read_labels_and_names,
    read_names,
    read_raw_words,
    read_spans,
    read_tag_numbers,
    read_tagged_texts,
    read_texts,
)
from lacuner.corpus import Corpus

_DS_NER = Repository("xuuuluuu/ds_ner", "b52e0c5")
_ROSTER = Repository("yumeng5/RoSTER", "bdbba2d", "Apache-2.0")
_BOND = Repository("cliang1453/BOND", "32f2698", "Apache-2.0")
_LEXICON = Repository("v-mipeng/LexiconNER", "9a2003d", "Apache-2.0")
_TWITTER = Repository("aritter/twitter_nlp", "65f3d77", "GPL-3.0")
_CONF_MPU = Repository("kangISU/Conf-MPU-DS-NER", "4cba033")
_AUTONER = Repository("shangjingbo1226/AutoNER", "75f8d09", "Apache-2.0")
_MODEL_LABELS = Repository("yyDing1/DS-NER", "5019477")

_TAG, _FLAG = 1, 2
"""Columns: tags (human ones in Conf-MPU's files, those of a language model in DS-NER's), and label numbers."""


def _roster_pair(corpus: str, split: str) -> tuple[Original, Original]:
    """Sentences and their human tags."""
    return _ROSTER.file(f"data/{corpus}/{split}_text.txt"), _ROSTER.file(f"data/{corpus}/{split}_label_true.txt")


def _with_digits(distant: Path, texts: Path) -> Corpus:
    """Restore digits from the texts; Top-Neg's file has 0 for every digit."""
    return with_entities_of(read_texts(texts), read_spans(distant))


def _model_labels_of_texts(labels: Path, texts: Path) -> Corpus:
    """Labels of a language model, one copy of which also has 0 for every digit."""
    return with_entities_of(read_texts(texts), read_columns(labels, column=_TAG))


_CONLL_TEXTS, _CONLL_TAGS = _roster_pair("conll", "train")

CONLL03 = Distribution(
    name="conll03",
    about="newswire (CoNLL 2003); distant labels of BOND, matched with a knowledge base",
    language="English",
    labels=("LOC", "MISC", "ORG", "PER"),
    license=f"the text is Reuters', who license it separately; of the labels {NOT_STATED}",
    targets=(
        Target(
            "train.conll",
            (_DS_NER.file("data/conll03/train-ds.json"), _CONLL_TEXTS),
            _with_digits,
            labeled(14041, 203621, 17781),
        ),
        Target("train.gold.conll", (_CONLL_TEXTS, _CONLL_TAGS), read_tagged_texts, labeled(14041, 203621, 23499)),
        Target("dev.conll", (_DS_NER.file("data/conll03/dev.json"),), read_spans, labeled(3250, 51362, 5942)),
        Target("test.conll", (_DS_NER.file("data/conll03/test.json"),), read_spans, labeled(3453, 46435, 5648)),
        Target(
            "dictionary.tsv",
            tuple(
                _LEXICON.file(f"dictionary/conll2003/{name}.txt")
                for name in ("person", "location", "organization", "misc")
            ),
            read_names(("PER", "LOC", "ORG", "MISC")),
            lines(3112),
        ),
        Target(
            "train.chatgpt.conll",
            (_MODEL_LABELS.file("download/conll-ChatGPT/train.txt"), _CONLL_TEXTS),
            _model_labels_of_texts,
            labeled(14041, 203621, 23464),
        ),
        Target(
            "train.uniner.conll",
            (_MODEL_LABELS.file("download/conll-UniNER/train.txt"), _CONLL_TEXTS),
            _model_labels_of_texts,
            labeled(14041, 203621, 29465),
        ),
    ),
)


WIKIGOLD = Distribution(
    name="wikigold",
    about="Wikipedia; distant labels of BOND, matched with a knowledge base",
    language="English",
    labels=("LOC", "MISC", "ORG", "PER"),
    license="CC BY 4.0 (text and human labels)",
    targets=(
        Target("train.conll", (_DS_NER.file("data/wiki/train-ds.json"),), read_spans, labeled(1142, 25819, 2282)),
        Target("train.gold.conll", _roster_pair("wikigold", "train"), read_tagged_texts, labeled(1142, 25819, 2295)),
        Target("dev.conll", _roster_pair("wikigold", "valid"), read_tagged_texts, labeled(280, 6650, 650)),
        Target("test.conll", _roster_pair("wikigold", "test"), read_tagged_texts, labeled(274, 6538, 613)),
        Target("dev.topneg.conll", (_DS_NER.file("data/wiki/dev.json"),), read_spans, labeled(280, 6650, 648)),
        Target("test.topneg.conll", (_DS_NER.file("data/wiki/test.json"),), read_spans, labeled(274, 6538, 607)),
    ),
)


def _tweets(path: Path) -> Corpus:
    return renamed(read_spans(path), {"geoloc": "geo-loc"})


def _cut_tweets(human: Path, distant: Path) -> Corpus:
    return cut_like(read_columns(human), read_spans(distant))


_TWEETS = _DS_NER.file("data/twitter/train-ds.json")
_BOND_TWEETS = tuple(_BOND.file(f"dataset/twitter_distant/{name}.json") for name in ("train", "tag_to_id"))

WNUT16 = Distribution(
    name="wnut16",
    about="tweets (WNUT 2016); distant labels of BOND, matched with a knowledge base",
    language="English",
    labels=(
        "company", "facility", "geo-loc", "movie", "musicartist", "other", "person", "product", "sportsteam", "tvshow",
    ),
    license="GPL-3.0 (the repository of the human labels); of the tweets not stated",
    targets=(
        Target("train.conll", (_TWEETS,), _tweets, labeled(2393, 44076, 994)),
        Target(
            "train.gold.conll",
            (_TWITTER.file("data/annotated/wnut16/data/train"), _TWEETS),
            _cut_tweets,
            labeled(2393, 44076, 1479),
        ),
        Target("dev.conll", (_DS_NER.file("data/twitter/dev.json"),), _tweets, labeled(1000, 16261, 661)),
        Target("test.conll", (_DS_NER.file("data/twitter/test.json"),), _tweets, labeled(3849, 61896, 3473)),
        Target("train.bond.conll", _BOND_TWEETS, read_tag_numbers, labeled(2393, 44076, 1002)),
    ),
)  # fmt: skip


def _flags(path: Path) -> Corpus:
    """Labels without boundaries between adjacent entities: 1 is a chemical, 2 a disease, 0 neither."""
    flags = read_columns(path, scheme="io", column=_FLAG)
    return renamed(flags, {"0": None, "1": "Chemical", "2": "Disease"})


def _model_labels_of_columns(labels: Path, gold: Path) -> Corpus:
    return with_entities_of(read_columns(gold, column=_TAG), read_columns(labels, column=_TAG))


_human_tags = partial(read_columns, column=_TAG)
_ABSTRACTS = _CONF_MPU.file("data/BC5CDR_Dict_1.0/train.ALL.txt")

BC5CDR = Distribution(
    name="bc5cdr",
    about="biomedical abstracts (BioCreative V CDR); labels matched with a dictionary",
    language="English",
    labels=("Chemical", "Disease"),
    license=NOT_STATED,
    targets=(
        Target("train.conll", (_DS_NER.file("data/bc5cdr/train-ds.json"),), read_spans, labeled(4560, 118170, 6452)),
        Target("train.confmpu.conll", (_ABSTRACTS,), _flags, labeled(4560, 118170, 7024)),
        Target("train.gold.conll", (_ABSTRACTS,), _human_tags, labeled(4560, 118170, 9385)),
        Target(
            "dev.conll", (_CONF_MPU.file("data/BC5CDR_Dict_1.0/valid.txt"),), _human_tags, labeled(4579, 117453, 9591)
        ),
        Target(
            "test.conll", (_CONF_MPU.file("data/BC5CDR_Dict_1.0/test.txt"),), _human_tags, labeled(4797, 124750, 9809)
        ),
        Target("dictionary.tsv", (_AUTONER.file("data/BC5CDR/dict_core.txt"),), read_labels_and_names, lines(2482)),
        Target("raw.txt", (_AUTONER.file("data/BC5CDR/raw_text.txt"),), read_raw_words, lines(20217)),
        Target(
            "train.chatgpt.conll",
            (_MODEL_LABELS.file("download/bc5cdr-ChatGPT/train.txt"), _ABSTRACTS),
            _model_labels_of_columns,
            labeled(4560, 118170, 17579),
        ),
        Target(
            "train.uniner.conll",
            (_MODEL_LABELS.file("download/bc5cdr-UniNER/train.txt"), _ABSTRACTS),
            _model_labels_of_columns,
            labeled(4560, 118170, 8592),
        ),
    ),
)
