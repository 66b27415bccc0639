"""CIFAR-100N: labels of CIFAR-100's training images by workers of Amazon Mechanical Turk."""

from functools import partial

from errata.datasets.cifar_files import BIBTEX_N, prepare_human_labels, read_human_labels
from errata.datasets.label_noise import RecordedNoise
from errata.datasets.sets import cifar100
from errata.datasets.spec import Dataset, Setting, Source

NAME = "cifar100n"
FILE = "CIFAR-100_human.pt"

DATASET = Dataset(
    name=NAME,
    title="CIFAR-100N",
    source="https://github.com/UCSC-REAL/cifar-10-100n",
    licence="CC BY-NC 4.0",
    bibtex=BIBTEX_N,
    kind="images",
    classes=cifar100.CLASSES,
    sources=(Source((FILE,), partial(read_human_labels, {"noisy": "noisy_label"})),),
    prepare=prepare_human_labels,
    settings=(
        # not in the paper; the closest setting to its 40 % wrong labels is CIFAR-100 with 50 % symmetric noise
        Setting(NAME, RecordedNoise("noisy"), "cnn9", cifar100.SYMMETRIC_50),
    ),
    downloads=(f"https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/{FILE}",),
    hashes={
        "clean": "ccda923e83f493e06762f3d31e14531d0a20e75f90809e41e7fdfa0b2619111e",
        "noisy": "f5bd3eeaf7d9d663f5d81be80f4cd696246d384de5eec47240e4ad183a83de88",
    },
    pixels=cifar100.PIXELS,
    inputs_from=cifar100.NAME,
    class_counts=cifar100.DATASET.class_counts,
)
