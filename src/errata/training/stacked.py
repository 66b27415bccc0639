"""MLPs side by side as stacked models: batched matrix products, one optimiser step for all.

Jobs are stacked if every step of theirs has the same shape, so that what is computed for a job has the same shapes, and
the same bits, alone or in company. On a CPU a stack is kept small enough for the cache, and stacks run on threads; on a
GPU a whole step is one CUDA graph.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from errata.training.data import Table
from errata.training.executors import Executor
from errata.training.jobs import Job
from errata.training.models import mlp
from errata.training.recipes import Recipe
from errata.training.steps import Step, make_optimizer

_through_relu = torch.ops.aten.threshold_backward  # the gradient where the activation is positive, in one pass
TAIL_MULTIPLE = 64  # a short last batch is padded to a multiple of this, so that folds one sample apart stack
CACHED_NUMBERS = 1 << 18  # activations of one layer and step that a stack on a CPU may have


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
            orders = [torch.cat(self._batches(number) or [torch.arange(0)]) for number in members]
            for number, logits in zip(members, stack.train_epoch(epoch, orders, self.after_step), strict=True):
                result[number] = logits

        with _threads(self.inputs.device) as each:
            each(work, self._stacks)
        return result

    def evaluate(self, job: int, rows: Tensor) -> Tensor:
        """Logits (n, K) of some rows from the job's model as it is now."""
        stack, slot = self._place[job]
        return stack.forward(self.inputs.values[rows][None], slice(slot, slot + 1))[-1][0]

    def module(self, job: int) -> nn.Module:
        """The job's model as a module of its own."""
        model = mlp(self._widths).to(self.inputs.device, self.inputs.values.dtype)
        model.load_state_dict(self.weights(job))
        return model

    def weights(self, job: int) -> dict[str, Tensor]:
        """The job's parameters, by their names in `mlp`."""
        stack, slot = self._place[job]
        named = {}
        for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
            named |= {f"{2 * layer}.weight": weight[slot].T, f"{2 * layer}.bias": bias[slot, 0]}
        return named

    def state(self, job: int) -> dict[str, Any]:
        """Weights, optimiser and draws of a job, on the CPU."""
        stack, slot = self._place[job]
        return {
            "tensors": [tensor[slot].cpu().clone() for tensor in stack.tensors()],
            "steps": stack.steps().cpu().clone(),
            "order": self._orders[job].get_state(),
        }

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Go on from a state; all jobs of a stack are at the same step."""
        stack, slot = self._place[job]
        for tensor, saved in zip(stack.tensors(), state["tensors"], strict=True):
            tensor[slot] = saved.to(tensor.device)
        stack.set_steps(state["steps"])
        self._orders[job].set_state(state["order"])

    def _stack_size(self, shape: _Shape) -> int:
        if self.inputs.device.type == "cuda":
            return len(self.jobs)
        return max(1, CACHED_NUMBERS // (shape.recipe.batch_size * max(self._widths)))


class _Stack:
    """R MLPs as weights (R, in, out) and biases (R, 1, out) a layer."""

    def __init__(
        self, shape: _Shape, jobs: Sequence[Job], values: Tensor, labels: Tensor, widths: Sequence[int]
    ) -> None:
        self._shape, self._jobs, self._widths = shape, jobs, widths
        self._values, self._labels = values, labels
        self._nobody = len(values) - 1  # the row that pads: zeros in, weight nothing, logits thrown away
        self.weights, self.biases = self._initial()
        parameters = [*self.weights, *self.biases]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        self._optimizer = make_optimizer(parameters, shape.recipe)
        self._logits = values.new_empty((len(jobs) * len(values), widths[-1]))
        offsets = torch.arange(len(jobs), device=values.device)[:, None] * len(values)
        self._offsets = offsets
        self._train_rows = [torch.from_numpy(job.train_rows).to(values.device) for job in jobs]
        everyone = torch.full((len(jobs), shape.recipe.batch_size), self._nobody, device=values.device)
        self._step = Step(self._train_step, self._optimizer, lambda: parameters, everyone)
        self._step.warm_up()  # on a CPU too: a state can be loaded only into an optimiser that has one

    def train_epoch(self, epoch: int, orders: Sequence[Tensor], after_step: Callable[[], None]) -> list[Tensor]:
        """Train every job in its order (n,); returns the logits (n, K) before the updates, by train_rows.

        An empty order is a job that stands still: its model is not looked at any more.
        """
        size = self._shape.recipe.batch_size
        full = self._shape.full_batches * size
        rows = torch.full((len(self._jobs), full + self._shape.tail), self._nobody, device=self._values.device)
        for slot, order in enumerate(orders):
            rows[slot, : len(order)] = self._train_rows[slot][order.to(rows.device)]
        self._step.begin()
        for batch in torch.split(rows, size, dim=1):
            self._step(batch.contiguous(), self._shape.recipe.rate(epoch))
            after_step()
        self._step.end()
        logits = self._logits.view(len(self._jobs), len(self._values), -1)
        return [logits[slot, train_rows] for slot, train_rows in enumerate(self._train_rows)]

    def forward(self, x: Tensor, slots: slice) -> list[Tensor]:
        """What goes into every layer, and at last the logits (r, B, K), of inputs (r, B, D) to some of the models."""
        layers = [x]
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = _products(x, weight[slots]).add_(bias[slots])
            layers.append(x.relu_() if number + 1 < len(self.weights) else x)
        return layers

    def tensors(self) -> list[Tensor]:
        """All that is a job's own, along the first axis: weights, biases and what the optimiser remembers of them."""
        parameters = [*self.weights, *self.biases]
        states = [self._optimizer.state[parameter] for parameter in parameters]
        remembered = [state[key] for state in states for key in sorted(state) if key != "step"]
        return [*parameters, *(value for value in remembered if value is not None)]

    def steps(self) -> Tensor:
        """How many updates the optimiser has made."""
        return next((state["step"] for state in self._optimizer.state.values() if "step" in state), torch.zeros(()))

    def set_steps(self, steps: Tensor) -> None:
        """Make the optimiser believe it has made that many updates."""
        for state in self._optimizer.state.values():
            if "step" in state:
                state["step"].copy_(steps)

    def _initial(self) -> tuple[list[Tensor], list[Tensor]]:
        """Weights and biases of every layer, each job's as `mlp` draws them from its seed."""
        layers = []
        for job in self._jobs:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(job.recipe.seed)
                model = mlp(self._widths).to(self._values.device, self._values.dtype)
            layers.append([layer for layer in model if isinstance(layer, nn.Linear)])
        weights = [torch.stack([layer.weight.detach().T for layer in same]) for same in zip(*layers, strict=True)]
        biases = [torch.stack([layer.bias.detach()[None] for layer in same]) for same in zip(*layers, strict=True)]
        return weights, biases

    def _train_step(self, rows: Tensor) -> None:
        """One update of every job from rows (R, B): cross-entropy averaged over the rows that are somebody."""
        x = self._values.index_select(0, rows.flatten()).view(*rows.shape, -1)
        layers = self.forward(x, slice(None))
        self._logits.index_copy_(0, (rows + self._offsets).flatten(), layers[-1].flatten(0, 1))
        labels = self._labels.index_select(0, rows.flatten()).view(*rows.shape, 1)
        real = (rows != self._nobody).to(x.dtype)
        share = real / real.sum(dim=1, keepdim=True).clamp(min=1)
        delta = layers[-1].softmax(dim=-1)
        delta.scatter_add_(-1, labels, delta.new_full((), -1).expand(labels.shape))
        delta *= share[:, :, None]
        for number in reversed(range(len(self.weights))):
            weight, bias, given = self.weights[number], self.biases[number], layers[number]
            _products(given.transpose(1, 2), delta, out=weight.grad)
            torch.sum(delta, dim=1, keepdim=True, out=bias.grad)
            if number:
                delta = _through_relu(_products(delta, weight.transpose(1, 2)), given, 0)
        self._optimizer.step()


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
    full, rest = divmod(len(job.train_rows), job.recipe.batch_size)
    tail = min(job.recipe.batch_size, math.ceil(rest / TAIL_MULTIPLE) * TAIL_MULTIPLE)
    return _Shape(replace(job.recipe, seed=0), full, tail)


def _cut(numbers: list[int], size: int) -> list[list[int]]:
    """Parts of at most `size`, as even as it goes."""
    parts = math.ceil(len(numbers) / size)
    return [numbers[part::parts] for part in range(parts)]


@contextmanager
def _threads(device: torch.device) -> Iterator[Callable[..., None]]:
    """A way to call a function on every item: on a CPU by one thread a core, each of which computes alone."""
    cores = torch.get_num_threads()
    if device.type != "cpu" or cores == 1:
        yield lambda work, items: [work(item) for item in items] and None
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(cores) as pool:
            yield lambda work, items: list(pool.map(work, items)) and None
    finally:
        torch.set_num_threads(cores)
