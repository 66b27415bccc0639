"""Gradient boosting with LightGBM on a table. A boosting round takes the place of an epoch.

A sample's logits are those of the model after every round: in-sample, of a model trained on the sample; out-of-sample,
of one that was not.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from errata.core.held_out_models import assign_folds
from errata.core.noise import label_hash
from errata.dynamics.files import replace_atomically
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.extras import require
from errata.training.engine import Progress
from errata.training.jobs import Rows, SeedResult, check_provenance, merge_folds
from errata.training.model_inputs import Inputs, TableInputs
from errata.training.recipes import BoostingRecipe

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

MODEL = "model.txt"
MAX_ROUNDS = 1000
SMALL_TABLE = 1 << 18  # numbers; below, threads wait for each other longer than they work, above all on busy cores
PATIENCE = 50  # rounds without a lower validation loss after which boosting stops


def boost(
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe,
    seeds: Sequence[int],
    folds: int | None,
    folder: Path | None,
    stream: tuple[str, ...] | None,
    progress: Progress,
) -> list[SeedResult]:
    """Boost once per seed on all samples, or once per seed and fold; `gather` describes the arguments.

    In a folder, models that are finished there are reused. stream: keep running sums for these methods, not all logits.
    """
    results = []
    for own in (recipe.with_seed(seed) for seed in seeds):
        training = _Boosting.of(inputs, labels, num_classes, own, progress)
        if folds is None:
            dynamics = training.run(f"seed{own.seed}", np.arange(len(labels)), None, folder, stream)
        else:
            fold = assign_folds(labels, folds)
            shards = [training.run_fold(fold, number, folder) for number in range(folds)]
            dynamics = merge_folds(own, shards, labels, fold, folder)
        results.append(SeedResult(own.seed, dynamics, ()))
    return results


def boost_fold(
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe,
    folds: int,
    number: int,
    folder: Path,
) -> None:
    """Boost on all folds but one, and store the result where `boost` finds it."""
    training = _Boosting.of(inputs, labels, num_classes, recipe, lambda _: None)
    training.run_fold(assign_folds(labels, folds), number, folder)


def best_rounds(
    inputs: Inputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe,
    train_rows: Rows,
    validation_rows: Rows,
    progress: Progress,
) -> tuple[BoostingRecipe, float]:
    """The recipe with the number of rounds that has the lowest log loss on the validation rows, and that loss."""
    from lightgbm import early_stopping

    metric = "multi_logloss" if num_classes > 2 else "binary_logloss"
    training = _Boosting.of(inputs, labels, num_classes, recipe, progress)
    train = training.dataset(train_rows)
    validation = training.dataset(validation_rows, train)
    model = training.train(train, validation, early_stopping(PATIENCE, verbose=False), metric)
    return replace(recipe, epochs=model.best_iteration), float(model.best_score["valid_0"][metric])


def boosted_classes(dynamics: Dynamics, inputs: TableInputs) -> NDArray[np.int64]:
    """The class (n,) that the model stored next to in-sample dynamics predicts for every row."""
    from lightgbm import Booster

    if dynamics.path is None:
        raise InputError("the model is stored only where its dynamics are stored in a folder")
    model = Booster(model_file=dynamics.path.parent / MODEL)
    probabilities = np.asarray(model.predict(inputs.values.cpu().numpy()))
    return probabilities.argmax(axis=1) if probabilities.ndim == 2 else (probabilities > 0.5).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Boosting:
    """Boosting by one recipe on a table (N, D) with labels (N,)."""

    inputs: TableInputs
    values: NDArray[Any]
    labels: NDArray[np.int64]
    num_classes: int
    recipe: BoostingRecipe
    progress: Progress

    @classmethod
    def of(
        cls, inputs: Inputs, labels: NDArray[np.int64], num_classes: int, recipe: BoostingRecipe, progress: Progress
    ) -> "_Boosting":
        require("lightgbm", "lightgbm", "boosting", "gradient boosting")
        if not isinstance(inputs, TableInputs):
            raise InputError("gradient boosting needs a table")
        return cls(inputs, inputs.values.cpu().numpy(), labels, num_classes, recipe, progress)

    def dataset(self, rows: Rows, reference: "Dataset | None" = None) -> "Dataset":
        """Some of the rows; for rows to evaluate, `reference` is the training set."""
        from lightgbm import Dataset

        return Dataset(self.values[rows], self.labels[rows], reference=reference)

    def train(
        self, train: "Dataset", evaluated: "Dataset | None", callback: Callable[..., object], metric: str = "none"
    ) -> "Booster":
        """The trained model. `callback` and `progress` are called after every round."""
        import lightgbm

        task: dict[str, Any] = {"objective": "binary"}
        if self.num_classes > 2:
            task = {"objective": "multiclass", "num_class": self.num_classes}
        parameters = task | {
            "learning_rate": self.recipe.learning_rate,
            "num_leaves": self.recipe.leaves,
            "lambda_l2": self.recipe.l2,
            "bagging_fraction": self.recipe.row_share,
            "bagging_freq": 1,
            "feature_fraction": self.recipe.column_share,
            "seed": self.recipe.seed,
            "deterministic": True,
            "num_threads": 1 if self.values.size < SMALL_TABLE else 0,  # 0: all; the model is the same
            "force_col_wise": True,  # otherwise LightGBM times both layouts, and its choice may differ between runs
            "metric": metric,
            "verbose": -1,
        }
        valid_sets = None if evaluated is None else [evaluated]
        callbacks = [callback, lambda _: self.progress(1)]
        return lightgbm.train(parameters, train, self.recipe.epochs, valid_sets=valid_sets, callbacks=callbacks)

    def run(
        self, name: str, train_rows: Rows, held_out: Rows | None, folder: Path | None, stream: tuple[str, ...] | None
    ) -> Dynamics:
        """Train on some rows, and record the rows held out, or the training rows if none are."""
        settings = asdict(self.recipe) | {"label_hash": label_hash(self.labels), "trained_on": len(train_rows)}
        if folder is None:
            return self._record(None, train_rows, held_out, settings, stream)[1]
        own = folder / name
        target, unfinished = own / "dynamics", own / ".dynamics.unfinished"
        if target.exists():
            stored = Dynamics.open(target)
            check_provenance(own, stored.settings, settings)
            self.progress(self.recipe.epochs)
            return stored
        shutil.rmtree(unfinished, ignore_errors=True)  # from a killed process: boosting is not resumed
        own.mkdir(parents=True, exist_ok=True)
        model, _ = self._record(unfinished, train_rows, held_out, settings, stream)
        text = model.model_to_string()
        replace_atomically(own / MODEL, lambda file: file.write(text.encode()))
        unfinished.replace(target)
        return Dynamics.open(target)

    def run_fold(self, fold: NDArray[np.int64], number: int, folder: Path | None) -> Dynamics:
        """Train on all folds but one, and record that one. fold (N,): the fold of each sample."""
        rows = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        return self.run(f"seed{self.recipe.seed}-fold{number}", *rows, folder, None)

    def _record(
        self,
        path: Path | None,
        train_rows: Rows,
        held_out: Rows | None,
        settings: dict[str, Any],
        stream: tuple[str, ...] | None,
    ) -> "tuple[Booster, Dynamics]":
        from errata.integrations.lightgbm import LightGBMRecorder

        train = self.dataset(train_rows)
        evaluated = None if held_out is None else self.dataset(held_out, train)
        recorded = train_rows if held_out is None else held_out
        recorder = LightGBMRecorder(
            path,
            data=evaluated,
            ids=recorded,
            gathering="in-sample" if held_out is None else "out-of-sample",
            settings=settings,
            quiet=True,
            keep="all" if stream is None else "stream",
            methods=stream,
        )
        model = self.train(train, evaluated, recorder)
        return model, recorder.finish(inputs=self.inputs.scaled(torch.from_numpy(recorded)))
