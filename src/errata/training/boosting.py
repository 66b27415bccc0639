"""Gradient boosting beside the networks: LightGBM on a table, where a round plays the epoch.

A sample's logits are those of the model after every round, in-sample of a model that has learned from the sample,
out-of-sample of one that has not.
"""

import operator
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from errata.core.checks import check_labels
from errata.core.noise import label_hash
from errata.dynamics.files import replace_atomically
from errata.dynamics.merge import merge
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.extras import require
from errata.training.engine import Progress
from errata.training.gather import SeedResult
from errata.training.jobs import Rows, assign_folds
from errata.training.model_inputs import TableInputs
from errata.training.provenance import refuse_another
from errata.training.recipes import BoostingRecipe
from errata.training.validation import split_off

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset
    from lightgbm.callback import CallbackEnv

MODEL = "model.txt"
LONGEST = 1000  # rounds that are tried where nobody says how many
PATIENCE = 50  # rounds without a better log loss after which no more are tried


def boost_in_sample(
    inputs: TableInputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe,
    *,
    seeds: Sequence[int] = (0,),
    folder: Path | None = None,
    stream: tuple[str, ...] | None = None,
    progress: Progress = lambda _: None,
) -> list[SeedResult]:
    """Boost on all samples once a seed; in a folder, seeds that are finished there are taken from it.

    stream: keep the running sums of these methods instead of all logits.
    """
    data = _Data.checked(inputs, labels, num_classes)
    everyone = np.arange(len(data.labels))
    return [
        SeedResult(
            seed, data.boost(f"seed{seed}", recipe.with_seed(seed), everyone, None, folder, progress, stream), ()
        )
        for seed in map(operator.index, seeds)
    ]


def boost_out_of_sample(
    inputs: TableInputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe,
    *,
    folds: int = 4,
    seeds: Sequence[int] = (0,),
    folder: Path | None = None,
    progress: Progress = lambda _: None,
) -> list[SeedResult]:
    """Boost once a seed and fold on the other folds; the held-out logits of all folds become one run of all samples."""
    data = _Data.checked(inputs, labels, num_classes)
    fold = assign_folds(data.labels, folds)
    gathered = []
    for own in (recipe.with_seed(operator.index(seed)) for seed in seeds):
        shards = [
            data.boost(
                f"seed{own.seed}-fold{k}", own, np.flatnonzero(fold != k), np.flatnonzero(fold == k), folder, progress
            )
            for k in range(folds)
        ]
        path = None if folder is None else folder / f"seed{own.seed}-folds"
        whole = (
            Dynamics.open(path)
            if path is not None and path.exists()
            else merge(shards, data.labels, path=path, fold=fold, settings=asdict(own))
        )
        gathered.append(SeedResult(own.seed, whole, ()))
    return gathered


def choose_rounds(
    inputs: TableInputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe | None = None,
    *,
    validation: float = 0.2,
    progress: Progress = lambda _: None,
) -> BoostingRecipe:
    """The recipe with the number of rounds, up to its own, that is best on a part of the samples held out.

    Best is the least log loss of the *given* labels there, wrong ones included; recipe.seed also draws the part.
    """
    return best_rounds(inputs, labels, num_classes, recipe, validation=validation, progress=progress)[0]


def best_rounds(
    inputs: TableInputs,
    labels: NDArray[np.int64],
    num_classes: int,
    recipe: BoostingRecipe | None = None,
    *,
    validation: float = 0.2,
    progress: Progress = lambda _: None,
) -> tuple[BoostingRecipe, float]:
    """What `choose_rounds` chooses, and its log loss on the part held out."""
    import lightgbm

    wanted = BoostingRecipe(LONGEST) if recipe is None else recipe
    data = _Data.checked(inputs, labels, num_classes)
    held_out = split_off(data.labels, validation, wanted.seed)
    train = data.dataset(np.setdiff1d(np.arange(len(data.labels)), held_out))
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    metric = "multi_logloss" if num_classes > 2 else "binary_logloss"
    model = lightgbm.train(
        data.parameters(wanted) | {"metric": metric},
        train,
        wanted.epochs,
        valid_sets=[data.dataset(held_out, train)],
        callbacks=[stop, _telling(progress)],
    )
    return replace(wanted, epochs=model.best_iteration), float(model.best_score["valid_0"][metric])


