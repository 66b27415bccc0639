"""Any modules side by side: step by step on the CPU; on a GPU a whole step is one CUDA graph, one stream a job."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from itertools import chain, zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from errata.errors import InputError
from errata.training.executors import Executor, forward
from errata.training.graph_steps import Step, make_optimizer
from errata.training.jobs import TrainingJob
from errata.training.model_inputs import Inputs

Builder = Callable[[], nn.Module]


class ModuleExecutor(Executor):
    """One module a job, each with its own optimiser, draws and, on a GPU, stream and graph."""

    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        inputs: Inputs,
        labels: Tensor,
        num_classes: int,
        build: Builder,
        *,
        keep_passes: bool = True,
    ) -> None:
        """Without `keep_passes` the logits of the training passes are not kept."""
        super().__init__(jobs, inputs, labels, num_classes)
        self._lanes = [_Lane(job, inputs, self.labels, num_classes, build, keep_passes) for job in jobs]
        if len({id(lane.model) for lane in self._lanes}) < len(jobs):
            raise InputError("the function that builds a module gave the same one twice: runs would train it together")

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """Steps of all jobs in turn, so that their streams are busy together."""
        epochs = [lane.epoch(epoch, self._batches(number)) for number, lane in enumerate(self._lanes)]
        for _ in zip_longest(*epochs):
            self.after_step()
        return [lane.logits for lane in self._lanes]

    def module(self, job: int) -> nn.Module:
        """The job's model as it is now."""
        return self._lanes[job].model

    def weights(self, job: int) -> dict[str, Tensor]:
        """The job's parameters and buffers."""
        return dict(self._lanes[job].model.state_dict())

    def state(self, job: int) -> dict[str, Any]:
        """Weights, optimiser and draws of a job, on the CPU."""
        lane = self._lanes[job]
        learned = {"model": dict(lane.model.state_dict()), "optimizer": lane.optimizer.state_dict()}
        copied: dict[str, Any] = _on_cpu(learned)
        return copied | {"order": self.order_state(job), "draws": lane.draws.state}

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Go on from a state."""
        lane = self._lanes[job]
        lane.model.load_state_dict(state["model"])
        lane.optimizer.load_state_dict(state["optimizer"])
        lane.draws.state = state["draws"]
        self.load_order_state(job, state["order"])


class _Lane:
    """A job's module, and the logits (n, K) its last epoch of training passes gave, by train_rows."""

    def __init__(
        self, job: TrainingJob, inputs: Inputs, labels: Tensor, num_classes: int, build: Builder, keep_passes: bool
    ) -> None:
        self._keep_passes = keep_passes
        self._recipe, self._inputs, self._labels = job.recipe, inputs, labels
        self.draws = _Draws(job.recipe.seed)
        with self.draws:
            self.model = build().to(inputs.device)
        if inputs.device.type == "cuda":
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = make_optimizer((p for p in self.model.parameters() if p.requires_grad), job.recipe)
        self._train_rows = torch.from_numpy(job.train_rows).to(inputs.device)
        self.logits = torch.zeros((len(job.train_rows) if keep_passes else 0, num_classes), device=inputs.device)
        self.model.train()
        if inputs.resident:
            first = torch.arange(min(job.recipe.batch_size, len(job.train_rows)), device=inputs.device)
            self._step = Step(self._step_at, self.optimizer, self._changed, first)

    def epoch(self, epoch: int, batches: list[Tensor]) -> Iterator[None]:
        """Train for an epoch, yielding after every batch of positions in train_rows."""
        if not batches:
            return
        self.model.train()
        rate = self._recipe.rate(epoch)
        positions = torch.cat(batches).to(self._inputs.device)
        if self._inputs.resident:
            self._step.begin()
            for batch in torch.split(positions, self._recipe.batch_size):
                self._step(batch, rate)
                yield
            self._step.end()
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        rows = torch.split(self._train_rows[positions], self._recipe.batch_size)
        at = torch.split(positions, self._recipe.batch_size)
        for batch, raw in zip(at, self._inputs.fetch(rows), strict=True):
            self._learn(batch, raw)
            yield

    def _step_at(self, positions: Tensor) -> None:
        (raw,) = self._inputs.fetch([self._train_rows[positions]])
        self._learn(positions, raw)

    def _learn(self, positions: Tensor, raw: Tensor) -> None:
        """One update; the logits before it are kept."""
        with self._drawing():
            logits = forward(self.model, self._inputs.train(raw, None))
        if logits.shape != (len(positions), self.logits.shape[1]):
            raise InputError(
                f"the model gives logits of shape {tuple(logits.shape)} for {len(positions)} samples "
                f"of {self.logits.shape[1]} classes"
            )
        self.optimizer.zero_grad(set_to_none=True)
        cross_entropy(logits, self._labels[self._train_rows[positions]]).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self._keep_passes:
            self.logits.index_copy_(0, positions, logits.detach().to(self.logits.dtype))

    def _drawing(self) -> AbstractContextManager[None]:
        # On a GPU jobs share the default generator: a recorded step cannot change it.
        return self.draws if self._inputs.device.type == "cpu" else nullcontext()

    def _changed(self) -> Iterable[Tensor]:
        return chain(self.model.parameters(), self.model.buffers())


class _Draws(AbstractContextManager[None]):
    """A job's own stream of random draws: within it, torch's default generator of the CPU is this job's."""

    def __init__(self, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.state = torch.get_rng_state()
        self._outer = self.state

    def __enter__(self) -> None:
        self._outer = torch.get_rng_state()
        torch.set_rng_state(self.state)

    def __exit__(self, *error: object) -> None:
        self.state = torch.get_rng_state()
        torch.set_rng_state(self._outer)


def _on_cpu(value: Any) -> Any:
    """A copy on the CPU of tensors in dicts and lists."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return [_on_cpu(item) for item in value] if isinstance(value, list) else deepcopy(value)
