"""Executors: train the models of several jobs side by side, an epoch at a time."""

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
    """Models of R jobs over shared inputs and labels; what happens to one never depends on its siblings."""

    def __init__(self, jobs: Sequence[TrainingJob], inputs: Inputs, labels: Tensor, num_classes: int) -> None:
        self.jobs = list(jobs)
        self.inputs = inputs
        self.labels = labels.to(inputs.device)
        self.num_classes = num_classes
        # Orders and draws of a job come from its own generators, so that they are the same alone and in company.
        self._orders = [Generator().manual_seed(job.recipe.seed) for job in jobs]
        self._pending: list[list[Tensor]] = [[] for _ in jobs]
        self._stopped: set[int] = set()
        self.after_step: Callable[[], None] = lambda: None

    @abstractmethod
    def train_epoch(self, epoch: int) -> list[Tensor]:
        """Train every job for an epoch; returns its training pass's logits (n, K), in the order of its train_rows."""

    @abstractmethod
    def module(self, job: int) -> nn.Module:
        """The job's model as it is now."""

    @abstractmethod
    def state(self, job: int) -> dict[str, Any]:
        """Weights, optimiser and draws of a job, on the CPU: all that is needed to go on."""

    @abstractmethod
    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Go on from a state."""

    @abstractmethod
    def weights(self, job: int) -> dict[str, Tensor]:
        """The job's parameters and buffers, by their names in `module`, not copied where that can be."""

    def evaluate(self, job: int, rows: Tensor) -> Tensor:
        """Logits (n, K) of some rows from the job's model as it is now, in evaluation."""
        return evaluate(self.module(job), self.inputs, rows)

    def stop(self, job: int) -> None:
        """Let a job stand still from here on."""
        self._stopped.add(job)

    def _batches(self, job: int) -> list[Tensor]:
        """The job's next epoch: positions in its train_rows, shuffled and cut into batches; the last may be short.

        Where an epoch is a part of a pass, the passes go on from one epoch to the next.
        """
        if job in self._stopped:
            return []
        recipe, samples = self.jobs[job].recipe, len(self.jobs[job].train_rows)
        if recipe.parts == 1:
            order = torch.randperm(samples, generator=self._orders[job])
            return list(torch.split(order, recipe.batch_size))
        wanted = math.ceil(samples / recipe.parts / recipe.batch_size)
        while len(self._pending[job]) < wanted:
            order = torch.randperm(samples, generator=self._orders[job])
            self._pending[job] += torch.split(order, recipe.batch_size)
        batches, self._pending[job] = self._pending[job][:wanted], self._pending[job][wanted:]
        return batches

    def order_state(self, job: int) -> dict[str, Any]:
        """Where the job is in its order of samples."""
        return {"generator": self._orders[job].get_state(), "pending": list(self._pending[job])}

    def load_order_state(self, job: int, state: dict[str, Any]) -> None:
        """Go on in that order."""
        self._orders[job].set_state(state["generator"])
        self._pending[job] = list(state["pending"])


@torch.no_grad()
def evaluate(model: nn.Module, inputs: Inputs, rows: Tensor) -> Tensor:
    """Logits (n, K) of some rows, in evaluation mode and with the test transforms."""
    model.eval()
    batches = torch.split(rows, EVALUATION_BATCH)
    parts = [forward(model, inputs.test(raw)) for raw in inputs.fetch(batches)]
    return torch.cat(parts)


@torch.no_grad()
def features(model: nn.Module, inputs: Inputs, rows: Tensor) -> Tensor:
    """What goes into the last linear layer, (n, D), in evaluation mode and with the test transforms."""
    model.eval()
    caught: list[Tensor] = []
    hook = penultimate(model).register_forward_pre_hook(lambda _, given: caught.append(given[0].flatten(1).float()))
    try:
        for raw in inputs.fetch(torch.split(rows, EVALUATION_BATCH)):
            forward(model, inputs.test(raw))
    finally:
        hook.remove()
    return torch.cat(caught)


def forward(model: nn.Module, batch: Tensor) -> Tensor:
    """Logits of a batch: on a GPU the matrix work is done in bfloat16, the logits are float32."""
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.device.type == "cuda", cache_enabled=False):
        logits: Tensor = model(batch)
    return logits.float() if logits.dtype == torch.bfloat16 else logits
