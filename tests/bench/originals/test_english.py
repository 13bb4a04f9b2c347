"""Made-up originals in the shapes of the real ones."""

import json
from pathlib import Path
from typing import Any

from lacuner.bench.originals.convert import convert, find_distribution

ENTITIES = list[list[Any]]


def spans(*sentences: tuple[str, ENTITIES]) -> str:
    """Top-Neg's JSON: an entity is its first word, its last word and its label."""
    return json.dumps([{"tokens": text.split(), "entities": entities} for text, entities in sentences]) + "\n"


def columns(sentences: str, separator: str = "\t") -> str:
    """A column file; ``Ada/B-PER left/O | Bob/O``: a bar ends a sentence, a slash separates columns."""
    blocks = (sentence.split(" ") for sentence in sentences.split(" | "))
    return "".join("".join(row.replace("/", separator) + "\n" for row in block) + "\n" for block in blocks)


CONLL03 = {
    "ds_ner/data/conll03/train-ds.json": spans(
        ("Ada Byron won 0-0 in Oslo .", [[0, 0, "PER"], [5, 5, "LOC"]]), ("OSLO 0000", [])
    ),
    "ds_ner/data/conll03/dev.json": spans(("On 7 May", [])),
    "ds_ner/data/conll03/test.json": spans(("FC Turin 12", [[0, 1, "ORG"]])),
    "RoSTER/data/conll/train_text.txt": "Ada Byron won 3-1 in Oslo .\nOSLO 1996\n",
    "RoSTER/data/conll/train_label_true.txt": "B-PER I-PER O O O B-LOC O\nB-LOC O\n",
    "LexiconNER/dictionary/conll2003/person.txt": "Ada\nBob\nAda\n",
    "LexiconNER/dictionary/conll2003/location.txt": "Oslo\nNew York\n",
    "LexiconNER/dictionary/conll2003/organization.txt": "FC Turin\n",
    "LexiconNER/dictionary/conll2003/misc.txt": "Dutch",
    "DS-NER/download/conll-ChatGPT/train.txt": columns(
        "Ada/B-PER/B-PER Byron/I-PER/I-PER won/O/O 3-1/O/O in/O/O Oslo/I-ORG/B-LOC ./O/O | OSLO/O/B-LOC 1996/B-MISC/O"
    ),
    "DS-NER/download/conll-UniNER/train.txt": columns(
        "Ada/O/B-PER Byron/O/I-PER won/O/O 0-0/O/O in/O/O Oslo/B-LOC/B-LOC ./O/O | OSLO/B-LOC/B-LOC 0000/O/O"
    ),
}


def test_newswire_has_its_digits_back_whoever_labeled_it(converted, caplog) -> None:
    assert converted("conll03", CONLL03) == {
        "train.conll": columns("Ada/B-PER Byron/O won/O 3-1/O in/O Oslo/B-LOC ./O | OSLO/O 1996/O"),
        "train.gold.conll": columns("Ada/B-PER Byron/I-PER won/O 3-1/O in/O Oslo/B-LOC ./O | OSLO/B-LOC 1996/O"),
        "dev.conll": columns("On/O 7/O May/O"),
        "test.conll": columns("FC/B-ORG Turin/I-ORG 12/O"),
        "dictionary.tsv": "Ada\tPER\nBob\tPER\nOslo\tLOC\nNew York\tLOC\nFC Turin\tORG\nDutch\tMISC\n",
        "train.chatgpt.conll": columns("Ada/B-PER Byron/I-PER won/O 3-1/O in/O Oslo/B-ORG ./O | OSLO/O 1996/B-MISC"),
        "train.uniner.conll": columns("Ada/O Byron/O won/O 3-1/O in/O Oslo/B-LOC ./O | OSLO/B-LOC 1996/O"),
    }
    assert "repaired tags: 1" in caplog.text


def test_labels_of_other_words_are_refused(originals, tmp_path: Path) -> None:
    folder = originals(CONLL03 | {"RoSTER/data/conll/train_text.txt": "Ada Byron won 3-1 in Oslo .\nROME 1996\n"})
    made = {outcome.target.name: outcome for outcome in convert(find_distribution("conll03"), folder, tmp_path / "out")}
    assert made["train.conll"].status == "failed"
    assert made["train.conll"].reason.startswith(
        "sentence 2 is 'ROME 1996' in one original and 'OSLO 0000' in the other —"
    )
    assert made["dev.conll"].status == "made"
    assert not (tmp_path / "out" / "train.conll").exists()


def test_wikipedia_has_dev_and_test_data_as_annotated_and_as_the_paper_has_them(converted) -> None:
    made = converted(
        "wikigold",
        {
            "ds_ner/data/wiki/train-ds.json": spans(("Oslo is big", [[0, 0, "ORG"]])),
            "ds_ner/data/wiki/dev.json": spans(("Fiji Indian food", [[0, 1, "MISC"]])),
            "ds_ner/data/wiki/test.json": spans(("Songs", [])),
            "RoSTER/data/wikigold/train_text.txt": "Oslo is big\n",
            "RoSTER/data/wikigold/train_label_true.txt": "B-LOC O O\n",
            "RoSTER/data/wikigold/valid_text.txt": "Fiji Indian food\n",
            "RoSTER/data/wikigold/valid_label_true.txt": "B-LOC B-MISC O\n",
            "RoSTER/data/wikigold/test_text.txt": "Songs\n",
            "RoSTER/data/wikigold/test_label_true.txt": "O\n",
        },
    )
    assert made == {
        "train.conll": columns("Oslo/B-ORG is/O big/O"),
        "train.gold.conll": columns("Oslo/B-LOC is/O big/O"),
        "dev.conll": columns("Fiji/B-LOC Indian/B-MISC food/O"),
        "dev.topneg.conll": columns("Fiji/B-MISC Indian/I-MISC food/O"),
        "test.conll": columns("Songs/O"),
        "test.topneg.conll": columns("Songs/O"),
    }


