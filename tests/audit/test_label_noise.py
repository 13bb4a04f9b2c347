import math

import numpy as np
import pytest

from lacuner.audit.label_noise import _SEEN, _SEEN_WRONG, _TEMPERATURES, LabelNoise, fit_label_noise


def annotated(
    error: float, temperature: float, count: int = 6000, labels: int = 4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a model says that is too sure (or not sure enough) of itself, true labels, and annotated ones."""
    generator = np.random.default_rng(1)
    honest = generator.dirichlet(np.full(labels, 0.15), count)
    said = np.maximum(honest, 1e-6) ** (1 / temperature)
    true = np.array([generator.choice(labels, p=row) for row in honest])
    wrong = generator.random(count) < error
    seen = np.where(wrong, (true + generator.integers(1, labels, count)) % labels, true)
    return said / said.sum(1, keepdims=True), true, seen


@pytest.mark.parametrize(("error", "temperature"), [(0.02, 1.0), (0.1, 0.6), (0.2, 1.5)])
def test_how_often_annotations_are_wrong_can_be_seen(error: float, temperature: float) -> None:
    said, _, seen = annotated(error, temperature)
    noise = fit_label_noise(said, seen)
    assert noise.error == pytest.approx(error, abs=0.015)
    assert noise.temperature == pytest.approx(temperature, rel=0.15)


def test_a_doubt_with_a_probability_is_right_as_often() -> None:
    said, true, seen = annotated(0.1, 0.6)
    noise = fit_label_noise(said, seen)
    chances = np.array([noise.label(row, label) for row, label in zip(said, seen, strict=True)])
    best = chances.argmax(1)
    probability = chances[np.arange(len(best)), best]
    for low, high in ((0.05, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.0)):
        chosen = (probability >= low) & (probability < high)
        assert chosen.sum() > 40
        assert (best[chosen] == true[chosen]).mean() == pytest.approx(probability[chosen].mean(), abs=0.1)


def test_where_annotations_are_seldom_wrong_a_doubt_has_to_be_strong() -> None:
    careful, careless = LabelNoise(1.0, 0.001), LabelNoise(1.0, 0.2)
    row = np.array([0.9, 0.08, 0.02])
    assert careful.label(row, 1)[1] == 0
    for noise, low, high in ((careful, 0.0, 0.1), (careless, 0.5, 1.0)):
        assert low < noise.label(row, 1)[0] < high
        assert low < noise.nothing(0.05) < high
        assert low < noise.instead(0.9, 0.2) < high
    assert 0 < careless.nothing(1.0) < careless.nothing(0.0) < 1


def test_a_single_label_cannot_be_mistaken_for_another() -> None:
    assert fit_label_noise(np.array([[0.9]]), np.array([0])) == LabelNoise(1.0, 0.02)
    assert LabelNoise(1.0, 0.02).label(np.array([0.9]), 0).tolist() == [0.0]


@pytest.mark.parametrize("seed", range(4))
def test_where_models_and_annotations_disagree_the_most_probable_explanation_is_taken(seed: int) -> None:
    """Compared with trying every temperature and every rate of errors: what was seen before counts, too."""
    generator = np.random.default_rng(seed)
    said, seen = generator.dirichlet(np.full(3, 0.1), 60).clip(1e-6), generator.integers(0, 3, 60)

    def posterior(temperature: float, error: float) -> float:
        value = _SEEN_WRONG * math.log(error) + (_SEEN - _SEEN_WRONG) * math.log(1 - error)
        for row, label in zip(said, seen, strict=True):
            own = row[label] ** temperature / sum(each**temperature for each in row)
            value += math.log((1 - error) * own + error * (1 - own) / 2)
        return value

    noise = fit_label_noise(said, seen)
    errors = np.linspace(0.01, 0.8, 80).tolist()
    best = max(posterior(temperature, error) for temperature in _TEMPERATURES.tolist() for error in errors)
    assert posterior(noise.temperature, noise.error) >= best - 1e-3
