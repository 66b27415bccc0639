"""A stack: MLPs of one shape as batched matrices, with one optimiser step for all of them."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from errata.training.graph_steps import DeviceOrders, Step, make_optimizer
from errata.training.jobs import TrainingJob
from errata.training.models import mlp
from errata.training.recipes import Recipe

_through_relu = torch.ops.aten.threshold_backward.grad_input  # in place: no gradient where nothing was passed on
GRAPH_STEPS = 64  # recorded and launched as one on a GPU, where small steps are over before the next is asked for
ROW_MULTIPLE = 32  # a CPU's optimiser rounds the numbers that fill no vector another way: every job's fill theirs


class StackShape(NamedTuple):
    """What jobs must share to be stacked."""

    recipe: Recipe
    full_batches: int
    tail: int

    @property
    def width(self) -> int:
        """Positions of an epoch, padding included."""
        return self.full_batches * self.recipe.batch_size + self.tail


class Stack:
    """R MLPs as weights (R, out, in) and biases (R, out, 1) a layer, which are parts of one tensor (R, P)."""

    def __init__(
        self, shape: StackShape, jobs: Sequence[TrainingJob], values: Tensor, labels: Tensor, widths: Sequence[int]
    ) -> None:
        """The last row of values (N + 1, D) and labels (N + 1,) is nobody: it pads, and weighs nothing."""
        self._shape, self._jobs, self._widths = shape, jobs, widths
        self._values, self._labels = values, labels
        self._flat = self._initial()
        gradients = torch.zeros_like(self._flat)
        self.weights, self.biases = self._layers(self._flat)
        self._weight_gradients, self._bias_gradients = self._layers(gradients)
        # A GPU's optimiser works on tensors side by side, a CPU's on one after the other.
        self._parameters = list(self._flat) if values.is_cuda else [self._flat]
        for parameter, gradient in zip(self._parameters, gradients if values.is_cuda else [gradients], strict=True):
            parameter.grad = gradient
        self._optimizer = make_optimizer(self._parameters, shape.recipe)
        nobody = len(values) - 1
        train_rows = [torch.from_numpy(np.append(job.train_rows, nobody)) for job in jobs]
        self._train_rows = pad_sequence(train_rows, batch_first=True, padding_value=nobody).to(values.device)
        self._padding = self._train_rows.shape[1] - 1  # a position that is nobody in every job
        self._logits = values.new_zeros((*self._train_rows.shape, widths[-1]))
        self._minus_one = values.new_full((), -1)
        self._offsets = torch.arange(len(jobs), device=values.device)[:, None] * self._train_rows.shape[1]
        self._passes: dict[torch.Size, _Training] = {}
        self._spaces: dict[int, _Space] = {}
        self._in_flight: list[Tensor] = []
        self.orders = None
        if values.is_cuda and shape.recipe.parts == 1:  # elsewhere the executor shuffles, and lays out its batches
            self.orders = DeviceOrders(jobs, shape.width, self._padding, values.device)
        example = torch.full((len(jobs), shape.recipe.batch_size), self._padding, device=values.device)
        self._step = Step(self._train_steps, self._optimizer, lambda: [self._flat], example)
        self._step.warm_up()  # on a CPU too: a state can be loaded only into an optimiser that has one

    def train_epoch(self, epoch: int, positions: Tensor, after_step: Callable[[], None]) -> None:
        """Train every job on positions in its train_rows (R, T), batch by batch.

        On a GPU this only asks for it, and `passes` waits. A job that has only padding stands still: its model is not
        looked at any more.
        """
        # Made before the stream begins and held until it ends: on a GPU nobody else waits for either.
        positions = positions.to(self._values.device, non_blocking=True)
        stride = (GRAPH_STEPS if self._values.is_cuda else 1) * self._shape.recipe.batch_size
        self._in_flight = [part.contiguous() for part in torch.split(positions, stride, dim=1)]
        self._step.begin()
        for part in self._in_flight:
            self._step(part, self._shape.recipe.rate(epoch))
            after_step()

    def laid_out(self, orders: Sequence[list[Tensor]]) -> Tensor:
        """Positions (R, T) from the batches of every job, padded where a batch is short."""
        size = self._shape.recipe.batch_size
        positions = torch.full((len(self._jobs), self._shape.width), self._padding, pin_memory=self._values.is_cuda)
        for row, batches in zip(positions.numpy(), orders, strict=True):
            for number, batch in enumerate(batches):
                row[number * size : number * size + len(batch)] = batch.numpy()
        return positions

    def passes(self) -> list[Tensor]:
        """The logits (n, K) of every job before the updates of the last epoch, by train_rows; good until the next."""
        self._step.end()
        return [logits[: len(job.train_rows)] for logits, job in zip(self._logits, self._jobs, strict=True)]

    def evaluate(self, slot: int, rows: Tensor) -> Tensor:
        """Logits (n, K) of some rows from one of the models."""
        if len(rows) not in self._spaces:
            self._spaces[len(rows)] = _Space(torch.Size((1, len(rows))), self._widths, self._values)
        one = slice(slot, slot + 1)
        forward = _Forward(self._spaces[len(rows)], [w[one] for w in self.weights], [b[one] for b in self.biases])
        return forward(self._values, rows[None])[0].T.contiguous()

    def state(self, slot: int) -> dict[str, Tensor]:
        """A job's weights and what the optimiser remembers of them, not copied; its number of steps is the stack's."""
        whole = self._parameters[0] is self._flat
        parameter = self._parameters[0 if whole else slot]
        remembered = {name: value for name, value in self._optimizer.state[parameter].items() if value is not None}
        own = {"weights": parameter, **remembered}
        return {name: value[slot] if whole and value.ndim else value for name, value in own.items()}

    def _initial(self) -> Tensor:
        """Weights and biases of every layer, each job's as `mlp` draws them from its seed, and padding, (R, P)."""
        rows = []
        for job in self._jobs:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(job.recipe.seed)
                row = nn.utils.parameters_to_vector(mlp(self._widths).parameters()).detach()
            rows.append(torch.cat([row, row.new_zeros(-len(row) % ROW_MULTIPLE)]))
        return torch.stack(rows).to(self._values.device, self._values.dtype)

    def _layers(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Views of (R, P): weights (R, out, in) and biases (R, out, 1) of every layer."""
        weights, biases, start = [], [], 0
        for inputs, outputs in pairwise(self._widths):
            weights.append(flat[:, start : start + inputs * outputs].view(-1, outputs, inputs))
            start += inputs * outputs
            biases.append(flat[:, start : start + outputs].view(-1, outputs, 1))
            start += outputs
        return weights, biases

    def _train_steps(self, positions: Tensor) -> None:
        """One update of every job after the other, from positions (R, steps * size)."""
        rows = self._train_rows.gather(1, positions)
        labels = self._labels[rows][:, None]
        places = positions + self._offsets
        shares = self._shares(positions)[:, None]
        steps = [torch.split(part, self._shape.recipe.batch_size, dim=-1) for part in (rows, labels, places, shares)]
        for batch in zip(*steps, strict=True):
            self._train_step(*(part.contiguous() for part in batch))

    def _shares(self, positions: Tensor) -> Tensor:
        """What a position weighs in its batch (R, T): one over the samples there; padding weighs nothing."""
        real = (positions != self._padding).to(self._values.dtype)
        size = self._shape.recipe.batch_size
        batches = nn.functional.pad(real, (0, -real.shape[1] % size)).view(len(real), -1, size)
        counts = batches.sum(dim=2).clamp(min=1)
        return real / counts.repeat_interleave(size, dim=1)[:, : real.shape[1]]

    def _train_step(self, rows: Tensor, labels: Tensor, places: Tensor, shares: Tensor) -> None:
        """One update of every job from rows (R, B): cross-entropy averaged over those that are somebody.

        labels and shares (R, 1, B); places (R, B) are where the logits are kept.
        """
        if rows.shape not in self._passes:
            forward = _Forward(_Space(rows.shape, self._widths, self._values), self.weights, self.biases)
            self._passes[rows.shape] = _Training(forward, self._weight_gradients, self._bias_gradients)
        training = self._passes[rows.shape]
        logits = training.forward(self._values, rows)
        kept = self._logits.view(-1, logits.shape[1])
        kept.index_copy_(0, places.flatten(), logits.transpose(1, 2).flatten(0, 1))
        torch.softmax(logits, dim=1, out=training.delta)
        training.delta.scatter_add_(1, labels, self._minus_one.expand(labels.shape))
        training.delta.mul_(shares)
        training.backward()
        self._optimizer.step()


class _Space:
    """Memory for what goes into every layer and comes out: taking it anew would cost more than its use.

    For rows (R, B) activations are (R, width, B), samples last: long rows are faster in all that is done to them.
    """

    def __init__(self, shape: torch.Size, widths: Sequence[int], like: Tensor) -> None:
        self.inputs = like.new_empty((*shape, widths[0]))
        outputs = [like.new_empty((shape[0], width, shape[1])) for width in widths[1:]]
        self.activations = [self.inputs.transpose(1, 2), *outputs]


class _Forward:
    """The way from rows (R, B) to logits (R, K, B)."""

    def __init__(self, space: _Space, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> None:
        self.weights, self.activations = weights, space.activations
        self._inputs, self._biases = space.inputs, biases
        layers = zip(weights, pairwise(space.activations), strict=True)
        self._products = [_Products(weight, inputs, outputs) for weight, (inputs, outputs) in layers]

    def __call__(self, values: Tensor, rows: Tensor) -> Tensor:
        """Logits of those rows of values (N, D); good until the next call."""
        torch.index_select(values, 0, rows.flatten(), out=self._inputs.view(-1, self._inputs.shape[2]))
        for products, bias in zip(self._products, self._biases, strict=True):
            outputs = products().add_(bias)
            if products is not self._products[-1]:
                outputs.relu_()
        return self.activations[-1]


class _Training:
    """A way forward and the way back through it, from the gradient of the logits to that of every parameter."""

    def __init__(self, forward: _Forward, weight_gradients: Sequence[Tensor], bias_gradients: Sequence[Tensor]) -> None:
        self.forward, self._bias_gradients = forward, bias_gradients
        hidden = forward.activations[1:-1]
        self.delta = torch.empty_like(forward.activations[-1])
        deltas = [*(torch.empty_like(activation) for activation in hidden), self.delta]
        self._layers = []
        for number, gradients in enumerate(weight_gradients):
            to_weights = _Products(deltas[number], forward.activations[number].transpose(1, 2), gradients)
            to_inputs = None
            if number:
                to_inputs = _Products(forward.weights[number].transpose(1, 2), deltas[number], deltas[number - 1])
            self._layers.append((deltas[number], forward.activations[number], to_weights, to_inputs))

    def backward(self) -> None:
        """Fill the gradients of all parameters, from `delta`, that of the logits (R, K, B)."""
        for number in reversed(range(len(self._layers))):
            delta, activations, to_weights, to_inputs = self._layers[number]
            to_weights()
            torch.sum(delta, dim=2, keepdim=True, out=self._bias_gradients[number])
            if to_inputs is not None:
                passed_on = to_inputs()
                _through_relu(passed_on, activations, 0, grad_input=passed_on)


class _Products:
    """Matrix products (R, n, m) of a (R, n, k) and b (R, k, m), always of the same tensors.

    On a CPU one after the other: there a batched product takes another way for one matrix than for several, and its
    last bits with it.
    """

    def __init__(self, a: Tensor, b: Tensor, out: Tensor) -> None:
        self._a, self._b, self._out = a, b, out
        self._single = list(zip(a, b, out, strict=True)) if a.device.type == "cpu" else []

    def __call__(self) -> Tensor:
        if not self._single:
            return torch.bmm(self._a, self._b, out=self._out)
        for a, b, out in self._single:
            torch.mm(a, b, out=out)
        return self._out
