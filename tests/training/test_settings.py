import pytest

from lacuner import Corpus, Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.heads import WidthConfig
from lacuner.methods.lacuner import FoldTeacher
from lacuner.methods.registry import registry
from lacuner.training.settings import parse_assignments, read_config, resolve_settings, settings_from_dict


def test_a_preset_brings_its_parts():
    settings = resolve_settings("uniform")
    assert settings.method.negatives.name == "uniform"
    assert settings.method.head.name == "product"
    assert settings.encoder.name == "recurrent"


def test_what_is_set_outranks_the_file_which_outranks_the_preset():
    config = {"method": "uniform", "negatives": {"ratio": 0.5}, "training": {"epochs": 7, "max_grad_norm": 1.0}}
    settings = resolve_settings(overrides={"training.epochs": 3}, config=config)
    assert settings.method.negatives.ratio == 0.5
    assert (settings.training.epochs, settings.training.max_grad_norm) == (3, 1.0)


def test_a_part_can_be_exchanged_and_then_set():
    settings = resolve_settings("full", overrides={"negatives": "uniform", "negatives.ratio": 0.7, "head": "width"})
    assert settings.method.negatives.name == "uniform"
    assert settings.method.negatives.ratio == 0.7
    assert isinstance(settings.method.head, WidthConfig)


def test_none_takes_a_bound_away():
    assert (
        resolve_settings(overrides={"head": "width", "head.max_span_width": "none"}).method.head.max_span_width is None
    )
    assert resolve_settings(overrides={"training.patience": "none"}).training.patience is None


def test_none_as_vectors_stays_a_word():
    assert resolve_settings(overrides={"encoder.vectors": "none"}).encoder.vectors == "none"


def test_any_other_encoder_is_a_hugging_face_name():
    settings = resolve_settings(encoder="bert-base-cased")
    assert (settings.encoder.name, settings.encoder.model) == ("transformer", "bert-base-cased")
    assert settings.training.encoder_learning_rate < resolve_settings().training.encoder_learning_rate


