"""Train any modules side by side. On a GPU each job has its own stream, and a step is one CUDA graph."""

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
    """One module per job, with its own optimiser, random generators and, on a GPU, stream and graph."""

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
        """keep_passes: keep the logits of the training passes."""
        super().__init__(jobs, inputs, labels, num_classes)
        self._modules = [_JobModule(job, inputs, self.labels, num_classes, build, keep_passes) for job in jobs]
        if len({id(module.model) for module in self._modules}) < len(jobs):
            raise InputError("the function that builds a module returned the same one twice; it must build a new one")

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """Steps of all jobs in turn, so that their streams run at the same time."""
        epochs = [module.epoch(epoch, self._batches(number)) for number, module in enumerate(self._modules)]
        for _ in zip_longest(*epochs):
            self.after_step()
        return [module.logits for module in self._modules]

    def module(self, job: int) -> nn.Module:
        """The current model of a job."""
        return self._modules[job].model

    def weights(self, job: int) -> dict[str, Tensor]:
        """The parameters and buffers of a job."""
        return dict(self._modules[job].model.state_dict())

    def state(self, job: int) -> dict[str, Any]:
        """Weights, optimiser and random generators of a job, on the CPU."""
        module = self._modules[job]
        trained = {"model": dict(module.model.state_dict()), "optimizer": module.optimizer.state_dict()}
        copied: dict[str, Any] = _on_cpu(trained)
        return copied | {"order": self.order_state(job), "draws": module.rng.state}

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Resume a job from a state."""
        module = self._modules[job]
        module.model.load_state_dict(state["model"])
        module.optimizer.load_state_dict(state["optimizer"])
        module.rng.state = state["draws"]
        self.load_order_state(job, state["order"])


class _JobModule:
    """The module of one job, and the logits (n, K) of its last training pass, in the order of train_rows."""

    def __init__(
        self, job: TrainingJob, inputs: Inputs, labels: Tensor, num_classes: int, build: Builder, keep_passes: bool
    ) -> None:
        self._keep_passes = keep_passes
        self._recipe, self._inputs, self._labels = job.recipe, inputs, labels
        self.rng = _JobRng(job.recipe.seed)
        with self.rng:
            self.model = build().to(inputs.device)
        if inputs.device.type == "cuda":
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = make_optimizer((p for p in self.model.parameters() if p.requires_grad), job.recipe)
        self._train_rows = torch.from_numpy(job.train_rows).to(inputs.device)
        self.logits = torch.zeros((len(job.train_rows) if keep_passes else 0, num_classes), device=inputs.device)
        self.model.train()
        if inputs.resident:
            first = torch.arange(min(job.recipe.batch_size, len(job.train_rows)), device=inputs.device)
            self._step = Step(self._step_rows, self.optimizer, self._tensors, first)

    def epoch(self, epoch: int, batches: list[Tensor]) -> Iterator[None]:
        """Train on batches of positions in train_rows, yielding after every batch."""
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
            self._update(batch, raw)
            yield

    def _step_rows(self, positions: Tensor) -> None:
        (raw,) = self._inputs.fetch([self._train_rows[positions]])
        self._update(positions, raw)

    def _update(self, positions: Tensor, raw: Tensor) -> None:
        """One update; the logits before it are kept if keep_passes is set."""
        with self._rng_context():
            logits = forward(self.model, self._inputs.train(raw, None))
        if logits.shape != (len(positions), self.logits.shape[1]):
            raise InputError(
                f"the model returns logits of shape {tuple(logits.shape)} for {len(positions)} samples "
                f"of {self.logits.shape[1]} classes"
            )
        self.optimizer.zero_grad(set_to_none=True)
        cross_entropy(logits, self._labels[self._train_rows[positions]]).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self._keep_passes:
            self.logits.index_copy_(0, positions, logits.detach().to(self.logits.dtype))

    def _rng_context(self) -> AbstractContextManager[None]:
        # On a GPU, all jobs share the default generator: a CUDA graph cannot switch generators.
        return self.rng if self._inputs.device.type == "cpu" else nullcontext()

    def _tensors(self) -> Iterable[Tensor]:
        return chain(self.model.parameters(), self.model.buffers())


class _JobRng(AbstractContextManager[None]):
    """A context in which torch's default generator of the CPU has the state of this job."""

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
    """A copy on the CPU of the tensors in dicts and lists."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return [_on_cpu(item) for item in value] if isinstance(value, list) else deepcopy(value)
