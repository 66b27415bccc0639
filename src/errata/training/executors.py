"""Executors train the models of several jobs side by side, one epoch at a time."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import cache
from itertools import chain, zip_longest
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from errata.errors import InputError
from errata.training.fine_tuning import FineTuned
from errata.training.fused_norm import fuse_norms
from errata.training.graph_steps import Step, batches_per_graph
from errata.training.jobs import TrainingJob
from errata.training.low_precision import LowPrecision, matrices
from errata.training.model_inputs import Inputs
from errata.training.models import penultimate
from errata.training.optimizers import Optimizer
from errata.training.transforms import Augmentation


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

    def parts(self) -> list[list[int]]:
        """The jobs, divided into parts that are faster in a process of their own each."""
        return [list(range(len(self.jobs)))]

    def weights(self, job: int) -> dict[str, Tensor]:
        """The parameters and buffers of a job, by their names in `module`; not copied."""
        return dict(self.module(job).state_dict())

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
    batches = torch.split(rows, inputs.evaluation_batch)
    return torch.cat([forward(model, inputs.test(raw)) for raw in inputs.fetch(batches)])


@torch.no_grad()
def features(model: nn.Module, inputs: Inputs, rows: Tensor) -> Tensor:
    """The inputs (n, D) of the last linear layer, in evaluation mode and with the test transforms.

    After a first run of a fine-tuned backbone, its features before it was trained.
    """
    if isinstance(model, FineTuned) and model.searches_frozen:
        return model.frozen_features(inputs, rows)
    parts: list[Tensor] = []
    hook = penultimate(model).register_forward_pre_hook(lambda _, args: parts.append(args[0].flatten(1).float()))
    try:
        evaluate(model, inputs, rows)
    finally:
        hook.remove()
    return torch.cat(parts)


def forward(model: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
    """Logits of a batch in float32. Products are in bfloat16 on a GPU, and for images on a CPU that has it."""
    small = batch.device.type == "cuda" or (batch.ndim == 4 and batch.dtype == torch.float32 and cpu_has_bfloat16())
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=small, cache_enabled=False):
        logits: Tensor = model(batch)
    return logits.float() if logits.dtype == torch.bfloat16 else logits


@cache
def cpu_has_bfloat16() -> bool:
    """Whether the CPU has instructions for products in bfloat16. Without them, float32 is faster."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


class ModuleExecutor(Executor):
    """One module per job, with its own optimiser, random generators and, on a GPU, stream and CUDA graph per step."""

    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        inputs: Inputs,
        labels: Tensor,
        num_classes: int,
        build: Callable[[], nn.Module],
        *,
        keep_passes: bool = True,
        strong: Augmentation | None = None,
    ) -> None:
        """keep_passes: keep the logits of the training passes. labels: (N,), or targets (N, K) of the loss.

        strong: the loss is also taken on a second view of each image, with this augmentation.
        """
        super().__init__(jobs, inputs, labels, num_classes)
        arguments = (inputs, self.labels, num_classes, build, keep_passes, strong)
        self._modules = [_JobModule(job, *arguments) for job in jobs]
        if len({id(module.model) for module in self._modules}) < len(jobs):
            raise InputError("the function that builds a module returned the same one twice; it must build a new one")

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """Steps of all jobs in turn, so that their streams run at the same time."""
        epochs = [module.epoch(epoch, self._batches(number)) for number, module in enumerate(self._modules)]
        for _ in zip_longest(*epochs):
            pass
        return [module.logits for module in self._modules]

    def module(self, job: int) -> nn.Module:
        return self._modules[job].model

    def state(self, job: int) -> dict[str, Any]:
        module = self._modules[job]
        trained = {"model": dict(module.model.state_dict()), "optimizer": module.optimizer.state}
        copied: dict[str, Any] = _on_cpu(trained)
        return copied | {"order": self.order_state(job), "draws": module.rng_state}

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        module = self._modules[job]
        module.model.load_state_dict(state["model"])
        module.optimizer.load_state(state["optimizer"])
        module.rng_state = state["draws"]
        self.load_order_state(job, state["order"])


