"""Gradient boosting with LightGBM on a table. A boosting round takes the place of an epoch.

A sample's logits are those of the model after every round: in-sample, of a model trained on the sample; out-of-sample,
of one that was not.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from errata.core.noise import label_hash
from errata.dynamics.files import replace_atomically
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.extras import require
from errata.training.engine import Progress
from errata.training.jobs import Rows, SeedResult, assign_folds, check_provenance, merge_folds
from errata.training.model_inputs import Inputs, TableInputs
from errata.training.recipes import BoostingRecipe

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset
    from lightgbm.callback import CallbackEnv

MODEL = "model.txt"
MAX_ROUNDS = 1000
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
    table = _LabelledTable.of(inputs, labels, num_classes)
    results = []
    for own in (recipe.with_seed(seed) for seed in seeds):
        if folds is None:
            everyone = np.arange(len(labels))
            dynamics = table.boost(f"seed{own.seed}", own, everyone, None, folder, stream, progress)
        else:
            fold = assign_folds(labels, folds)
            shards = []
            for k in range(folds):
                rows = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
                shards.append(table.boost(f"seed{own.seed}-fold{k}", own, *rows, folder, None, progress))
            dynamics = merge_folds(own, shards, labels, fold, folder)
        results.append(SeedResult(own.seed, dynamics, ()))
    return results


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
    import lightgbm

    table = _LabelledTable.of(inputs, labels, num_classes)
    train = table.dataset(train_rows)
    metric = "multi_logloss" if num_classes > 2 else "binary_logloss"
    model = lightgbm.train(
        table.parameters(recipe) | {"metric": metric},
        train,
        recipe.epochs,
        valid_sets=[table.dataset(validation_rows, train)],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False), _advance(progress)],
    )
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
class _LabelledTable:
    """A table (N, D) and its labels (N,), as LightGBM takes them."""

    inputs: TableInputs
    values: NDArray[Any]
    labels: NDArray[np.int64]
    num_classes: int

    @classmethod
    def of(cls, inputs: Inputs, labels: NDArray[np.int64], num_classes: int) -> "_LabelledTable":
        require("lightgbm", "lightgbm", "boosting", "gradient boosting")
        if not isinstance(inputs, TableInputs):
            raise InputError("gradient boosting needs a table")
        return cls(inputs, inputs.values.cpu().numpy(), labels, num_classes)

    def dataset(self, rows: Rows, reference: "Dataset | None" = None) -> "Dataset":
        """Some of the rows; for rows to evaluate, `reference` is the training set."""
        from lightgbm import Dataset

        return Dataset(self.values[rows], self.labels[rows], reference=reference)

    def parameters(self, recipe: BoostingRecipe) -> dict[str, Any]:
        """The recipe as parameters of LightGBM."""
        task: dict[str, Any] = {"objective": "binary"}
        if self.num_classes > 2:
            task = {"objective": "multiclass", "num_class": self.num_classes}
        return task | {
            "learning_rate": recipe.learning_rate,
            "num_leaves": recipe.leaves,
            "lambda_l2": recipe.l2,
            "bagging_fraction": recipe.row_share,
            "bagging_freq": 1,
            "feature_fraction": recipe.column_share,
            "seed": recipe.seed,
            "deterministic": True,
            "force_col_wise": True,  # otherwise LightGBM times both layouts, and its choice may differ between runs
            "metric": "none",
            "verbose": -1,
        }

    def boost(
        self,
        name: str,
        recipe: BoostingRecipe,
        train_rows: Rows,
        held_out: Rows | None,
        folder: Path | None,
        stream: tuple[str, ...] | None,
        progress: Progress,
    ) -> Dynamics:
        """Train on some rows, and record the rows held out, or the training rows if none are."""
        settings = asdict(recipe) | {"label_hash": label_hash(self.labels), "trained_on": len(train_rows)}
        if folder is None:
            return self._train(None, recipe, train_rows, held_out, settings, stream, progress)[1]
        own = folder / name
        target, unfinished = own / "dynamics", own / ".dynamics.unfinished"
        if target.exists():
            stored = Dynamics.open(target)
            check_provenance(own, stored.settings, settings)
            progress(recipe.epochs)
            return stored
        shutil.rmtree(unfinished, ignore_errors=True)  # from a killed process: boosting is not resumed
        own.mkdir(parents=True, exist_ok=True)
        model, _ = self._train(unfinished, recipe, train_rows, held_out, settings, stream, progress)
        text = model.model_to_string()
        replace_atomically(own / MODEL, lambda file: file.write(text.encode()))
        unfinished.replace(target)
        return Dynamics.open(target)

    def _train(
        self,
        path: Path | None,
        recipe: BoostingRecipe,
        train_rows: Rows,
        held_out: Rows | None,
        settings: dict[str, Any],
        stream: tuple[str, ...] | None,
        progress: Progress,
    ) -> "tuple[Booster, Dynamics]":
        import lightgbm

        from errata.integrations.lightgbm import LightGBMRecorder

        train = self.dataset(train_rows)
        valid = None if held_out is None else self.dataset(held_out, train)
        recorded = train_rows if held_out is None else held_out
        recorder = LightGBMRecorder(
            path,
            data=valid,
            ids=recorded,
            gathering="in-sample" if held_out is None else "out-of-sample",
            settings=settings,
            quiet=True,
            keep="all" if stream is None else "stream",
            methods=stream,
        )
        model = lightgbm.train(
            self.parameters(recipe),
            train,
            recipe.epochs,
            valid_sets=None if valid is None else [valid],
            callbacks=[recorder, _advance(progress)],
        )
        return model, recorder.finish(inputs=self.inputs.scaled(torch.from_numpy(recorded)))


def _advance(progress: Progress) -> Any:
    """A LightGBM callback that reports every round."""

    def callback(env: "CallbackEnv") -> None:
        progress(1)

    return callback
