"""CIFAR-10N: labels of CIFAR-10's training images by workers of Amazon Mechanical Turk."""

from errata.datasets.cifar_files import human_labels, with_backbone
from errata.datasets.label_noise import RecordedNoise
from errata.datasets.sets import cifar10
from errata.datasets.spec import Setting
from errata.training.recipes import Recipe

NAME = "cifar10n"
FILE = "CIFAR-10_human.pt"
COLUMNS = {
    "aggregate": "aggre_label",
    "worse": "worse_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
}
STEPS = ((0, 1.0), (50, 0.1), (80, 0.01))
AGGREGATE = Recipe(epochs=100, batch_size=64, learning_rate=3e-5, weight_decay=0.03, schedule=STEPS)
WORSE = Recipe(epochs=35, batch_size=64, learning_rate=3e-4, weight_decay=2e-4, schedule=((0, 1.0), (25, 0.1)))

PAPER = (
    Setting(NAME, RecordedNoise("aggregate"), "cnn9", AGGREGATE, horizon=250, accuracy=90.33),
    Setting(NAME, RecordedNoise("worse"), "cnn9", WORSE, horizon=70, accuracy=81.57),
)

DATASET = human_labels(
    cifar10.DATASET,
    FILE,
    COLUMNS,
    name=NAME,
    title="CIFAR-10N",
    settings=(
        *PAPER,
        # not in the paper; 17 to 18 % wrong labels are closer to aggregate (9 %) than to worse (40 %)
        *(Setting(NAME, RecordedNoise(f"random{number}"), "cnn9", AGGREGATE) for number in (1, 2, 3)),
        Setting(NAME, RecordedNoise("worse"), "transformer", cifar10.TRANSFORMER),
        *with_backbone(*PAPER),
    ),
    hashes={
        "clean": "968d52f700248b3b69daf865458072ffe2a2bb10870fbd078da5ff73497cc1f6",
        "aggregate": "a30d0f66d6a360fb0aa611b12cf8f77a7c0906e177173f8b68866b0d8a729c9d",
        "worse": "85596b9bea9944066c1337f4a4af9116371e8d8828a549dda43aa7f9a515b1b4",
        "random1": "105c445ea54f4814da3c652f3e0248cbdf2306b5941c8c169e885eb4a4d8563f",
        "random2": "08401739b3aaea88070d3404c90624ab89af6cb4286ac95376362910ee221367",
        "random3": "48afeee534a4f6576c4ec8fa3f2de2fbbdd92e44af4782e967d955fbe599cfb8",
    },
    paper=cifar10.DATASET.paper,
)
