"""A stack: MLPs of the same shape as batched matrices, with one optimiser step for all."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from errata.training.graph_steps import DeviceOrders, Step
from errata.training.jobs import TrainingJob
from errata.training.models import mlp
from errata.training.optimizers import Optimizer
from errata.training.recipes import Recipe

_relu_backward = torch.ops.aten.threshold_backward.grad_input  # works in place
GRAPH_STEPS = 64  # steps per CUDA graph: a small step is finished before the next could be launched
ROW_MULTIPLE = 32  # parameters per job are padded to this: a CPU rounds numbers that do not fill a vector differently


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
    """R MLPs as weights (R, out, in) and biases (R, out, 1) per layer, which are views of one tensor (R, P)."""

    def __init__(
        self,
        shape: StackShape,
        jobs: Sequence[TrainingJob],
        values: Tensor,
        labels: Tensor,
        widths: Sequence[int],
        *,
        balanced: bool = False,
    ) -> None:
        """The last row of values (N + 1, D) and labels (N + 1,) is padding, and has no weight.

        balanced: in the loss, a sample has the weight 1 / samples with its label.
        """
        self._shape, self._jobs, self._widths = shape, jobs, widths
        self._values, self._labels = values, labels
        self._flat = self._initial()
        gradients = torch.zeros_like(self._flat)
        self.weights, self.biases = self._layers(self._flat)
        self._weight_gradients, self._bias_gradients = self._layers(gradients)
        # On a GPU the optimiser processes several tensors in parallel; on a CPU one large tensor is faster.
        self._parameters = list(self._flat) if values.is_cuda else [self._flat]
        for parameter, gradient in zip(self._parameters, gradients if values.is_cuda else [gradients], strict=True):
            parameter.grad = gradient
        self._optimizer = Optimizer(self._parameters, shape.recipe)
        padding_row = len(values) - 1
        train_rows = [torch.from_numpy(np.append(job.train_rows, padding_row)) for job in jobs]
        self._train_rows = pad_sequence(train_rows, batch_first=True, padding_value=padding_row).to(values.device)
        self._padding = self._train_rows.shape[1] - 1  # a position that is padding in every job
        self._class_weights = _balanced_weights(jobs, labels, widths[-1]).to(values) if balanced else None
        self._logits = values.new_zeros((*self._train_rows.shape, widths[-1]))
        self._minus_one = values.new_full((), -1)
        self._offsets = torch.arange(len(jobs), device=values.device)[:, None] * self._train_rows.shape[1]
        self._backwards: dict[torch.Size, _Backward] = {}
        self._buffers: dict[int, _Buffers] = {}
        self._in_flight: list[Tensor] = []
        self.orders = None
        if values.is_cuda and shape.recipe.parts == 1:  # otherwise the executor shuffles
            self.orders = DeviceOrders(jobs, shape.width, self._padding, values.device)
        example = torch.full((len(jobs), shape.recipe.batch_size), self._padding, device=values.device)
        self._step = Step(self._train_steps, self._optimizer, lambda: [self._flat], example)

    def train_epoch(self, epoch: int, positions: Tensor) -> None:
        """Train every job on positions in its train_rows (R, T), batch by batch.

        On a GPU this returns before the work is done, and `train_logits` waits for it. A stopped job has only padding;
        its model may change, but is not used any more.
        """
        # Kept until the stream is synchronised: on a GPU, the memory could be reused before.
        positions = positions.to(self._values.device, non_blocking=True)
        stride = (GRAPH_STEPS if self._values.is_cuda else 1) * self._shape.recipe.batch_size
        self._in_flight = [part.contiguous() for part in torch.split(positions, stride, dim=1)]
        self._step.begin()
        for part in self._in_flight:
            self._step(part, self._shape.recipe.rate(epoch))

    def pad(self, orders: Sequence[list[Tensor]]) -> Tensor:
        """Positions (R, T) from the batches of every job; short batches are padded."""
        size = self._shape.recipe.batch_size
        positions = torch.full((len(self._jobs), self._shape.width), self._padding, pin_memory=self._values.is_cuda)
        for row, batches in zip(positions.numpy(), orders, strict=True):
            for number, batch in enumerate(batches):
                row[number * size : number * size + len(batch)] = batch.numpy()
        return positions

    def train_logits(self) -> list[Tensor]:
        """The logits (n, K) of the last training pass of every job, by train_rows; valid until the next epoch."""
        self._step.end()
        return [logits[: len(job.train_rows)] for logits, job in zip(self._logits, self._jobs, strict=True)]

    def evaluate(self, slot: int, rows: Tensor) -> Tensor:
        """Logits (n, K) of some rows from one of the models."""
        if len(rows) not in self._buffers:
            self._buffers[len(rows)] = _Buffers(torch.Size((1, len(rows))), self._widths, self._values)
        one = slice(slot, slot + 1)
        forward = _Forward(self._buffers[len(rows)], [w[one] for w in self.weights], [b[one] for b in self.biases])
        return forward(self._values, rows[None])[0].T.contiguous()

    def state(self, slot: int) -> dict[str, Tensor]:
        """The weights and optimiser state of a job, not copied. The number of steps is that of the whole stack."""
        whole = self._parameters[0] is self._flat
        own = {name: tensors[0 if whole else slot] for name, tensors in self._optimizer.state.items()}
        own["weights"] = self._parameters[0 if whole else slot]
        return {name: value[slot] if whole and value.ndim else value for name, value in own.items()}

    def _initial(self) -> Tensor:
        """Initial parameters (R, P), padding included; those of a job are as `mlp` draws them with its seed."""
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
        """Several updates of every job, from positions (R, steps * size)."""
        rows = self._train_rows.gather(1, positions)
        labels = self._labels[rows]
        places = positions + self._offsets
        sample_weights = self._sample_weights(positions, labels)[:, None]
        steps = [
            torch.split(part, self._shape.recipe.batch_size, dim=-1)
            for part in (rows, labels[:, None], places, sample_weights)
        ]
        for batch in zip(*steps, strict=True):
            self._train_step(*(part.contiguous() for part in batch))

    def _sample_weights(self, positions: Tensor, labels: Tensor) -> Tensor:
        """The weight (R, T) of each position in the loss: they add up to 1 in a batch, and padding has 0."""
        weights = (positions != self._padding).to(self._values.dtype)
        if self._class_weights is not None:
            weights *= self._class_weights.gather(1, labels)
        size = self._shape.recipe.batch_size
        batches = nn.functional.pad(weights, (0, -weights.shape[1] % size)).view(len(weights), -1, size)
        totals = batches.sum(dim=2)
        totals = torch.where(totals > 0, totals, 1)
        return weights / totals.repeat_interleave(size, dim=1)[:, : weights.shape[1]]

    def _train_step(self, rows: Tensor, labels: Tensor, places: Tensor, sample_weights: Tensor) -> None:
        """One update of every job from rows (R, B), by the weighted mean of the cross-entropy.

        labels and sample_weights: (R, 1, B). places (R, B): where the logits are stored.
        """
        if rows.shape not in self._backwards:
            forward = _Forward(_Buffers(rows.shape, self._widths, self._values), self.weights, self.biases)
            self._backwards[rows.shape] = _Backward(forward, self._weight_gradients, self._bias_gradients)
        backward = self._backwards[rows.shape]
        logits = backward.forward(self._values, rows)
        stored = self._logits.view(-1, logits.shape[1])
        stored.index_copy_(0, places.flatten(), logits.transpose(1, 2).flatten(0, 1))
        torch.softmax(logits, dim=1, out=backward.delta)
        backward.delta.scatter_add_(1, labels, self._minus_one.expand(labels.shape))
        backward.delta.mul_(sample_weights)
        backward()
        self._optimizer.step()


def _balanced_weights(jobs: Sequence[TrainingJob], labels: Tensor, num_classes: int) -> Tensor:
    """The weight (R, K) of a sample of each class: 1 / samples of the class among the training rows of the job."""
    counts = [torch.bincount(labels[torch.from_numpy(job.train_rows)], minlength=num_classes) for job in jobs]
    return 1 / torch.stack(counts).clamp(min=1).double()


class _Buffers:
    """Memory for the inputs and outputs of every layer; allocating it for every step would be slow.

    For rows (R, B), activations are (R, width, B): with samples last, all operations are faster.
    """

    def __init__(self, shape: torch.Size, widths: Sequence[int], like: Tensor) -> None:
        self.inputs = like.new_empty((*shape, widths[0]))
        outputs = [like.new_empty((shape[0], width, shape[1])) for width in widths[1:]]
        self.activations = [self.inputs.transpose(1, 2), *outputs]


class _Forward:
    """The forward pass from rows (R, B) to logits (R, K, B)."""

    def __init__(self, buffers: _Buffers, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> None:
        self.weights, self.activations = weights, buffers.activations
        self._inputs, self._biases = buffers.inputs, biases
        layers = zip(weights, pairwise(buffers.activations), strict=True)
        self._products = [_Products(weight, inputs, outputs) for weight, (inputs, outputs) in layers]

    def __call__(self, values: Tensor, rows: Tensor) -> Tensor:
        """Logits of those rows of values (N, D); valid until the next call."""
        torch.index_select(values, 0, rows.flatten(), out=self._inputs.view(-1, self._inputs.shape[2]))
        for products, bias in zip(self._products, self._biases, strict=True):
            outputs = products().add_(bias)
            if products is not self._products[-1]:
                outputs.relu_()
        return self.activations[-1]


class _Backward:
    """The backward pass: from `delta`, the gradient of the logits (R, K, B), to the gradients of all parameters."""

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

    def __call__(self) -> None:
        """Write the gradients."""
        for number in reversed(range(len(self._layers))):
            delta, activations, to_weights, to_inputs = self._layers[number]
            to_weights()
            torch.sum(delta, dim=2, keepdim=True, out=self._bias_gradients[number])
            if to_inputs is not None:
                gradient = to_inputs()
                _relu_backward(gradient, activations, 0, grad_input=gradient)


class _Products:
    """Matrix products (R, n, m) of the same tensors a (R, n, k) and b (R, k, m) at every call.

    On a CPU they are computed one by one: a batched product of one matrix uses another algorithm than one of several,
    and differs in the last bits.
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
