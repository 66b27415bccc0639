"""Train MLPs side by side as stacks: batched matrix products, and one optimiser step for all.

Jobs are stacked if all their steps have the same shape. So the computation of a job has the same shapes and gives the
same bits alone and with others (on a CPU in float64; in float32 a large network alone uses several threads, which
changes the last bits). On a CPU, a stack is small enough for the cache, and the jobs of a long training are divided
among processes. On a GPU, steps are CUDA graphs.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from errata.training.executors import Executor
from errata.training.jobs import TrainingJob
from errata.training.mlp_stack import Stack, StackShape
from errata.training.model_inputs import TableInputs
from errata.training.models import mlp
from errata.training.processes import available_processes

TAIL_MULTIPLE = 64  # a short last batch is padded to a multiple of this, so that folds of different size can be stacked
LARGE_PRODUCT = 1 << 26  # multiplications from which several threads are faster, although they synchronise
LONG_TRAINING = 1 << 34  # multiplications of all forward passes, about two seconds of a core with the backward passes
MAX_ACTIVATIONS = 1 << 19  # of one layer and step of a stack on a CPU, so that they fit in the cache


class StackedExecutor(Executor):
    """MLPs of the same hidden widths over one table."""

    inputs: TableInputs

    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        inputs: TableInputs,
        labels: Tensor,
        num_classes: int,
        widths: Sequence[int],
        *,
        balanced: bool = False,
    ) -> None:
        """balanced: in the loss, a sample has the weight 1 / samples with its label."""
        super().__init__(jobs, inputs, labels, num_classes)
        self._widths = (inputs.values.shape[1], *widths, num_classes)
        self._largest_layer = max(before * after for before, after in pairwise(self._widths))
        self._is_large = max(job.recipe.batch_size for job in jobs) * self._largest_layer >= LARGE_PRODUCT
        by_shape: dict[StackShape, list[int]] = {}
        for number, job in enumerate(jobs):
            by_shape.setdefault(_shape(job), []).append(number)
        self._place: dict[int, tuple[Stack, int]] = {}
        self._stacks: list[tuple[Stack, list[int]]] = []
        values = torch.cat([inputs.values, inputs.values.new_zeros(1, inputs.values.shape[1])])
        given = torch.cat([self.labels, self.labels.new_zeros(1)])
        for shape, numbers in by_shape.items():
            for members in _cut(numbers, self._stack_size(shape)):
                chosen = [jobs[number] for number in members]
                stack = Stack(shape, chosen, values, given, self._widths, balanced=balanced)
                self._stacks.append((stack, members))
                self._place |= {number: (stack, slot) for slot, number in enumerate(members)}

    def parts(self) -> list[list[int]]:
        """On a CPU, one part per process, with about the same work; a short training is one part."""
        layers = sum(before * after for before, after in pairwise(self._widths))
        work = [_shape(job).width * job.recipe.epochs * layers for job in self.jobs]
        processes = min(available_processes(), len(work)) if self.inputs.device.type == "cpu" else 1
        if processes == 1 or sum(work) < LONG_TRAINING:
            return super().parts()
        parts: list[list[int]] = [[] for _ in range(processes)]
        for number in sorted(range(len(work)), key=lambda number: -work[number]):
            min(parts, key=lambda part: sum(work[number] for number in part)).append(number)
        return [sorted(part) for part in parts]

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """An epoch of every stack that is not stopped; each step trains one batch of each of its jobs."""
        result: list[Tensor] = [torch.empty(0)] * len(self.jobs)
        active = [(stack, members) for stack, members in self._stacks if not self._stopped.issuperset(members)]

        with _threads(self.inputs.values, large=self._is_large):
            for stack, members in active:
                if stack.orders is None:
                    positions = stack.pad([self._batches(number) for number in members])
                else:
                    positions = stack.orders.next_epoch()
                stack.train_epoch(epoch, positions)
        for stack, members in active:  # on a GPU all stacks are running by now, each on its own stream
            for number, logits in zip(members, stack.train_logits(), strict=True):
                result[number] = logits
        return result

    def evaluate(self, job: int, rows: Tensor) -> Tensor:
        stack, slot = self._place[job]
        with _threads(self.inputs.values, large=len(rows) * self._largest_layer >= LARGE_PRODUCT):
            return stack.evaluate(slot, rows)

    def module(self, job: int) -> nn.Module:
        with torch.device("meta"):  # no weights are drawn, because they are replaced
            model = mlp(self._widths)
        model.load_state_dict({name: value.clone() for name, value in self.weights(job).items()}, assign=True)
        return model

    def weights(self, job: int) -> dict[str, Tensor]:
        stack, slot = self._place[job]
        by_name: dict[str, Tensor] = {}
        for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
            by_name |= {f"{2 * layer}.weight": weight[slot], f"{2 * layer}.bias": bias[slot, :, 0]}
        return by_name

    def state(self, job: int) -> dict[str, Any]:
        stack, slot = self._place[job]
        return {
            "model": {name: value.cpu().clone() for name, value in stack.state(slot).items()},
            "order": self.order_state(job) if stack.orders is None else stack.orders.state(slot),
        }

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Resume a job from a state; all jobs of a stack are at the same step."""
        stack, slot = self._place[job]
        for name, value in stack.state(slot).items():
            value.copy_(state["model"][name])
        if stack.orders is None:
            self.load_order_state(job, state["order"])
        else:
            stack.orders.load_state(slot, state["order"])

    def _stack_size(self, shape: StackShape) -> int:
        if self.inputs.device.type == "cuda":
            return len(self.jobs)
        return max(1, MAX_ACTIVATIONS // (shape.recipe.batch_size * max(self._widths)))


def _shape(job: TrainingJob) -> StackShape:
    """The shape of the steps of a job. In parts of a pass, any batch may be short, so all are padded."""
    size = job.recipe.batch_size
    if job.recipe.parts > 1:
        return StackShape(replace(job.recipe, seed=0), math.ceil(len(job.train_rows) / job.recipe.parts / size), 0)
    full, rest = divmod(len(job.train_rows), size)
    return StackShape(replace(job.recipe, seed=0), full, min(size, math.ceil(rest / TAIL_MULTIPLE) * TAIL_MULTIPLE))


def _cut(numbers: list[int], size: int) -> list[list[int]]:
    """Parts of at most `size`, as even as possible."""
    parts = math.ceil(len(numbers) / size)
    return [numbers[part::parts] for part in range(parts)]


@contextmanager
def _threads(values: Tensor, *, large: bool) -> Iterator[None]:
    """A context in which a CPU computes with one thread: small products are slower with several.

    Large ones use all threads, except in float64: sums over several threads round differently.
    """
    threads = torch.get_num_threads()
    if values.device.type != "cpu" or threads == 1 or (large and values.dtype != torch.float64):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
