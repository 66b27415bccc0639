"""CIFAR-100: 60,000 images of 32 × 32 pixels in a hundred classes."""

from errata.datasets.cifar_files import CifarRelease, with_backbone
from errata.datasets.label_noise import PairflipNoise, SymmetricNoise
from errata.datasets.spec import Pixels, Setting, class_names
from errata.training.recipes import Recipe

NAME = "cifar100"
RELEASE = CifarRelease(
    archive="cifar-100-python.tar.gz",
    folder="cifar-100-python",
    batches=("train", "test"),
    labels="fine_labels",
    rows=(50_000, 10_000),
    classes=100,
)
CLASSES = class_names(NAME)
PIXELS = Pixels(mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761), transforms="pad-crop-flip")
DECAY = ((0, 1.0), (50, 0.1))
LATE_DECAY = (*DECAY, (75, 0.01))
PAIRFLIP_20 = Recipe(epochs=101, batch_size=64, learning_rate=5e-5, weight_decay=0.01, schedule=LATE_DECAY)
SYMMETRIC_20 = Recipe(epochs=92, batch_size=64, learning_rate=1e-4, weight_decay=0.01, schedule=LATE_DECAY)
SYMMETRIC_50 = Recipe(epochs=62, batch_size=64, learning_rate=5e-5, weight_decay=0.005, schedule=DECAY)

PAPER = (
    Setting(NAME, PairflipNoise(0.2), "cnn9", PAIRFLIP_20, horizon=150, accuracy=68.78),
    Setting(NAME, SymmetricNoise(0.2), "cnn9", SYMMETRIC_20, horizon=150, accuracy=63.72),
    Setting(NAME, SymmetricNoise(0.5), "cnn9", SYMMETRIC_50, horizon=100, accuracy=56.07),
)

DATASET = RELEASE.dataset(
    name=NAME,
    title="CIFAR-100",
    classes=CLASSES,
    settings=(*PAPER, *with_backbone(*PAPER)),
    hashes={
        "train_inputs": "7c15ce185c8b9b381234d1e179821dd8303d8c4b1c7910b89b7619a9a42375f6",
        "train_labels": "ccda923e83f493e06762f3d31e14531d0a20e75f90809e41e7fdfa0b2619111e",
        "test_inputs": "d8ffc2e019d07c3eac477e139c03fb5a56e0925c7381bead0f696d0e93817372",
        "test_labels": "36198a86cbc4cfd3e0a9ab66045fa978c765dca7241d4baa2e4284565e8b43a5",
    },
    pixels=PIXELS,
)
