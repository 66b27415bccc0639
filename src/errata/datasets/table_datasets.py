"""Parsing and preparation shared by the datasets that are tables.

Preparation runs in steps. A step is fitted on the training table and returns the function to apply to any table, so no
statistic of the test split is used.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.datasets.label_noise import SymmetricNoise
from errata.datasets.spec import Arrays, Dataset, Noise, PreparedArrays, Setting
from errata.errors import DataError
from errata.readers.file_access import file_errors
from errata.training.recipes import BoostingRecipe, Recipe

REPOSITORY = "UCI Machine Learning Repository"

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Texts = NDArray[np.str_]
Apply = Callable[[Floats], Floats]
Step = Callable[[Floats], Apply]


def citation(key: str, author: str, title: str, year: int, published: str, **more: str) -> str:
    """A BibTeX entry."""
    entry = {"author": author, "title": title, "year": year, "howpublished": published, **more}
    return f"@misc{{{key},\n" + ",\n".join(f"  {name} = {{{value}}}" for name, value in entry.items()) + "\n}"


def uci_table(page: str, cite: tuple[str, str, int, str], **fields: Any) -> Dataset:
    """A table of the UCI Machine Learning Repository.

    page: its page there. cite: BibTeX key, authors, year and DOI. fields: the other fields of `Dataset`.
    """
    key, author, year, doi = cite
    return Dataset(
        source=f"https://archive.ics.uci.edu/dataset/{page}",
        licence="CC BY 4.0",
        bibtex=citation(key, author, fields["title"], year, REPOSITORY, doi=doi),
        kind="table",
        downloads=(f"https://archive.ics.uci.edu/static/public/{page}.zip",),
        **fields,
    )


def table_settings(
    name: str, recipe: Recipe, horizon: int, accuracy: float, rounds: int, extra: Sequence[Noise] = ()
) -> tuple[Setting, ...]:
    """The setting of the paper: 20 % symmetric noise and an MLP; the MLP with extra noise; boosting with `rounds`."""
    return (
        Setting(name, SymmetricNoise(0.2), "mlp", recipe, horizon, accuracy),
        *(Setting(name, noise, "mlp", recipe) for noise in extra),
        Setting(name, SymmetricNoise(0.2), "boosting", BoostingRecipe(rounds)),
    )


def read_numbers(path: Path, columns: int) -> Floats:
    """Numbers (N, columns) separated by blanks, without a header."""
    values = _parse(path, r"\s+", dtype=np.float64)
    _check_cells(path, values, np.isnan(values), columns)
    return values


def read_cells(path: Path, columns: int) -> Texts:
    """Cells (N, columns) separated by commas, without a header, as text."""
    cells = _parse(path, ",", dtype=str, na_filter=False).astype(np.str_)
    _check_cells(path, cells, cells == "", columns)
    return cells


def as_integers(cells: Texts, path: Path) -> Labels:
    """Cells (N, d) converted to whole numbers."""
    try:
        return cells.astype(np.int64)
    except ValueError as error:
        is_number = np.char.isdigit(np.char.lstrip(cells, "-")).all(axis=1)
        raise DataError(f"{path}: line {int(np.argmin(is_number)) + 1} has a cell that is not a number") from error


def check_rows(where: str | Path, rows: int, expected: int) -> None:
    """Raise an error if the number of rows is not that of the official file."""
    if rows != expected:
        hint = ". The file may be truncated" if rows < expected else ""
        raise DataError(f"{where} has {rows:,} rows, not {expected:,}{hint}")


def check_values(path: Path, values: NDArray[Any], allowed: Sequence[Any], what: str) -> None:
    """Raise an error for the first line whose value (N,) is not allowed."""
    known = np.isin(values, allowed)
    if not known.all():
        line = int(np.argmin(known))
        shown = f"{values[line]:g}" if values.dtype.kind == "f" else f"'{values[line]}'"
        raise DataError(f"{path}: line {line + 1} has {shown} as {what}. Allowed: {', '.join(map(str, allowed))}")


def prepare_split(inputs: Floats, labels: Labels, train_size: int, steps: Sequence[Step]) -> PreparedArrays:
    """Split a table (N, D) into training and test rows, stratified by class, and run the steps on both."""
    train, test = stratified_split(labels, train_size)
    return prepare_parts((inputs[train], labels[train]), (inputs[test], labels[test]), steps)


def prepare_parts(train: tuple[Floats, Labels], test: tuple[Floats, Labels], steps: Sequence[Step]) -> PreparedArrays:
    """Run the steps on inputs and labels that are split already."""
    train_inputs, test_inputs = run_steps(train[0], test[0], steps)
    arrays: Arrays = {
        "train_inputs": train_inputs.astype(np.float32),
        "train_labels": train[1].astype(np.int64),
        "test_inputs": test_inputs.astype(np.float32),
        "test_labels": test[1].astype(np.int64),
    }
    return PreparedArrays(arrays)


def stratified_split(labels: Labels, train_size: int) -> tuple[Labels, Labels]:
    """Training and test rows, stratified by class, with a fixed seed."""
    from sklearn.model_selection import train_test_split

    rows: tuple[Labels, Labels] = train_test_split(
        np.arange(len(labels)), train_size=train_size, random_state=0, stratify=labels
    )
    return rows


def run_steps(train: Floats, test: Floats, steps: Sequence[Step]) -> tuple[Floats, Floats]:
    """Both tables after every step."""
    for step in steps:
        apply = step(train)
        train, test = apply(train), apply(test)
    return train, test


def clip_quantiles(low: float, high: float, others: Mapping[int, tuple[float, float]] | None = None) -> Step:
    """Clip each column at two of its percentiles. others: percentiles for single columns."""
    return partial(_clip, lambda train: np.percentile(train, [low, high], axis=0), others or {})


def clip_fences(others: Mapping[int, tuple[float, float]] | None = None) -> Step:
    """Clip each column at Tukey's fences, 1.5 interquartile ranges beyond the quartiles. others: see clip_quantiles."""

    def fences(train: Floats) -> Floats:
        lower, upper = np.percentile(train, [25, 75], axis=0)
        return np.stack([lower - 1.5 * (upper - lower), upper + 1.5 * (upper - lower)])

    return partial(_clip, fences, others or {})


