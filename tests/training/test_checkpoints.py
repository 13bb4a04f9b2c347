from pathlib import Path

import pytest
import torch
from torch import nn

from faults import CALLS, fail_everywhere
from lacuner.errors import LacunerError, ModelError, TrainingError
from lacuner.models.model import PartState
from lacuner.training.checkpoints import (
    CheckpointFolder,
    Progress,
    RunFolder,
    WeightAverage,
    put_weights,
    trained_weights,
)


class Tiny(nn.Linear):
    """What is trained of a model: weights, and what a part of the method keeps."""

    def __init__(self) -> None:
        super().__init__(2, 3)
        self.state = nn.ModuleDict({"loss": PartState({"prior": torch.rand(3)}, {"seen": torch.zeros(4)})})


def take_step(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


@pytest.mark.parametrize("horizon", [0.5, 3.0, 50.0])
def test_the_average_follows_its_recursion(horizon):
    torch.manual_seed(1)
    model = Tiny()
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
    model = Tiny()
    average = WeightAverage(model)
    for _ in range(5):
        average.update(model, 2.0)
    assert all(torch.equal(weight, average.weights[name]) for name, weight in model.named_parameters())


def test_averaging_leaves_the_model_alone():
    model = Tiny()
    average = WeightAverage(model)
    take_step(model)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    average.update(model, 4.0)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert not any(torch.equal(weight, before[name]) for name, weight in average.weights.items())


def test_a_checkpoint_brings_back_model_optimizer_average_and_best_weights(tmp_path):
    torch.manual_seed(1)
    model = Tiny()
    optimizer = torch.optim.AdamW(model.parameters())
    average = WeightAverage(model)
    for _ in range(3):
        model(torch.randn(4, 2)).sum().backward()
        optimizer.step()
        average.update(model, 4.0)
    model.state["loss"].seen.copy_(torch.arange(4))
    best = {name: torch.randn_like(weight) for name, weight in model.named_parameters()}
    progress = Progress(3, 2, 0.5, [{"epoch": 1}, {"epoch": 2}, {"epoch": 3}])
    CheckpointFolder(tmp_path / "c", "key").save(model, optimizer, progress, best, average)

    other = Tiny()
    other_optimizer, other_average = torch.optim.AdamW(other.parameters()), WeightAverage(other)
    found = CheckpointFolder(tmp_path / "c", "key").load(other, other_optimizer, other_average)
    assert found is not None
    assert found[0] == progress
    assert all(torch.equal(weight, best[name]) for name, weight in found[1].items())
    assert all(torch.equal(weight, dict(model.named_parameters())[name]) for name, weight in other.named_parameters())
    state = other.state["loss"].tensors()
    assert state["seen"].tolist() == [0, 1, 2, 3], "needed while a model is trained only"
    assert torch.equal(state["prior"], model.state["loss"].prior)
    assert other_average.steps == 3
    assert all(torch.equal(weight, average.weights[name]) for name, weight in other_average.weights.items())
    state = other_optimizer.state_dict()["state"]
    for number, item in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, state[number][key]) for key, value in item.items())


def test_weights_can_be_put_back():
    model = Tiny()
    wanted = {name: torch.randn_like(weight) for name, weight in trained_weights(model).items()}
    assert wanted.keys() == {"weight", "bias", "state.loss.prior", "state.loss.seen"}
    put_weights(model, wanted)
    assert all(torch.equal(weight, wanted[name]) for name, weight in trained_weights(model).items())


def test_what_is_not_put_back_stays_as_it_is():
    model = Tiny()
    before = trained_weights(model)
    put_weights(model, {"bias": torch.ones(3)})
    after = trained_weights(model)
    assert after["bias"].tolist() == [1, 1, 1]
    assert all(torch.equal(after[name], value) for name, value in before.items() if name != "bias")


def never() -> dict[str, torch.Tensor]:
    raise AssertionError("it was computed before")


