"""Train for `find` as tasks of a Ray cluster. The files of a task come back into the folder of the training."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically
from errata.dynamics.store import Dynamics
from errata.ray_cluster import PROCESS_BYTES, Files, FolderJob, Needs, RayCluster, stored_bytes
from errata.readers import UserData

if TYPE_CHECKING:
    from errata.training.jobs import TrainingOptions
    from errata.training.recipes import AnyRecipe
    from errata.training.trials import Candidate

COPIES_OF_INPUTS = 2
"""Of the inputs and the model in a task: as they arrive, and on the device."""


def train_on_cluster(
    address: str,
    chosen: "Candidate",
    data: UserData,
    folds: int | None,
    seed: int,
    options: "TrainingOptions",
    device: str,
    folder: Path,
    progress: Callable[[int], object],
) -> None:
    """Train on all samples as one task, or each fold as one task, where this was not begun in the folder."""
    from errata.training.gather import train_into

    recipe, numbers = chosen.recipe.with_seed(seed), range(folds or 1)
    names = [f"seed{seed}"] if folds is None else [f"seed{seed}-fold{number}" for number in numbers]
    jobs = {name: (recipe, folds, number, options, device) for name, number in zip(names, numbers, strict=True)}
    if (folder / f"seed{seed}-folds").exists():  # they are merged already
        return
    inputs = chosen.inputs, data.labels, data.num_classes, chosen.model
    _run_missing(address, jobs, train_into, inputs, recipe, data, device, folder, progress)


def second_pass_on_cluster(
    address: str,
    chosen: "Candidate",
    data: UserData,
    first: NDArray[np.floating[Any]],
    recipe: "AnyRecipe",
    options: Mapping[str, Any],
    folder: Path,
    progress: Callable[[int], object],
) -> None:
    """Train the second pass as one task, where it was not begun in the folder. options: those of `second_pass`."""
    inputs, jobs = (chosen.inputs, data.labels, first, chosen.model), {f"seed{options['seed']}": (recipe, options)}
    _run_missing(address, jobs, _second_pass, inputs, recipe, data, options["device"], folder, progress)


def _second_pass(folder: Path, inputs: tuple[Any, ...], recipe: Any, options: Mapping[str, Any]) -> None:
    from errata.training.second_pass import second_pass

    data, labels, first, model = inputs
    second_pass(data, labels, first, model, recipe, folder=folder, **options)


def _run_missing(
    address: str,
    jobs: Mapping[str, tuple[Any, ...]],
    function: Callable[..., object],
    inputs: tuple[Any, ...],
    recipe: "AnyRecipe",
    data: UserData,
    device: str,
    folder: Path,
    progress: Callable[[int], object],
) -> None:
    """Run `function(folder, inputs, *arguments)` for each job by name that the folder does not hold yet."""
    from errata.training.recipes import BoostingRecipe

    missing = [name for name in jobs if not (folder / name).exists()]
    if not missing:
        return
    with RayCluster(address) as cluster:
        on_gpu = device == "cuda" or (device == "auto" and cluster.has_gpus)
        logits = 4 * recipe.epochs * data.samples * data.num_classes // len(jobs)
        memory = PROCESS_BYTES + COPIES_OF_INPUTS * stored_bytes(inputs) + logits
        needs = Needs(int(on_gpu and not isinstance(recipe, BoostingRecipe)), memory)
        cluster.check(dict.fromkeys(missing, needs))
        shared = cluster.share(inputs)
        for job, result in cluster.run([FolderJob(name, function, (shared, *jobs[name]), needs) for name in missing]):
            if isinstance(result, Exception):
                raise result
            _store(folder, job.name, result)
            progress(recipe.epochs)


def _store(folder: Path, name: str, files: Files) -> None:
    """Write the files of a job; its folder appears only when it is complete."""
    part = folder / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)  # left by a killed process
    for file, content in files.items():
        path = part / Path(file).relative_to(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, lambda opened, content=content: opened.write(content.tobytes()))  # type: ignore[misc]
    part.replace(folder / name)


def by_scratch_folder(train: Callable[[Path], Dynamics]) -> Dynamics:
    """What is trained into a folder, in memory: files of a cluster have to be somewhere."""
    with tempfile.TemporaryDirectory(prefix="errata-") as scratch:
        stored = train(Path(scratch))
        arrays = {name: value for name, value in vars(stored).items() if isinstance(value, np.ndarray)}
        copies: dict[str, Any] = {name: np.array(value) for name, value in arrays.items()}
        return replace(stored, path=None, **copies)
