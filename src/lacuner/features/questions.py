"""Questions about labels, prepended to sentences, and batches with one row per sentence and question."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from lacuner.corpus.tokenize import is_mostly_unspaced
from lacuner.errors import ConfigError
from lacuner.features.subwords import MIN_ROOM, PieceIndex, PieceInputs

_PLACES = "Find places: cities, countries, regions, rivers, mountains and buildings."
_PEOPLE = "Find people: names of persons and families, real or invented."
ENGLISH: Mapping[str, str] = MappingProxyType(
    {
        "per": _PEOPLE,
        "person": _PEOPLE,
        "loc": _PLACES,
        "location": _PLACES,
        "geo-loc": _PLACES,
        "gpe": "Find countries, states, cities and other places that have a government.",
        "org": "Find organizations: companies, institutions, agencies, parties and clubs.",
        "organization": "Find organizations: companies, institutions, agencies, parties and clubs.",
        "corporation": "Find companies and other businesses.",
        "company": "Find companies and other businesses.",
        "misc": "Find other names: nationalities, languages, events, works of art and products.",
        "other": "Find other names: events, holidays, works of art, brands and groups.",
        "fac": "Find facilities: buildings, airports, stations, roads and bridges.",
        "facility": "Find facilities: buildings, schools, restaurants, stadiums and stations.",
        "product": "Find products: vehicles, devices, software, food and other things that are sold.",
        "event": "Find events: wars, storms, sports matches, festivals and meetings.",
        "sportsteam": "Find sports teams and clubs.",
        "musicartist": "Find musicians, singers and bands.",
        "movie": "Find titles of films.",
        "tvshow": "Find titles of television programs.",
        "creative-work": "Find titles of works: books, songs, films, programs and games.",
        "work_of_art": "Find titles of works: books, songs, films, paintings and plays.",
        "norp": "Find nationalities, religions and political groups.",
        "date": "Find dates and periods: days, months, years and seasons.",
        "chemical": "Find chemicals: drugs, compounds, elements and other substances.",
        "disease": "Find diseases: disorders, syndromes, symptoms and injuries.",
        "gene": "Find genes and gene products.",
        "protein": "Find proteins, enzymes and receptors.",
        "species": "Find species: names of animals, plants, bacteria and viruses.",
    }
)
"""Questions about common labels, by label in lower case; worded like annotation guidelines."""
CHINESE: Mapping[str, str] = MappingProxyType(
    {
        "per": "找出人名：真实或虚构的人物的姓名。",
        "per.nam": "找出人名：真实或虚构的人物的姓名。",
        "per.nom": "找出人的称呼：亲属、职业和其他指人的名词。",
        "name": "找出人名：真实人物的姓名。",
        "loc": "找出地点：山川、湖泊、街道、建筑物和地区。",
        "loc.nam": "找出地点的名称：山川、街道、建筑物和地区。",
        "loc.nom": "找出地点的称呼：宿舍、校园和其他指地点的名词。",
        "gpe": "找出行政区：国家、省份、城市和乡镇。",
        "gpe.nam": "找出行政区的名称：国家、省份、城市和乡镇。",
        "gpe.nom": "找出行政区的称呼：国家、城市等名词。",
        "org": "找出组织：公司、政府机构、学校、党派和团体。",
        "org.nam": "找出组织的名称：公司、政府机构、学校和团体。",
        "org.nom": "找出组织的称呼：公司、大学、政府等名词。",
        "misc": "找出其他名称：民族、语言、事件、作品和产品。",
        "cont": "找出国籍。",
        "race": "找出民族。",
        "edu": "找出学历：学位和受教育程度。",
        "pro": "找出专业：所学或所从事的学科。",
        "title": "找出职务：职位、职称和头衔。",
        "pp": "找出品牌：商品的牌子。",
        "cp": "找出产品：商品的名称和种类。",
        "xh": "找出型号：商品的型号。",
        "gg": "找出规格：商品的尺寸、重量和容量。",
        "yl": "找出原料：商品的材料和成分。",
    }
)
"""The same for Chinese texts."""


def default_questions(labels: Iterable[str], sentences: Iterable[Sequence[str]]) -> dict[str, str]:
    """A question for each label, in Chinese if the sentences are, otherwise in English.

    A label without a predefined question gets one made of its name:

    >>> default_questions(["PER", "EyeColor"], [["Ada", "left"]])
    {'PER': 'Find people: names of persons and families, real or invented.', 'EyeColor': 'Find eye color.'}
    """
    chinese = is_mostly_unspaced(" ".join(word for words in islice(sentences, _LOOKED_AT) for word in words))
    known = CHINESE if chinese else ENGLISH
    return {label: known.get(label.lower()) or _question(label, chinese) for label in labels}


class QuestionIndex(PieceIndex):
    """Sentences as ``[CLS] question [SEP] words [SEP]``, one row per sentence and question.

    Long sentences are covered by overlapping windows, each with the question. Sentence sizes (:meth:`lengths`) exclude
    questions, so that batches contain the same sentences as without them.
    """

    def __init__(self, tokenizer: Any, window: int, questions: Sequence[str]) -> None:
        super().__init__(tokenizer, window)
        self.questions = tuple(questions)
        between = _pieces_between(tokenizer) or self._after
        asked = self._backend.encode_batch(list(self.questions), add_special_tokens=False)
        self._openings = [[*self._before, *encoded.ids, *between] for encoded in asked]
        for question, opening in zip(self.questions, self._openings, strict=True):
            if self.room_after(opening) < MIN_ROOM:
                raise ConfigError(
                    f"the question {question[:60]!r} has so many pieces ({len(opening)}) that a window of {window} has no "
                    "room for the text — ask it in fewer words, or set a larger encoder.window"
                )

    def collate(self, sentences: Sequence[Sequence[str]]) -> PieceInputs:
        """Build a batch of ``B`` sentences and ``K`` questions in ``B * K`` rows; sentence ``b`` starts at row ``b * K``."""
        inputs = self._collate(sentences, self._openings)
        behind = (inputs.word >= 0).long().cumsum(-1) > 0  # the first word, and everything after it
        return replace(inputs, segments=behind.long() * inputs.attention)


_LOOKED_AT = 200
"""Number of sentences examined to detect the script."""


def _question(label: str, chinese: bool) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", " ", label).strip() or label
    return f"找出{words}。" if chinese else f"Find {words if words.isupper() else words.lower()}."


def _pieces_between(tokenizer: Any) -> list[int]:
    """The special tokens between two texts, such as [SEP] or </s></s>."""
    words = {"is_split_into_words": True}
    both = list(tokenizer(["a"], ["a"], **words)["input_ids"])
    bare = list(tokenizer(["a"], add_special_tokens=False, **words)["input_ids"])
    found = [begin for begin in range(len(both) - len(bare) + 1) if both[begin : begin + len(bare)] == bare]
    return both[found[0] + len(bare) : found[-1]] if len(found) > 1 else []
