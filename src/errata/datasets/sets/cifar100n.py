"""CIFAR-100N: labels of CIFAR-100's training images by workers of Amazon Mechanical Turk."""

from errata.datasets.cifar_files import human_labels
from errata.datasets.label_noise import RecordedNoise
from errata.datasets.sets import cifar100
from errata.datasets.spec import Setting

NAME = "cifar100n"
FILE = "CIFAR-100_human.pt"

DATASET = human_labels(
    cifar100.DATASET,
    FILE,
    {"noisy": "noisy_label"},
    name=NAME,
    title="CIFAR-100N",
    settings=(
        # not in the paper; the closest setting to its 40 % wrong labels is CIFAR-100 with 50 % symmetric noise
        Setting(NAME, RecordedNoise("noisy"), "cnn9", cifar100.SYMMETRIC_50),
    ),
    hashes={
        "clean": "ccda923e83f493e06762f3d31e14531d0a20e75f90809e41e7fdfa0b2619111e",
        "noisy": "f5bd3eeaf7d9d663f5d81be80f4cd696246d384de5eec47240e4ad183a83de88",
    },
)
