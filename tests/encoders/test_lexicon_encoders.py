"""What holds for every encoder with a lexicon."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from chinese import VECTORS

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.encoders import ENCODERS, EncodedWords, Encoder, EncoderConfig
from lacuner.encoders.flat import FlatConfig
from lacuner.encoders.lexicon import WordAttention, choose_lexicon, weigh_words
from lacuner.encoders.table import VectorTable
from lacuner.errors import ConfigError, DataError, ModelError, TrainingError
from lacuner.parts import build_part
from lacuner.training.settings import resolve_settings
from watching import StopAfter

NAMES = ("flat", "bert-word", "lebert")
SENTENCES = [list("南京市长江大桥"), list("我们去了南京"), ["我", "ABC", "上海"]]
SMALL: dict[str, dict[str, Any]] = {
    "flat": {"vectors": "none", "word_size": 5, "heads": 2, "head_size": 8},
    "bert-word": {"hidden": 8, "word_size": 5},
    "lebert": {"word_size": 5},
}


@pytest.fixture
def make(chinese_bert: Path, vector_file: Path) -> Any:
    """An encoder of a few weights, in evaluation."""

    def config(name: str, lexicon: Path = vector_file, **changes: Any) -> EncoderConfig:
        model = {} if name == "flat" else {"model": str(chinese_bert)}
        return build_part(
            "encoder", {"name": name, "lexicon": str(lexicon), **model, **SMALL[name], **changes}, ENCODERS
        )

    def encoder(
        name: str, lexicon: Path = vector_file, sentences: Sequence[Sequence[str]] = SENTENCES, **changes: Any
    ) -> Encoder:
        torch.manual_seed(0)
        return config(name, lexicon, **changes).create(sentences).eval()

    encoder.config = config
    return encoder


def encode(encoder: Encoder, sentences: Sequence[Sequence[str]]) -> EncodedWords:
    with torch.no_grad():
        return encoder(encoder.index.collate(sentences))


def table_of(encoder: Any) -> VectorTable:
    return encoder.words if isinstance(encoder.words, VectorTable) else encoder.words.table


@pytest.mark.parametrize("name", NAMES)
def test_a_sentence_is_encoded_the_same_in_any_company(name: str, make: Any) -> None:
    encoder = make(name)
    company = [*SENTENCES, list("上海"), list("在") * 30, list("南京市长江大桥") * 9]
    together = encode(encoder, company)
    for row, tokens in enumerate(company):
        alone = encode(encoder, [tokens])
        for found, expected in ((together.first, alone.first), (together.last, alone.last)):
            assert found.shape[-1] == encoder.size
            torch.testing.assert_close(found[row, : len(tokens)], expected[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_words_of_the_lexicon_change_what_the_characters_in_them_are(name: str, make: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("".join(f"{word} 3 -1 2\n" for word in VECTORS), encoding="utf-8")
    one, two = make(name), make(name, other)
    for key, weight in two.state_dict().items():
        if "table" not in key and not key.startswith("words."):
            assert weight.equal(one.state_dict()[key]), "the encoders differ in their lexicons only"
    tokens = list("我们去了")
    torch.testing.assert_close(encode(one, [tokens]).first, encode(two, [tokens]).first)
    changed = (encode(one, [[*tokens, *"南京"]]).first - encode(two, [[*tokens, *"南京"]]).first).abs().amax(-1)[0]
    assert (changed[4:] > 1e-4).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens", [list("我们去了"), ["我"], ["ABC", "ABC"]], ids="".join)
def test_a_sentence_without_any_word_is_encoded(name: str, tokens: list[str], make: Any) -> None:
    encoder = make(name).train()
    encoded = encoder(encoder.index.collate([tokens]))
    assert encoded.first.isfinite().all()
    encoded.first.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in encoder.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_everything_that_is_trained(name: str, make: Any) -> None:
    encoder = make(name, dropout=0.0)
    words = encoder(encoder.index.collate(SENTENCES))
    (words.first * torch.randn(words.first.shape) + words.last * torch.randn(words.last.shape)).sum().backward()
    untouched = {key for key, weight in encoder.named_parameters() if weight.grad is None or not weight.grad.any()}
    assert {key for key in untouched if "key.bias" not in key} == set()  # a softmax does not see a bias of all keys
    grad = table_of(encoder).trained.weight.grad
    assert not grad[0].any(), "padding is no word"
    assert grad[1:].abs().sum(-1).all(), "every word of these sentences"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("with_vectors", [True, False])
def test_an_encoder_restored_from_a_folder_is_the_same(
    name: str, with_vectors: bool, make: Any, vector_file: Path, word_list: Path, tmp_path: Path
) -> None:
    lexicon = vector_file if with_vectors else word_list
    encoder = make(name, lexicon)
    architecture = json.loads(json.dumps(encoder.save(tmp_path)))
    config = make.config(name, tmp_path / "absent.txt")
    restored = config.restore(architecture, tmp_path).eval()
    assert set(restored.state_dict()) == set(encoder.state_dict())
    restored.load_state_dict(encoder.state_dict())
    unseen = [*SENTENCES, list("上海市长")]
    for found, expected in zip(encode(restored, unseen), encode(encoder, unseen), strict=True):
        assert found.equal(expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_lexicon_in_a_model_folder_is_named(name: str, make: Any, tmp_path: Path) -> None:
    architecture = make(name).save(tmp_path)
    (tmp_path / "lexicon.json").write_text('{"words": []}')
    with pytest.raises(ModelError, match=r"lexicon\.json is damaged"):
        make.config(name).restore(architecture, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_words_start_from_the_file_and_those_that_training_never_shows_keep_its_vectors(name: str, make: Any) -> None:
    encoder = make(name, sentences=[list("南京市长"), list("南京市长")])
    lexicon, table = encoder.index.lexicon, table_of(encoder)
    assert lexicon.words[: lexicon.trained] == ("南京", "南京市", "市长")
    assert set(lexicon.words[lexicon.trained :]) == {"长江", "长江大桥", "大桥", "上海"}
    optimizer = torch.optim.SGD(encoder.parameters(), lr=1.0)
    before = {word: table(torch.tensor([number]))[0].tolist() for number, word in enumerate(lexicon.words, 1)}
    assert before == {word: list(VECTORS[word]) for word in lexicon.words}
    encoder(encoder.index.collate([list("南京市长江大桥")])).first[0, 0].pow(3).sum().backward()
    optimizer.step()
    for number, word in enumerate(lexicon.words, 1):
        kept = table(torch.tensor([number]))[0].tolist() == before[word]
        assert kept == (number > lexicon.trained), word


def test_words_without_vectors_are_learned_or_dropped(make: Any, word_list: Path) -> None:
    encoder = make("lebert", word_list, sentences=[list("南京市长")])
    assert encoder.index.lexicon.words == ("南京", "南京市", "市长")
    assert table_of(encoder).trained.weight.shape == (1 + 3, 5)
    assert len(table_of(encoder).fixed) == 0


def choose(path: Path, sentences: Sequence[Sequence[str]] = SENTENCES) -> tuple[Any, VectorTable]:
    return choose_lexicon(FlatConfig(lexicon=str(path), word_size=5), sentences)


@pytest.mark.parametrize(
    ("text", "words", "size"),
    [
        ("南京 1 2\n我们 3 4\n", ("南京", "我们"), 2),
        ("2 3\n南京 1 2 3\n我们 3 4 5\n", ("南京", "我们"), 3),
        ("南京\n我们\n", ("南京", "我们"), 5),
        ("南京\tLOC\n我们\tPER\n", ("南京", "我们"), 5),
        ("\ufeff南 京\n我 们\n", ("南京", "我们"), 5),
        ("去了 南京 了\n南京\n", ("南京",), 5),
        ("南京 1\n我们\n", ("我们",), 5),
    ],
)
def test_a_lexicon_is_a_vector_file_or_a_word_list(
    text: str, words: tuple[str, ...], size: int, tmp_path: Path
) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(text, encoding="utf-8")
    lexicon, table = choose(path)
    assert (lexicon.words, table.size) == (words, size)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("南京 1 2\n我们 3\n", r"lexicon\.txt:2: a word and 2 finite numbers"),
        ("南京 1 2\n我们 3 x\n", r"lexicon\.txt:2: a word and 2 finite numbers"),
        ("南京\tLOC\n我们\tPER\tx\n", r"lexicon\.txt:2: one word"),
        ("南\n我\n", r"lexicon\.txt: there are no words of two characters"),
        ("", r"lexicon\.txt: there are no words of two characters"),
        ("大海\n高山\n", r"lexicon\.txt: none of the words occurs"),
        ("大海 1 2\n高山 3 4\n", r"lexicon\.txt: none of the words occurs"),
        (None, r"lexicon\.txt: No such file"),
    ],
)
def test_a_bad_lexicon_is_named_with_what_to_do(text: str | None, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "lexicon.txt"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=complaint) as caught:
        choose(path)
    assert " — " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text("南京\n", encoding="utf-8")
    assert choose(path)[0].words == ("南京",)
    with monkeypatch.context() as patch:
        patch.setattr("lacuner.encoders.lexicon.read_words", None)
        assert choose(path)[0].words == ("南京",)
    path.write_text("我们\n长江\n", encoding="utf-8")
    assert choose(path)[0].words == ("我们", "长江")


def test_what_was_taken_is_said(vector_file: Path, word_list: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lacuner"):
        choose(vector_file, [list("南京市长")])
        choose(word_list, [list("南京市长")])
    assert "vectors.txt (words in the corpus: 3; 4 others have vectors)" in caplog.text
    assert "words.tsv (words in the corpus: 3; the others are dropped)" in caplog.text


def test_words_are_aligned_weighted_by_a_bilinear_product_and_summed_up() -> None:
    torch.manual_seed(0)
    attention = WordAttention(VectorTable(1 + 4, 0, 3), 6)
    first, _, second = attention.align
    tokens, words = torch.randn(5, 6), torch.tensor([0, 3, 1, 4])
    places = torch.tensor([[1, 2, 0], [3, 0, 0], [0, 0, 0], [1, 2, 3], [0, 2, 0]])
    with torch.no_grad():
        found = attention(tokens, words, places)
        for row in range(5):
            aligned = []
            for place in places[row].tolist():
                if place:
                    vector = attention.table.trained.weight[words[place]]
                    aligned.append(second.weight @ torch.tanh(first.weight @ vector + first.bias) + second.bias)
            scores = [tokens[row] @ attention.bilinear.weight.T @ vector for vector in aligned]
            total = sum(score.exp() for score in scores)
            expected = sum((s.exp() / total * v for s, v in zip(scores, aligned, strict=True)), torch.zeros(6))
            torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-5)


def test_a_token_without_words_gets_nothing_and_gives_no_gradient() -> None:
    tokens, words = torch.randn(2, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    found = weigh_words(tokens, words, torch.tensor([[0, 0], [2, 0]]))
    assert found[0].tolist() == [0.0] * 4
    torch.testing.assert_close(found[1], words[2])
    found.sum().backward()
    assert not words.grad[:2].any()
    assert weigh_words(tokens, words, torch.zeros(2, 0, dtype=torch.long)).tolist() == [[0.0] * 4] * 2


@pytest.fixture(scope="module")
def chinese_toy() -> Corpus:
    """Four people in three places, all of them in the lexicon."""
    sentences = []
    for person in ("王明", "李华", "王华", "李明"):
        for place in ("南京", "上海", "长江大桥"):
            for middle in ("住过", "去了", "在"):
                end = 2 + len(middle) + len(place)
                entities = (Entity(0, 2, "PER"), Entity(2 + len(middle), end, "LOC"))
                sentences.append(Sentence(tuple(person + middle + place), entities))
    return Corpus(tuple(sentences))


QUICK = {
    "encoder.dropout": 0.0,
    "training.batch_tokens": 48,
    "training.encoder_learning_rate": 0.005,
    "training.head_learning_rate": 0.01,
}


def settings_for(name: str, chinese_bert: Path, lexicon: Path) -> dict[str, Any]:
    given: dict[str, Any] = {f"encoder.{key}": value for key, value in SMALL[name].items()} | QUICK
    given["encoder.lexicon"] = str(lexicon)
    return given if name == "flat" else given | {"encoder.model": str(chinese_bert)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["uniform", "crf"])
def test_a_recogniser_learns_and_is_the_same_when_it_is_loaded_again(
    name: str, method: str, chinese_toy: Corpus, chinese_bert: Path, vector_file: Path, tmp_path: Path
) -> None:
    settings = settings_for(name, chinese_bert, vector_file)
    if method == "uniform":
        settings |= {"head": "product", "head.hidden": 32, "head.dropout": 0.1, "negatives.ratio": 1.0}
    trained = Recognizer.train(
        chinese_toy, chinese_toy, method=method, encoder=name, epochs=7, settings=settings, out=tmp_path / "model"
    )
    assert trained.evaluate(chinese_toy).f1 > 0.9
    assert not [path for path in (tmp_path / "model").iterdir() if path.suffix in (".bin", ".pt", ".pkl")]
    loaded = Recognizer.from_pretrained(tmp_path / "model")
    text = "李华去了长江大桥王明住过上海"
    assert loaded.split == "characters"
    assert loaded.predict(text) == trained.predict(text)
    assert trained.predict(text)
    assert loaded.predict("") == []


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_run_that_is_resumed_ends_bit_identical(
    name: str, chinese_toy: Corpus, chinese_bert: Path, vector_file: Path, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {"method": "crf", "encoder": name, "epochs": 3}
    arguments["settings"] = settings_for(name, chinese_bert, vector_file)
    whole = Recognizer.train(chinese_toy, None, **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(chinese_toy, None, out=tmp_path / "m", observer=StopAfter(1), **arguments)
    resumed = Recognizer.train(chinese_toy, None, out=tmp_path / "m", resume=True, **arguments)
    weights = resumed.model.state_dict()
    assert all(torch.equal(weight, weights[key]) for key, weight in whole.model.state_dict().items())


def test_encoders_with_a_lexicon_are_named_like_any_other() -> None:
    chosen = resolve_settings(encoder="lebert", overrides={"encoder.model": "some/bert", "encoder.lexicon": "w.txt"})
    assert (chosen.encoder.name, chosen.encoder.model, chosen.encoder.lexicon) == ("lebert", "some/bert", "w.txt")
    assert chosen.encoder.title == "lebert (bert)"
    described = {"name": "bert-word", "model": "some/bert", "lexicon": "w.txt"}
    again = resolve_settings(overrides={"encoder.model": "other"}, config={"encoder": described})
    assert (again.encoder.name, again.encoder.model) == ("bert-word", "other")
    assert resolve_settings(overrides={"encoder.model": "other"}).encoder.name == "transformer"
    flat = {"name": "flat", "lexicon": "w.txt"}
    assert (
        resolve_settings(overrides={"encoder.model": "other"}, config={"encoder": flat}).encoder.name == "transformer"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_lexicon_is_asked_for(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"encoder={name}: set encoder\.lexicon, too \(a word2vec"):
        resolve_settings(encoder=name, overrides={} if name == "flat" else {"encoder.model": "some/bert"})
    if name != "flat":
        with pytest.raises(ConfigError, match=rf"encoder={name}: set encoder\.model, too \(Hugging Face model"):
            resolve_settings(encoder=name, overrides={"encoder.lexicon": "w.txt"})


@pytest.mark.parametrize("name", ["bert-word", "lebert", "transformer"])
def test_only_what_is_pretrained_learns_at_the_encoders_rate(
    name: str, chinese_toy: Corpus, chinese_bert: Path, vector_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[list[tuple[float, int]]] = []
    original = torch.optim.AdamW.__init__

    def spy(self: Any, params: Any, *arguments: Any, **keywords: Any) -> None:
        groups.append([(group["peak"], sum(weight.numel() for weight in group["params"])) for group in params])
        original(self, params, *arguments, **keywords)

    monkeypatch.setattr(torch.optim.AdamW, "__init__", spy)
    if name == "transformer":
        settings: dict[str, Any] = {"encoder.model": str(chinese_bert), "encoder.lstm": 8} | QUICK
    else:
        settings = settings_for(name, chinese_bert, vector_file)
    model = Recognizer.train(chinese_toy, method="crf", encoder=None if name == "transformer" else name, epochs=1,
                             settings=settings).model  # fmt: skip
    bert = getattr(model.encoder, "bert", model.encoder).model
    pretrained = sum(weight.numel() for weight in bert.parameters())
    everything = sum(weight.numel() for weight in model.parameters())
    assert groups == [[(0.005, pretrained), (0.01, everything - pretrained)]]
    assert model.encoder.pretrained is bert


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_not_resumed_with_another_lexicon(
    name: str, chinese_toy: Corpus, chinese_bert: Path, tmp_path: Path
) -> None:
    lexicon = tmp_path / "words.txt"
    lexicon.write_text("南京\n上海\n", encoding="utf-8")
    arguments: dict[str, Any] = {"method": "crf", "encoder": name, "epochs": 2, "out": tmp_path / "m"}
    arguments["settings"] = settings_for(name, chinese_bert, lexicon)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(chinese_toy, None, observer=StopAfter(1), **arguments)
    lexicon.write_text("南京\n上海\n长江\n", encoding="utf-8")
    with pytest.raises(TrainingError, match="other data or settings"):
        Recognizer.train(chinese_toy, None, resume=True, **arguments)
