from lacuner.methods.crf import METHODS
from lacuner.methods.token import Likelihood, Outside


def test_the_preset_takes_every_untagged_word_as_outside() -> None:
    (method,) = METHODS
    assert (method.name, method.level, method.unlabeled) == ("crf", "token", Outside())
    assert (method.sampling, method.regularizer, method.stage, method.loss) == (None, None, None, Likelihood())
    assert (method.head.name, method.head.scheme, method.head.angle) == ("crf", "bioes", False)
