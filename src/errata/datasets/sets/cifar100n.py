"""CIFAR-100N: what people on Amazon Mechanical Turk took the training images of CIFAR-100 for."""

from functools import partial

from errata.datasets.human_labels import BIBTEX, prepare_human_labels, read_human_labels
from errata.datasets.sets import cifar100
from errata.datasets.settings import Recorded, Setting
from errata.datasets.spec import Dataset, Download, Source

NAME = "cifar100n"
FILE = "CIFAR-100_human.pt"

DATASET = Dataset(
    name=NAME,
    title="CIFAR-100N",
    source="https://github.com/UCSC-REAL/cifar-10-100n",
    licence="CC BY-NC 4.0",
    bibtex=BIBTEX,
    kind="images",
    classes=cifar100.CLASSES,
    sources=(Source((FILE,), partial(read_human_labels, {"noisy": "noisy_label"})),),
    prepare=prepare_human_labels,
    settings=(
        # the paper leaves it out; symmetric noise of 50 % is the setting of CIFAR-100 nearest to its 40 %
        Setting(NAME, Recorded("noisy"), "cnn9", cifar100.SYMMETRIC_50, in_paper=False),
    ),
    downloads=(Download(f"https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/{FILE}", FILE),),
    hashes={
        "clean": "ccda923e83f493e06762f3d31e14531d0a20e75f90809e41e7fdfa0b2619111e",
        "noisy": "f5bd3eeaf7d9d663f5d81be80f4cd696246d384de5eec47240e4ad183a83de88",
    },
    pixels=cifar100.PIXELS,
    inputs_from=cifar100.NAME,
    class_counts=cifar100.DATASET.class_counts,
)