def test_what_a_stage_found_out_is_kept_in_place_of_its_checkpoints(tmp_path):
    run = RunFolder(tmp_path / "run", "key")
    assert not run.has_progress()
    with run.claimed():
        assert not run.has_progress()
        model = Tiny()
        run.stage("teacher-1").save(model, torch.optim.AdamW(model.parameters()), Progress(1), {})
        assert run.has_progress()
        found = {"sentence": torch.arange(3), "probabilities": torch.rand(3, 2), "nothing": torch.zeros(0, 2)}
        assert run.cached("teacher-1", lambda: found, resume=True) is found
        assert not (tmp_path / "run" / "teacher-1").exists()
        assert run.has_progress()
        kept = RunFolder(tmp_path / "run", "key").cached("teacher-1", never, resume=True)
        assert kept.keys() == found.keys()
        assert all(torch.equal(value, found[name]) for name, value in kept.items())
        run.remove()
    assert not (tmp_path / "run").exists()


def test_without_resuming_everything_is_computed_again(tmp_path):
    run = RunFolder(tmp_path, "key")
    run.cached("teacher-1", lambda: {"sentence": torch.arange(3)}, resume=False)
    again = run.cached("teacher-1", lambda: {"sentence": torch.arange(5)}, resume=False)
    assert len(again["sentence"]) == 5
    assert len(run.cached("teacher-1", never, resume=True)["sentence"]) == 5


def test_what_another_run_found_out_is_refused(tmp_path):
    RunFolder(tmp_path, "key").cached("teacher-1", lambda: {"sentence": torch.arange(3)}, resume=True)
    with pytest.raises(TrainingError, match="other data or settings"):
        RunFolder(tmp_path, "other").cached("teacher-1", never, resume=True)


def test_a_result_with_a_fingerprint_of_its_own_is_computed_again_if_that_differs(tmp_path):
    one, other = {"sentence": torch.arange(3)}, {"sentence": torch.arange(4)}
    RunFolder(tmp_path, "run").cached("fold-1", lambda: one, resume=True, fingerprint="one")
    kept = RunFolder(tmp_path, "another run").cached("fold-1", never, resume=True, fingerprint="one")
    assert torch.equal(kept["sentence"], one["sentence"])
    assert RunFolder(tmp_path, "run").cached("fold-1", lambda: other, resume=True, fingerprint="other") is other


def test_what_was_being_written_when_a_run_was_interrupted_does_not_count(tmp_path):
    (tmp_path / "model" / "epoch-0001.tmp").mkdir(parents=True)
    (tmp_path / "teacher-1.tmp").write_bytes(b"half")
    run = RunFolder(tmp_path, "key")
    assert not run.has_progress()
    found = {"sentence": torch.arange(3)}
    assert run.cached("teacher-1", lambda: found, resume=True) is found
    model = Tiny()
    assert run.stage("model").load(model, torch.optim.AdamW(model.parameters())) is None


def content(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_folder_that_is_not_ours_is_neither_used_nor_removed(tmp_path):
    folder = tmp_path / "news.training"
    (folder / "lessons").mkdir(parents=True)
    (folder / "lessons" / "one.txt").write_text("years of work")
    before = content(tmp_path)
    run = RunFolder(folder, "key")
    with pytest.raises(ModelError, match=r"not an unfinished training run — move it away") as caught, run.claimed():
        pytest.fail("it was claimed")
    assert "\n" not in str(caught.value)
    run.remove()
    assert content(tmp_path) == before


def test_a_file_where_the_folder_would_be_is_refused(tmp_path):
    path = tmp_path / "news.training"
    path.write_text("years of work")
    run = RunFolder(path, "key")
    with pytest.raises(ModelError, match=r"not an unfinished training run — move it away"), run.claimed():
        pytest.fail("it was claimed")
    run.remove()
    assert path.read_text() == "years of work"


def test_a_folder_that_cannot_be_made_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("no folder")
    run = RunFolder(tmp_path / "file" / "news.training", "key")
    with pytest.raises(ModelError, match=r"choose another --out") as caught, run.claimed():
        pytest.fail("it was claimed")
    assert "\n" not in str(caught.value)


def test_an_unfinished_run_can_be_claimed_again_and_keeps_its_progress(tmp_path):
    run = RunFolder(tmp_path / "run", "key")
    with run.claimed():
        run.cached("teacher-1", lambda: {"sentence": torch.arange(3)}, resume=True)
    with run.claimed():
        assert run.has_progress()
        with pytest.raises(TrainingError, match="continue it with --resume"):
            run.begin_again()
        assert run.has_progress()
        other = RunFolder(run.folder, "other key")
        other.begin_again()
        assert not run.has_progress()
        with pytest.raises(LacunerError, match="another run is training in"), run.claimed():
            pytest.fail("it was claimed twice")
    with run.claimed():
        run.remove()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "news.training").mkdir()
    run = RunFolder(tmp_path / "news.training", "key")
    with pytest.raises(ModelError, match="is not an unfinished training run"), run.claimed():
        pass
    run.remove()
    assert (tmp_path / "news.training").is_dir()


