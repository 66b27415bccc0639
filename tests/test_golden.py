"""Rankings stay what they were: every method, the default, and what find says, on stored runs."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parent / "golden"
sys.path.insert(0, str(FOLDER))
import make  # noqa: E402

STORED = pd.read_parquet(FOLDER / "rankings.parquet")


@pytest.fixture(scope="module")
def computed():
    return {name: make.stored_form(table) for name, table in make.tables()}


@pytest.mark.parametrize("name", STORED["table"].unique())
def test_a_stored_table_comes_out_the_same(computed, name):
    stored = STORED[STORED["table"] == name].drop(columns="table").dropna(axis=1, how="all").reset_index(drop=True)
    table = computed[name]
    assert len(table) == len(stored)
    for column in stored:
        if stored[column].dtype.kind == "f":
            # another processor may round the last digit of an exponential differently
            np.testing.assert_allclose(table[column], stored[column], rtol=1e-9, atol=1e-9, err_msg=column)
        else:
            assert list(table[column]) == list(stored[column]), column
