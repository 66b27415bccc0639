import inspect
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from neighbour_oracle import assert_nearest, every_distance, hard_clouds

from errata.core import devices, jit, neighbours
from errata.core._neighbour_points import Neighbours, prepare_points
from errata.core.neighbours import nearest
from errata.errors import InputError

METRICS = ["euclidean", "cosine"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "DEVICE_SEARCHES", [])


def cloud(samples=1100, columns=17, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(5, columns))[rng.integers(0, 5, samples)] + rng.normal(size=(samples, columns))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("samples", [2, 30, 511, 1100])
def test_equals_the_search_over_all_distances(samples, metric):
    points = cloud(samples)
    assert_nearest(nearest(points, min(20, samples - 1), metric), points, min(20, samples - 1), metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", hard_clouds())
def test_hard_clouds_equal_the_search_over_all_distances(name, metric):
    points = hard_clouds()[name]
    assert_nearest(nearest(points, 12, metric), points, 12, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_equals_scikit_learn(metric):
    from sklearn.neighbors import NearestNeighbors

    points = cloud(900).astype(np.float32)
    distance, index = NearestNeighbors(metric=metric).fit(points.astype(np.float64)).kneighbors(n_neighbors=25)
    found = nearest(points, 25, metric)
    np.testing.assert_array_equal(found.index, index)
    np.testing.assert_allclose(found.distance, distance, rtol=1e-5)


@given(st.data())
def test_points_on_a_grid_have_many_equal_neighbours(data):
    shape = data.draw(st.tuples(st.integers(2, 40), st.integers(1, 6)))
    points = data.draw(arrays.arrays(np.int64, shape, elements=st.integers(-2, 2)))
    k = data.draw(st.integers(1, shape[0] - 1))
    metric = data.draw(st.sampled_from(METRICS))
    dtype = data.draw(st.sampled_from([np.int8, np.int64, np.float16, np.float32, np.float64]))
    assert_nearest(nearest(points.astype(dtype), k, metric), points, k, metric)


@given(
    points=arrays.arrays(np.float32, (30, 3), elements=st.floats(-1e6, 1e6, width=32)),
    k=st.integers(1, 29),
    metric=st.sampled_from(METRICS),
)
def test_any_points(points, k, metric):
    assert_nearest(nearest(points, k, metric), points, k, metric)


def test_of_equal_points_only_the_row_itself_is_left_out():
    found = nearest(np.ones((300, 4)), 3)
    np.testing.assert_array_equal(found.distance, 0)
    np.testing.assert_array_equal(found.index[:4], [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    np.testing.assert_array_equal(found.index[4:], np.tile([0, 1, 2], (296, 1)))


def test_a_case_by_hand():
    points = np.array([[0, 0], [3, 4], [0, 0], [6, 8], [0, -1]])
    near = nearest(points, 4)
    np.testing.assert_array_equal(near.index[0], [2, 4, 1, 3])
    np.testing.assert_array_equal(near.distance[0], [0, 1, 5, 10])
    by_angle = nearest(points, 4, "cosine")
    np.testing.assert_array_equal(by_angle.index[1], [3, 0, 2, 4])  # rows of zeros at 1, [0, -1] at 1 + 4/5
    np.testing.assert_allclose(by_angle.distance[1], [0, 1, 1, 1.8], rtol=1e-6)
    np.testing.assert_array_equal(by_angle.index[0], [1, 2, 3, 4])
    np.testing.assert_array_equal(by_angle.distance[0], 1)


def test_rows_of_zeros_among_others_by_cosine():
    points = cloud(600) * (np.arange(600) % 7 > 0)[:, None]
    assert_nearest(nearest(points, 590, "cosine"), points, 590, "cosine")


@pytest.mark.parametrize("metric", METRICS)
def test_fewer_neighbours_are_the_first_of_more(metric):
    points = np.round(cloud(800, 4))
    np.testing.assert_array_equal(nearest(points, 5, metric).index, nearest(points, 90, metric).index[:, :5])


def test_all_others_in_order():
    points = cloud(90)
    assert_nearest(nearest(points, 89), points, 89)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int8", "uint16", "int64", "bool"])
def test_types(dtype):
    points = np.abs(20 * cloud(200)).astype(dtype)
    assert_nearest(nearest(points, 7), points.astype(np.float64), 7)


def test_other_containers(tmp_path):
    points = cloud(200).astype(np.float32)
    expected = nearest(points, 7)
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    for given_as in (mapped, np.asfortranarray(points), np.repeat(points, 2, axis=1)[:, ::2], points.tolist()):
        found = nearest(given_as, 7)
        np.testing.assert_array_equal(found.index, expected.index)
        np.testing.assert_array_equal(found.distance, expected.distance)


def test_points_are_not_changed():
    points = cloud(100)
    before = points.copy()
    nearest(points, 3, "cosine")
    np.testing.assert_array_equal(points, before)
    assert points.flags.writeable


def test_the_number_of_cores_makes_no_difference(monkeypatch):
    points = cloud(1300)
    found = []
    for cores in (1, 5):
        monkeypatch.setattr(jit.os, "cpu_count", lambda cores=cores: cores)
        monkeypatch.setattr(jit.os, "process_cpu_count", lambda cores=cores: cores, raising=False)
        found.append(nearest(points, 9))
    np.testing.assert_array_equal(found[0].index, found[1].index)
    np.testing.assert_array_equal(found[0].distance, found[1].distance)


def test_memory_does_not_hold_every_distance():
    points = cloud(6000, 8).astype(np.float32)
    nearest(points[:50], 3)
    tracemalloc.start()
    nearest(points, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6000 * 6000 * 4 / 4


@pytest.mark.parametrize(
    ("points", "k", "metric", "message"),
    [
        (np.zeros((5, 2)), 5, "euclidean", "k is 5, but 5 points have at most 4 neighbours each"),
        (np.zeros((5, 2)), 0, "euclidean", "k must be a whole number of neighbours, at least 1, not 0"),
        (np.zeros((5, 2)), 2.0, "euclidean", "k must be a whole number of neighbours, at least 1, not 2.0"),
        (np.zeros((5, 2)), 2, "manhattan", "metric must be euclidean or cosine, not 'manhattan'"),
        (np.zeros(5), 2, "euclidean", r"points must have shape \(samples, columns\), not \(5,\)"),
        (np.zeros((5, 0)), 2, "euclidean", r"points must have shape \(samples, columns\), not \(5, 0\)"),
        (np.array([["a"], ["b"]]), 1, "euclidean", "points must be numbers, not <U1"),
        (np.array([[0, 1], [0, np.nan], [0, 0]]), 1, "cosine", "point of sample 1 holds nan, not a finite number"),
        (np.array([[0, 1], [0, 1], [-np.inf, 0]]), 1, "euclidean", "point of sample 2 holds -inf, not a finite"),
        (
            np.array([[0, 1], [0, 1], [2e40, 0]]),
            1,
            "euclidean",
            r"sample 2 holds 2e\+40, too large .* scale the points",
        ),
    ],
)
def test_bad_input(points, k, metric, message):
    with pytest.raises(InputError, match=message):
        nearest(points, k, metric)


def test_the_first_invalid_row_is_named_in_any_block():
    points = np.zeros((300_000, 1), dtype=np.float32)
    points[200_001] = np.nan
    with pytest.raises(InputError, match="point of sample 200001 holds nan"):
        nearest(points, 1)


def links_to_the_nearest(points, links):
    distances = every_distance(points, "euclidean")
    np.fill_diagonal(distances, 0)
    return np.argsort(distances, axis=1, kind="stable")[:, :links].astype(np.int32)


def approximate(points, k, metric="euclidean"):
    return neighbours.approximate_search(prepare_points(points, k, metric), k)


def test_approximate_with_perfect_links_is_exact(monkeypatch):
    monkeypatch.setattr(neighbours, "_graph", links_to_the_nearest)
    points = cloud(300)
    assert_nearest(approximate(points, 40), points, 40)


def test_rows_with_too_few_links_are_searched_exactly(monkeypatch):
    def some_missing(points, links):
        linked = links_to_the_nearest(points, links)
        linked[::3, 4:] = -1
        return linked

    monkeypatch.setattr(neighbours, "_graph", some_missing)
    points = cloud(300)
    assert_nearest(approximate(points, 10), points, 10)


def test_the_nearest_of_the_links_are_found(monkeypatch):
    def every_other(points, links):
        return links_to_the_nearest(points, 2 * links)[:, ::2]

    monkeypatch.setattr(neighbours, "_graph", every_other)
    points = cloud(400)
    found, true = approximate(points, 30), nearest(points, 30)
    shares = [len(set(a) & set(b)) / 30 for a, b in zip(found.index, true.index, strict=True)]
    assert 0.4 < np.mean(shares) < 0.6
    distances = every_distance(points, "euclidean")
    np.testing.assert_allclose(found.distance, np.take_along_axis(distances, found.index.astype(int), 1), rtol=1e-6)


def test_rows_of_zeros_are_exact_in_an_approximate_search(monkeypatch):
    monkeypatch.setattr(neighbours, "_graph", links_to_the_nearest)
    points = cloud(300) * (np.arange(300) % 2)[:, None]
    found = approximate(points, 10, "cosine")
    np.testing.assert_array_equal(found.index[0], np.arange(1, 11))
    np.testing.assert_array_equal(found.distance[::2], 1)


@pytest.mark.parametrize(("samples", "approximate"), [(50, False), (51, True)])
def test_many_samples_are_searched_approximately(monkeypatch, samples, approximate):
    graphs = []
    monkeypatch.setattr(neighbours, "APPROXIMATE_BEYOND", 50)
    monkeypatch.setattr(
        neighbours, "_graph", lambda points, links: graphs.append(links) or links_to_the_nearest(points, links)
    )
    nearest(cloud(samples), 3)
    assert bool(graphs) == approximate


def test_a_registered_device_is_used_if_it_is_available(monkeypatch):
    searches = []

    def constant_search(cloud, k):
        searches.append(k)
        return Neighbours(np.zeros((len(cloud.points), k), np.int32), np.ones((len(cloud.points), k), np.float32))

    monkeypatch.setattr(devices, "DEVICE_SEARCHES", [lambda: None, lambda: constant_search])
    points = cloud(60)
    found = nearest(points, 3)
    assert (found.index == 0).all()
    assert (found.distance == 1).all()
    assert searches == [3]
    monkeypatch.setattr(devices, "DEVICE_SEARCHES", [lambda: None])
    assert_nearest(nearest(points, 3), points, 3)


def test_importing_errata_registers_the_gpu_search_and_loads_neither_numpy_nor_torch():
    code = (
        "import sys, errata; from errata.core.devices import DEVICE_SEARCHES;"
        "print(len(DEVICE_SEARCHES), DEVICE_SEARCHES[0](), 'numpy' in sys.modules, 'torch' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["1", "None", "False", "False"]


def test_without_the_package_the_message_names_the_extra(monkeypatch):
    monkeypatch.setattr(neighbours, "APPROXIMATE_BEYOND", 50)
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    monkeypatch.setattr("errata.extras.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"neighbours among 60 samples needs pynndescent: pip install 'errata\["):
        nearest(cloud(60), 3)


def test_pynndescent_has_the_expected_signature():
    from pynndescent import NNDescent

    # Compiling it takes half a minute, so it is run only in benchmarks/neighbours.py.
    inspect.signature(NNDescent).bind(cloud(60), n_neighbors=31, random_state=0)
    assert isinstance(inspect.getattr_static(NNDescent, "neighbor_graph"), property)
