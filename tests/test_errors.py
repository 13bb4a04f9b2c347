import pickle
from pathlib import Path

import pytest

from lacuner.errors import ConfigError, DataError, LacunerError, ModelError, TrainingError


@pytest.mark.parametrize(
    "error",
    [
        DataError("it is empty", "fill it"),
        DataError("it is empty", "fill it", Path("a.conll"), 3),
        ConfigError("no such setting"),
        ModelError("no such folder"),
        TrainingError("nothing to learn"),
    ],
)
def test_errors_survive_the_way_between_processes(error: LacunerError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
