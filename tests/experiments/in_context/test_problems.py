import numpy as np
import pytest

from attnforge.experiments.in_context.problems import ALPHA, CLASSES, DELTA, KINDS, Kind, Problem, problem

X = np.array([[1.0, 0.0], [0.0, 2.0]])  # X^T X / 2 = diag(1/2, 2): rates are over 2


def objective(task: Problem, w: np.ndarray) -> float:
    """What the regressions say they minimise, written out."""
    form, y, kind = task.x @ w, task.y[:, None], task.kind
    match kind.link:
        case "identity":
            loss = (form - y) ** 2 / 2
        case "clamp":
            r = np.abs(form - y)
            loss = np.where(r <= DELTA, r**2 / 2, DELTA * (r - DELTA / 2))
        case "logistic":
            loss = np.logaddexp(0, form) - y * form
        case "exponential":
            loss = np.exp(form) - y * form
        case _:
            chosen = np.take_along_axis(form, task.y.astype(int)[:, None], axis=1)
            loss = np.log(np.exp(form).sum(axis=1, keepdims=True)) - chosen
    return float(loss.mean() + kind.l2 / 2 * (w**2).sum() + kind.l1 * np.abs(w).sum())


def test_a_step_of_least_squares_by_hand() -> None:
    task = Problem(KINDS["least squares"], X, np.array([1.0, 2.0]))
    assert task.rate == 0.5
    # from 0: w + rate X^T y / n = (1/2)(1, 4)/2
    assert task.step(task.start)[:, 0].tolist() == [0.25, 1.0]
    assert np.allclose(task.minimiser()[:, 0], [1.0, 1.0], atol=1e-14)


def test_a_step_of_the_lasso_shrinks_by_its_threshold() -> None:
    task = Problem(KINDS["lasso"], X, np.array([1.0, 2.0]))
    assert np.allclose(task.step(task.start)[:, 0], [0.25 - ALPHA / 2, 1.0 - ALPHA / 2])


@pytest.mark.parametrize("kind", KINDS)
def test_minimisers_are_minimal(kind: str) -> None:
    task, rng = problem(kind, 60, 3, seed=2), np.random.default_rng(0)
    w = task.minimiser()
    least = objective(task, w)
    for size in (1e-1, 1e-3):
        for _ in range(20):
            assert objective(task, w + size * rng.normal(size=w.shape)) > least


@pytest.mark.parametrize("kind", KINDS)
def test_attention_takes_the_same_steps(kind: str) -> None:
    task = problem(kind, 40, 3)
    found = task.attention(task.network(4))
    assert found.shape == (4, 3, CLASSES if kind == "softmax" else 1)
    assert np.abs(found - task.iterates(4)).max() < 1e-9


def test_problems_depend_on_their_seed_alone() -> None:
    assert np.array_equal(problem("Poisson", 9, 2, seed=1).y, problem("Poisson", 9, 2, seed=1).y)
    assert not np.array_equal(problem("Huber", 9, 2, seed=1).y, problem("Huber", 9, 2, seed=2).y)
    assert set(problem("logistic", 50, 2).y) == {0.0, 1.0}
    assert set(problem("softmax", 50, 2).y) <= set(range(CLASSES))


def test_a_wrong_step_is_seen() -> None:
    task = problem("least squares", 40, 3)
    wrong = Problem(Kind("LeastSquares", "identity", 0.9), task.x, task.y)
    assert np.abs(task.attention(task.network(4)) - wrong.iterates(4)).max() > 1e-3
