"""A small run, and simulated disk failures."""

import contextlib
import hashlib
import os
import resource
import signal

import numpy as np
import pytest

from errata import Recorder

EPOCHS, SAMPLES, CLASSES = 4, 6, 3


@pytest.fixture(scope="session")
def logits():
    return np.random.default_rng(0).normal(size=(EPOCHS, SAMPLES, CLASSES)).astype(np.float32)


@pytest.fixture(scope="session")
def labels():
    return np.array([0, 1, 2, 0, 1, 2])


@pytest.fixture(scope="session")
def record():
    """Record all epochs that a resumed run does not hold yet, in batches of `batch`."""

    def record(logits, labels, path=None, *, batch=2, ids=None, **options):
        recorder = Recorder(path, labels=labels, ids=ids, num_classes=logits.shape[2], quiet=True, **options)
        names = list(range(len(labels))) if ids is None else list(ids)
        for epoch in logits[recorder.epoch :]:
            for start in range(0, len(labels), batch):
                recorder.update(names[start : start + batch], epoch[start : start + batch])
            recorder.end_epoch()
        return recorder.finish()

    return record


@pytest.fixture(scope="session")
def snapshot():
    """All paths below a folder, with a hash of every file."""

    def snapshot(folder):
        return {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            for path in folder.rglob("*")
        }

    return snapshot


@pytest.fixture(scope="session")
def full_disk():
    """In the block, no file can be larger than `limit` bytes; further writes fail, as on a full disk."""

    @contextlib.contextmanager
    def full_disk(limit):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)

    return full_disk


@pytest.fixture(scope="session")
def without_root():
    """In the block, file permissions also apply to root."""

    @contextlib.contextmanager
    def without_root():
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield
        finally:
            if root:
                os.seteuid(0)

    return without_root
