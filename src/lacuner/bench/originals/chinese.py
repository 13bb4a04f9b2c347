"""Chinese corpora: e-commerce queries, news, micro-blog posts, résumés. Tokens are characters."""

from functools import partial
from pathlib import Path

from lacuner.bench.originals.distribution import NOT_STATED, Distribution, Original, Repository, Target, labeled, lines
from lacuner.bench.originals.relabeling import matched, renamed
from lacuner.bench.originals.shapes import read_columns, read_names, read_vectors, read_zipped_columns
from lacuner.corpus import Corpus

_DSNER = Repository("rainarch/DSNER", "8bef29a", "Unlicense")
_MSRA = Repository("zhooufeng/Data", "8994cd1", "Apache-2.0")
_LEBERT = Repository("liuwei1206/LEBERT", "60668c0")
_LATTICE = Repository("jiesutd/LatticeLSTM", "24d17f4")

_HUMAN, _DISTANT = _DSNER.file("data/MSRA/train"), _DSNER.file("data/MSRA/ds_fa")
_DEV, _TEST = _DSNER.file("data/MSRA/dev"), _DSNER.file("data/MSRA/test")
_WHOLE_MSRA = _MSRA.file(
    "MSRA.zip", "MSRA/msra_train_bio", "MSRA/msra_train_bio.txt", "msra_train_bio", "msra_train_bio.txt"
)


def _person_labels(human: Path, distant: Path, msra: Path) -> Corpus:
    """The human part unchanged; the distant part with the persons annotated in the same sentences of the MSRA corpus."""
    persons = renamed(read_zipped_columns(msra), {"LOC": None, "ORG": None})
    return read_columns(human) + matched(read_columns(distant), persons)


def _other_sentences(*paths: Path) -> list[str]:
    """The sentences of the MSRA training set (the last file) that are in none of the others."""
    used = set(read_columns(*paths[:-1]).tokens)
    return [" ".join(tokens) for tokens in dict.fromkeys(read_zipped_columns(paths[-1]).tokens) if tokens not in used]


def _ec_file(name: str) -> Original:
    return _DSNER.file(f"data/EC/{name}")


EC = Distribution(
    name="ec",
    about="queries of customers of a shop; a human and a distant part",
    language="Chinese",
    labels=("cp", "gg", "pp", "xh", "yl"),
    license="Unlicense",
    targets=(
        Target("train.conll", (_ec_file("train"), _ec_file("ds_fa")), read_columns, labeled(3657, 30611, 4325)),
        Target("train.human.conll", (_ec_file("train"),), read_columns, labeled(1097, 8635, 1264)),
        Target("train.distant.conll", (_ec_file("ds_fa"),), read_columns, labeled(2560, 21976, 3061)),
        Target("dev.conll", (_ec_file("dev"),), read_columns, labeled(400, 3104, 475)),
        Target("test.conll", (_ec_file("test"),), read_columns, labeled(798, 6107, 918)),
        Target(
            "dictionary.tsv",
            tuple(
                _DSNER.file(f"data/supplementary documents/EC.dict/{name}")
                for name in ("Product", "Brand", "Specification", "Model", "Material")
            ),
            read_names(("cp", "pp", "gg", "xh", "yl")),
            lines(924),
        ),
        Target(
            "char_vectors_100d.txt",
            (_DSNER.file("resource/embedding/pre_trained_100dim.model"),),
            read_vectors,
            lines(4371),
        ),
    ),
)

NEWS = Distribution(
    name="news",
    about="persons in news (MSRA, SIGHAN 2006); a human and a distant part",
    language="Chinese",
    labels=("PER",),
    license=f"of the MSRA corpus {NOT_STATED}; distant labels: Unlicense",
    targets=(
        Target("train.conll", (_HUMAN, _DISTANT), read_columns, labeled(6722, 326522, 6221)),
        Target("train.gold.conll", (_HUMAN, _DISTANT, _WHOLE_MSRA), _person_labels, labeled(6722, 326522, 7728)),
        Target("train.human.conll", (_HUMAN,), read_columns, labeled(3000, 139828, 1746)),
        Target("train.distant.conll", (_DISTANT,), read_columns, labeled(3722, 186694, 4475)),
        Target("dev.conll", (_DEV,), read_columns, labeled(3328, 149005, 1157)),
        Target("test.conll", (_TEST,), read_columns, labeled(3186, 132122, 1004)),
        Target(
            "dictionary.tsv",
            tuple(
                _DSNER.file(f"data/supplementary documents/NEWS.dict/{name}") for name in ("PERSON", "Additional Name")
            ),
            read_names(("PER", "PER")),
            lines(71625),
        ),
        Target("raw.txt", (_HUMAN, _DISTANT, _DEV, _TEST, _WHOLE_MSRA), _other_sentences, lines(34953)),
    ),
)


def _weibo_file(split: str) -> tuple[Original, ...]:
    return (_LEBERT.file(f"data/dataset/NER/weibo/{split}.char.bmes"),)


def _resume_file(split: str) -> tuple[Original, ...]:
    return (_LATTICE.file(f"ResumeNER/{split}.char.bmes"),)


WEIBO = Distribution(
    name="weibo",
    about="micro-blog posts; names and nominal mentions",
    language="Chinese",
    labels=tuple(f"{label}.{kind}" for label in ("GPE", "LOC", "ORG", "PER") for kind in ("NAM", "NOM")),
    license=NOT_STATED,
    targets=(
        Target(
            "train.gold.conll", _weibo_file("train"), partial(read_columns, scheme="bioes"), labeled(1350, 73778, 1895)
        ),
        Target("dev.conll", _weibo_file("dev"), partial(read_columns, scheme="bioes"), labeled(270, 14509, 389)),
        Target("test.conll", _weibo_file("test"), partial(read_columns, scheme="bioes"), labeled(270, 14842, 418)),
    ),
)

RESUME = Distribution(
    name="resume",
    about="résumés of executives",
    language="Chinese",
    labels=("CONT", "EDU", "LOC", "NAME", "ORG", "PRO", "RACE", "TITLE"),
    license=NOT_STATED,
    targets=(
        Target(
            "train.gold.conll",
            _resume_file("train"),
            partial(read_columns, scheme="bmes"),
            labeled(3821, 124099, 13440),
        ),
        Target("dev.conll", _resume_file("dev"), partial(read_columns, scheme="bmes"), labeled(463, 13890, 1497)),
        Target("test.conll", _resume_file("test"), partial(read_columns, scheme="bmes"), labeled(477, 15100, 1630)),
    ),
)
