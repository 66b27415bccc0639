"""Optimisers, and training steps that are recorded once on a GPU and replayed."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext

import torch
from torch import Tensor

from errata.training.recipes import Recipe

WARM_UP_STEPS = 3


def make_optimizer(parameters: Iterable[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimiser, with L2 in the gradient, in the form that can be part of a CUDA graph."""
    trained = list(parameters)
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            trained, recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, foreach=True
        )
    # On a CPU the fused form rounds by the place of a number in its tensor: not the same bits alone and in company.
    on_gpu = trained[0].device.type == "cuda"
    return torch.optim.Adam(
        trained,
        recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        fused=on_gpu,
        foreach=not on_gpu,
        capturable=on_gpu,
    )


class Step:
    """A training step as a function of rows. On a GPU it runs on a stream of its own, as a CUDA graph.

    A graph is recorded for every shape of rows, and again when the learning rate changes: the rate is a constant of
    what is recorded.
    """

    def __init__(
        self,
        step: Callable[[Tensor], None],
        optimizer: torch.optim.Optimizer,
        weights: Callable[[], Iterable[Tensor]],
        example: Tensor,
    ) -> None:
        """`weights` are all tensors but the optimiser's own that a step changes; `example` are rows to warm up with."""
        self._step, self._optimizer, self._weights, self._example = step, optimizer, weights, example
        self._graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._rate = float("nan")
        self._stream = torch.cuda.Stream() if example.is_cuda else None  # type: ignore[no-untyped-call]
        if self._stream is not None:
            self.warm_up()

    def __call__(self, rows: Tensor, rate: float) -> None:
        """Take a step at that rate."""
        if rate != self._rate:
            self._graphs.clear()
            self._rate = rate
            for group in self._optimizer.param_groups:
                group["lr"] = rate
        if self._stream is None:
            self._step(rows)
            return
        if rows.shape not in self._graphs:
            self._graphs[rows.shape] = self._record(rows)
        graph, held = self._graphs[rows.shape]
        with torch.cuda.stream(self._stream):
            held.copy_(rows)
            graph.replay()

    def begin(self) -> None:
        """Let the stream wait for what the device has been given so far."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())

    def end(self) -> None:
        """Let the rest of the device wait for the stream."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self, rows: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        held = rows.clone()
        # While a graph is recorded nothing can be tried out: kernels were chosen in the warm-up, for its shape alone.
        tried = rows.shape == self._example.shape
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.backends.cudnn.flags(enabled=True, benchmark=tried), torch.cuda.graph(graph, stream=self._stream):
            self._step(held)
        return graph, held

    def warm_up(self) -> None:
        """Let libraries choose their kernels and the optimiser make its state, then forget what was learned."""
        before = [tensor.detach().clone() for tensor in self._weights()]
        self.begin()
        side = nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
        with side, torch.backends.cudnn.flags(enabled=True, benchmark=self._stream is not None):
            for _ in range(WARM_UP_STEPS):
                self._step(self._example)
        self.end()
        with torch.no_grad():
            for tensor, saved in zip(self._weights(), before, strict=True):
                tensor.copy_(saved)
            for state in self._optimizer.state.values():
                for value in state.values():
                    if isinstance(value, Tensor):
                        value.zero_()
