import json
import re
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard as HubCard
from huggingface_hub.repocard import metadata_load

from lacuner import Recognizer
from lacuner.model_card import ModelCard
from lacuner.training.settings import resolve_settings


@pytest.fixture
def card(model) -> ModelCard:
    return ModelCard(model.labels, model.settings, vars(model.record))


def test_the_hub_reads_what_the_card_says(model, model_folder):
    read = HubCard.load(model_folder / "README.md")
    data = read.data
    assert (data.library_name, data.pipeline_tag) == ("lacuner", "token-classification")
    assert "named-entity-recognition" in data.tags
    assert (data.language, data.license, data.base_model) == (None, None, None)
    results = {result.metric_type: result for result in data.eval_results}
    assert data.metrics == list(results) == ["f1", "precision", "recall"]
    for name, result in results.items():
        assert result.metric_value == pytest.approx(model.record.dev[name], abs=1e-4)
        assert (result.task_type, result.dataset_split) == ("token-classification", "dev")
    assert metadata_load(model_folder / "README.md") == yaml.safe_load(str(data))


def test_a_card_has_data_method_scores_usage_and_limits(card, model):
    text = str(card)
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles == ["Data and method", "Scores on the dev data", "Use", "Limits"]
    assert "25 sentences, 50 annotated entities" in text
    assert f"| **all** | {100 * model.record.dev['precision']:.2f} |" in text
    assert "finds LOC, PER" in text
    for way in ("lacuner predict path/to/this/folder", "Recognizer.from_pretrained(", 'nlp.add_pipe("lacuner"'):
        assert way in text


def test_a_card_on_the_hub_names_the_model_as_the_hub_does(card):
    named = replace(card, name="ada/names", language=["de", "en"], license="cc0-1.0")
    text = str(named)
    data = HubCard(text).data
    assert (data.language, data.license, data.model_name) == (["de", "en"], "cc0-1.0", "names")
    assert 'Recognizer.from_pretrained("ada/names")' in text
    assert 'spacy.blank("de")' in text
    assert "# names\n" in text
    assert HubCard(str(replace(card, language="fr"))).data.language == ["fr"]


def test_the_python_of_a_card_loads_the_model(card, model_folder):
    blocks = re.findall(r"^```python\n(.*?)^```", str(replace(card, name=str(model_folder))), re.MULTILINE | re.DOTALL)
    (own,) = (block for block in blocks if "spacy" not in block)
    names: dict[str, object] = {}
    exec(own, names)
    assert isinstance(names["model"], Recognizer)


def test_precision_on_dev_data_with_gaps_is_not_boasted_of(card):
    settings = resolve_settings("full", overrides={"training.metric": "pu"})
    text = str(replace(card, settings=settings))
    assert [result.metric_type for result in HubCard(text).data.eval_results] == ["recall"]
    assert "| label | recall | support |" in text
    assert "The dev data is incomplete as well" in text


def test_a_model_without_dev_data_has_no_scores(card):
    text = str(replace(card, record=dict(card.record) | {"dev": None}))
    assert HubCard(text).data.eval_results is None
    assert HubCard(text).data.metrics is None
    assert "## Scores" not in text
    assert "its quality was not measured" in text


def test_the_encoder_is_named_if_the_hub_has_it_and_not_if_a_folder_does(card, toy_bert):
    for encoder, base in (("bert-base-cased", "bert-base-cased"), ("user/bert", "user/bert"), (toy_bert, None)):
        settings = card.settings.model_copy(update={"encoder": resolve_settings("full", encoder).encoder})
        text = str(replace(card, settings=settings))
        assert HubCard(text).data.base_model == base
        assert toy_bert not in text


@pytest.mark.parametrize("label", ["A|B", "a: b", "- x", "#", "{y}", "'", '"', "名", "---"])
def test_no_label_breaks_the_card(card, label):
    dev = json.loads(json.dumps(card.record["dev"]))
    dev["labels"][label] = dev["labels"].pop("LOC")
    text = str(replace(card, labels=(label, "PER"), record=dict(card.record) | {"dev": dev}))
    assert HubCard(text).data.library_name == "lacuner"
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.endswith("|")]
    scores = rows[rows.index(next(row for row in rows if row.startswith("| label"))) :]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in scores} == {6}


def test_a_card_says_that_a_model_of_a_stage_was_kept(card):
    assert "kept model" not in str(card)
    kept = replace(card, record={**card.record, "kept": "distilled-2"})
    assert "| kept model | `distilled-2`, which is better on the dev data than the final one |" in str(kept)
