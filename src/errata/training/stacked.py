"""MLPs side by side as one stacked model: batched matrix products, one optimiser step for all jobs.

All batches of a step are padded to one size with rows that weigh nothing, also for a job alone: what is computed for a
job then has the same shapes, and the same bits, whatever stands beside it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from errata.errors import InputError
from errata.training.data import Table
from errata.training.executors import Executor
from errata.training.jobs import Job
from errata.training.models import mlp

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


class StackedExecutor(Executor):
    """R MLPs of the same widths and batch size over one table; rates, decay, seeds and rows are each job's own."""

    inputs: Table

    def __init__(
        self, jobs: Sequence[Job], inputs: Table, labels: Tensor, num_classes: int, widths: Sequence[int]
    ) -> None:
        super().__init__(jobs, inputs, labels, num_classes)
        if len({(job.recipe.batch_size, job.recipe.optimizer) for job in jobs}) > 1:
            raise InputError("models are stacked only if they share batch size and optimiser")
        self._widths = (inputs.values.shape[1], *widths, num_classes)
        self._batch_size = jobs[0].recipe.batch_size
        self._nobody = len(inputs)  # the row that pads: zeros in, logits to be thrown away
        self._values = torch.cat([inputs.values, inputs.values.new_zeros(1, inputs.values.shape[1])])
        self._given = torch.cat([self.labels, self.labels.new_zeros(1)])
        self._train_rows = [torch.from_numpy(job.train_rows).to(inputs.device) for job in jobs]
        self._parameters = self._initial()
        self._optimizer = _StackedOptimizer(self._parameters, jobs, inputs.values)
        self._every = torch.arange(len(jobs), device=inputs.device)[:, None]

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """An epoch of all jobs: every step is one batch of each."""
        rows = self._padded_batches()
        logits = self._values.new_empty((len(self.jobs), self._nobody + 1, self.num_classes))
        self._optimizer.set_rates([job.recipe.rate(epoch) for job in self.jobs])
        for step in range(rows.shape[1]):
            logits[self._every, rows[:, step]] = self._step(rows[:, step])
        return [logits[job, rows_of_job] for job, rows_of_job in enumerate(self._train_rows)]

    def module(self, job: int) -> nn.Module:
        """The job's model as a module of its own."""
        model = mlp(self._widths).to(self._values.device, self._values.dtype)
        model.load_state_dict(self.weights(job))
        return model

    def weights(self, job: int) -> dict[str, Tensor]:
        """The job's parameters, by their names in `mlp`."""
        named = {}
        for layer, (weight, bias) in enumerate(zip(self._parameters[::2], self._parameters[1::2], strict=True)):
            named[f"{2 * layer}.weight"] = weight[job].detach().T
            named[f"{2 * layer}.bias"] = bias[job, 0].detach()
        return named

    def state(self, job: int) -> dict[str, Any]:
        """Weights, optimiser and draws of a job, on the CPU."""
        stacked = [*self._parameters, *self._optimizer.buffers]
        return {
            "stacked": [tensor[job].detach().cpu().clone() for tensor in stacked],
            "order": self._orders[job].get_state(),
        }

    @torch.no_grad()
    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for tensor, saved in zip([*self._parameters, *self._optimizer.buffers], state["stacked"], strict=True):
            tensor[job] = saved.to(tensor.device)
        self._orders[job].set_state(state["order"])

    def _initial(self) -> list[Tensor]:
        """Weights (R, in, out) and biases (R, 1, out) of every layer, each job's as `mlp` draws them from its seed."""
        models = []
        for job in self.jobs:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(job.recipe.seed)
                models.append(mlp(self._widths).to(self._values.device, self._values.dtype))
        layers = [[layer for layer in model if isinstance(layer, nn.Linear)] for model in models]
        parameters = []
        for same in zip(*layers, strict=True):
            parameters.append(torch.stack([layer.weight.detach().T for layer in same]))
            parameters.append(torch.stack([layer.bias.detach()[None] for layer in same]))
        return [parameter.contiguous().requires_grad_() for parameter in parameters]

    def _padded_batches(self) -> Tensor:
        """Rows (R, S, B) of every job's next epoch; where a job has no sample, the row that pads."""
        epochs = [self._batches(job) for job in range(len(self.jobs))]
        steps = max(len(batches) for batches in epochs)
        rows = torch.full((len(self.jobs), steps * self._batch_size), self._nobody)
        for job, batches in enumerate(epochs):
            order = torch.cat(batches)
            rows[job, : len(order)] = torch.from_numpy(self.jobs[job].train_rows)[order]
        return rows.view(len(self.jobs), steps, self._batch_size).to(self._values.device)

    def _step(self, rows: Tensor) -> Tensor:
        """One update of every job that has samples in rows (R, B); returns the logits (R, B, K) before it."""
        logits = self._forward(self._values[rows])
        real = (rows != self._nobody).to(logits.dtype)
        counts = real.sum(dim=1)
        losses = cross_entropy(logits.flatten(0, 1), self._given[rows].flatten(), reduction="none").view_as(real)
        loss = ((losses * real).sum(dim=1) / counts.clamp(min=1)).sum()
        gradients = torch.autograd.grad(loss, self._parameters)
        self._optimizer.step(gradients, active=counts > 0)
        return logits.detach()

    def _forward(self, x: Tensor) -> Tensor:
        """Logits (R, B, K) of inputs (R, B, D), each job's by its own model."""
        for layer in range(0, len(self._parameters), 2):
            x = torch.baddbmm(self._parameters[layer + 1], x, self._parameters[layer])
            if layer + 2 < len(self._parameters):
                x = x.relu()
        return x


