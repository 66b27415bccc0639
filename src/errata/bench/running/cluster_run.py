"""Run the cells of a benchmark as tasks of a Ray cluster. The results are written here, as without a cluster."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from errata.bench.plan import Cell, CellGroup, group_cells
from errata.bench.results import FAILURE, NUMBERS, RANKS, SCORES, Results, last_line
from errata.bench.running.benchmark_run import BenchmarkRun
from errata.bench.running.campaign import CampaignOutcome, RunOptions, model_epochs
from errata.bench.running.cell_training import memory_needed
from errata.datasets.loading import load_setting
from errata.dynamics.files import write_file
from errata.errors import ErrataError, InputError, MissingDataError
from errata.ray_cluster import PROCESS_BYTES, Files, FolderJob, Needs, RayCluster
from errata.terminal import NoProgress
from errata.training.recipes import AnyRecipe, BoostingRecipe


class SkippedCellError(ErrataError):
    """A worker cannot train the cell; the message says why."""


def run_on_cluster(benchmark: BenchmarkRun, address: str, cells: Sequence[Cell]) -> CampaignOutcome:
    """Run every cell that has no results yet. The data must be readable under the same path on every node.

    The groups are locked until the end, so that no second process computes the same cells.
    """
    if benchmark.options.keep_dynamics:
        raise InputError("--keep-dynamics does not work with --ray: the dynamics stay on the worker and are deleted")
    outcome, progress = benchmark.outcome, benchmark.progress
    with RayCluster(address) as cluster, contextlib.ExitStack() as locks:
        jobs: dict[str, tuple[FolderJob, Cell, int]] = {}
        for group in group_cells(cells):
            lock = benchmark.lock(group)
            if lock is not None:
                locks.callback(lock.release)
                jobs |= _group_jobs(benchmark, group, cluster)
        cluster.check({name: job.needs for name, (job, _, _) in jobs.items()})
        progress.total(sum(epochs for _, _, epochs in jobs.values()))
        progress.begin(f"{len(jobs)} cells on Ray", 0)
        for job, result in cluster.run([job for job, _, _ in jobs.values()]):
            _, cell, epochs = jobs[job.name]
            if isinstance(result, SkippedCellError):
                outcome.skipped[cell] = str(result)
                progress.say(f"{cell.name}: skipped: {last_line(str(result))}")
            elif isinstance(result, Exception):
                benchmark.report_failure(cell, str(result))
            else:
                _store(benchmark.store, cell, result)
                outcome.done.append(cell)
                progress.say(f"{cell.name}: done")
            progress.advance(epochs)
    return outcome


def _group_jobs(
    benchmark: BenchmarkRun, group: CellGroup, cluster: RayCluster
) -> dict[str, tuple[FolderJob, Cell, int]]:
    """By name, the jobs of the cells of a group that have no results yet, with their cells and numbers of epochs."""
    options, recipe = benchmark.options, benchmark.recipe(group)
    group = benchmark.unfinished(group)
    if not group.seeds:
        return {}
    try:
        labelled = load_setting(group.setting.name, options.data_dir)
    except MissingDataError as error:
        benchmark.skip(group, str(error))
        return {}
    on_gpu = options.device == "cuda" or (options.device == "auto" and cluster.has_gpus)
    needs = Needs(
        int(on_gpu and not isinstance(recipe, BoostingRecipe)), PROCESS_BYTES + memory_needed(recipe, labelled)
    )
    plugins = {path.name: path.read_bytes() for path in options.plugins}
    jobs = {}
    for seed in group.seeds:
        cell, epochs = group.cell(seed), model_epochs(replace(group, seeds=(seed,)), recipe)
        jobs[cell.name] = FolderJob(cell.name, _run_cell, (cell, options, recipe, plugins), needs), cell, epochs
    return jobs


def _run_cell(folder: Path, cell: Cell, options: RunOptions, recipe: AnyRecipe, plugins: dict[str, bytes]) -> None:
    """Train and score a cell in a folder on a worker."""
    for name, content in plugins.items():
        (folder / name).write_bytes(content)
    results = Results(folder)
    results.recipe_path(cell.setting).parent.mkdir()
    recipe.save(results.recipe_path(cell.setting))
    here = replace(options, plugins=tuple(folder / name for name in plugins))
    outcome = BenchmarkRun(folder, here, NoProgress()).run([cell])
    if cell in outcome.skipped:
        raise SkippedCellError(outcome.skipped[cell])
    if cell in outcome.failed:
        raise ErrataError(outcome.failed[cell])


def _store(results: Results, cell: Cell, files: Files) -> None:
    """Write the results of a cell; the numbers come last and mark it as done."""
    for kind in (SCORES, RANKS, NUMBERS):
        path = results.file(cell, kind)
        write_file(path, files[path.relative_to(results.folder).as_posix()].tobytes())
    results.file(cell, FAILURE).unlink(missing_ok=True)
    results.publish(cell)
