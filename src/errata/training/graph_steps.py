"""What is special about training on a GPU: steps as CUDA graphs, and orders shuffled on the device."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Generator, Tensor

from errata.training.jobs import TrainingJob
from errata.training.optimizers import Optimizer

WARM_UP_STEPS = 3
ROWS_PER_GRAPH, BATCHES_PER_GRAPH = 4096, 8  # at most; measured for cnn9, where 8 batches take 3.6 % less time than 1
EPOCHS_AHEAD = 32
NUMBERS_AHEAD = 1 << 20


class Step:
    """Training steps as a function of rows. On a GPU they run on their own stream, as a CUDA graph.

    A graph is captured for every shape of rows, and again when the learning rate changes, because the rate is a
    constant in the graph.
    """

    def __init__(
        self,
        step: Callable[[Tensor], None],
        optimizer: Optimizer,
        tensors: Callable[[], Iterable[Tensor]],
        example: Tensor,
    ) -> None:
        """tensors: all tensors that a step changes, except those of the optimiser. example: rows for the warm-up."""
        self._step, self._optimizer, self._tensors, self._example = step, optimizer, tensors, example
        self._graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._rate = float("nan")
        self._stream = torch.cuda.Stream() if example.is_cuda else None  # type: ignore[no-untyped-call]
        if self._stream is not None:
            self._warm_up(self._stream)

    def __call__(self, rows: Tensor, rate: float) -> None:
        """Take the steps with that learning rate."""
        if rate != self._rate:
            self._graphs.clear()
            self._rate = rate
            self._optimizer.rate = rate
        if self._stream is None:
            self._step(rows)
            return
        if rows.shape not in self._graphs:
            self._graphs[rows.shape] = self._capture(rows)
        graph, graph_rows = self._graphs[rows.shape]
        with torch.cuda.stream(self._stream):
            graph_rows.copy_(rows)
            graph.replay()

    def begin(self) -> None:
        """Let the stream wait for the work that is queued on the device."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())

    def end(self) -> None:
        """Let later work on the device wait for the stream."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self, rows: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph_rows = rows.clone()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(graph, stream=self._stream):
            self._step(graph_rows)
        return graph, graph_rows

    def _warm_up(self, stream: torch.cuda.Stream) -> None:
        """Take a few steps, so that kernels are compiled and chosen; then restore all tensors."""
        before = [tensor.detach().clone() for tensor in self._tensors()]
        self.begin()
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                self._step(self._example)
        self.end()
        with torch.no_grad():
            for tensor, saved in zip(self._tensors(), before, strict=True):
                tensor.copy_(saved)
            for value in chain(*self._optimizer.state.values()):
                value.zero_()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A context in which no graph of an earlier model is freed: freeing one while another is captured is an error."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def batches_per_graph(batch_size: int) -> int:
    """How many batches one graph trains on."""
    return max(1, min(BATCHES_PER_GRAPH, ROWS_PER_GRAPH // batch_size))


class DeviceOrders:
    """Shuffled positions of several jobs, drawn on a GPU for several epochs at a time, one generator per job.

    For a small table, shuffling on the CPU takes longer than training.
    """

    def __init__(self, jobs: Sequence[TrainingJob], width: int, padding: int, device: torch.device) -> None:
        self._samples = [len(job.train_rows) for job in jobs]
        self._width, self._padding, self._device = width, padding, device
        self._generators = [Generator(device).manual_seed(job.recipe.seed) for job in jobs]
        self._before = [generator.get_state() for generator in self._generators]
        self._used = 0
        self._drawn: Tensor | None = None

    def next_epoch(self) -> Tensor:
        """Positions (R, width) of the next epoch of every job, padded at the end."""
        if self._drawn is None:
            self._drawn = self._draw()
        if self._used == len(self._drawn):
            self._before = [generator.get_state() for generator in self._generators]
            self._drawn, self._used = self._draw(), 0
        self._used += 1
        return self._drawn[self._used - 1]

    def state(self, slot: int) -> dict[str, Any]:
        """The state of the generator of a job, and how many of the drawn epochs are used."""
        return {"generator": self._before[slot], "used": self._used}

    def load_state(self, slot: int, state: dict[str, Any]) -> None:
        """Resume from a state; all jobs are at the same epoch."""
        self._generators[slot].set_state(state["generator"])
        self._before[slot], self._used, self._drawn = state["generator"], state["used"], None

    def _draw(self) -> Tensor:
        """Positions (epochs, R, width). The width does not depend on the other jobs, so neither do the positions."""
        epochs = max(1, min(EPOCHS_AHEAD, NUMBERS_AHEAD // self._width))
        shape = (epochs, len(self._samples), self._width)
        drawn = torch.full(shape, self._padding, device=self._device)
        for slot, (samples, generator) in enumerate(zip(self._samples, self._generators, strict=True)):
            keys = torch.rand((epochs, samples), generator=generator, device=self._device)
            drawn[:, slot, :samples] = keys.argsort(dim=1)
        return drawn
