"""Recorder.update compared with aum's AUMCalculator.update: batches of 128 samples with 10 classes."""

import tempfile
from collections.abc import Callable

import numpy as np
import torch
from aum import AUMCalculator

import errata
from common import Row, print_rows, timed

SAMPLES, CLASSES, BATCH = 12_800, 10, 128


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, CLASSES, SAMPLES))
    batches = [
        (torch.from_numpy(rows.copy()), torch.from_numpy(rng.normal(size=(BATCH, CLASSES)).astype(np.float32)))
        for rows in np.split(rng.permutation(SAMPLES), SAMPLES // BATCH)
    ]
    with tempfile.TemporaryDirectory() as folder:
        peer = timed(_aum(folder, labels, batches), 10)
    rows = []
    for where, options in {
        "in memory": {},
        "on disk": {"on_disk": True},
        "in memory, text ids": {"text_ids": True},
        "keep='stream'": {"keep": "stream"},
    }.items():
        own, closing = _recorder(labels, batches, **options)
        per_sample = f"{own / SAMPLES * 1e9:,.0f} ns a sample against {peer / SAMPLES * 1e9:,.0f} ns"
        per_sample += f"; end_epoch() of {SAMPLES:,} samples {closing * 1e3:.1f} ms"
        reach = 20 if "text_ids" in options else 40  # aum is timed with numeric ids, which need no look-up
        rows.append(Row(f"Recorder.update {where}", "aum 1.0.2 update", peer / own, reach, per_sample))
    return rows


def _aum(folder: str, labels: torch.Tensor, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None]:
    def epoch() -> None:
        calculator = AUMCalculator(folder, compressed=True)
        for ids, logits in batches:
            calculator.update(logits, labels[ids], ids.tolist())

    return epoch


def _recorder(
    labels: torch.Tensor,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    *,
    on_disk: bool = False,
    text_ids: bool = False,
    keep: str = "all",
) -> tuple[float, float]:
    """Seconds of the updates of an epoch and of its end, each the fastest of thirty."""
    given = [([f"sample-{i}" for i in ids.tolist()] if text_ids else ids, logits) for ids, logits in batches]
    with tempfile.TemporaryDirectory() as folder:
        recorder = errata.Recorder(
            folder if on_disk else None,
            labels=labels,
            ids=[f"sample-{i}" for i in range(SAMPLES)] if text_ids else None,
            num_classes=CLASSES,
            keep=keep,  # type: ignore[arg-type]
            quiet=True,
        )

        def updates() -> None:
            for ids, logits in given:
                recorder.update(ids, logits)

        epochs = [(timed(updates, 1), timed(recorder.end_epoch, 1)) for _ in range(30)]
    return min(seconds for seconds, _ in epochs), min(seconds for _, seconds in epochs)


if __name__ == "__main__":
    print_rows(run())
