"""Files of weights that contain only numbers. Pickled weights, which could run any code, are never opened."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from errata.errors import InputError

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
PICKLED = (b"PK\x03\x04", b"\x80")  # how files of torch.save begin, now and before 2020
HEADER = slice(8, 9), b"{"  # a .safetensors file begins with the length of a JSON header, in 8 bytes
HOW_TO_CONVERT = "load it with transformers where you trust it, and save it with save_pretrained(FOLDER)"


def safetensors_files(folder: Path) -> list[Path]:
    """The .safetensors files in a folder, or an error if there are none."""
    refuse_pickles(folder)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise InputError(
            f"{folder} has no weights: there is no .safetensors file in it. Copy or download the folder again, or save "
            "the model there with save_pretrained(FOLDER)"
        )
    return weights


def refuse_pickles(folder: Path) -> None:
    """Raise an error if the weights in a folder are pickled: if no .safetensors file is there, or one is a pickle."""
    weights = sorted(folder.glob("*.safetensors"))
    pickles = [file for file in weights if _is_pickle(file)]
    if not weights:
        pickles = [file for file in sorted(folder.iterdir()) if file.suffix in PICKLES]
    if pickles:
        raise InputError(
            f"the weights in {folder} are not safetensors but pickled, in {pickles[0].name}, which could run any code: "
            f"{HOW_TO_CONVERT}"
        )


def _is_pickle(file: Path) -> bool:
    with file.open("rb") as content:
        begin = content.read(HEADER[0].stop)
    return begin.startswith(PICKLED) and begin[HEADER[0]] != HEADER[1]


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """A context in which transformers shows no bars for loading, which takes less than a second."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
