"""Made-up originals in the shapes of the real ones."""

import zipfile
from pathlib import Path

from lacuner.bench.originals.convert import convert, find_distribution


def columns(sentences: str, separator: str = "\t") -> str:
    """A column file; ``猫/B-cp 很/O | 我/O``: a bar ends a sentence, ``_`` is a space."""
    blocks = []
    for sentence in sentences.split(" | "):
        rows = (row.replace("_", " ").rpartition("/") for row in sentence.split(" "))
        blocks.append("".join(f"{token}{separator}{tag}\n" for token, _, tag in rows) + "\n")
    return "".join(blocks)


EC = {
    "DSNER/data/EC/train": columns("买/O 面/B-cp 包/I-cp _/O x/B-gg l/I-gg"),
    "DSNER/data/EC/ds_fa": columns("牛/B-cp 奶/I-cp | 有/O 茶/O 吗/O"),
    "DSNER/data/EC/dev": columns("木/B-yl 碗/B-cp"),
    "DSNER/data/EC/test": columns("要/O 小/B-pp 云/I-pp"),
    "DSNER/data/supplementary documents/EC.dict/Product": "面包\n牛奶\n面包\n",
    "DSNER/data/supplementary documents/EC.dict/Brand": "小云\nA B\n",
    "DSNER/data/supplementary documents/EC.dict/Specification": "xl\n",
    "DSNER/data/supplementary documents/EC.dict/Model": "t8",
    "DSNER/data/supplementary documents/EC.dict/Material": "木\n面包\n",
    "DSNER/resource/embedding/pre_trained_100dim.model": "<PAD>\t0\t0\n面\t0.5\t-1.25\n",
}


def test_queries_have_a_human_and_a_distant_part_and_visible_spaces(converted) -> None:
    human = columns("买/O 面/B-cp 包/I-cp ␣/O x/B-gg l/I-gg")
    assert converted("ec", EC) == {
        "train.conll": human + columns("牛/B-cp 奶/I-cp | 有/O 茶/O 吗/O"),
        "train.human.conll": human,
        "train.distant.conll": columns("牛/B-cp 奶/I-cp | 有/O 茶/O 吗/O"),
        "dev.conll": columns("木/B-yl 碗/B-cp"),
        "test.conll": columns("要/O 小/B-pp 云/I-pp"),
        "dictionary.tsv": "面包\tcp\n牛奶\tcp\n小云\tpp\nA B\tpp\nxl\tgg\nt8\txh\n木\tyl\n面包\tyl\n",
        "char_vectors_100d.txt": "2 2\n<PAD> 0 0\n面 0.5 -1.25\n",
    }


NEWS = {
    "DSNER/data/MSRA/train": columns("王/B-PER 林/I-PER 来/O 了/O | 打/O _/O 电/O 话/O"),
    "DSNER/data/MSRA/ds_fa": columns("张/O 华/O 去/O 上/O 海/O | 李/B-PER 明/I-PER 走/O"),
    "DSNER/data/MSRA/dev": columns("天/O 晴/O"),
    "DSNER/data/MSRA/test": columns("赵/B-PER 刚/I-PER"),
    "DSNER/data/supplementary documents/NEWS.dict/PERSON": "李明\n王林\n",
    "DSNER/data/supplementary documents/NEWS.dict/Additional Name": "钱进\n李明\n",
}
WHOLE_MSRA = columns(
    "下/O 雪/O | 李/B-PER 明/I-PER 走/O | 天/O 晴/O | 张/B-PER 华/I-PER 去/O 上/B-LOC 海/I-LOC"
    " | 王/B-PER 林/I-PER 来/O 了/O | 打/O 0/O 电/O 话/O | 下/O 雪/O | 起/O 风/O"
)


def made_news(distant: str, gold: str) -> dict[str, str]:
    human = columns("王/B-PER 林/I-PER 来/O 了/O | 打/O ␣/O 电/O 话/O")
    return {
        "train.conll": human + distant,
        "train.gold.conll": human + gold,
        "train.human.conll": human,
        "train.distant.conll": distant,
        "dev.conll": columns("天/O 晴/O"),
        "test.conll": columns("赵/B-PER 刚/I-PER"),
        "dictionary.tsv": "李明\tPER\n王林\tPER\n钱进\tPER\n",
        "raw.txt": "下 雪\n打 0 电 话\n起 风\n",
    }


