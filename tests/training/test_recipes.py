import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errata import InputError
from errata.errors import StoreError
from errata.training.recipes import Recipe

BASE = {"epochs": 10, "batch_size": 4, "learning_rate": 0.1}


def test_schedule_factors_multiply_the_initial_rate():
    recipe = Recipe(epochs=100, batch_size=4, learning_rate=0.5, schedule=((0, 1.0), (3, 0.1), (5, 0.5), (6, 0.01)))
    assert [recipe.rate(epoch) for epoch in range(8)] == [0.5, 0.5, 0.5, 0.05, 0.05, 0.25, 0.005, 0.005]
    assert recipe.rate(99) == 0.005


def test_a_schedule_may_start_below_the_full_rate():
    recipe = Recipe(**BASE, schedule=((0, 0.1), (1, 1.0)))
    assert [recipe.rate(epoch) for epoch in (0, 1)] == pytest.approx([0.01, 0.1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": 0}, "a whole number, 1 or above"),
        ({"batch_size": 0}, "a whole number, 1 or above"),
        ({"parts": 0}, "a whole number, 1 or above"),
        ({"epochs": 2.5}, "epochs of a recipe must be a whole number"),
        ({"epochs": True}, "epochs of a recipe must be a whole number"),
        ({"batch_size": 2**64}, "batch_size of a recipe must be a whole number"),
        ({"seed": -1}, "seed of a recipe must be a whole number"),
        ({"widths": (-4,)}, "widths of a recipe must be a whole number"),
        ({"widths": tuple("wide")}, "widths of a recipe must be a whole number"),
        ({"learning_rate": float("inf")}, "learning_rate of a recipe must be a number"),
        ({"learning_rate": "fast"}, "learning_rate of a recipe must be a number"),
        ({"learning_rate": 10**400}, "learning_rate of a recipe must be a number"),
        ({"schedule": ((0, 1.0), (2.5, 0.1))}, "an epoch in schedule must be a whole number"),
        ({"schedule": ((0, "half"),)}, "a factor in schedule of a recipe must be a number"),
        ({"optimizer": "lbfgs"}, "not 'lbfgs'"),
        ({"learning_rate": 0.0}, "learning_rate > 0"),
        ({"learning_rate": float("nan")}, "learning_rate of a recipe must be a number"),
        ({"weight_decay": -0.1}, "weight_decay >= 0"),
        ({"weight_decay": float("nan")}, "weight_decay of a recipe must be a number"),
        ({"momentum": 1.0}, "momentum < 1"),
        ({"schedule": ()}, "must start at 0"),
        ({"schedule": ((1, 1.0),)}, "must start at 0"),
        ({"schedule": ((0, 1.0), (5, 0.1), (3, 0.01))}, "and increase"),
        ({"schedule": ((0, 1.0), (0, 0.1))}, "and increase"),
    ],
)
def test_invalid_recipes_are_refused(changed, message):
    with pytest.raises(InputError, match=message):
        Recipe(**(BASE | changed))


rates = st.floats(1e-8, 1e3)


@given(
    epochs=st.integers(1, 1000),
    rate=rates,
    decay=st.floats(0, 1),
    optimizer=st.sampled_from(["adam", "adamw", "sgd"]),
    momentum=st.floats(0, 0.99),
    factors=st.lists(rates, min_size=1, max_size=4),
    widths=st.lists(st.integers(1, 512), max_size=3),
    seed=st.integers(0, 2**40),
    parts=st.integers(1, 20),
)
def test_a_recipe_is_read_back_unchanged(
    tmp_path_factory, epochs, rate, decay, optimizer, momentum, factors, widths, seed, parts
):
    schedule = tuple((7 * number, factor) for number, factor in enumerate(factors))
    recipe = Recipe(epochs, 32, rate, decay, optimizer, momentum, schedule, seed, tuple(widths), parts)
    path = tmp_path_factory.mktemp("recipe") / "recipe.json"
    recipe.save(path)
    assert Recipe.load(path) == recipe


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"epochs": 3}', "\xff", '{"schedule": [[0]], "widths": []}', '{"schedule": 3, "widths": []}'],
)
def test_a_file_without_a_recipe_gives_a_clear_error(tmp_path, text):
    path = tmp_path / "recipe.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match=r"recipe\.json (is not a (recipe|whole JSON file)|must hold a JSON object)"):
        Recipe.load(path)


def test_an_invalid_recipe_in_a_file_is_refused(tmp_path):
    path = tmp_path / "recipe.json"
    Recipe(**BASE).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"epochs": -1}))
    with pytest.raises(StoreError, match=r"recipe\.json is not a recipe: epochs of a recipe must be a whole number"):
        Recipe.load(path)
    with pytest.raises(StoreError, match="is missing"):
        Recipe.load(tmp_path / "none.json")
