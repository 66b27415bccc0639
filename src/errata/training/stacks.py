"""A stack: MLPs of one shape as batched matrices, with one optimiser step for all of them."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from errata.training.jobs import Job
from errata.training.models import mlp
from errata.training.recipes import Recipe
from errata.training.steps import Step, make_optimizer

_through_relu = torch.ops.aten.threshold_backward.grad_input  # in place: no gradient where nothing was passed on
ROW_MULTIPLE = 32  # a CPU's optimiser rounds the numbers that fill no vector another way: every job's fill theirs


class StackShape(NamedTuple):
    """What jobs must share to be stacked."""

    recipe: Recipe
    full_batches: int
    tail: int


class Stack:
    """R MLPs as weights (R, in, out) and biases (R, 1, out) a layer, which are parts of one tensor (R, P)."""

    def __init__(
        self, shape: StackShape, jobs: Sequence[Job], values: Tensor, labels: Tensor, widths: Sequence[int]
    ) -> None:
        self._shape, self._jobs, self._widths = shape, jobs, widths
        self._values, self._labels = values, labels
        self._nobody = len(values) - 1  # the row that pads: zeros in, weighs nothing, logits thrown away
        self._flat = self._initial()
        self._flat.grad = torch.zeros_like(self._flat)
        self.weights, self.biases = self._layers(self._flat)
        self._weight_gradients, self._bias_gradients = self._layers(self._flat.grad)
        self._optimizer = make_optimizer([self._flat], shape.recipe)
        self._logits = values.new_zeros((len(jobs) * len(values), widths[-1]))
        self._offsets = torch.arange(len(jobs), device=values.device)[:, None] * len(values)
        train_rows = [torch.from_numpy(job.train_rows) for job in jobs]
        self._kept = self._offsets + pad_sequence(train_rows, batch_first=True).to(values.device)
        self._spaces: dict[torch.Size, _Space] = {}
        self._in_flight: list[Tensor] = []
        everyone = torch.full((len(jobs), shape.recipe.batch_size), self._nobody, device=values.device)
        self._step = Step(self._train_step, self._optimizer, lambda: [self._flat], everyone)
        self._step.warm_up()  # on a CPU too: a state can be loaded only into an optimiser that has one

    def train_epoch(self, epoch: int, orders: Sequence[list[Tensor]], after_step: Callable[[], None]) -> None:
        """Train every job on its batches of positions; on a GPU this only asks for it, and `passes` waits.

        No batches is a job that stands still: its model is not looked at any more.
        """
        size = self._shape.recipe.batch_size
        rows = np.full((len(self._jobs), self._shape.full_batches * size + self._shape.tail), self._nobody)
        for slot, (job, batches) in enumerate(zip(self._jobs, orders, strict=True)):
            for number, positions in enumerate(batches):
                rows[slot, number * size : number * size + len(positions)] = job.train_rows[positions.numpy()]
        on_device = torch.from_numpy(rows).to(self._values.device)
        # Made before the stream begins and held until it ends: on a GPU nobody else waits for either.
        self._in_flight = [batch.contiguous() for batch in torch.split(on_device, size, dim=1)]
        self._step.begin()
        for batch in self._in_flight:
            self._step(batch, self._shape.recipe.rate(epoch))
            after_step()

    def passes(self) -> list[Tensor]:
        """The logits (n, K) of every job before the updates of the last epoch, by train_rows."""
        self._step.end()
        logits = self._logits[self._kept]
        return [logits[slot, : len(job.train_rows)] for slot, job in enumerate(self._jobs)]

    def evaluate(self, slot: int, rows: Tensor) -> Tensor:
        """Logits (n, K) of some rows from one of the models."""
        space = self._space(rows[None])
        self._forward(space, rows[None], slice(slot, slot + 1))
        return space.logits[0].T.clone()

    def tensors(self) -> list[Tensor]:
        """All that is a job's own, along the first axis: its weights and what the optimiser remembers of them."""
        state = self._optimizer.state[self._flat]
        remembered = [state[key] for key in sorted(state) if key != "step"]
        return [self._flat, *(value for value in remembered if value is not None)]

    def steps(self) -> Tensor:
        """How many updates the optimiser has made."""
        made: Tensor = self._optimizer.state[self._flat].get("step", torch.zeros(()))
        return made

    def set_steps(self, steps: Tensor) -> None:
        """Make the optimiser believe it has made that many updates."""
        if "step" in self._optimizer.state[self._flat]:
            self._optimizer.state[self._flat]["step"].copy_(steps)

    def _initial(self) -> Tensor:
        """Weights and biases of every layer, each job's as `mlp` draws them from its seed, and padding, (R, P)."""
        rows = []
        for job in self._jobs:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(job.recipe.seed)
                layers = [layer for layer in mlp(self._widths) if isinstance(layer, nn.Linear)]
            parts = [part.detach().T.flatten() for layer in layers for part in (layer.weight, layer.bias[None].T)]
            row = torch.cat(parts)
            rows.append(torch.cat([row, row.new_zeros(-len(row) % ROW_MULTIPLE)]))
        return torch.stack(rows).to(self._values.device, self._values.dtype)

    def _layers(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Views of (R, P): weights (R, in, out) and biases (R, 1, out) of every layer."""
        weights, biases, start = [], [], 0
        for inputs, outputs in pairwise(self._widths):
            weights.append(flat[:, start : start + inputs * outputs].view(-1, inputs, outputs))
            start += inputs * outputs
            biases.append(flat[:, start : start + outputs].view(-1, 1, outputs))
            start += outputs
        return weights, biases

    def _space(self, rows: Tensor) -> "_Space":
        if rows.shape not in self._spaces:
            self._spaces[rows.shape] = _Space(rows.shape, self._widths, self._values)
        return self._spaces[rows.shape]

    def _forward(self, space: "_Space", rows: Tensor, slots: slice) -> None:
        """Fill the space with what goes into every layer for rows (r, B), and with the logits."""
        inputs = space.activations[0]
        torch.index_select(self._values, 0, rows.flatten(), out=inputs.view(-1, inputs.shape[-1]))
        for number, activation in enumerate(space.activations[1:]):
            _products(space.activations[number], self.weights[number][slots], out=activation)
            activation.add_(self.biases[number][slots]).relu_()
        last, bias = self.weights[-1][slots], self.biases[-1][slots]
        _products(last.transpose(1, 2), space.activations[-1].transpose(1, 2), out=space.logits)
        space.logits.add_(bias.transpose(1, 2))

    def _train_step(self, rows: Tensor) -> None:
        """One update of every job from rows (R, B): cross-entropy averaged over the rows that are somebody."""
        space = self._space(rows)
        self._forward(space, rows, slice(None))
        self._logits.index_copy_(0, (rows + self._offsets).flatten(), space.logits.transpose(1, 2).flatten(0, 1))
        labels = self._labels.index_select(0, rows.flatten()).view(len(rows), 1, -1)
        real = (rows != self._nobody).to(space.logits.dtype)
        share = real / real.sum(dim=1, keepdim=True).clamp(min=1)
        delta = space.logits.softmax(dim=1)
        delta.scatter_add_(1, labels, delta.new_full((), -1).expand(labels.shape))
        delta *= share[:, None, :]
        self._backward(space, delta)
        self._optimizer.step()

    def _backward(self, space: "_Space", delta: Tensor) -> None:
        """Gradients of all parameters, from that of the logits (R, K, B)."""
        self._weight_gradients[-1].copy_(_products(delta, space.activations[-1]).transpose(1, 2))
        self._bias_gradients[-1].copy_(delta.sum(dim=2)[:, None, :])
        delta = delta.transpose(1, 2)
        for number in reversed(range(1, len(self.weights))):
            gradient, activation = space.gradients[number - 1], space.activations[number]
            _products(delta, self.weights[number].transpose(1, 2), out=gradient)
            _through_relu(gradient, activation, 0, grad_input=gradient)
            _products(space.activations[number - 1].transpose(1, 2), gradient, out=self._weight_gradients[number - 1])
            torch.sum(gradient, dim=1, keepdim=True, out=self._bias_gradients[number - 1])
            delta = gradient


class _Space:
    """Working memory for a batch of (R, B) rows, kept from step to step: taking it anew would cost more than its use.

    activations: what goes into every layer, (R, B, width); gradients: of the hidden ones; logits: (R, K, B), classes
    before samples because they are few, and long rows are faster.
    """

    def __init__(self, shape: torch.Size, widths: Sequence[int], like: Tensor) -> None:
        self.activations = [like.new_empty((*shape, width)) for width in widths[:-1]]
        self.gradients = [like.new_empty((*shape, width)) for width in widths[1:-1]]
        self.logits = like.new_empty((shape[0], widths[-1], shape[1]))


def _products(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Matrix products (R, n, m) of a (R, n, k) and b (R, k, m).

    On a CPU one after the other: there a batched product takes another way for one matrix than for several, and its
    last bits with it.
    """
    if a.device.type != "cpu":
        return torch.bmm(a, b) if out is None else torch.bmm(a, b, out=out)
    result = a.new_empty((len(a), a.shape[1], b.shape[2])) if out is None else out
    for left, right, product in zip(a, b, result, strict=True):
        torch.mm(left, right, out=product)
    return result
