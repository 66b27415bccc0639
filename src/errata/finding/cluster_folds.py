"""Train the folds of `find` as tasks of a Ray cluster. Their files come back into the folder of the training."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from errata.dynamics.files import replace_atomically
from errata.ray_cluster import Files, FolderJob, Needs, RayCluster
from errata.readers import UserData

if TYPE_CHECKING:
    from errata.training.jobs import TrainingOptions
    from errata.training.trials import Candidate


def train_folds(
    address: str,
    chosen: "Candidate",
    data: UserData,
    folds: int,
    seed: int,
    options: "TrainingOptions",
    device: str,
    folder: Path,
    progress: Callable[[int], object],
) -> None:
    """Train every fold that was not begun in the folder, each as one task. A fold of a lost worker is run again."""
    from errata.training.gather import train_fold
    from errata.training.recipes import BoostingRecipe

    names = [f"seed{seed}-fold{number}" for number in range(folds)]
    missing = [number for number, name in enumerate(names) if not (folder / name).exists()]
    if not missing or (folder / f"seed{seed}-folds").exists():
        return
    recipe = chosen.recipe.with_seed(seed)
    with RayCluster(address) as cluster:
        on_gpu = device == "cuda" or (device == "auto" and cluster.has_gpus)
        memory = 4 * recipe.epochs * data.samples * data.num_classes // folds
        needs = Needs(int(on_gpu and not isinstance(recipe, BoostingRecipe)), memory)
        cluster.check(dict.fromkeys((names[number] for number in missing), needs))
        shared = cluster.share((chosen.inputs, data.labels, data.num_classes, chosen.model))
        jobs = [
            FolderJob(names[number], train_fold, (shared, recipe, folds, number, options, device), needs)
            for number in missing
        ]
        for job, result in cluster.run(jobs):
            if isinstance(result, Exception):
                raise result
            _store(folder, job.name, result)
            progress(recipe.epochs)


def _store(folder: Path, name: str, files: Files) -> None:
    """Write the files of a fold; its folder appears only when it is complete."""
    part = folder / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)  # left by a killed process
    for file, content in files.items():
        path = part / Path(file).relative_to(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, lambda opened, content=content: opened.write(content.tobytes()))  # type: ignore[misc]
    part.replace(folder / name)
