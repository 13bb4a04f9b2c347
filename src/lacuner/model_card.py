"""The model card: ``README.md`` of a model folder, displayed by the Hugging Face hub as the model's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lacuner.inference.passages import MAX_PASSAGE
from lacuner.training.settings import RunSettings
from lacuner.version import __version__

_TAGS = ("named-entity-recognition", "token-classification", "incomplete-annotation")
_TASK = "token-classification"


@dataclass(frozen=True)
class ModelCard:
    """Content of a model card.

    Args:
        labels: that the model predicts.
        settings: of its training.
        record: of its training, as in ``config.json``, with ``history``.
        name: by which it is loaded: its folder, or its name on the hub.
        language: codes such as ``en``, if given by the author; not derivable from the data.
        license: such as ``apache-2.0``, if given by the author.
    """

    labels: Sequence[str]
    settings: RunSettings
    record: Mapping[str, Any]
    name: str = "path/to/this/folder"
    language: str | Sequence[str] | None = None
    license: str | None = None

    def __str__(self) -> str:
        sections = (self._summary(), self._data(), self._scores(), self._usage(), self._limits())
        return "\n\n".join((f"---\n{self.metadata()}\n---", *filter(None, sections))) + "\n"

    def metadata(self) -> str:
        """YAML metadata used by the hub for search."""
        from huggingface_hub import EvalResult, ModelCardData

        scores = self._shown_scores()
        results = [
            EvalResult(
                task_type=_TASK,
                task_name="named-entity recognition",
                dataset_type="unknown",
                dataset_name="dev data",
                dataset_split="dev",
                metric_type=kind,
                metric_name=name,
                metric_value=round(scores[kind], 4),
            )
            for kind, name in (("f1", "F1"), ("precision", "precision"), ("recall", "recall"))
            if kind in scores
        ]
        language = [self.language] if isinstance(self.language, str) else self.language
        data = ModelCardData(
            language=None if language is None else list(language),
            license=self.license,
            library_name="lacuner",
            pipeline_tag=_TASK,
            tags=list(_TAGS),
            base_model=self._base_model(),
            metrics=[result.metric_type for result in results] or None,
            model_name=self._short_name() if results else None,
            eval_results=results or None,
        )
        return data.to_yaml().strip()

    def _summary(self) -> str:
        return (
            f"# {self._short_name()}\n\n"
            f"A named-entity recognizer that finds {', '.join(self.labels)}. Trained with Lacuner {__version__} on "
            "annotation that may have gaps."
        )

    def _data(self) -> str:
        method, encoder, training = self.settings.method, self.settings.encoder, self.settings.training
        data, record = self.record["data"], self.record
        rows = {
            "training data": f"{data.get('sentences', 0):,} sentences, {data.get('entities', 0):,} annotated entities",
            "method": f"`{method.name}` ({method.paper})",
            "encoder": f"`{encoder.title}`",
            "head": f"`{method.head.name}`",
            "best epoch": f"{record['best_epoch']} of {len(record['history'])}; seed {training.seed}",
        }
        if (kept := record.get("kept", "model")) != "model":
            rows["kept model"] = f"`{kept}`, which is better on the dev data than the final one"
        lines = [f"| {name} | {value} |" for name, value in rows.items()]
        return "\n".join(["## Data and method", "", "| | |", "| --- | --- |", *lines])

    def _scores(self) -> str:
        dev = self.record.get("dev")
        if not dev:
            return ""
        names = {"precision": "precision", "recall": "recall", "f1": "F1"}
        shown = {key: name for key, name in names.items() if key in self._shown_scores()}
        lines = [
            "## Scores on the dev data",
            "",
            f"| label | {' | '.join(shown.values())} | support |",
            f"| --- |{' --: |' * (len(shown) + 1)}",
        ]
        for label, scores in (*dev["labels"].items(), ("**all**", dev)):
            values = (f"{100 * scores[key]:.2f}" for key in shown)
            lines.append(f"| {_cell(label)} | {' | '.join(values)} | {scores['support']} |")
        lines += ["", "Exact match in percent; support: annotated entities."]
        if not self._complete_dev():
            lines[-1] += " The dev data is incomplete as well, so precision and F1 are not meaningful."
        return "\n".join(lines)

    def _usage(self) -> str:
        name = self.name
        return f"""## Use

On the command line:

```
lacuner predict {name} news.txt --out entities.jsonl
```

In Python:

```python
from lacuner import Recognizer

model = Recognizer.from_pretrained("{name}")
model.predict("Ada Lovelace moved to Turin.")
```

In spaCy:

```python
import spacy

nlp = spacy.blank("{self._first_language()}")
nlp.add_pipe("lacuner", config={{"model": "{name}"}})
nlp("Ada Lovelace moved to Turin.").ents
```"""

    def _limits(self) -> str:
        lines = [
            f"It finds {', '.join(self.labels)} and nothing else, as the annotators of its training data understood them, "
            "in text that is like its training data.",
            f"Texts of more than {MAX_PASSAGE} words are processed in passages, so distant context is not used.",
        ]
        width = getattr(self.settings.method.head, "max_span_width", None)
        if width is not None:
            lines.append(f"Entities of more than {width} words are not found.")
        if self.record.get("dev"):
            lines.append(
                "Its best epoch was chosen on the dev data, so expect slightly lower scores on other data of the same kind."
            )
        else:
            lines.append("There was no dev data: its quality was not measured, and the last epoch was kept.")
        return "\n".join(["## Limits", "", *(f"* {line}" for line in lines)])

    def _shown_scores(self) -> dict[str, float]:
        """The meaningful scores: precision is not, if dev data is incomplete."""
        kinds = ("precision", "recall", "f1") if self._complete_dev() else ("recall",)
        dev = self.record.get("dev")
        return {kind: dev[kind] for kind in kinds} if dev else {}

    def _complete_dev(self) -> bool:
        return self.settings.training.metric != "pu"

    def _short_name(self) -> str:
        return "Named-entity recognizer" if self.name == type(self).name else Path(self.name).name

    def _base_model(self) -> str | None:
        """The hub name of the pretrained encoder; None if it was loaded from a folder."""
        model = getattr(self.settings.encoder, "model", None)
        if not isinstance(model, str) or Path(model).is_dir() or Path(model).is_absolute():
            return None
        return model

    def _first_language(self) -> str:
        if not self.language:
            return "xx"
        return self.language if isinstance(self.language, str) else self.language[0]


def _cell(text: str) -> str:
    """Escape a label for use in a table cell."""
    return " ".join(text.split()).replace("|", "\\|")