class _JobModule:
    """The module of one job, and the logits (n, K) of its last training pass, in the order of train_rows."""

    def __init__(
        self,
        job: TrainingJob,
        inputs: Inputs,
        labels: Tensor,
        num_classes: int,
        build: Callable[[], nn.Module],
        keep_passes: bool,
        strong: Augmentation | None,
    ) -> None:
        self._keep_passes, self._strong = keep_passes, strong
        self._recipe, self._inputs, self._labels = job.recipe, inputs, labels
        self.rng_state = Generator().manual_seed(job.recipe.seed).get_state()
        with self._own_rng():
            self.model = build().to(inputs.device)
        self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if inputs.device.type == "cuda":
            fuse_norms(self.model)
        self.optimizer = Optimizer((p for p in self.model.parameters() if p.requires_grad), job.recipe)
        self._matrices = matrices(self.model)
        self._train_rows = torch.from_numpy(job.train_rows).to(inputs.device)
        self.logits = torch.zeros((len(job.train_rows) if keep_passes else 0, num_classes), device=inputs.device)
        self.model.train()
        if inputs.resident:
            first = torch.arange(min(job.recipe.batch_size, len(job.train_rows)), device=inputs.device)
            changed = lambda: chain(self.model.parameters(), self.model.buffers())  # noqa: E731
            self._step = Step(self._fetch_and_update, self.optimizer, changed, first)

    def epoch(self, epoch: int, batches: list[Tensor]) -> Iterator[None]:
        """Train on batches of positions in train_rows, yielding after every batch, on a GPU after every graph."""
        if not batches:
            return
        self.model.train()
        rate, batch_size = self._recipe.rate(epoch), self._recipe.batch_size
        positions = torch.cat(batches).to(self._inputs.device)
        if self._inputs.resident:
            together = batches_per_graph(batch_size) if positions.is_cuda else 1
            self._step.begin()
            for some in torch.split(positions, together * batch_size):
                self._step(some, rate)
                yield
            self._step.end()
            return
        self.optimizer.rate = rate
        split = torch.split(positions, batch_size)
        for batch, raw in zip(split, self._inputs.fetch([self._train_rows[batch] for batch in split]), strict=True):
            self._update(batch, raw)
            yield

    @contextmanager
    def _own_rng(self) -> Iterator[None]:
        """A context in which torch's default generator of the CPU has the state of this job."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.rng_state)
            yield
            self.rng_state = torch.get_rng_state()

    def _low_precision(self) -> Callable[[Tensor], Tensor]:
        """The model with its matrices in bfloat16."""
        low = dict(zip(self._matrices, LowPrecision.apply(*self._matrices.values()), strict=True))  # type: ignore[no-untyped-call]
        return lambda batch: functional_call(self.model, low, batch)

    def _fetch_and_update(self, positions: Tensor) -> None:
        (raw,) = self._inputs.fetch([self._train_rows[positions]])
        self._update(positions, raw)

    def _update(self, positions: Tensor, raw: Tensor) -> None:
        """One update per batch, all transformed at once."""
        # On a GPU, all jobs share the default generator: a CUDA graph cannot switch generators.
        with self._own_rng() if self._inputs.device.type == "cpu" else nullcontext():
            views = [self._inputs.train(raw, None)]
            if self._strong is not None:
                views.append(self._inputs.train(self._strong(raw, None), None))
            size = self._recipe.batch_size
            parts = zip(*(torch.split(view, size) for view in views), strict=True)
            for batch, part in zip(torch.split(positions, size), parts, strict=True):
                self._update_once(batch, torch.cat(part))

    def _update_once(self, positions: Tensor, batch: Tensor) -> None:
        """One update; the logits of the first view before it are kept if keep_passes is set."""
        every = forward(self._low_precision() if batch.is_cuda and self._matrices else self.model, batch)
        logits = every[: len(positions)]
        if logits.shape != (len(positions), self.logits.shape[1]):
            raise InputError(
                f"the model returns logits of shape {tuple(logits.shape)} for {len(positions)} samples "
                f"of {self.logits.shape[1]} classes"
            )
        self.optimizer.zero_grad()
        targets = self._labels[self._train_rows[positions]]
        views = torch.split(every, len(positions))
        sum(cross_entropy(view, targets) for view in views).backward()  # type: ignore[union-attr]
        self.optimizer.step()
        if self._keep_passes:
            self.logits.index_copy_(0, positions, logits.detach().to(self.logits.dtype))


def _on_cpu(value: Any) -> Any:
    """A copy on the CPU of the tensors in dicts and lists."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return [_on_cpu(item) for item in value] if isinstance(value, list) else deepcopy(value)
