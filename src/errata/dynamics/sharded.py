"""ShardedDynamics: the shards of a place as one run. One shard is in memory at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core import memorising
from errata.core.aggregations import LastQuarter
from errata.core.checks import Labels
from errata.core.composed_method import ComposedMethod
from errata.core.devices import Progress
from errata.core.factoring import FactoredMethod, Part, State, factored, merge
from errata.core.measures import LM
from errata.core.method_parts import MethodResult, SampleArrays
from errata.core.methods import Method, parse
from errata.core.replay import SampleStatistic
from errata.core.windows import Window
from errata.dynamics.places import Place
from errata.dynamics.reducers import Reducers
from errata.dynamics.run_folder import described_run
from errata.dynamics.shards import ShardInfo, list_shards, read_shard
from errata.dynamics.store import OPTIONAL_ARRAYS, Dynamics
from errata.errors import InputError, StoreError
from errata.memory import check_fits
from errata.wording import counted

Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Like `map`: calls a function with each of some tasks, and returns the results in their order."""


@dataclass(frozen=True, repr=False)
class ShardedDynamics(Dynamics):
    """A run in shards. ids (N,) and labels (N,) are in memory; logits and running sums are read shard by shard.

    Samples are in the order of the names of their shards. Methods that factor (errata.core.factoring) hold one shard
    at a time. Others read the arrays (N, K) or (N, E) that they need into memory.
    """

    shards: tuple[ShardInfo, ...] = ()

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return int(self.shards[0].manifest["epochs"])

    @property
    def running_sums(self) -> bool:
        """Whether running sums were stored instead of logits."""
        return bool(self.shards[0].manifest["keep"] == "stream")

    def window(self, window: Window | None) -> Dynamics:
        """Only the whole run: windows of shards are not supported."""
        if window is not None:
            raise InputError("a window of epochs cannot be chosen for a run in shards; score the whole run")
        return self

    def save(self, path: Any) -> Dynamics:
        """Refused: a run in shards is stored already."""
        raise InputError(f"{self} is stored in shards already; copy its folder instead")

    def sample_arrays(
        self, statistics: Sequence[SampleStatistic], progress: Progress | None = None
    ) -> list[SampleArrays]:
        """The sample arrays of all samples, if they fit into memory; they are read shard by shard."""
        whole: list[SampleArrays] = [{} for _ in statistics]
        first = 0
        for shard in self.shards:
            for arrays, own in zip(whole, read_shard(shard).sample_arrays(statistics), strict=True):
                for key, values in own.items():
                    if key not in arrays:
                        size = self.samples * (values.nbytes // max(1, len(values)))
                        check_fits(size, f"an array of all samples of {shard.place.url}")
                        arrays[key] = np.empty((self.samples, *values.shape[1:]), dtype=values.dtype)
                    arrays[key][first : first + shard.samples] = values
            first += shard.samples
            if progress is not None:
                progress(shard.samples)
        return whole

    def in_memory(self) -> Dynamics:
        """The same run with all its logits in memory, if they fit."""
        if self.running_sums:
            raise InputError(f"{self} has running sums only; the logits of every epoch are needed here (keep='all')")
        size = sum(size for shard in self.shards for size, _ in shard.manifest["files"].values())
        check_fits(2 * size, f"the logits of {self.shards[0].place.url}")
        runs = [read_shard(shard) for shard in self.shards]
        fields = {item.name: getattr(self, item.name) for item in dataclass_fields(Dynamics)}
        averaged = [run.swa_logits for run in runs if run.swa_logits is not None]
        fields["swa_logits"] = np.concatenate(averaged) if len(averaged) == len(runs) else None
        return Dynamics(**fields | {"logits": np.concatenate([run.logits for run in runs], axis=1)})

    def verify(self) -> None:
        """Read every shard and compare it with its checksums."""
        for shard in self.shards:
            read_shard(shard)

    def __repr__(self) -> str:
        size = f"{counted(self.epochs, 'epoch')}, {self.samples:,} samples, {self.num_classes} classes"
        return f"Dynamics({size}, {counted(len(self.shards), 'shard')} in {self.shards[0].place.url})"


def open_shards(place: Place) -> ShardedDynamics:
    """The shards of a place as one run; refuses missing, duplicate and torn shards, and a sample in two shards."""
    shards = list_shards(place)
    manifest = shards[0].manifest
    if not manifest["epochs"]:
        raise StoreError(f"{place.url} holds no whole epoch yet")
    check_fits(sum(shard.samples for shard in shards) * 24, f"the ids and labels of {place.url}")
    ids = _same_type([(shard, shard.array("ids.npy")) for shard in shards])
    labels: Labels = np.concatenate([shard.array("labels.npy") for shard in shards])
    _refuse_repeated(ids, labels, shards)
    return ShardedDynamics(
        logits=None,
        labels=labels,
        ids=ids,
        reducers=_empty_sums(manifest),
        shards=tuple(shards),
        **described_run(manifest),
        **_optional_arrays(shards),
    )


def _empty_sums(manifest: dict[str, Any]) -> Reducers | None:
    """Running sums of no sample, which say what methods the running sums in the shards suffice for."""
    if manifest["keep"] == "all":
        return None
    return Reducers([parse(name) for name in manifest.get("methods") or ()], 0, manifest["num_classes"])


def _optional_arrays(shards: Sequence[ShardInfo]) -> dict[str, Any]:
    """Arrays of all samples besides logits, if all shards have them; swa_logits are read shard by shard."""
    names = [name for name in OPTIONAL_ARRAYS if all(f"{name}.npy" in shard.manifest["files"] for shard in shards)]
    names = [name for name in names if name != "swa_logits"]
    size = sum(shard.manifest["files"][f"{name}.npy"][0] for shard in shards for name in names)
    check_fits(2 * size, f"the features and other arrays of {shards[0].place.url}")
    parts = [shard.optional_arrays(names) for shard in shards]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _same_type(parts: list[tuple[ShardInfo, NDArray[Any]]]) -> NDArray[Any]:
    first, ids = parts[0]
    for shard, own in parts:
        if own.dtype.kind != ids.dtype.kind:
            raise StoreError(
                f"shard {shard.name!r} has ids of type {own.dtype}, but shard {first.name!r} of {ids.dtype}"
            )
        if len(own) != shard.samples:
            raise StoreError(f"shard {shard.name!r} is damaged: it has {len(own)} ids for {shard.samples} samples")
    return np.concatenate([own for _, own in parts])


def _refuse_repeated(ids: NDArray[Any], labels: Labels, shards: Sequence[ShardInfo]) -> None:
    """Refuse an id that occurs twice, with the names of its shards."""
    order = np.argsort(ids, kind="stable")
    again = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    if len(again):
        one, other = int(order[again[0]]), int(order[again[0] + 1])
        ends = np.cumsum([shard.samples for shard in shards])
        names = [shards[int(np.searchsorted(ends, row, side="right"))].name for row in (one, other)]
        labelled = "" if labels[one] == labels[other] else f", with the labels {labels[one]} and {labels[other]}"
        where = (
            f"twice in shard {names[0]!r}" if names[0] == names[1] else f"in the shards {names[0]!r} and {names[1]!r}"
        )
        raise StoreError(f"sample {ids[one : one + 1].tolist()[0]!r} is {where}{labelled}; delete the duplicate shard")


@dataclass(frozen=True)
class ShardTask:
    """One shard in one round of some methods; without a number, the last step, which scores."""

    shard: ShardInfo
    first: int
    methods: tuple[FactoredMethod, ...]
    number: int | None
    known: tuple[State, ...]


def process_shard(task: ShardTask) -> Any:
    """A pure function of a task: states of the methods, or ids (n,) and the results of the methods."""
    run = read_shard(task.shard)
    statistics = [factor.method for factor in task.methods]
    parts = [Part(arrays, run.labels, task.first) for arrays in run.sample_arrays(statistics)]
    jobs = zip(task.methods, parts, task.known, strict=True)
    if task.number is None:
        return run.ids, {factor.method.name: factor.result(part, known) for factor, part, known in jobs}
    return tuple(factor.map(task.number, part, known) for factor, part, known in jobs)


def late_epochs_have_memorised(dynamics: ShardedDynamics, mapper: Mapper = map) -> bool:
    """Whether the late epochs of a run have memorised labels (errata.core.memorising), in one pass over its shards."""
    return memorising.reverses(np.sum(list(mapper(_late_reversals, dynamics.shards)), axis=0))


def _late_reversals(shard: ShardInfo) -> NDArray[np.int64]:
    run = read_shard(shard)
    (arrays,) = run.sample_arrays([ComposedMethod(LastQuarter(), LM)])
    return memorising.late_reversals(arrays["log_probabilities"], run.labels)


def score_shards(
    dynamics: ShardedDynamics, methods: Sequence[Method], mapper: Mapper = map
) -> Iterator[tuple[NDArray[Any], dict[str, MethodResult]]]:
    """For each shard, its ids (n,) and the results of all methods, as from the whole run."""
    factors = tuple(_require_factored(method) for method in methods)
    firsts = np.cumsum([0, *(shard.samples for shard in dynamics.shards)]).tolist()
    known: dict[FactoredMethod, State] = {factor: {} for factor in factors}

    def over_shards(chosen: tuple[FactoredMethod, ...], number: int | None) -> Iterable[Any]:
        states = tuple(known[factor] for factor in chosen)
        tasks = [ShardTask(*place, chosen, number, states) for place in zip(dynamics.shards, firsts, strict=False)]
        return mapper(process_shard, tasks)

    for number in range(max((factor.rounds for factor in factors), default=0)):
        chosen = tuple(factor for factor in factors if factor.rounds > number)
        total = reduce(_merge_all, over_shards(chosen, number))
        known |= {
            factor: factor.reduce(number, state, known[factor]) for factor, state in zip(chosen, total, strict=True)
        }
    yield from over_shards(factors, None)


def _merge_all(one: tuple[State, ...], other: tuple[State, ...]) -> tuple[State, ...]:
    return tuple(merge(pair) for pair in zip(one, other, strict=True))


def _require_factored(method: Method) -> FactoredMethod:
    factor = factored(method)
    if factor is None:
        raise InputError(f"{method.name} needs all samples on one node: leave out --ray, or choose another method")
    return factor


def sharded_results(
    dynamics: ShardedDynamics, methods: Sequence[Method], budget: int | None
) -> dict[str, MethodResult]:
    """Scores (N,) and flags (N,) of all methods; those that do not factor get arrays of all samples."""
    factors = [method for method in methods if factored(method) is not None]
    results: dict[str, MethodResult] = {}
    parts = [result for _, result in score_shards(dynamics, factors)] if factors else []
    for method in methods:
        if parts and method.name in parts[0]:
            scores, flags = zip(*(part[method.name] for part in parts), strict=True)
            whole = None if flags[0] is None else np.concatenate(flags)
            results[method.name] = MethodResult(np.concatenate(scores), whole)
        else:
            (arrays,) = dynamics.sample_arrays([method])
            results[method.name] = method.result(arrays, dynamics.labels, budget, dynamics.spaces)
    return results
