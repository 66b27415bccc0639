"""CIFAR-10: 60,000 images of 32 × 32 pixels in ten classes."""

from errata.datasets.cifar_files import CifarRelease, with_backbone
from errata.datasets.label_noise import PairflipNoise, SymmetricNoise, extra_noises
from errata.datasets.spec import Pixels, Setting
from errata.training.recipes import Recipe

NAME = "cifar10"
RELEASE = CifarRelease(
    archive="cifar-10-python.tar.gz",
    folder="cifar-10-batches-py",
    batches=(*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"),
    labels="labels",
    rows=(10_000,) * 6,
    classes=10,
)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = Pixels(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010), transforms="pad-crop-flip")
DECAY = ((0, 1.0), (50, 0.1))
PAIRFLIP_20 = Recipe(epochs=63, batch_size=128, learning_rate=1e-3, weight_decay=1e-4, schedule=DECAY)
SYMMETRIC_20 = Recipe(epochs=63, batch_size=64, learning_rate=5e-5, weight_decay=0.02, schedule=DECAY)
SYMMETRIC_50 = Recipe(epochs=60, batch_size=32, learning_rate=1e-4, weight_decay=1e-3, schedule=DECAY)
TRANSFORMER = Recipe(epochs=60, batch_size=128, learning_rate=5e-4, schedule=((0, 0.2), (2, 1.0), (45, 0.1)))
# the class map of Patrini et al. (2017)
SIMILAR_CLASSES = (("truck", "automobile"), ("bird", "airplane"), ("deer", "horse"), ("cat", "dog"), ("dog", "cat"))

PAPER = (
    Setting(NAME, PairflipNoise(0.2), "cnn9", PAIRFLIP_20, horizon=100, accuracy=90.02),
    Setting(NAME, SymmetricNoise(0.2), "cnn9", SYMMETRIC_20, horizon=100, accuracy=89.21),
    Setting(NAME, SymmetricNoise(0.5), "cnn9", SYMMETRIC_50, horizon=100, accuracy=81.77),
)

DATASET = RELEASE.dataset(
    name=NAME,
    title="CIFAR-10",
    classes=CLASSES,
    settings=(
        *PAPER,
        *(Setting(NAME, noise, "cnn9", SYMMETRIC_20) for noise in extra_noises(SIMILAR_CLASSES, held_out=2)),
        Setting(NAME, SymmetricNoise(0.2), "transformer", TRANSFORMER),
        *with_backbone(*PAPER),
    ),
    hashes={
        "train_inputs": "511e047372a8429697c3e1506b448256c5be88691ac62f64d4729eb7e7d7726b",
        "train_labels": "968d52f700248b3b69daf865458072ffe2a2bb10870fbd078da5ff73497cc1f6",
        "test_inputs": "7d98c9efb9d7443693a8974c09a9c91363206fc1bc3e09ebb7810508d416c8c7",
        "test_labels": "7c7064def2ea9ba65c8603bd90b52b19be0fbaf5aacb1f7e8330faa85f9f612b",
    },
    pixels=PIXELS,
)
