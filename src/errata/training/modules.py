"""Any modules side by side: step by step on the CPU; on a GPU a whole step is one CUDA graph, one stream a job."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from errata.training.data import Inputs
from errata.training.executors import Executor, forward
from errata.training.jobs import Job
from errata.training.recipes import Recipe

Builder = Callable[[], nn.Module]
WARM_UP_STEPS = 3


class ModuleExecutor(Executor):
    """One module a job, each with its own optimiser, generators and, on a GPU, stream and graph."""

    def __init__(self, jobs: Sequence[Job], inputs: Inputs, labels: Tensor, num_classes: int, build: Builder) -> None:
        super().__init__(jobs, inputs, labels, num_classes)
        graphs = inputs.device.type == "cuda" and inputs.resident
        lane = _GraphLane if graphs else _Lane
        self._lanes = [lane(job, inputs, self.labels, num_classes, build) for job in jobs]

    def train_epoch(self, epoch: int) -> list[Tensor]:
        """Steps of all jobs in turn, so that their streams stay busy together."""
        epochs = [lane.epoch(epoch, self._batches(number)) for number, lane in enumerate(self._lanes)]
        for _ in zip_longest(*epochs):
            pass
        for lane in self._lanes:
            lane.finish_epoch()
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
        state = {"model": lane.model.state_dict(), "optimizer": lane.optimizer.state_dict()}
        draws = {"order": self._orders[job].get_state(), "draws": lane.draws.state}
        copied: dict[str, Any] = deepcopy(_on_cpu(state)) | draws
        return copied

    def load_state(self, job: int, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._lanes[job].load(state)
        self._orders[job].set_state(state["order"])


class _Lane:
    """A job's module, trained eagerly."""

    def __init__(self, job: Job, inputs: Inputs, labels: Tensor, num_classes: int, build: Builder) -> None:
        self.job, self.inputs, self.labels = job, inputs, labels
        self._device = inputs.device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.recipe.seed)
            self.model = build().to(self._device)
        if self._device.type == "cuda":
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = _optimizer(self.model, job.recipe, self._device)
        self.draws = _Draws(job.recipe.seed)
        self.train_rows = torch.from_numpy(job.train_rows).to(self._device)
        self.logits = torch.empty((len(job.train_rows), num_classes), device=self._device)

    def epoch(self, epoch: int, batches: list[Tensor]) -> Iterator[None]:
        """Train for an epoch, a batch at a time."""
        self.model.train()
        self.set_rate(self.job.recipe.rate(epoch))
        batches = [positions.to(self._device) for positions in batches]
        raw_batches = self.inputs.fetch([self.train_rows[positions] for positions in batches])
        for positions, raw in zip(batches, raw_batches, strict=True):
            self.logits[positions] = self.step(raw, self.labels[self.train_rows[positions]]).to(self.logits.dtype)
            yield

    def step(self, raw: Tensor, labels: Tensor) -> Tensor:
        """One update; returns the logits (n, K) before it."""
        with self.draws:
            logits = forward(self.model, self.inputs.train(raw, None))
        self.optimizer.zero_grad(set_to_none=True)
        cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return logits.detach()

    def finish_epoch(self) -> None:
        """Wait for the epoch to be through."""

    def set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.draws.state = state["draws"]


class _GraphLane(_Lane):
    """A job's module on a GPU: the step for a full batch is recorded once and replayed, the short last one is eager."""

    def __init__(self, job: Job, inputs: Inputs, labels: Tensor, num_classes: int, build: Builder) -> None:
        super().__init__(job, inputs, labels, num_classes, build)
        self._stream = torch.cuda.Stream()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._rate = float("nan")
        self._positions = torch.zeros(job.recipe.batch_size, dtype=torch.int64, device=self._device)
        self._warm_up()

    def epoch(self, epoch: int, batches: list[Tensor]) -> Iterator[None]:
        """Replay the graph for every full batch."""
        self.model.train()
        self.set_rate(self.job.recipe.rate(epoch))
        order = torch.cat(batches).to(self._device)
        self._stream.wait_stream(torch.cuda.current_stream())
        for positions in torch.split(order, self.job.recipe.batch_size):
            with torch.cuda.stream(self._stream):
                if len(positions) == len(self._positions):
                    self._positions.copy_(positions)
                    self._recorded().replay()
                else:
                    self._step_at(positions)
            yield

    def finish_epoch(self) -> None:
        """Let the rest of the device wait for this stream."""
        torch.cuda.current_stream().wait_stream(self._stream)

    def set_rate(self, rate: float) -> None:
        super().set_rate(rate)
        if rate != self._rate:
            self._graph, self._rate = None, rate  # the rate is a constant of the recorded step

    def _step_at(self, positions: Tensor) -> None:
        rows = self.train_rows[positions]
        (raw,) = self.inputs.fetch([rows])
        self.logits.index_copy_(0, positions, self.step(raw, self.labels[rows]))

    def _recorded(self) -> torch.cuda.CUDAGraph:
        if self._graph is None:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._stream):
                self._step_at(self._positions)
            self._graph = graph
        return self._graph

    def _warm_up(self) -> None:
        """Let libraries choose their kernels and the optimiser make its state, then forget what was learned."""
        before = deepcopy(self.model.state_dict())
        self.model.train()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(WARM_UP_STEPS):
                self._step_at(self._positions)
        torch.cuda.synchronize()
        self.model.load_state_dict(before)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()


class _Draws:
    """A job's own stream of random draws: within it, torch's default generator of the CPU is this job's.

    On a GPU jobs share the default generator: their steps are recorded, and a recorded step cannot change streams.
    """

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


def _optimizer(model: nn.Module, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            trained, recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, foreach=True
        )
    cuda = device.type == "cuda"
    return torch.optim.Adam(
        trained, recipe.learning_rate, weight_decay=recipe.weight_decay, fused=cuda or None, capturable=cuda
    )


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return [_on_cpu(item) for item in value] if isinstance(value, list) else value