def test_human_labels_of_distant_news_are_those_of_the_same_sentence_in_the_whole_corpus(converted) -> None:
    assert converted("news", NEWS | {"Data/MSRA/msra_train_bio": WHOLE_MSRA}) == made_news(
        distant=columns("张/O 华/O 去/O 上/O 海/O | 李/B-PER 明/I-PER 走/O"),
        gold=columns("张/B-PER 华/I-PER 去/O 上/O 海/O | 李/B-PER 明/I-PER 走/O"),
    )


def test_the_whole_news_corpus_may_stay_in_its_archive(originals, tmp_path: Path) -> None:
    folder = originals(NEWS)
    (folder / "Data").mkdir()
    with zipfile.ZipFile(folder / "Data" / "MSRA.zip", "w") as archive:
        archive.writestr("__MACOSX/._msra_train_bio", "nothing")
        archive.writestr("MSRA/msra_train_bio", WHOLE_MSRA)
        archive.writestr("MSRA/msra_test_bio", columns("x/O"))
    made = {outcome.target.name: outcome for outcome in convert(find_distribution("news"), folder, tmp_path / "out")}
    assert made["train.gold.conll"].counts == {"sentences": 4, "tokens": 16, "entities": 3}
    assert (tmp_path / "out" / "raw.txt").read_text() == "下 雪\n打 0 电 话\n起 风\n"


def test_a_distant_sentence_without_human_labels_is_not_passed_over(originals, tmp_path: Path) -> None:
    folder = originals(NEWS | {"Data/MSRA/msra_train_bio": columns("张/B-PER 华/I-PER 去/O 上/B-LOC 海/I-LOC")})
    made = {outcome.target.name: outcome for outcome in convert(find_distribution("news"), folder, tmp_path / "out")}
    assert made["train.gold.conll"].status == "failed"
    assert made["train.gold.conll"].reason.startswith("1 of 2 sentences have no human labels, the first is number 2 —")
    assert made["raw.txt"].status == "made"


def test_posts_that_begin_an_entity_with_i_begin_it_with_b(converted, caplog) -> None:
    folder = "LEBERT/data/dataset/NER/weibo"
    made = converted(
        "weibo",
        {
            f"{folder}/train.char.bmes": columns("老/B-PER.NOM 师/E-PER.NOM 在/O 京/S-GPE.NAM", " ") + "\n",
            f"{folder}/dev.char.bmes": columns("小/B-PER.NAM 明/I-PER.NAM 明/E-PER.NAM 好/O", " ") + "\n",
            f"{folder}/test.char.bmes": columns("大/O 学/I-ORG.NOM 里/E-ORG.NOM", " ") + "\n",
        },
    )
    assert made == {
        "train.gold.conll": columns("老/B-PER.NOM 师/I-PER.NOM 在/O 京/B-GPE.NAM"),
        "dev.conll": columns("小/B-PER.NAM 明/I-PER.NAM 明/I-PER.NAM 好/O"),
        "test.conll": columns("大/O 学/B-ORG.NOM 里/I-ORG.NOM"),
    }
    assert "repaired tags: 1" in caplog.text


def test_an_entity_that_a_sentence_boundary_cuts_is_two(converted) -> None:
    made = converted(
        "resume",
        {
            "LatticeLSTM/ResumeNER/train.char.bmes": columns(
                "东/B-ORG 方/M-ORG | 公/M-ORG 司/E-ORG 高/B-NAME 山/E-NAME", " "
            ),
            "LatticeLSTM/ResumeNER/dev.char.bmes": columns("汉/S-RACE ，/O", " "),
            "LatticeLSTM/ResumeNER/test.char.bmes": columns("经/B-TITLE 理/E-TITLE", " "),
        },
    )
    assert made == {
        "train.gold.conll": columns("东/B-ORG 方/I-ORG | 公/B-ORG 司/I-ORG 高/B-NAME 山/I-NAME"),
        "dev.conll": columns("汉/B-RACE ，/O"),
        "test.conll": columns("经/B-TITLE 理/I-TITLE"),
    }