class _StackedOptimizer:
    """Adam or SGD with L2 in the gradient on parameters (R, ...), every job at its own rate; idle jobs stand still."""

    def __init__(self, parameters: list[Tensor], jobs: Sequence[Job], like: Tensor) -> None:
        self._parameters = parameters
        self._adam = jobs[0].recipe.optimizer == "adam"
        self._decay = like.new_tensor([job.recipe.weight_decay for job in jobs])[:, None, None]
        self._momentum = like.new_tensor([job.recipe.momentum for job in jobs])[:, None, None]
        self._rates = like.new_zeros(len(jobs), 1, 1)
        self._steps = like.new_zeros(len(jobs), 1, 1)
        self._first = [torch.zeros_like(parameter) for parameter in parameters]
        self._second = [torch.zeros_like(parameter) for parameter in parameters] if self._adam else []

    @property
    def buffers(self) -> list[Tensor]:
        """All that the optimiser remembers, job by job along the first axis."""
        return [self._steps, *self._first, *self._second]

    def set_rates(self, rates: list[float]) -> None:
        self._rates = self._rates.new_tensor(rates)[:, None, None]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], active: Tensor) -> None:
        """Move every active job; `active` is (R,)."""
        moving = active.to(self._steps.dtype)[:, None, None]
        everyone = bool(active.all())
        self._steps += moving
        for number, (parameter, gradient) in enumerate(zip(self._parameters, gradients, strict=True)):
            gradient = gradient + self._decay * parameter
            change = self._adam_change(number, gradient, moving, everyone) if self._adam else self._sgd_change(number, gradient, moving, everyone)
            parameter -= change if everyone else change * moving

    def _adam_change(self, number: int, gradient: Tensor, moving: Tensor, everyone: bool) -> Tensor:
        first, second = self._first[number], self._second[number]
        one, two = ((1 - beta) if everyone else (1 - beta) * moving for beta in ADAM_BETAS)
        first += one * (gradient - first)
        second += two * (gradient * gradient - second)
        corrected = 1 - ADAM_BETAS[0] ** self._steps.clamp(min=1)
        spread = (second / (1 - ADAM_BETAS[1] ** self._steps.clamp(min=1))).sqrt() + ADAM_EPSILON
        return self._rates / corrected * first / spread

    def _sgd_change(self, number: int, gradient: Tensor, moving: Tensor, everyone: bool) -> Tensor:
        velocity = self._first[number]
        # torch's convention: the first step sets the velocity to the gradient, later ones add to it.
        updated = self._momentum * velocity + gradient
        velocity.copy_(updated if everyone else torch.where(moving > 0, updated, velocity))
        return self._rates * velocity
