"""Run the cells of a benchmark as tasks of a Ray cluster. The results are written here, as without a cluster."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from errata.bench.plan import Cell, group_cells
from errata.bench.results import NUMBERS, RANKS, SCORES, Results
from errata.bench.running.benchmark_run import BenchmarkRun
from errata.bench.running.campaign import CampaignOutcome, RunOptions
from errata.bench.running.cell_training import memory_needed
from errata.datasets.loading import load_setting
from errata.dynamics.files import replace_atomically
from errata.errors import ErrataError, InputError, MissingDataError
from errata.ray_cluster import Files, FolderJob, Needs, RayCluster
from errata.training.recipes import AnyRecipe, BoostingRecipe


class SkippedCellError(ErrataError):
    """A worker cannot train the cell; the message says why."""


class _Quiet:
    def say(self, line: str) -> None: ...
    def total(self, epochs: int) -> None: ...
    def begin(self, name: str, epochs: int) -> None: ...
    def advance(self, epochs: float) -> None: ...


def run_on_cluster(benchmark: BenchmarkRun, address: str, cells: Sequence[Cell]) -> CampaignOutcome:
    """Run every cell that has no results yet. The data must be readable under the same path on every node."""
    options, results = benchmark.options, benchmark.results
    if options.keep_dynamics:
        raise InputError("--keep-dynamics does not work with --ray: the dynamics stay on the worker and are deleted")
    outcome = CampaignOutcome(reused=[cell for cell in cells if results.has(cell)])
    plugins = {path.name: path.read_bytes() for path in options.plugins}
    with RayCluster(address) as cluster:
        jobs: dict[Cell, FolderJob] = {}
        for group in group_cells([cell for cell in cells if cell not in outcome.reused]):
            recipe = benchmark._recipe(group)
            try:
                labelled = load_setting(group.setting.name, options.data_dir)
            except MissingDataError as error:
                outcome.skipped |= {group.cell(seed): str(error) for seed in group.seeds}
                continue
            on_gpu = options.device == "cuda" or (options.device == "auto" and cluster.has_gpus)
            gpus = int(on_gpu and not isinstance(recipe, BoostingRecipe))
            needs = Needs(gpus, memory_needed(recipe, labelled))
            for cell in map(group.cell, group.seeds):
                jobs[cell] = FolderJob(cell.name, _run_cell, (cell, options, recipe, plugins), needs)
        cluster.check({job.name: job.needs for job in jobs.values()})
        cell_of = {job.name: cell for cell, job in jobs.items()}
        for job, result in cluster.run(list(jobs.values())):
            cell = cell_of[job.name]
            if isinstance(result, SkippedCellError):
                outcome.skipped[cell] = str(result)
            elif isinstance(result, Exception):
                results.write_failure(cell, str(result))
                outcome.failed[cell] = str(result)
            else:
                _store(results, cell, result)
                outcome.done.append(cell)
    return outcome


def _run_cell(folder: Path, cell: Cell, options: RunOptions, recipe: AnyRecipe, plugins: dict[str, bytes]) -> None:
    """Train and score a cell in a folder on a worker."""
    for name, content in plugins.items():
        (folder / name).write_bytes(content)
    results = Results(folder)
    results.recipe_path(cell.setting).parent.mkdir()
    recipe.save(results.recipe_path(cell.setting))
    here = replace(options, plugins=tuple(folder / name for name in plugins))
    outcome = BenchmarkRun(folder, here, _Quiet()).run([cell])
    if cell in outcome.skipped:
        raise SkippedCellError(outcome.skipped[cell])
    if cell in outcome.failed:
        raise ErrataError(outcome.failed[cell])


def _store(results: Results, cell: Cell, files: Files) -> None:
    """Write the results of a cell; the numbers come last and mark it as done."""
    for kind in (SCORES, RANKS, NUMBERS):
        path = results.file(cell, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = files[path.relative_to(results.folder).as_posix()].tobytes()
        replace_atomically(path, lambda file, content=content: file.write(content))  # type: ignore[misc]
