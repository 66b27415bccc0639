"""Kernels give the same bits interpreted and compiled, and are compiled only for many numbers."""

import importlib
import pkgutil
from copy import deepcopy

import numpy as np
from scipy.special import log_softmax

import errata
from errata import core
from errata.core import jit, neighbours
from errata.core.confident_learning import flags
from errata.core.confident_rules import CLEANLAB, PAPER
from errata.core.jit import INTERPRETED_NUMBERS, Kernel, compiled
from errata.core.methods import parse
from errata.core.neighbours import nearest, prepare_points
from errata.core.replay import Epochs
from errata.core.smoothing import log_neighbour_mean
from errata.core.windows import grid_windows, window_scores
from errata.dynamics import recorder

CALLED_BY_KERNELS = {"log_add", "safe_log", "tighten", "nearest_among", "distance_between", "nth_smallest"}
CALLED_BY_KERNELS |= {"sift_down", "least_of_largest", "nth_largest"}


def kernels():
    modules = [importlib.import_module(f"errata.core.{module.name}") for module in pkgutil.iter_modules(core.__path__)]
    return {one.__name__ for module in [*modules, recorder] for one in vars(module).values() if isinstance(one, Kernel)}


def as_bytes(value):
    if isinstance(value, tuple):
        return tuple(as_bytes(one) for one in value)
    return np.asarray(value).tobytes() if isinstance(value, np.ndarray) else value


def check_measures(curves, points):
    for dtype in (np.float32, np.float64):
        logits, labels, _ = curves(0, dtype=dtype)
        for spread in (1, 300):  # 300: probabilities that are stored as logarithms
            epochs = Epochs(logits * dtype(spread), labels)
            for name in ("MeanProb-LM", "EMA-CE"):
                window_scores(epochs, parse(name), grid_windows(len(logits), 5))
        recording = errata.Recorder(labels=labels)
        recording.update(np.arange(len(labels)), logits[0])


def check_smoothing(curves, points):
    logits, _, _ = curves(0)
    for spread in (1, 1000):  # 1000: probabilities that are 0 in float64
        near = nearest(points, 5).index[: logits.shape[1]] % logits.shape[1]
        log_neighbour_mean(log_softmax(spread * logits[-1].astype(np.float64), axis=1), near)


def check_neighbours(curves, points):
    clouds = [points, points.astype(np.float64), np.repeat(points[:30], 5, axis=0), 1e6 + points, 0 * points]
    for cloud in clouds:
        for metric in ("euclidean", "cosine"):
            nearest(cloud, 7, metric)
    neighbours.approximate_search(prepare_points(points, 7, "euclidean"), 7)


def check_confident_learning(curves, points):
    logits, labels, _ = curves(0, samples=150)
    for dtype in (np.float32, np.float64):
        probabilities = np.exp(log_softmax(logits[-1].astype(np.float64), axis=1)).astype(dtype)
        for rules in (PAPER, CLEANLAB):
            for variant in ("PBNR", "PBC", "CYY", "CC"):
                flags(probabilities, labels, variant, rules)


def test_the_same_bits_interpreted_and_compiled(curves, monkeypatch):
    compared = set()

    def call_both(kernel, *arguments):
        copies = deepcopy(arguments)
        with np.errstate(all="ignore"):
            expected = kernel.interpreted(*copies)
        result = kernel.machine_code(*arguments)
        assert (as_bytes(result), as_bytes(arguments)) == (as_bytes(expected), as_bytes(copies)), kernel.__name__
        compared.add(kernel.__name__)
        return result

    monkeypatch.setattr(Kernel, "__call__", call_both)
    # Threads would write to the same arrays between the two calls.
    monkeypatch.setattr(jit, "usable_cpus", lambda: 1)
    # Links as of a graph library, which takes half a minute to compile: some rows have too few.
    links = np.random.default_rng(1).integers(-100, 150, (150, 31)).astype(np.int32)
    monkeypatch.setattr(neighbours, "_graph", lambda coordinates, count: links)
    points = np.random.default_rng(0).normal(size=(150, 6)).astype(np.float32)
    for check in (check_measures, check_smoothing, check_neighbours, check_confident_learning):
        check(curves, points)
    assert compared | CALLED_BY_KERNELS == kernels()


def test_compiled_only_after_many_numbers():
    @compiled
    def total(values, pair):
        result = 0.0
        for value in values:
            result += value
        return result + pair[0][0]

    few, one = np.ones(INTERPRETED_NUMBERS // 4), (np.ones(1),)
    for _ in range(3):
        assert total(few, one) == len(few) + 1
        assert "machine_code" not in vars(total)
    assert total(few, one) == len(few) + 1
    assert "machine_code" in vars(total)