def standardise(train: Floats) -> Apply:
    """Scale each column to mean 0 and standard deviation 1; a constant column becomes 0."""
    from sklearn.preprocessing import StandardScaler

    apply: Apply = StandardScaler().fit(train).transform
    return apply


def principal_components(variance: float) -> Step:
    """Project on the principal components that explain this share of the variance."""

    def step(train: Floats) -> Apply:
        from sklearn.decomposition import PCA

        apply: Apply = PCA(variance, svd_solver="full").fit(train).transform
        return apply

    return step


def _clip(bounds_of: Apply, others: Mapping[int, tuple[float, float]], train: Floats) -> Apply:
    """Clip each column at its bounds (2, D), or at percentiles for single columns."""
    bounds = bounds_of(train)
    for column, percentiles in others.items():
        bounds[:, column] = np.percentile(train[:, column], percentiles)
    return lambda table: np.clip(table, *bounds)


def _parse(path: Path, separator: str, **options: Any) -> NDArray[Any]:
    import pandas as pd

    with file_errors(path):
        values: NDArray[Any] = pd.read_csv(path, sep=separator, header=None, **options).to_numpy()
    return values


def _check_cells(path: Path, values: NDArray[Any], empty: NDArray[np.bool_], columns: int) -> None:
    if values.shape[1] != columns:
        raise DataError(f"{path} has {values.shape[1]} columns, not {columns}")
    if empty.any():
        line = int(np.argmax(empty.any(axis=1))) + 1
        raise DataError(f"{path}: line {line} has empty cells. The file may be truncated")
