"""A drawer of files as tools export them: each is read rightly, or refused with a sentence that says what to do."""

from pathlib import Path

import pytest

from lacuner.corpus import Corpus
from lacuner.errors import DataError

DRAWER = Path(__file__).parent / "drawer_columns"
READ = {
    "brat": [
        "Sony=Organization Ericsson=Organization joint venture=MERGE-ORG left and right arm=Body right arm=Body Ada=Person",
        "",
    ],
    "brat_windows": ["Ada=PER Turin=LOC"],
    "kaggle.csv": ["London=geo", "Smith, Jr.=per"],
    "sentence_id.tsv": ["Ada=PER", "New York=LOC"],
    "two_named_columns.tsv": ["Ada=PER", "Turin=LOC"],
    "python_spans.csv": ['Ada "Countess" Lovelace=PER Turin=LOC', "Bo=PER", ""],
    "label_studio.csv": ["Ada=PER Turin=LOC Turin=ORG"],
    "cdr.pubtator.txt": [
        "Naloxone=Chemical clonidine=Chemical hypotension and bradycardia=Disease naloxone=Chemical",
        "",
    ],
    "pmc.xml": ["Naloxone=Chemical Left and right arm=Body hurt=Symptom"],
    "dane.conllu": ["Ada=PER Torino=LOC"],
    "french.conllu": ["le Havre=LOC"],
    "plus.conllup": ["Ada=PER New York=LOC"],
    "empty.conll": [],
}
"""The entities of each sentence or document."""
REPORTED = {
    "brat": {
        "texts without annotation": 1,
        "discontinuous entities": 1,
        "entities moved to word borders": 1,
        "overlapping entities": 1,
    },
    "python_spans.csv": {"entities moved to word borders": 1},
    "label_studio.csv": {"overlapping entities": 1},
    "pmc.xml": {
        "discontinuous entities": 1,
        "entities moved to word borders": 1,
        "annotations without label or location": 1,
    },
    "empty.conll": {"empty files": 1},
}
REFUSED = {
    "brat_shifted": "a.ann:1: 'Ada' is annotated at 0–3, where the text has 'xxx', and so it is with 3 of 3 entities — "
    "give the text that was annotated",
    "brat_no_text": "a.ann: there is no a.txt with the text — put it beside",
    "categories.csv": "2: the column label holds no list of spans: 'travel'",
    "tag_lists.csv": "1: none of the columns tokens, ner_tags holds spans that can be read — write [[start, end, label]",
    "tag_numbers.csv": "2: the tags are numbers (0, 1, 5, …) — write their names, such as B-PER and O",
    "eval.csv": "2: the column entities holds no list of spans: \"__import__('os').system('true')\"",
    "ncbi.txt": "1: this looks like PubTator, not like words with tags — read it with --format pubtator",
    "bomb.xml": "2: there is an entity 'a' — write the characters themselves",
    "other.xml": "2: the outermost element is <TEI>, not <collection> — ",
    "treebank.conllu": "there are no tags of named entities: neither NER=B-PER in MISC, nor a column for them — add them",
    "misnamed.conll": "1: this looks like CoNLL-U, not like words with tags — read it with --format conllu",
    "prose.txt": "1: this looks like raw text, not like words with tags: 'Ada Lovelace was born in London.' — label it with a "
    "dictionary: lacuner annotate",
    "one_line.txt": "1: this looks like raw text, not like words with tags: 'Ada moved to Turin'",
    "chinese.txt": "1: this looks like raw text, not like words with tags: '我爱北京天安门。'",
    "names.tsv": "1: no word is tagged O; this looks like a dictionary: 'Ada Lovelace\\tPER' — lacuner annotate",
    "names_one_word.csv": "1: no word is tagged O; this looks like a dictionary",
    "records.txt": "1: this looks like JSON, not like words with tags — read it with --format jsonl",
}


def test_every_file_of_the_drawer_is_tried():
    assert sorted(path.name for path in DRAWER.iterdir()) == sorted([*READ, *REFUSED])


@pytest.mark.parametrize("name", READ)
def test_it_is_read_rightly_and_what_was_moved_or_left_out_is_counted(name):
    corpus = Corpus.read(DRAWER / name)
    shown = [
        " ".join(f"{sentence.text_of(entity.start, entity.end)}={entity.label}" for entity in sentence.entities)
        for sentence in corpus
    ]
    assert shown == READ[name]
    assert corpus.report.counts == REPORTED.get(name, {})


@pytest.mark.parametrize("name", READ)
def test_it_is_written_in_our_own_form_and_read_again(name, tmp_path):
    corpus = Corpus.read(DRAWER / name)
    corpus.write(tmp_path / "a.jsonl")
    again = Corpus.read(tmp_path / "a.jsonl")
    assert again.sentences == corpus.sentences
    assert [sentence.extra for sentence in again] == [sentence.extra for sentence in corpus]


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_do(name):
    with pytest.raises(DataError) as raised:
        Corpus.read(DRAWER / name)
    assert REFUSED[name] in str(raised.value)
    assert " — " in str(raised.value)
