"""ShardedDynamics: the shards of a place as one run. One shard is in memory at a time."""

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.composed_method import ComposedMethod
from errata.core.devices import Progress
from errata.core.factored_method import (
    BUDGET,
    HELD_OUT,
    NEIGHBOURS,
    OWN_WEIGHT,
    SAMPLES,
    FactoredMethod,
    Part,
    State,
    merge,
)
from errata.core.factoring import factored
from errata.core.method_parts import MethodResult, SampleArrays
from errata.core.methods import Method, parse
from errata.core.replay import SampleStatistic
from errata.core.sample_context import SampleContext
from errata.core.windows import Window
from errata.dynamics.places import Place
from errata.dynamics.reducers import Reducers
from errata.dynamics.shard_ids import refuse_repeated_ids
from errata.dynamics.shard_neighbours import NeighbourSearch, PlacedShard, search_neighbours
from errata.dynamics.shards import ShardInfo, list_shards, read_shard
from errata.dynamics.store import Dynamics
from errata.errors import InputError, StoreError
from errata.memory import check_fits
from errata.wording import counted

Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Like `map`: calls a function with each of some tasks, and returns the results in their order."""


def _read_when_used(array: str) -> Any:
    """A property of a run in shards: an array of all samples, or None unless all shards have it."""
    return cached_property(lambda run: run._whole(array) if run.knows(array) else None)


class ShardedDynamics(Dynamics):
    """A run in shards. Logits and running sums are read shard by shard.

    Samples are in the order of the names of their shards. Methods that factor (errata.core.factoring) hold one shard
    at a time. Others read the arrays (N, K) or (N, E) that they need into memory; ids, labels and the optional arrays
    of all samples are read when they are first used.
    """

    shards: tuple[ShardInfo, ...]
    ids, labels, fold = map(_read_when_used, ("ids", "labels", "fold"))
    features, inputs, held_out = map(_read_when_used, ("features", "inputs", "held_out"))

    def __init__(self, shards: Sequence[ShardInfo]) -> None:
        manifest = shards[0].manifest
        self.__dict__ |= {
            "shards": tuple(shards),
            "logits": None,
            "swa_logits": None,  # read shard by shard
            "num_classes": manifest["num_classes"],
            "classes": None if manifest["classes"] is None else tuple(manifest["classes"]),
            "gathering": manifest["gathering"],
            "allow_missing": manifest["partial"] == "allow",
            "settings": manifest["settings"],
            "reducers": _empty_sums(manifest),
            "path": None,
        }

    def knows(self, array: str) -> bool:
        """Whether all shards have this optional array."""
        return all(f"{array}.npy" in shard.manifest["files"] for shard in self.shards)

    @cached_property
    def known_context(self) -> SampleContext:
        """A context of no samples."""
        none = {name: np.empty((0, 1)) if self.knows(name) else None for name in ("features", "inputs", "held_out")}
        return SampleContext(none["features"], none["inputs"], held_out=none["held_out"])

    def _whole(self, array: str) -> NDArray[Any]:
        """An array of all samples."""
        size = sum(shard.manifest["files"][f"{array}.npy"][0] for shard in self.shards)
        check_fits(2 * size, f"the {array} of {self.shards[0].place.url}")
        return np.concatenate([shard.array(f"{array}.npy") for shard in self.shards])

    @cached_property
    def placed(self) -> tuple[PlacedShard, ...]:
        """The shards, each with the row of its first sample."""
        firsts = np.cumsum([0, *(shard.samples for shard in self.shards[:-1])]).tolist()
        return tuple(map(PlacedShard, self.shards, firsts))

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(shard.samples for shard in self.shards)

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return int(self.shards[0].manifest["epochs"])

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
        for shard, first in self.placed:
            for arrays, own in zip(whole, read_shard(shard).sample_arrays(statistics), strict=True):
                for key, values in own.items():
                    if key not in arrays:
                        size = self.samples * (values.nbytes // max(1, len(values)))
                        check_fits(size, f"an array of all samples of {shard.place.url}")
                        arrays[key] = np.empty((self.samples, *values.shape[1:]), dtype=values.dtype)
                    arrays[key][first : first + shard.samples] = values
            if progress is not None:
                progress(shard.samples)
        return whole

    def in_memory(self) -> Dynamics:
        """The same run with all its logits in memory, if they fit."""
        if self.reducers is not None:
            raise InputError(f"{self} has running sums only; the logits of every epoch are needed here (keep='all')")
        size = sum(size for shard in self.shards for size, _ in shard.manifest["files"].values())
        check_fits(2 * size, f"the logits of {self.shards[0].place.url}")
        logits = np.concatenate([shard.logits() for shard in self.shards], axis=1)
        averaged = self._whole("swa_logits") if self.knows("swa_logits") else None
        fields = {item.name: getattr(self, item.name) for item in dataclass_fields(Dynamics)}
        return Dynamics(**fields | {"logits": logits, "swa_logits": averaged})

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
    if not shards[0].manifest["epochs"]:
        raise StoreError(f"{place.url} holds no whole epoch yet")
    refuse_repeated_ids(shards)
    return ShardedDynamics(shards)


def _empty_sums(manifest: dict[str, Any]) -> Reducers | None:
    """Running sums of no sample, which say what methods the running sums in the shards suffice for."""
    if manifest["keep"] == "all":
        return None
    return Reducers([parse(name) for name in manifest.get("methods") or ()], 0, manifest["num_classes"])


@dataclass(frozen=True)
class Round:
    """A round of map of some methods, or without a number the last step, which scores.

    known: what the rounds before it made known for each method. searches: those of the methods that need neighbours.
    """

    methods: tuple[FactoredMethod, ...]
    number: int | None
    known: tuple[State, ...]
    searches: tuple[NeighbourSearch | None, ...]

    def process(self, placed: PlacedShard) -> Any:
        """A pure function of one shard: states of the methods, or ids (n,) and the results of the methods."""
        run = read_shard(placed.shard)
        found: list[SampleArrays] = [
            {} if search is None else {NEIGHBOURS: search.neighbours(placed)} for search in self.searches
        ]
        for factor, near in zip(self.methods, found, strict=True):
            if factor.held_out and run.context.held_out is not None:
                near[HELD_OUT] = run.context.held_out
        arrays = run.sample_arrays([factor.method for factor in self.methods])
        parts = [Part(own | near, run.labels, placed.first) for own, near in zip(arrays, found, strict=True)]
        jobs = zip(self.methods, parts, self.known, strict=True)
        if self.number is None:
            return run.ids, {factor.method.name: factor.result(part, known) for factor, part, known in jobs}
        return tuple(factor.map(self.number, part, known) for factor, part, known in jobs)


def score_shards(
    dynamics: ShardedDynamics,
    methods: Sequence[Method],
    mapper: Mapper = map,
    budget: int | None = None,
    *,
    files: Place | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Iterator[tuple[NDArray[Any], dict[str, MethodResult]]]:
    """For each shard, its ids (n,) and the results of all methods, as from the whole run.

    budget: the number of samples that will be inspected. files: a new folder that all processes reach, by default one
    on this machine. say: called with a line on each approximate search for neighbours.
    """
    factors = tuple(_require_factored(method, dynamics.known_context) for method in methods)
    known: dict[FactoredMethod, State] = {factor: {BUDGET: budget, SAMPLES: dynamics.samples} for factor in factors}
    searches: dict[FactoredMethod, NeighbourSearch] = {}

    def over_shards(chosen: tuple[FactoredMethod, ...], number: int | None) -> Iterable[Any]:
        of_methods = tuple(known[factor] for factor in chosen), tuple(map(searches.get, chosen))
        return mapper(Round(chosen, number, *of_methods).process, dynamics.placed)

    files = files or Place(tempfile.mkdtemp(prefix="errata-"))
    try:
        searching = [factor for factor in factors if _searches_neighbours(factor.method)]
        if searching:
            files.check_writable()
        for factor in searching:
            method = factor.method
            assert isinstance(method, ComposedMethod)
            own = Place(files.path(str(len(searches))))
            searches[factor] = search_neighbours(dynamics, method, mapper, own)
            known[factor][OWN_WEIGHT] = searches[factor].settings.a
            say(f"{method.name}: {searches[factor].recall:.1%} of the nearest neighbours were found")
        for number in itertools.count():
            chosen = tuple(factor for factor in factors if factor.needs_round(number, known[factor]))
            if not chosen:
                break
            total = reduce(_merge_all, over_shards(chosen, number))
            known |= {
                factor: factor.reduce(number, state, known[factor]) for factor, state in zip(chosen, total, strict=True)
            }
        yield from over_shards(factors, None)
    finally:
        files.delete()


def _searches_neighbours(method: Method) -> bool:
    return isinstance(method, ComposedMethod) and method.searches_neighbours


def _merge_all(one: tuple[State, ...], other: tuple[State, ...]) -> tuple[State, ...]:
    return tuple(merge(pair) for pair in zip(one, other, strict=True))


def _require_factored(method: Method, context: SampleContext) -> FactoredMethod:
    factor = factored(method, context)
    if factor is None:
        advice = "leave out --ray, or choose another method"
        if context.can_hold_out and context.held_out is None:
            advice = f"store held-out predictions (held_out=), {advice}"
        raise InputError(f"{method.name} needs all samples on one node: {advice}")
    return factor


def sharded_results(
    dynamics: ShardedDynamics, methods: Sequence[Method], budget: int | None
) -> dict[str, MethodResult]:
    """Scores (N,) and flags (N,) of all methods; those that do not factor get arrays of all samples."""
    factors = [method for method in methods if factored(method, dynamics.known_context) is not None]
    results: dict[str, MethodResult] = {}
    parts = [result for _, result in score_shards(dynamics, factors, budget=budget)] if factors else []
    for method in methods:
        if parts and method.name in parts[0]:
            scores, flags = zip(*(part[method.name] for part in parts), strict=True)
            whole = None if flags[0] is None else np.concatenate(flags)
            results[method.name] = MethodResult(np.concatenate(scores), whole)
        else:
            (arrays,) = dynamics.sample_arrays([method])
            results[method.name] = method.result(arrays, dynamics.labels, budget, dynamics.context)
    return results
