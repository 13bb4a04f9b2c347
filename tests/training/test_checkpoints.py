import pytest
import torch
from torch import nn

from lacuner.errors import TrainingError
from lacuner.training.checkpoints import CheckpointFolder, Progress, RunFolder, WeightAverage, put_weights


def take_step(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


@pytest.mark.parametrize("horizon", [0.5, 3.0, 50.0])
def test_the_average_follows_its_recursion(horizon):
    torch.manual_seed(1)
    model = nn.Linear(2, 3)
    average = WeightAverage(model)
    expected = {name: weight.flatten().tolist() for name, weight in model.named_parameters()}
    for step in range(1, 61):
        take_step(model)
        average.update(model, horizon)
        share = max(1 / (1 + horizon), 9 / (9 + step))
        for name, weight in model.named_parameters():
            for place, value in enumerate(weight.flatten().tolist()):
                expected[name][place] += share * (value - expected[name][place])
    assert average.steps == 60
    for name, weight in average.weights.items():
        assert weight.flatten().tolist() == pytest.approx(expected[name], abs=1e-4)


def test_the_average_of_what_stands_still_is_that():
    model = nn.Linear(2, 3)
    average = WeightAverage(model)
    for _ in range(5):
        average.update(model, 2.0)
    assert all(torch.equal(weight, average.weights[name]) for name, weight in model.named_parameters())


def test_averaging_leaves_the_model_alone():
    model = nn.Linear(2, 3)
    average = WeightAverage(model)
    take_step(model)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    average.update(model, 4.0)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert not any(torch.equal(weight, before[name]) for name, weight in average.weights.items())


def test_a_checkpoint_brings_back_model_optimizer_average_and_best_weights(tmp_path):
    torch.manual_seed(1)
    model = nn.Linear(2, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    average = WeightAverage(model)
    for _ in range(3):
        model(torch.randn(4, 2)).sum().backward()
        optimizer.step()
        average.update(model, 4.0)
    best = {name: torch.randn_like(weight) for name, weight in model.named_parameters()}
    progress = Progress(3, 2, 0.5, [{"epoch": 1}, {"epoch": 2}, {"epoch": 3}])
    CheckpointFolder(tmp_path / "c", "key").save(model, optimizer, progress, best, average)

    other = nn.Linear(2, 3)
    other_optimizer, other_average = torch.optim.AdamW(other.parameters()), WeightAverage(other)
    found = CheckpointFolder(tmp_path / "c", "key").load(other, other_optimizer, other_average)
    assert found is not None
    assert found[0] == progress
    assert all(torch.equal(weight, best[name]) for name, weight in found[1].items())
    assert all(torch.equal(weight, dict(model.named_parameters())[name]) for name, weight in other.named_parameters())
    assert other_average.steps == 3
    assert all(torch.equal(weight, average.weights[name]) for name, weight in other_average.weights.items())
    state = other_optimizer.state_dict()["state"]
    for number, item in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, state[number][key]) for key, value in item.items())


def test_weights_can_be_put_back():
    model = nn.Linear(2, 3)
    wanted = {name: torch.randn_like(weight) for name, weight in model.named_parameters()}
    put_weights(model, wanted)
    assert all(torch.equal(weight, wanted[name]) for name, weight in model.named_parameters())


def test_what_a_stage_found_out_is_kept_in_place_of_its_checkpoints(tmp_path):
    run = RunFolder(tmp_path / "run", "key")
    assert not run.exists()
    assert run.kept("teacher-1") is None
    model = nn.Linear(2, 3)
    run.stage("teacher-1").save(model, torch.optim.AdamW(model.parameters()), Progress(1), {})
    assert run.exists()
    found = {"sentence": torch.arange(3), "probabilities": torch.rand(3, 2), "nothing": torch.zeros(0, 2)}
    run.keep("teacher-1", found)
    assert not (tmp_path / "run" / "teacher-1").exists()
    assert run.exists()
    kept = RunFolder(tmp_path / "run", "key").kept("teacher-1")
    assert kept is not None
    assert kept.keys() == found.keys()
    assert all(torch.equal(value, found[name]) for name, value in kept.items())
    run.remove()
    assert not (tmp_path / "run").exists()


def test_what_another_run_found_out_is_refused(tmp_path):
    RunFolder(tmp_path, "key").keep("teacher-1", {"sentence": torch.arange(3)})
    with pytest.raises(TrainingError, match="other data or settings"):
        RunFolder(tmp_path, "other").kept("teacher-1")


def test_what_was_being_written_when_a_run_was_killed_does_not_count(tmp_path):
    (tmp_path / "model" / "epoch-0001.tmp").mkdir(parents=True)
    (tmp_path / "teacher-1.tmp").write_bytes(b"half")
    run = RunFolder(tmp_path, "key")
    assert not run.exists()
    assert run.kept("teacher-1") is None
    model = nn.Linear(2, 3)
    assert run.stage("model").load(model, torch.optim.AdamW(model.parameters())) is None
