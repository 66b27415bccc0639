"""Trainings that are divided among processes: the same bits, resumed after any end, and no process is left behind."""

import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from errata.errors import ErrataError, InputError
from errata.training import stacked_executor
from errata.training.gather import executor_for, gather
from errata.training.jobs import TrainingJob, TrainingOptions, fold_jobs
from errata.training.model_inputs import TableInputs
from errata.training.processes import in_processes
from errata.training.recipes import Recipe

RECIPE = Recipe(epochs=4, batch_size=16, learning_rate=0.01, weight_decay=0.01)
SAMPLES, CLASSES = 70, 4


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def divided(two_threads, monkeypatch):
    """Every training counts as long."""
    monkeypatch.setattr(stacked_executor, "LONG_TRAINING", 0)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return TableInputs(rng.normal(size=(SAMPLES, 5))), rng.integers(0, CLASSES, SAMPLES)


def test_results_are_in_the_order_of_the_tasks_and_come_from_processes_of_one_thread(two_threads):
    def task(number):
        def work(report):
            report(10**number)
            return number, os.getpid(), torch.get_num_threads(), torch.full((3,), number)

        return work

    reported = []
    found = in_processes([task(number) for number in range(3)], reported.append)
    assert [result[0] for result in found] == [0, 1, 2]
    assert len({os.getpid(), *(result[1] for result in found)}) == 4
    assert [result[2] for result in found] == [1, 1, 1]
    assert [result[3].tolist() for result in found] == [[number] * 3 for number in range(3)]
    assert sum(reported) == 111
    assert torch.get_num_threads() == 2


def test_the_error_of_a_task_is_raised_and_the_others_end():
    def fail(report):
        raise InputError("no such thing")

    started = time.monotonic()
    with pytest.raises(InputError, match="no such thing"):
        in_processes([lambda report: time.sleep(600), fail], lambda _: None)
    assert time.monotonic() - started < 300


def test_a_task_that_is_killed_is_an_error():
    with pytest.raises(ErrataError, match="killed; start again to resume"):
        in_processes([lambda report: os.kill(os.getpid(), signal.SIGKILL)], lambda _: None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left_when_the_first_one_ends(number):
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work(report):
        report(os.getpid())
        time.sleep(600)

    first = multiprocessing.get_context("fork").Process(target=in_processes, args=([work, work], sender.send))
    first.start()
    others = [receiver.recv() for _ in range(2)]
    assert all(is_running(pid) for pid in others)
    os.kill(first.pid, number)
    first.join()
    while any(is_running(pid) for pid in others):
        time.sleep(0.01)


def is_running(pid):
    """Whether a process runs; one that waits for its parent to read the exit status does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("folds", [None, 4])
@pytest.mark.parametrize("on_disk", [False, True])
def test_divided_training_gives_the_same_bits(data, divided, folds, on_disk, tmp_path):
    folders = [tmp_path / "whole", tmp_path / "divided"] if on_disk else [None, None]
    options = TrainingOptions(features=folds is None, swa=folds is None)
    found, reported = [], []
    for threads, folder in zip((1, 2), folders, strict=True):
        torch.set_num_threads(threads)
        count = []
        found.append(
            gather(
                *(*data, CLASSES, (8,), RECIPE),
                folds=folds,
                seeds=(0, 1, 2),
                options=options,
                device="cpu",
                folder=folder,
                progress=count.append,
            )
        )
        reported.append(sum(count))
    assert reported == [RECIPE.epochs * 3 * (folds or 1)] * 2
    for whole, parts in zip(*found, strict=True):
        assert whole.seed == parts.seed
        np.testing.assert_array_equal(whole.dynamics.logits, parts.dynamics.logits)
        torch.testing.assert_close(whole.weights, parts.weights, rtol=0, atol=0)
        if folds is None:
            np.testing.assert_array_equal(whole.dynamics.swa_logits, parts.dynamics.swa_logits)
            np.testing.assert_array_equal(whole.dynamics.features, parts.dynamics.features)


def test_divided_training_resumes_from_the_checkpoints_of_its_parts(data, divided, tmp_path):
    arguments = {"folds": 4, "seeds": (0, 1), "device": "cpu"}
    recipe = replace(RECIPE, epochs=24)
    options = TrainingOptions(swa=False, checkpoint_seconds=0)

    class StoppedError(Exception):
        pass

    total = []

    def stop_in_the_middle(epochs):
        total.append(epochs)
        if sum(total) > 40:
            raise StoppedError

    with pytest.raises(StoppedError):
        gather(*data, CLASSES, (8,), recipe, folder=tmp_path, options=options, progress=stop_in_the_middle, **arguments)
    assert list(tmp_path.glob("*.checkpoint"))
    resumed = []
    again = gather(*data, CLASSES, (8,), recipe, folder=tmp_path, options=options, progress=resumed.append, **arguments)
    whole = gather(*data, CLASSES, (8,), recipe, options=options, **arguments)
    for one, other in zip(again, whole, strict=True):
        np.testing.assert_array_equal(one.dynamics.logits, other.dynamics.logits)
    assert sum(resumed) == 8 * recipe.epochs
    assert max(resumed) > 4  # the epochs before the stop are reported at once
    assert not list(tmp_path.glob("*.checkpoint"))


def test_parts_have_about_the_same_work_and_short_trainings_are_not_divided(data, two_threads, monkeypatch):
    inputs, labels = data
    jobs = fold_jobs(labels, RECIPE, (0,), 4)
    everyone = np.arange(SAMPLES)
    jobs += [TrainingJob(f"all{number}", RECIPE.with_seed(number), everyone, everyone) for number in range(3)]
    executor = executor_for((8,), inputs, labels, CLASSES, "cpu")(jobs)
    assert executor.parts() == [list(range(7))]
    monkeypatch.setattr(stacked_executor, "LONG_TRAINING", 0)
    parts = executor.parts()
    assert sorted(number for part in parts for number in part) == list(range(7))
    rows = [sum(len(jobs[number].train_rows) for number in part) for part in parts]
    assert len(rows) == 2
    assert abs(rows[0] - rows[1]) <= SAMPLES
    torch.set_num_threads(1)
    assert executor.parts() == [list(range(7))]
