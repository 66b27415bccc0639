import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from neighbour_oracle import assert_nearest, hard_clouds

from errata.core import devices
from errata.core import neighbours as core_neighbours
from errata.core._neighbour_points import prepare_points
from errata.core.neighbours import nearest
from errata.training import gpu_neighbours
from errata.training.gpu_neighbours import search_on_device

METRICS = ["euclidean", "cosine"]


def nearest_on(device, points, k, metric="euclidean"):
    return search_on_device(prepare_points(points, k, metric), k, device)


def cloud(samples=700, columns=17, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(5, columns))[rng.integers(0, 5, samples)] + rng.normal(size=(samples, columns))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(gpu_neighbours, "_PRODUCTS", 1 << 15)
    monkeypatch.setattr(gpu_neighbours, "_DIFFERENCES", 1 << 12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("samples", [2, 30, 700])
def test_equals_the_search_over_all_distances(small_blocks, samples, metric):
    points = cloud(samples)
    k = min(20, samples - 1)
    assert_nearest(nearest_on("cpu", points, k, metric), points, k, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", hard_clouds())
def test_hard_clouds_equal_the_search_over_all_distances(name, metric):
    points = hard_clouds()[name]
    assert_nearest(nearest_on("cpu", points, 12, metric), points, 12, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_equals_the_search_without_torch(monkeypatch, dtype, metric):
    monkeypatch.setattr(devices, "DEVICE_SEARCHES", [])
    points = (9 * cloud(400)).astype(dtype)
    points[::50] = 0
    found, expected = nearest_on("cpu", points, 15, metric), nearest(points, 15, metric)
    np.testing.assert_array_equal(found.index, expected.index)
    np.testing.assert_allclose(found.distance, expected.distance, rtol=1e-6)


def test_tensors_and_read_only_arrays_without_a_warning(tmp_path):
    points = cloud(100).astype(np.float32)
    np.save(tmp_path / "points.npy", points)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mapped = nearest_on("cpu", np.load(tmp_path / "points.npy", mmap_mode="r"), 5)
        tensor = nearest_on(torch.device("cpu"), torch.tensor(points, requires_grad=True), 5)
    np.testing.assert_array_equal(mapped.index, tensor.index)
    assert_nearest(tensor, points, 5)


@pytest.fixture
def types_used(monkeypatch):
    used, search = [], gpu_neighbours._search_products
    monkeypatch.setattr(
        gpu_neighbours, "_search_products", lambda *a: used.append(a[2].coordinates.dtype) or search(*a)
    )
    return used


def test_products_are_never_in_bfloat16(types_used):
    points = cloud(60)
    with torch.autocast("cpu", torch.bfloat16):
        assert_nearest(nearest_on("cpu", points, 5), points, 5)
    assert types_used == [np.float32]


@pytest.mark.parametrize(("name", "value"), [("allow_tf32", True), ("fp32_precision", "tf32")])
def test_products_are_in_float64_if_float32_is_rounded_to_tf32(monkeypatch, types_used, name, value):
    monkeypatch.setattr(torch.backends.cuda, "matmul", SimpleNamespace(**{name: value}))
    points = cloud(60)
    assert_nearest(nearest_on("cpu", points, 5), points, 5)
    assert types_used == [np.float64]


def test_the_current_tf32_setting_of_torch_is_read(types_used):
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        nearest_on("cpu", cloud(60), 5)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed
    nearest_on("cpu", cloud(60), 5)
    assert types_used == [np.float64, np.float32]


def test_a_gpu_is_used_for_any_number_of_samples(monkeypatch):
    searches, points = [], cloud(80)
    monkeypatch.setattr(
        gpu_neighbours, "search_on_device", lambda *a: searches.append(a) or search_on_device(*a, device="cpu")
    )
    monkeypatch.setattr(core_neighbours, "APPROXIMATE_BEYOND", 50)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert_nearest(nearest(points, 5), points, 5)
    assert len(searches) == 1


def test_torch_without_a_gpu_is_not_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu_neighbours, "search_on_device", lambda *a: pytest.fail("torch was used"))
    points = cloud(40)
    assert_nearest(nearest(points, 5), points, 5)