def boosted_classes(dynamics: Dynamics, inputs: TableInputs) -> NDArray[np.int64]:
    """The class (n,) of every row by the model whose in-sample dynamics are kept in a folder."""
    from lightgbm import Booster

    if dynamics.path is None:
        raise InputError("a model is only kept where its dynamics are kept in a folder")
    model = Booster(model_file=dynamics.path.parent / MODEL)
    chances = np.asarray(model.predict(inputs.values.cpu().numpy()))
    return chances.argmax(axis=1) if chances.ndim == 2 else (chances > 0.5).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Data:
    """A table (N, D) with its given labels (N,), as LightGBM takes them."""

    inputs: TableInputs
    values: NDArray[Any]
    labels: NDArray[np.int64]
    num_classes: int

    @classmethod
    def checked(cls, inputs: TableInputs, labels: NDArray[np.int64], num_classes: int) -> "_Data":
        require("lightgbm", "lightgbm", "boosting", "gradient boosting")
        if num_classes < 2:
            raise InputError(f"label errors need at least two classes, not {num_classes}")
        given = check_labels(labels, num_classes)
        if len(given) != len(inputs):
            raise InputError(f"there are {len(given)} labels for {len(inputs)} samples")
        return cls(inputs, inputs.values.cpu().numpy(), given, num_classes)

    def dataset(self, rows: Rows, reference: "Dataset | None" = None) -> "Dataset":
        """Some of the rows; those of a part to be evaluated refer to what is trained on."""
        from lightgbm import Dataset

        return Dataset(self.values[rows], self.labels[rows], reference=reference)

    def parameters(self, recipe: BoostingRecipe) -> dict[str, Any]:
        """The recipe in LightGBM's words."""
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
            "force_col_wise": True,  # else the faster way is found by trying, which is not the same every time
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
        progress: Progress,
        stream: tuple[str, ...] | None = None,
    ) -> Dynamics:
        """The dynamics of the rows held out from a training, or without these of the rows trained on."""
        settings = asdict(recipe) | {"label_hash": label_hash(self.labels), "trained_on": len(train_rows)}
        if folder is None:
            return self._train(None, recipe, train_rows, held_out, settings, progress, stream)[1]
        own = folder / name
        target, unfinished = own / "dynamics", own / ".dynamics.unfinished"
        if target.exists():
            found = Dynamics.open(target)
            refuse_another(own, found.settings, settings)
            progress(recipe.epochs)
            return found
        shutil.rmtree(unfinished, ignore_errors=True)  # what a killed process left: boosting starts over
        own.mkdir(parents=True, exist_ok=True)
        model, _ = self._train(unfinished, recipe, train_rows, held_out, settings, progress, stream)
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
        progress: Progress,
        stream: tuple[str, ...] | None,
    ) -> "tuple[Booster, Dynamics]":
        import lightgbm

        from errata.integrations.lightgbm import LightGBMRecorder

        train = self.dataset(train_rows)
        valid = None if held_out is None else self.dataset(held_out, train)
        watched = train_rows if held_out is None else held_out
        recorder = LightGBMRecorder(
            path,
            data=valid,
            ids=watched,
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
            callbacks=[recorder, _telling(progress)],
        )
        return model, recorder.finish(inputs=self.inputs.scaled(torch.from_numpy(watched)))


def _telling(progress: Progress) -> Any:
    """A callback that tells of every round."""

    def tell(env: "CallbackEnv") -> None:
        progress(1)

    return tell
