"""Executors train the models of several jobs side by side, one epoch at a time."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from errata.training.jobs import TrainingJob
from errata.training.model_inputs import Inputs
from errata.training.models import penultimate

EVALUATION_BATCH = 2048


class Executor(ABC):
    """The models of R jobs on shared inputs and labels. The result of a job does not depend on the other jobs."""

    def __init__(self, jobs: Sequence[TrainingJob], inputs: Inputs, labels: Tensor, num_classes: int) -> None:
        self.jobs = list(jobs)
        self.inputs = inputs
        self.labels = labels.to(inputs.device)
        self.num_classes = num_classes
        # Each job has its own generator, so that its batches are the same alone and side by side with others.
        self._orders = [Generator().manual_seed(job.recipe.seed) for job in jobs]
        self._pending: list[list[Tensor]] = [[] for _ in jobs]
        self._stopped: set[int] = set()
        self.after_step: Callable[[], None] = lambda: None

    @abstractmethod
    def train_epoch(self, epoch: int) -> list[Tensor]:
        """Train every job for an epoch; returns the logits (n, K) of each training pass, in the order of train_rows."""

    @abstractmethod
    def module(self, job: int) -> nn.Module:
        """The current model of a job."""

    @abstractmethod
    def state(self, job: int) -> dict[str, Any]:
        """All that is needed to resume a job, on the CPU: weights, optimiser, random generators."""

    @abstractmethod
    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Resume a job from a state."""

    @abstractmethod
    def weights(self, job: int) -> dict[str, Tensor]:
        """The parameters and buffers of a job, by their names in `module`; not copied if possible."""

    def evaluate(self, job: int, rows: Tensor) -> Tensor:
        """Logits (n, K) of some rows from the current model of a job, in evaluation mode."""
        return evaluate(self.module(job), self.inputs, rows)

    def stop(self, job: int) -> None:
        """Do not train a job any more."""
        self._stopped.add(job)

    def _batches(self, job: int) -> list[Tensor]:
        """The batches of the next epoch of a job: shuffled positions in its train_rows; the last batch may be short.

        If an epoch is a part of a pass, the next epoch continues the pass.
        """
        if job in self._stopped:
            return []
        recipe, samples = self.jobs[job].recipe, len(self.jobs[job].train_rows)
        if recipe.parts == 1:
            order = torch.randperm(samples, generator=self._orders[job])
            return list(torch.split(order, recipe.batch_size))
        count = math.ceil(samples / recipe.parts / recipe.batch_size)
        while len(self._pending[job]) < count:
            order = torch.randperm(samples, generator=self._orders[job])
            self._pending[job] += torch.split(order, recipe.batch_size)
        batches, self._pending[job] = self._pending[job][:count], self._pending[job][count:]
        return batches

    def order_state(self, job: int) -> dict[str, Any]:
        """The state of the generator of a job, and its batches that are not used yet."""
        return {"generator": self._orders[job].get_state(), "pending": list(self._pending[job])}

    def load_order_state(self, job: int, state: dict[str, Any]) -> None:
        """Resume the order of a job."""
        self._orders[job].set_state(state["generator"])
        self._pending[job] = list(state["pending"])


@torch.no_grad()
def evaluate(model: nn.Module, inputs: Inputs, rows: Tensor) -> Tensor:
    """Logits (n, K) of some rows, in evaluation mode and with the test transforms."""
    model.eval()
    batches = torch.split(rows, EVALUATION_BATCH)
    return torch.cat([forward(model, inputs.test(raw)) for raw in inputs.fetch(batches)])


@torch.no_grad()
def features(model: nn.Module, inputs: Inputs, rows: Tensor) -> Tensor:
    """The inputs (n, D) of the last linear layer, in evaluation mode and with the test transforms."""
    parts: list[Tensor] = []
    hook = penultimate(model).register_forward_pre_hook(lambda _, args: parts.append(args[0].flatten(1).float()))
    try:
        evaluate(model, inputs, rows)
    finally:
        hook.remove()
    return torch.cat(parts)


def forward(model: nn.Module, batch: Tensor) -> Tensor:
    """Logits of a batch. On a GPU, matrix products are in bfloat16, and the logits in float32."""
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.device.type == "cuda", cache_enabled=False):
        logits: Tensor = model(batch)
    return logits.float() if logits.dtype == torch.bfloat16 else logits