def test_values_on_the_command_line_are_toml_or_plain_text():
    parsed = parse_assignments(["a.b=3", "c=0.5", "d=true", "e=some/file.txt", "f=none", 'g="x y"'])
    assert parsed == {"a.b": 3, "c": 0.5, "d": True, "e": "some/file.txt", "f": "none", "g": "x y"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"method": "nonesuch"},
            "there is no method 'nonesuch'; choose autoner, bnpu, bond, conf-mpu, crf, cupul, eer, full, lacuner",
        ),
        ({"overrides": {"negatives.mu": 4}}, "there is no setting negatives.mu; there are: negatives.ratio"),
        ({"overrides": {"negatives": "nonesuch"}}, "there is no negatives 'nonesuch'; choose all"),
        ({"overrides": {"negatives.ratio": -1}}, "negatives.ratio=-1"),
        ({"overrides": {"loss": "none"}}, "loss=none: no method of this kind does without"),
        ({"overrides": {"contrast.weight": 1}}, "the method has no contrast"),
        ({"overrides": {"nonesuch.x": 1}}, "there is no setting nonesuch; settings begin with one of: method, encoder"),
        ({"overrides": {"training.epochs": 0}}, "training.epochs=0"),
        ({"overrides": {"training": 3}}, "training"),
        ({"encoder": "transformer"}, "give the model's name or folder"),
        ({"overrides": {"split": "syllables"}}, "split='syllables'"),
    ],
)
def test_a_wrong_setting_is_named_in_one_sentence(arguments, message):
    with pytest.raises(ConfigError) as caught:
        resolve_settings(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_assignment_without_equals_is_refused():
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_assignments(["negatives.ratio"])


def test_a_broken_config_file_is_named(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("method = uniform")
    with pytest.raises(ConfigError, match=r"run.toml: not TOML"):
        read_config(path)
    with pytest.raises(ConfigError, match=r"absent.toml"):
        read_config(tmp_path / "absent.toml")


def test_settings_survive_json():
    settings = resolve_settings("uniform", overrides={"negatives.ratio": 0.6, "head": "width", "split": "characters"})
    assert settings_from_dict(settings.model_dump(mode="json")) == settings


def test_the_order_of_settings_does_not_matter():
    overrides = {"head.max_span_width": 4, "head": "width"}
    assert resolve_settings(overrides=overrides).method.head.max_span_width == 4
    config = {"negatives": {"ratio": 0.9}}
    assert resolve_settings("uniform", overrides={"negatives": "uniform"}, config=config).method.negatives.ratio == 0.9


def test_the_encoder_argument_outranks_the_file():
    config = {"encoder": {"model": "bert-base", "window": 256}}
    assert resolve_settings(encoder="roberta-base", config=config).encoder.model == "roberta-base"
    assert resolve_settings(encoder="recurrent", config=config).encoder.name == "recurrent"
    assert resolve_settings(encoder="bert-base", overrides={"encoder.window": 128}).encoder.window == 128


def test_patience_that_is_set_stays_as_it_is():
    config = resolve_settings(overrides={"training.patience": 2}).training
    assert config.for_corpus(100, 15, 400).patience == 2


@pytest.mark.parametrize(
    ("method", "key", "value", "reason"),
    [
        ("scl-rai", "contrast.weight", 1, "less than 1"),
        ("scl-rai", "inference.alpha", 1, "less than 1"),
        ("uniform", "negatives.ratio", 0, "greater than"),
        ("weighted", "negatives.ratio", 0, "greater than"),
        ("uniform", "negatives.ratio", float("inf"), "finite"),
        ("nrces", "negatives.fraction", 0, "greater than 0"),
        ("top-neg", "negatives.fraction", 1.5, "less than or equal to 1"),
        ("uniform", "teacher.folds", 1, "greater than or equal to 2"),
        ("uniform", "teacher.min_entities", 0, "greater than or equal to 1"),
        ("uniform", "training.width_quantile", 0, "greater than 0"),
        ("uniform", "training.width_quantile", 1.5, "less than or equal to 1"),
        ("uniform", "teacher.max_rounds", 0, "greater than or equal to 1"),
        ("uniform", "teacher.label_odds", 0, "greater than 0"),
        ("uniform", "teacher.min_probability", 2, "less than or equal to 1"),
        ("uniform", "teacher.train_on", "evening", "'trusted' or 'all'"),
        ("uniform", "training.ema_epochs", 0, "greater than 0"),
        ("uniform", "training.ema_epochs", float("inf"), "finite"),
        ("uniform", "training.metric", "recall", "'f1' or 'pu'"),
        ("uniform", "training.precision", "fp16", "'fp32', 'bf16' or 'auto'"),
        ("uniform", "trusted.fraction", 0, "greater than 0"),
        ("uniform", "trusted.fraction", 1, "less than 1"),
    ],
)
def test_a_setting_without_sense_is_refused_with_the_reason(method, key, value, reason):
    overrides = {key: value} | ({"teacher": "folds"} if key.startswith("teacher") else {})
    with pytest.raises(ConfigError) as caught:
        resolve_settings(method, overrides=overrides)
    message = str(caught.value)
    assert message.startswith(f"{key}={value!r}: ")
    assert reason in message
    assert "\n" not in message


def test_a_teacher_can_be_put_in_and_taken_out():
    assert resolve_settings("full").method.teacher is None
    teacher = resolve_settings("full", overrides={"teacher": "folds", "teacher.folds": 5}).method.teacher
    assert (teacher.name, teacher.folds) == ("folds", 5)
    assert resolve_settings("lacuner").method.teacher == FoldTeacher()
    assert resolve_settings("lacuner", overrides={"teacher": "none"}).method.teacher is None
    assert resolve_settings(overrides={"teacher": "none"}, config={"teacher": "folds"}).method.teacher is None


def test_what_a_preset_sets_of_training_can_be_set_otherwise():
    preset = resolve_settings("lacuner").training
    assert (preset.width_quantile, preset.fit_threshold) == (0.995, True)
    other = resolve_settings(
        "lacuner", overrides={"training.width_quantile": "none", "training.fit_threshold": False}
    ).training
    assert (other.width_quantile, other.fit_threshold) == (None, False)
    assert resolve_settings("uniform").training.width_quantile is None


def sentence_with_widths(*widths: int) -> Sentence:
    return Sentence(("word",) * max(widths), tuple(Entity(0, width, "PER") for width in set(widths)))


@pytest.mark.parametrize(
    ("quantile", "bound", "expected"),
    [
        (0.9, 2, 9),
        (0.91, 2, 10),
        (1.0, 2, 10),
        (0.1, 2, 2),
        (0.25, 2, 3),
        (1.0, 30, 30),
        (None, 2, 2),
        (1.0, None, None),
    ],
)
def test_a_head_is_widened_to_a_quantile_of_the_widths(quantile, bound, expected):
    """Ten entities, with 1 to 10 words."""
    overrides = {"training.width_quantile": quantile or "none", "head": "width", "head.max_span_width": bound or "none"}
    corpus = Corpus(tuple(sentence_with_widths(width) for width in range(1, 11)))
    settings = resolve_settings("uniform", overrides=overrides).for_data(corpus)
    assert settings.method.head.max_span_width == expected
    assert settings.training.epochs == settings.training.for_corpus(sum(map(len, corpus)), 15, 400).epochs


@pytest.mark.parametrize("setting", ["training.nested", "training.width_quantile"])
def test_training_settings_that_a_tagger_has_no_use_for_are_refused(setting):
    value = True if setting == "training.nested" else 0.9
    with pytest.raises(ConfigError, match=rf"^{setting} is set, but crf tags words: .* span-level methods only$"):
        resolve_settings("crf", overrides={setting: value})
    resolve_settings("crf", overrides={setting: False if setting == "training.nested" else "none"})
    name = setting.removeprefix("training.")
    assert getattr(resolve_settings("uniform", overrides={setting: value}).training, name) == value


def test_a_corpus_without_entities_widens_nothing():
    settings = resolve_settings("lacuner").for_data(Corpus((Sentence(("word",)),)))
    assert settings.method == resolve_settings("lacuner").method


@pytest.mark.parametrize("name", sorted(registry().methods))
def test_every_preset_resolves_and_survives_json(name):
    parts = {
        "span": {"teacher": "folds", "teacher.label_odds": 3},
        "token": {"stage": "o-values", "stage.fraction": 0.05},
    }
    chosen = registry().method(name)
    fitting = {key: value for key, value in parts[chosen.level].items() if key.partition(".")[0] in chosen.kinds()}
    overrides = fitting | {"trusted.fraction": 0.25, "training.ema_epochs": 2}
    for settings in (resolve_settings(name), resolve_settings(name, overrides=overrides)):
        assert settings.method.name == name
        assert settings_from_dict(settings.model_dump(mode="json")) == settings


@pytest.fixture
def with_bf16(monkeypatch: pytest.MonkeyPatch):
    """Pretends that this machine multiplies bfloat16 in hardware, or does not."""

    def have(there: bool) -> None:
        monkeypatch.setattr("lacuner.training.settings.has_bf16", lambda device: there)

    return have


def test_auto_is_bf16_where_the_processor_has_it_and_the_encoder_is_known_to_be_as_good(with_bf16):
    auto = {"training.precision": "auto"}
    with_bf16(True)
    assert resolve_settings(encoder="bert-base-cased", overrides=auto).training.precision == "bf16"
    lexicon = {"encoder.model": "bert-base-chinese", "encoder.lexicon": "words.txt"}
    for encoder in ("bert-word", "lebert"):  # F1 has not been compared
        assert resolve_settings(encoder=encoder, overrides=auto | lexicon).training.precision == "fp32"
    assert resolve_settings(encoder="recurrent", overrides=auto).training.precision == "fp32"
    with_bf16(False)
    assert resolve_settings(encoder="bert-base-cased", overrides=auto).training.precision == "fp32"


def test_what_is_asked_for_is_done_whatever_the_processor_has(with_bf16):
    for there in (True, False):
        with_bf16(there)
        for precision in ("fp32", "bf16"):
            overrides = {"training.precision": precision}
            assert resolve_settings(encoder="bert", overrides=overrides).training.precision == precision
        assert resolve_settings(encoder="bert").training.precision == "fp32"


@pytest.mark.parametrize("encoder", ["recurrent", "flat"])
def test_encoders_without_pretrained_layers_refuse_bf16(encoder):
    overrides = {"training.precision": "bf16"} | ({"encoder.lexicon": "words.txt"} if encoder == "flat" else {})
    message = rf"^training.precision=bf16: the encoder {encoder} is trained in fp32 only; leave it out, or give auto$"
    with pytest.raises(ConfigError, match=message):
        resolve_settings(encoder=encoder, overrides=overrides)


def test_settings_of_older_models_know_neither_teachers_nor_averages():
    settings = resolve_settings("uniform").model_dump(mode="json")
    del settings["trusted"], settings["method"]["teacher"]
    for key in ("ema_epochs", "fit_threshold", "width_quantile", "metric", "nested", "precision"):
        del settings["training"][key]
    assert settings_from_dict(settings) == resolve_settings("uniform")


@pytest.mark.parametrize("section", ["method", "encoder", "split"])
@pytest.mark.parametrize("value", [["a"], [], {"name": ["a"]}, {"name": {"a": 1}}, 5, False, "", {"name": ""}])
def test_a_name_that_is_none_is_refused_in_one_sentence(section, value):
    for layer in ("config", "overrides"):
        with pytest.raises(ConfigError, match=f"^{section}=.*: give a name, such as {section} = "):
            resolve_settings(**{layer: {section: value}})


def test_a_method_has_no_settings_of_its_own():
    with pytest.raises(ConfigError, match=r"^there is no setting method\.ratio; there is: method$"):
        resolve_settings(config={"method": {"name": "uniform", "ratio": 1}})


def test_settings_that_are_nested_too_deep_are_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(f"a = {'[' * 2000}{']' * 2000}")
    with pytest.raises(ConfigError, match="nested too deep"):
        read_config(path)
    with pytest.raises(ConfigError, match="nested too deep"):
        parse_assignments([path.read_text()])


def test_whatever_the_toml_parser_refuses_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("a = 2026-99-99\n")
    with pytest.raises(ConfigError, match="not TOML"):
        read_config(path)
    path.write_text(f"a = {'1' * 5000}\n")
    with pytest.raises(ConfigError, match="not TOML"):
        read_config(path)
    assert parse_assignments([f"a={'1' * 5000}"]) == {"a": "1" * 5000}


def test_a_transformer_reads_a_small_corpus_twice_as_often(toy_bert):
    corpus = Corpus([Sentence(("Ada",) * 10, (Entity(0, 1, "PER"),))] * 800)
    epochs = {
        encoder: resolve_settings("full", encoder, {"training.batch_tokens": 200}).for_data(corpus).training.epochs
        for encoder in ("recurrent", toy_bert)
    }
    assert list(epochs.values()) == [15, 20], "8,000 words are 40 batches of 200"