def test_human_labels_of_tweets_are_cut_as_the_distant_ones_are(converted, caplog) -> None:
    tags = {"O": 0, "B-geo-loc": 1, "B-person": 2, "I-geo-loc": 3, "I-person": 4}
    tweets = [(["go", "to", "New"], [0, 0, 1]), (["#now", "I", "saw", "Ada"], [0, 0, 0, 4]), (["Hi"], [0])]
    made = converted(
        "wnut16",
        {
            "ds_ner/data/twitter/train-ds.json": spans(
                ("go to New", [[2, 2, "geoloc"]]), ("#now I saw Ada", [[3, 3, "person"]]), ("Hi", [])
            ),
            "ds_ner/data/twitter/dev.json": spans(("Rome !", [[0, 0, "geoloc"]])),
            "ds_ner/data/twitter/test.json": spans(("lol", [])),
            "BOND/dataset/twitter_distant/train.json": json.dumps(
                [{"str_words": words, "words": [0], "chars": [[0]], "tags": t, "defs": [None]} for words, t in tweets]
            ),
            "BOND/dataset/twitter_distant/tag_to_id.json": json.dumps(tags),
            "twitter_nlp/data/annotated/wnut16/data/train": columns(
                "go/O to/O New/B-geo-loc York/I-geo-loc | #now/O | I/O saw/O Ada/B-person Byron/I-person | Hi/O Bob/B-person"
            ),
        },
    )
    assert made == {
        "train.conll": columns("go/O to/O New/B-geo-loc | #now/O I/O saw/O Ada/B-person | Hi/O"),
        "train.bond.conll": columns("go/O to/O New/B-geo-loc | #now/O I/O saw/O Ada/B-person | Hi/O"),
        "train.gold.conll": columns("go/O to/O New/B-geo-loc | #now/O I/O saw/O Ada/B-person | Hi/O"),
        "dev.conll": columns("Rome/B-geo-loc !/O"),
        "test.conll": columns("lol/O"),
    }
    assert "repaired tags: 1" in caplog.text


def test_abstracts_have_filtered_unfiltered_and_human_labels(converted) -> None:
    folder = "Conf-MPU-DS-NER/data/BC5CDR_Dict_1.0"
    train = "NO/B-Chemical/0 and/O/0 FK/B-Chemical/1 506/I-Chemical/1 gout/B-Disease/2 pain/B-Disease/2 ./O/1"
    made = converted(
        "bc5cdr",
        {
            "ds_ner/data/bc5cdr/train-ds.json": spans(
                ("NO and FK 506 gout pain .", [[2, 3, "Chemical"], [4, 4, "Disease"]]), ("end", [])
            ),
            f"{folder}/train.ALL.txt": columns(f"{train} | end/O/0", " "),
            f"{folder}/valid.txt": columns("gout/B-Disease/0", " "),
            f"{folder}/test.txt": columns("FK/B-Chemical/0 506/I-Chemical/0", " "),
            "AutoNER/data/BC5CDR/dict_core.txt": "Chemical\tFK 506\nDisease\tgout\nChemical\tFK 506\n",
            "AutoNER/data/BC5CDR/raw_text.txt": "Low\npain\n.\n\nFK\n506\n\n",
            "DS-NER/download/bc5cdr-ChatGPT/train.txt": columns(
                "NO/B-Chemical/O and/I-Chemical/O FK/O/O 506/O/O gout/O/O pain/O/O ./O/O | end/B-Disease/O"
            ),
            "DS-NER/download/bc5cdr-UniNER/train.txt": columns(
                "NO/O/O and/O/O FK/O/O 506/O/O gout/B-Disease/O pain/I-Disease/O ./O/O | end/O/O"
            ),
        },
    )
    assert made == {
        "train.conll": columns("NO/O and/O FK/B-Chemical 506/I-Chemical gout/B-Disease pain/O ./O | end/O"),
        "train.confmpu.conll": columns(
            "NO/O and/O FK/B-Chemical 506/I-Chemical gout/B-Disease pain/I-Disease ./B-Chemical | end/O"
        ),
        "train.gold.conll": columns(
            "NO/B-Chemical and/O FK/B-Chemical 506/I-Chemical gout/B-Disease pain/B-Disease ./O | end/O"
        ),
        "dev.conll": columns("gout/B-Disease"),
        "test.conll": columns("FK/B-Chemical 506/I-Chemical"),
        "dictionary.tsv": "FK 506\tChemical\ngout\tDisease\n",
        "raw.txt": "Low pain .\nFK 506\n",
        "train.chatgpt.conll": columns("NO/B-Chemical and/I-Chemical FK/O 506/O gout/O pain/O ./O | end/B-Disease"),
        "train.uniner.conll": columns("NO/O and/O FK/O 506/O gout/B-Disease pain/I-Disease ./O | end/O"),
    }
