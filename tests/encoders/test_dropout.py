import pytest
import torch

from lacuner.encoders.dropout import Dropout

SHAPES = [(1000, 1000), (333, 7, 11), (5,)]


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4, 0.5, 0.9])
def test_the_share_of_zeros_is_the_rate(rate: float) -> None:
    torch.manual_seed(0)
    zeros = (Dropout(rate)(torch.ones(1000, 1000)) == 0).float().mean().item()
    assert zeros == pytest.approx(rate, abs=1 / 512 + 0.002)


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.9])
def test_the_expectation_is_kept_exactly_for_the_rounded_rate(rate: float) -> None:
    torch.manual_seed(0)
    result = Dropout(rate)(torch.full((1000, 1000), 3.0))
    kept = result[result != 0]
    dropped = round(256 * rate) / 256
    assert kept.unique().tolist() == pytest.approx([3 / (1 - dropped)])
    assert result.mean().item() == pytest.approx(3.0, rel=0.01)


def test_every_element_is_dropped_by_itself() -> None:
    torch.manual_seed(0)
    zeros = (Dropout(0.5)(torch.ones(200_000, 8)) == 0).float()
    assert zeros.mean(0).tolist() == pytest.approx([0.5] * 8, abs=0.01)
    together = zeros.T @ zeros / len(zeros)
    independent = torch.full((8, 8), 0.25).fill_diagonal_(0.5)
    torch.testing.assert_close(together, independent, rtol=0, atol=0.01)


def test_gradients_flow_through_what_was_kept() -> None:
    torch.manual_seed(0)
    values = torch.ones(50, 50, requires_grad=True)
    result = Dropout(0.4)(values)
    result.sum().backward()
    assert values.grad.equal(result.detach())


@pytest.mark.parametrize("shape", SHAPES)
def test_evaluation_changes_nothing(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape)
    assert Dropout(0.5).eval()(values) is values


def test_rate_zero_changes_nothing() -> None:
    values = torch.randn(20, 20)
    assert Dropout(0.0)(values) is values


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_seed_gives_the_same_mask_and_the_next_draw_another(shape: tuple[int, ...]) -> None:
    layer, values = Dropout(0.5), torch.ones(100, *shape[1:])
    torch.manual_seed(7)
    first, second = layer(values), layer(values)
    torch.manual_seed(7)
    assert layer(values).equal(first)
    assert not second.equal(first)


@pytest.mark.parametrize("shape", [*SHAPES, (0, 4), (3, 0), ()])
def test_shape_and_type_are_kept(shape: tuple[int, ...]) -> None:
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        result = Dropout(0.3)(torch.ones(shape, dtype=kind))
        assert result.shape == shape
        assert result.dtype == kind


def test_a_view_with_turned_axes_is_dropped_like_any_other() -> None:
    torch.manual_seed(0)
    values = torch.randn(40, 30).T
    result = Dropout(0.5)(values)
    kept = result != 0
    torch.testing.assert_close(result[kept], 2 * values[kept])
    assert 0.4 < kept.float().mean() < 0.6
