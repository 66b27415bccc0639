"""The training engine compared with plain PyTorch: many small networks on a CPU, convolutional networks on a GPU.

python benchmarks/engine.py            the GPU part if there is a GPU, else the CPU part
"""

import os
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from common import Row, print_rows
from errata.training.engine import train
from errata.training.executors import ModuleExecutor
from errata.training.gather import executor_for
from errata.training.jobs import TrainingJob, TrainingOptions, fold_jobs, in_sample_jobs
from errata.training.model_inputs import Images, TableInputs
from errata.training.models import cnn4, cnn9, mlp
from errata.training.recipes import Recipe
from errata.training.stacked_executor import StackedExecutor
from errata.training.transforms import PadCropFlip

WIDTHS, CLASSES, SATELLITE = (108, 54), 6, (4435, 36)
CPU_EPOCHS = 200  # the three in-sample runs alone are then divided among processes, as in a whole training
PLAIN_EPOCHS = 20
CNN9_FLOPS = 6 * 746.2e6  # forward and backward of one 32 x 32 image: three times 2 operations per multiplication


def run() -> list[Row]:
    return gpu_rows() if torch.cuda.is_available() else cpu_rows()


def cpu_rows() -> list[Row]:
    """3 seeds and 3 x 4 folds of Satellite trained and recorded together, compared with the same 15 runs in turn."""
    values, labels, jobs = _satellite(CPU_EPOCHS)
    in_sample, folds = jobs[:3], jobs[3:]
    make_executor = executor_for(WIDTHS, TableInputs(values), labels.numpy(), CLASSES, "cpu")

    def side_by_side() -> None:
        train(in_sample, labels.numpy(), make_executor, TrainingOptions(swa=False))
        train(folds, labels.numpy(), make_executor, TrainingOptions(swa=False, when="after epoch"))

    plain = [_plain_mlp(job, values, labels) for job in jobs]

    def one_after_another() -> None:
        """On one thread: threads that wait for each other use processor time."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        for epoch in plain:
            for _ in range(PLAIN_EPOCHS):
                epoch()
        torch.set_num_threads(threads)

    times = zip(_alternately(2, side_by_side, one_after_another), (CPU_EPOCHS, PLAIN_EPOCHS), strict=True)
    (own, own_processor), (peer, peer_processor) = (
        (1e3 * clock / epochs, 1e3 * processor / epochs) for (clock, processor), epochs in times
    )
    operations = sum(len(job.train_rows) for job in jobs) * 2 * (3 * (36 * 108 + 108 * 54 + 54 * 6) - 36 * 108)
    load = f"{os.cpu_count()} cores at a load of {os.getloadavg()[0]:.0f}"
    clock = f"{own:.0f} ms against {peer:.0f} ms an epoch of 15 runs, {load}"
    processor = f"{own_processor:.0f} ms against {peer_processor:.0f} ms of processor time an epoch of 15 runs"
    processor += f"; {operations / own_processor / 1e6:.0f} GFLOP/s of a core"
    work = "Satellite MLP, 15 runs side by side, CPU"
    return [
        Row(work, "plain PyTorch, one after another, one thread", peer / own, 3, clock),
        Row(work, "the same, processor time", peer_processor / own_processor, 1.5, processor),
        _images_on_cpu(),
    ]


def _images_on_cpu() -> Row:
    """An epoch of cnn4 on 640 images of 32 x 32, compared with a plain loop in float32."""
    pixels = torch.randint(0, 256, (640, 3, 32, 32), dtype=torch.uint8)
    images = Images(pixels, (0.49, 0.48, 0.45), (0.25, 0.24, 0.26), augment=PadCropFlip())
    labels = torch.randint(0, 10, (640,))
    jobs = in_sample_jobs(640, Recipe(3, 64, 1e-3, 1e-4), (0,))
    executor = ModuleExecutor(jobs, images, labels, 10, lambda: cnn4(10))
    plain = _plain_cnn(images, labels, cnn4(10))
    own, peer = (processor for _, processor in _alternately(5, lambda: executor.train_epoch(0), plain))
    detail = f"{own / 640 * 1e3:.2f} ms against {peer / 640 * 1e3:.2f} ms of processor time an image"
    return Row("cnn4, batch 64, CPU", "plain PyTorch in float32", peer / own, 3, detail)


def gpu_rows() -> list[Row]:
    """cnn9 on 50,000 images at batch size 64, one and several models, and 15 small networks."""
    peak = _peak(torch.bfloat16, 8192)
    pixels = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8)
    images = Images(pixels, (0.49, 0.48, 0.45), (0.25, 0.24, 0.26), augment=PadCropFlip()).to(torch.device("cuda"))
    labels = torch.randint(0, 10, (50_000,))
    eager = _seconds(_plain_cnn(images, labels, cnn9(10)), 1)
    print(f"eager: {eager:.2f} s per epoch; peak {peak / 1e12:.0f} TFLOP/s", flush=True)
    rows = []
    for runs, reach in ((1, 1.0), (3, 0.7), (4, 0.7)):
        jobs = in_sample_jobs(50_000, Recipe(3, 64, 3e-4, 2e-4), tuple(range(runs)))
        executor = ModuleExecutor(jobs, images, labels, 10, lambda: cnn9(10))
        executor.train_epoch(0)
        seconds = _seconds(lambda executor=executor: executor.train_epoch(0), 2) / runs
        rate = 50_000 * CNN9_FLOPS / seconds
        print(f"cnn9, {runs} models together: {seconds:.3f} s per model and epoch", flush=True)
        speed = f"{rate / 1e12:.0f} TFLOP/s of {peak / 1e12:.0f} measured"
        detail = f"{seconds:.3f} s per model and epoch (at most {reach}), {speed}"
        rows.append(
            Row(
                f"cnn9, batch 64, {runs} side by side",
                f"eager loop, {eager:.2f} s",
                eager / seconds,
                eager / reach,
                detail,
            )
        )
        if runs == 1:
            silent = ModuleExecutor(jobs, images, labels, 10, lambda: cnn9(10), keep_passes=False)
            silent.train_epoch(0)
            without = _seconds(lambda silent=silent: silent.train_epoch(0), 2)
            share = f"recording takes {100 * (seconds / without - 1):.1f} % of the step (at most 2)"
            rows.append(Row("cnn9 with recording", "the same without", without / seconds, 0.98, share))
            del silent
        del executor
        torch.cuda.empty_cache()
    return [*rows, _small_networks_on_gpu()]


def _small_networks_on_gpu() -> Row:
    values, labels, jobs = _satellite()
    table = TableInputs(values.cuda())
    one = StackedExecutor(jobs[:1], table, labels, CLASSES, WIDTHS)
    all_of_them = StackedExecutor(jobs, table, labels, CLASSES, WIDTHS)
    plain = _plain_mlp(jobs[0], table.values, labels.cuda())
    work = (plain, lambda: one.train_epoch(0), lambda: all_of_them.train_epoch(0))
    eager, alone, together = (_seconds(lambda epoch=epoch: [epoch() for _ in range(64)], 3) / 64 for epoch in work)
    times = f"{together / alone:.1f} times the {alone * 1e3:.2f} ms of one run of ours"
    detail = f"{together * 1e3:.2f} ms an epoch of 15 against {eager * 1e3:.2f} ms of one; {times}"
    return Row("Satellite MLP, 15 runs side by side, GPU", "one plain eager run", eager / together, 0.5, detail)


def _satellite(epochs: int = 722) -> tuple[Tensor, Tensor, list[TrainingJob]]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, SATELLITE[0])
    recipe = Recipe(epochs, 1024, 1e-3, 1e-3)
    jobs = in_sample_jobs(len(labels), recipe, (0, 1, 2)) + fold_jobs(labels, recipe, (0, 1, 2), 4)
    return torch.from_numpy(rng.normal(size=SATELLITE).astype(np.float32)), torch.from_numpy(labels), jobs


def _plain_mlp(job: TrainingJob, values: Tensor, labels: Tensor) -> Callable[[], None]:
    """One epoch of a plain loop that stores logits and evaluates the held-out fold."""
    torch.manual_seed(job.recipe.seed)
    model = mlp([SATELLITE[1], *WIDTHS, CLASSES]).to(values.device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-3)
    x, y = values[job.train_rows], labels[job.train_rows]
    held_out = values[job.watched] if len(job.watched) < len(values) else None
    kept = x.new_empty((len(y), CLASSES))

    def epoch() -> None:
        model.train()
        for rows in torch.randperm(len(y), device=x.device).split(1024):
            logits = model(x[rows])
            loss = nn.functional.cross_entropy(logits, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept[rows] = logits.detach()
        if held_out is not None:
            model.eval()
            with torch.no_grad():
                model(held_out)

    return epoch


def _plain_cnn(images: Images, labels: Tensor, model: nn.Module) -> Callable[[], None]:
    """One epoch of an eager loop; on a GPU with the data there, in bfloat16 and channels last."""
    device = images.device
    if device.type == "cuda":
        model = model.cuda().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-4)
    y = labels.to(device)

    def epoch() -> None:
        for rows in torch.randperm(len(images), device=device).split(64):
            (raw,) = images.fetch([rows])
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = nn.functional.cross_entropy(model(images.train(raw, None)), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    epoch()
    return epoch


def _peak(dtype: torch.dtype, size: int) -> float:
    """Operations per second of a product of large square matrices."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds = _seconds(lambda: [a @ b for _ in range(20)], 3) / 20
    return 2 * size**3 / seconds


def _seconds(work: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        _settle()
        start = time.perf_counter()
        work()
        _settle()
        best = min(best, time.perf_counter() - start)
    return best


def _alternately(rounds: int, *works: Callable[[], object]) -> list[tuple[float, float]]:
    """The least seconds of each function, on the clock and of the processor.

    The functions are called in alternation, so that all have the same conditions.
    """
    for work in works:
        work()
    times = np.array([[_clock_and_processor(work) for work in works] for _ in range(rounds)])
    return [(float(clock), float(processor)) for clock, processor in times.min(axis=0)]


def _clock_and_processor(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a call; the processor time includes processes that have ended."""
    before, processor = time.perf_counter(), sum(os.times()[:4])
    work()
    return time.perf_counter() - before, sum(os.times()[:4]) - processor


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    print_rows(run())
