"""Texts as the vectors that a sentence model on disk has for them; nothing is ever downloaded."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from errata.dynamics.files import replace_atomically
from errata.errors import InputError
from errata.extras import require
from errata.readers import UserData
from errata.readers.columns import as_texts
from errata.readers.features import FrameFeatures
from errata.readers.memory import check_fits
from errata.wording import counted, one_line

if TYPE_CHECKING:
    from errata.finding.model_training import FindProgress

Vectors = NDArray[np.float32]

AT_ONCE = 512  # texts between two files of vectors: so many are embedded again after Ctrl-C
OF_A_MODEL = ("modules.json", "config.json", "config_sentence_transformers.json")  # one of these is in its folder
HOW_TO_SAVE = "SentenceTransformer(NAME).save(FOLDER) writes one where there is a network"


class Encoder(Protocol):
    """What is asked of a sentence model."""

    def encode(self, sentences: list[str], **options: Any) -> Any:
        """A vector (d,) for each text."""


def model_folder(given: str | Path) -> Path:
    """The folder of a sentence model; a name that would have to be looked up on a network is refused."""
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise InputError(f"{given} is not a folder, and sentence models are not downloaded: {HOW_TO_SAVE}")
    if not any((folder / name).is_file() for name in OF_A_MODEL):
        raise InputError(f"{folder} holds no sentence model: {HOW_TO_SAVE}")
    return folder


def model_key(folder: Path) -> str:
    """What tells a model from others: its files, by size and time."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    told = [(path.relative_to(folder).as_posix(), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr((folder.resolve().as_posix(), told)).encode()).hexdigest()[:16]


def load_encoder(folder: Path, device: str) -> Encoder:
    """The model in a folder, read by sentence-transformers from what is there and nothing else."""
    require("sentence_transformers", "sentence-transformers", "text", "embedding texts")
    from sentence_transformers import SentenceTransformer

    try:
        model: Encoder = SentenceTransformer(
            str(folder), device=None if device == "auto" else device, local_files_only=True
        )
    except Exception as error:  # a folder that is not whole fails in as many ways as there are architectures
        raise InputError(f"the sentence model in {folder} cannot be loaded: {one_line(error)}") from error
    return model


def embedded(data: UserData, model: Path, device: str, work: Path | None, watcher: "FindProgress") -> UserData:
    """The same data, whose texts are vectors of length 1 where they were weighted terms.

    In a folder `work`, texts that an interrupted call has embedded are not embedded again.
    """
    columns = [name for name, treatment in data.columns.items() if treatment == "text"]
    if not columns or not isinstance(data.fit_features, FrameFeatures):
        raise InputError(
            f"there is no text to embed in this data, which is {data.kind}; a text column is named by text"
        )
    watcher.say(f"embedding {counted(len(columns) * data.samples, 'text')} with {model}")
    encoder = load_encoder(model, device)
    vectors = {}
    for number, name in enumerate(columns):
        texts = ["" if text is None else text for text in as_texts(data.inputs[name])]
        place = None if work is None else work / f"texts-{number}"
        vectors[name] = _vectors(encoder, texts, place, watcher)
    width = sum(values.shape[1] for values in vectors.values())
    return replace(
        data,
        fit_features=replace(data.fit_features, vectors=vectors),
        remarks=(*data.remarks, f"texts are embedded by {model.resolve().name} in {width:,} directions"),
        embedded=True,
    )


def _vectors(encoder: Encoder, texts: Sequence[str], place: Path | None, watcher: "FindProgress") -> Vectors:
    """Vectors (N, d) of texts, block by block, each written to a file as soon as it is there."""
    blocks: list[Vectors] = []
    for start in range(0, len(texts), AT_ONCE):
        watcher.begin(f"embedding texts: {start:,} of {len(texts):,}", 0)
        file = None if place is None else place / f"{start}.npy"
        blocks.append(_block(encoder, list(texts[start : start + AT_ONCE]), file))
        if not start:
            check_fits(3 * 4.0 * len(texts) * blocks[0].shape[1], f"the vectors of {counted(len(texts), 'text')}")
    return np.concatenate(blocks)


def _block(encoder: Encoder, texts: list[str], file: Path | None) -> Vectors:
    if file is not None and file.is_file():
        kept: Vectors = np.load(file, allow_pickle=False)
        return kept
    values = np.asarray(
        encoder.encode(texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False),
        dtype=np.float32,
    )
    if values.ndim != 2 or len(values) != len(texts) or not np.isfinite(values).all():
        raise InputError(
            f"the sentence model must give {len(texts):,} vectors of finite numbers for as many texts, "
            f"and gave {'shape ' + str(values.shape) if np.isfinite(values).all() else 'others'}"
        )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(file, lambda to: np.save(to, values))
    return values