def test_a_damaged_result_is_computed_again(tmp_path, caplog):
    run = RunFolder(tmp_path / "run", "key")
    with run.claimed():
        run.cached("fold-1", lambda: {"x": torch.ones(2)}, resume=True)
        (tmp_path / "run" / "fold-1.safetensors").write_bytes(b"cut short")
        assert run.cached("fold-1", lambda: {"x": torch.zeros(2)}, resume=True)["x"].tolist() == [0, 0]
    assert "is damaged" in caplog.text


@pytest.mark.parametrize("what", CALLS)
def test_whatever_fails_there_is_a_whole_checkpoint(tmp_path, what):
    model = Tiny()
    optimizer = torch.optim.AdamW(model.parameters())
    folder = CheckpointFolder(tmp_path / "c", "key")
    folder.save(model, optimizer, Progress(1), {"weight": torch.ones(2)})

    def check():
        found = folder.load(model, optimizer)
        assert found is not None
        assert found[0].epochs_done in (1, 2)
        folder.save(model, optimizer, Progress(1), {"weight": torch.ones(2)})
        assert [path.name for path in (tmp_path / "c").iterdir()] == ["epoch-0001"]

    def save():
        folder.save(model, optimizer, Progress(2), {"weight": torch.zeros(2)})

    assert fail_everywhere(what, save, check) >= 1
    found = folder.load(model, optimizer)
    assert found is not None
    assert found[0].epochs_done == 2


@pytest.mark.parametrize("what", CALLS)
def test_whatever_fails_a_result_is_whole_or_computed_again(tmp_path, what):
    run = RunFolder(tmp_path / "run", "key")

    def check():
        kept = run.cached("fold-1", lambda: {"x": torch.zeros(2)}, resume=True)["x"].tolist()
        assert kept in ([0, 0], [1, 1])
        (tmp_path / "run" / "fold-1.safetensors").unlink()
        assert not list((tmp_path / "run").iterdir())

    def compute():
        run.cached("fold-1", lambda: {"x": torch.ones(2)}, resume=False)

    assert fail_everywhere(what, compute, check) >= 1
    assert run.cached("fold-1", never, resume=True)["x"].tolist() == [1, 1]


@pytest.mark.parametrize("what", CALLS)
def test_whatever_fails_a_folder_can_be_claimed_afterwards(tmp_path, what):
    run = RunFolder(tmp_path / "run", "key")

    def claim():
        with run.claimed():
            pass

    def check():
        claim()
        run.remove()
        assert list(tmp_path.iterdir()) == []

    fail_everywhere(what, claim, check)


def test_a_run_is_not_resumed_with_another_number_of_threads(tmp_path, monkeypatch):
    model = Tiny()
    optimizer = torch.optim.AdamW(model.parameters())
    folder = CheckpointFolder(tmp_path / "c", "key")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    folder.save(model, optimizer, Progress(epochs_done=1), trained_weights(model))
    assert folder.load(model, optimizer) is not None
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.raises(TrainingError, match=r"with 4 threads, but now there are 2.*OMP_NUM_THREADS=4"):
        folder.load(model, optimizer)
