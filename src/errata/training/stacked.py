"""MLPs side by side as stacked models: batched matrix products, one optimiser step for all.

Jobs are stacked if every step of theirs has the same shape, so that what is computed for a job has the same shapes, and
the same bits, alone or in company. On a CPU a stack is kept small enough for the cache, and stacks run on threads; on a
GPU a whole step is one CUDA graph.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from errata.training.data import Table
from errata.training.executors import Executor
from errata.training.jobs import Job
from errata.training.models import mlp
from errata.training.recipes import Recipe
from errata.training.steps import Step, make_optimizer

_through_relu = torch.ops.aten.threshold_backward.grad_input  # in place: no gradient where nothing was passed on
TAIL_MULTIPLE = 64  # a short last batch is padded to a multiple of this, so that folds one sample apart stack
CACHED_NUMBERS = 1 << 19  # activations of one layer and step that a stack on a CPU may have


class _Shape(NamedTuple):
    """What jobs must share to be stacked."""

    recipe: Recipe
    full_batches: int
    tail: int


class StackedExecutor(Executor):
    """MLPs of the same hidden widths over one table."""

    inputs: Table

    def __init__(
        self, jobs: Sequence[Job], inputs: Table, labels: Tensor, num_classes: int, widths: Sequence[int]
    ) -> None:
        super().__init__(jobs, inputs, labels, num_classes)
        self._widths = (inputs.values.shape[1], *widths, num_classes)
        by_shape: dict[_Shape, list[int]] = {}
        for number, job in enumerate(jobs):
            by_shape.setdefault(_shape(job), []).append(number)
        self._place: dict[int, tuple[_Stack, int]] = {}
        self._stacks: list[tuple[_Stack, list[int]]] = []
        values = torch.cat([inputs.values, inputs.values.new_zeros(1, inputs.values.shape[1])])
        given = torch.cat([self.labels, self.labels.new_zeros(1)])
        for shape, numbers in by_shape.items():
            for members in _cut(numbers, self._stack_size(shape)):
                stack = _Stack(shape, [jobs[number] for number in members], values, given, self._widths)
                self._stacks.append((stack, members))
                self._place |= {number: (stack, slot) for slot, number in enumerate(members)}

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """An epoch of every stack: each of its steps is one batch of each of its jobs."""
        result: list[Tensor] = [torch.empty(0)] * len(self.jobs)

        def work(item: tuple[_Stack, list[int]]) -> None:
            stack, members = item
            orders = [self._batches(number) for number in members]
            for number, logits in zip(members, stack.train_epoch(epoch, orders, self.after_step), strict=True):
                result[number] = logits

        _on_threads(work, self._stacks, self.inputs.device)
        return result

    def evaluate(self, job: int, rows: Tensor) -> Tensor:
        """Logits (n, K) of some rows from the job's model as it is now."""
        stack, slot = self._place[job]
        return stack.evaluate(slot, rows)

    def module(self, job: int) -> nn.Module:
        """The job's model as a module of its own."""
        with torch.device("meta"):  # nothing is drawn: the weights are there already
            model = mlp(self._widths)
        model.load_state_dict({name: value.clone() for name, value in self.weights(job).items()}, assign=True)
        return model

    def weights(self, job: int) -> dict[str, Tensor]:
        """The job's parameters, by their names in `mlp`."""
        stack, slot = self._place[job]
        named: dict[str, Tensor] = {}
        for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
            named |= {f"{2 * layer}.weight": weight[slot].T, f"{2 * layer}.bias": bias[slot, 0]}
        return named

    def state(self, job: int) -> dict[str, Any]:
        """Weights, optimiser and draws of a job, on the CPU."""
        stack, slot = self._place[job]
        return {
            "tensors": [tensor[slot].cpu().clone() for tensor in stack.tensors()],
            "steps": stack.steps().cpu().clone(),
            "order": self.order_state(job),
        }

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Go on from a state; all jobs of a stack are at the same step."""
        stack, slot = self._place[job]
        for tensor, saved in zip(stack.tensors(), state["tensors"], strict=True):
            tensor[slot] = saved.to(tensor.device)
        stack.set_steps(state["steps"])
        self.load_order_state(job, state["order"])

    def _stack_size(self, shape: _Shape) -> int:
        if self.inputs.device.type == "cuda":
            return len(self.jobs)
        return max(1, CACHED_NUMBERS // (shape.recipe.batch_size * max(self._widths)))


class _Stack:
    """R MLPs as weights (R, in, out) and biases (R, 1, out) a layer, which are parts of one tensor (R, P)."""

    def __init__(
        self, shape: _Shape, jobs: Sequence[Job], values: Tensor, labels: Tensor, widths: Sequence[int]
    ) -> None:
        self._shape, self._jobs, self._widths = shape, jobs, widths
        self._values, self._labels = values, labels
        self._nobody = len(values) - 1  # the row that pads: zeros in, weighs nothing, logits thrown away
        self._flat = self._initial()
        self._flat.grad = torch.zeros_like(self._flat)
        self.weights, self.biases = self._layers(self._flat)
        self._weight_gradients, self._bias_gradients = self._layers(self._flat.grad)
        self._optimizer = make_optimizer([self._flat], shape.recipe)
        self._logits = values.new_empty((len(jobs) * len(values), widths[-1]))
        self._offsets = torch.arange(len(jobs), device=values.device)[:, None] * len(values)
        self._train_rows = [torch.from_numpy(job.train_rows).to(values.device) for job in jobs]
        self._spaces: dict[torch.Size, _Space] = {}
        everyone = torch.full((len(jobs), shape.recipe.batch_size), self._nobody, device=values.device)
        self._step = Step(self._train_step, self._optimizer, lambda: [self._flat], everyone)
        self._step.warm_up()  # on a CPU too: a state can be loaded only into an optimiser that has one

    def train_epoch(self, epoch: int, orders: Sequence[list[Tensor]], after_step: Callable[[], None]) -> list[Tensor]:
        """Train every job on its batches of positions; returns the logits (n, K) before the updates, by train_rows.

        No batches is a job that stands still: its model is not looked at any more.
        """
        size = self._shape.recipe.batch_size
        full = self._shape.full_batches * size
        rows = torch.full((len(self._jobs), full + self._shape.tail), self._nobody, device=self._values.device)
        for slot, batches in enumerate(orders):
            for number, positions in enumerate(batches):
                start = number * size
                rows[slot, start : start + len(positions)] = self._train_rows[slot][positions.to(rows.device)]
        self._step.begin()
        for batch in torch.split(rows, size, dim=1):
            self._step(batch.contiguous(), self._shape.recipe.rate(epoch))
            after_step()
        self._step.end()
        logits = self._logits.view(len(self._jobs), len(self._values), -1)
        return [logits[slot, train_rows] for slot, train_rows in enumerate(self._train_rows)]

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
        """Weights and biases of every layer, each job's as `mlp` draws them from its seed, (R, P)."""
        rows = []
        for job in self._jobs:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(job.recipe.seed)
                layers = [layer for layer in mlp(self._widths) if isinstance(layer, nn.Linear)]
            parts = [part.detach().T.flatten() for layer in layers for part in (layer.weight, layer.bias[None].T)]
            rows.append(torch.cat(parts))
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


def _shape(job: Job) -> _Shape:
    """The batches of an epoch; parts of a pass may hold a short batch anywhere, so all of theirs are padded."""
    size = job.recipe.batch_size
    if job.recipe.parts > 1:
        return _Shape(replace(job.recipe, seed=0), math.ceil(len(job.train_rows) / job.recipe.parts / size), 0)
    full, rest = divmod(len(job.train_rows), size)
    return _Shape(replace(job.recipe, seed=0), full, min(size, math.ceil(rest / TAIL_MULTIPLE) * TAIL_MULTIPLE))


def _cut(numbers: list[int], size: int) -> list[list[int]]:
    """Parts of at most `size`, as even as it goes."""
    parts = math.ceil(len(numbers) / size)
    return [numbers[part::parts] for part in range(parts)]


def _on_threads(work: Callable[[Any], None], items: Sequence[Any], device: torch.device) -> None:
    """Call `work` on every item: on a CPU by one thread a core, each of which computes alone."""
    cores = torch.get_num_threads()
    if device.type != "cpu" or cores == 1 or len(items) == 1:
        for item in items:
            work(item)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(cores) as pool:
            for _ in pool.map(work, items):
                pass
    finally:
        torch.set_num_threads(cores)
