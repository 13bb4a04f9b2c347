"""Our own method: what earned its keep on development data, and a teacher where there is trusted data to learn from.

No paper of this folder has either. See docs/methods/lacuner.md for what was tried.
"""

from typing import Literal

from pydantic import Field
from torch import Tensor

from lacuner.heads import WidthConfig
from lacuner.methods.composition import SpanMethod, Teacher
from lacuner.methods.full import CrossEntropy
from lacuner.methods.uniform import Uniform


class FoldTeacher(Teacher):
    """``folds``: several models judge sentences that they have not seen, their labels and what has none alike.

    They learn from the complete sentences, each without one of ``folds`` parts, so no distant label has taught them its
    mistakes; what they think on average, weighed against what is annotated, is what the model learns about the rest.
    """

    name: Literal["folds"] = "folds"
    trust: float = Field(3.0, gt=0, description="how many times more probable a label is because it is annotated")

    def belief(self, probabilities: Tensor, annotated: Tensor) -> Tensor:
        weighed = probabilities * (1 + (self.trust - 1) * annotated)  # Bayes, with ``trust`` as the likelihood ratio
        return weighed / weighed.sum(-1, keepdim=True)


PARTS = (FoldTeacher,)
METHODS = (
    SpanMethod(
        name="lacuner",
        paper="ours; docs/methods/lacuner.md has what was tried",
        summary="Few random negatives, averaged weights, a threshold from dev data; trusted sentences judge distant ones.",
        head=WidthConfig(),
        negatives=Uniform(),
        loss=CrossEntropy(),
        teacher=FoldTeacher(),
        training={"average": 1.0, "fit_threshold": True, "cover": 0.995},
    ),
)
