"""`errata find` on a folder of images in class folders: the images and labels of a CIFAR setting, written as files.

A network is trained from the pixels, without a pretrained model.

ERRATA_DATA=... python benchmarks/images.py [--setting cifar10n-worse] [--samples 50000] [--device auto]

Prints the output of find, the seconds, and the FNR.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

import errata
from errata.datasets.loading import load_setting


def write(folder: Path, setting: str, samples: int) -> NDArray[np.bool_]:
    """Write one PNG per sample into the folder of its label, named by its row. Returns which labels are wrong."""
    labelled = load_setting(setting)
    classes = labelled.data.classes
    for row, (pixels, given) in enumerate(zip(labelled.data.train_inputs[:samples], labelled.given, strict=False)):
        path = folder / str(classes[given]) / f"{row}.png"
        path.parent.mkdir(exist_ok=True, parents=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(path)
    return labelled.truth[:samples]


def main() -> None:
    """Write the images, run find, and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", default="cifar10n-worse")
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "images", Path(folder) / "out"
        wrong = write(data, options.setting, options.samples)
        started = time.perf_counter()
        find = ["find", str(data), "--backbone", "none", "--device", options.device, "--out", str(out)]
        subprocess.run([sys.executable, "-m", "errata", *find], check=True)
        seconds = time.perf_counter() - started
        ranking = pd.read_parquet(out / "ranking.parquet", columns=["id", "score"])
        report = (out / "report.html").stat().st_size / 1e6
    rows = ranking["id"].map(lambda name: int(Path(name).stem)).to_numpy()
    missed = errata.metrics.fnr(ranking["score"].to_numpy(), wrong[rows])
    print(f"{options.setting}, {len(rows):,} images: {seconds:.0f} s, FNR {missed:.2%}, report of {report:.1f} MB")


if __name__ == "__main__":
    main()
