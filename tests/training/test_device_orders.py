import numpy as np
import pytest
import torch

from errata.training import graph_steps
from errata.training.graph_steps import DeviceOrders
from errata.training.jobs import fold_jobs, in_sample_jobs
from errata.training.recipes import Recipe

RECIPE = Recipe(epochs=10, batch_size=8, learning_rate=1e-3, weight_decay=0)
CPU = torch.device("cpu")
PADDING, WIDTH = 99, 24


@pytest.fixture(autouse=True)
def _few_ahead(monkeypatch):
    monkeypatch.setattr(graph_steps, "EPOCHS_AHEAD", 3)


def make(jobs):
    return DeviceOrders(jobs, WIDTH, PADDING, CPU)


def epochs(drawn, number):
    return torch.stack([drawn.next_epoch() for _ in range(number)]).numpy()


def test_every_epoch_of_every_job_is_a_different_permutation():
    jobs = fold_jobs(np.arange(30) % 3, RECIPE, (0, 1), 4)
    drawn = epochs(make(jobs), 7)
    assert drawn.shape == (7, 8, WIDTH)
    seen = set()
    for slot, job in enumerate(jobs):
        samples = len(job.train_rows)
        for epoch in drawn[:, slot]:
            assert (np.sort(epoch[:samples]) == np.arange(samples)).all()
            assert (epoch[samples:] == PADDING).all()
            seen.add((job.recipe.seed, tuple(epoch[:samples])))
    assert len(seen) == 7 * len({(job.recipe.seed, len(job.train_rows)) for job in jobs})


def test_the_order_of_a_job_does_not_depend_on_other_jobs():
    jobs = in_sample_jobs(20, RECIPE, (0, 1, 2))
    np.testing.assert_array_equal(epochs(make(jobs), 8)[:, 1], epochs(make(jobs[1:2]), 8)[:, 0])


@pytest.mark.parametrize("done", [0, 1, 3, 5])
def test_orders_resume_from_a_state(done):
    jobs = in_sample_jobs(20, RECIPE, (0, 1))
    first = make(jobs)
    epochs(first, done) if done else None
    states = [first.state(slot) for slot in range(2)]
    again = make(jobs)
    for slot, state in enumerate(states):
        again.load_state(slot, state)
    np.testing.assert_array_equal(epochs(again, 5), epochs(first, 5))
