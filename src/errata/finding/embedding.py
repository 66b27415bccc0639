"""Embed texts with a sentence model that is stored in a folder. Nothing is downloaded."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from errata.errors import InputError
from errata.extras import require
from errata.finding.stored_blocks import Vectors, stored_blocks
from errata.memory import check_fits
from errata.readers import UserData
from errata.readers.columns import as_texts
from errata.readers.features import FrameFeatures
from errata.terminal import TrainingProgress
from errata.wording import counted, one_line

BLOCK = 512  # texts per file of vectors; after Ctrl-C at most one file is embedded again
MODEL_FILES = ("modules.json", "config.json", "config_sentence_transformers.json")  # a model folder has one of these
HOW_TO_SAVE = "SentenceTransformer(NAME).save(FOLDER) downloads a model and writes it to a folder"


def model_folder(path: str | Path) -> Path:
    """The folder of a sentence model, or an error if there is no model in it."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise InputError(f"{path} is not a folder, and sentence models are not downloaded: {HOW_TO_SAVE}")
    if not any((folder / name).is_file() for name in MODEL_FILES):
        raise InputError(f"{folder} holds no sentence model: {HOW_TO_SAVE}")
    return folder


def model_key(folder: Path) -> str:
    """A hash that identifies a model: its folder, and the names, sizes and times of its files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    stats = [(path.relative_to(folder).as_posix(), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr((folder.resolve().as_posix(), stats)).encode()).hexdigest()[:16]


def load_encoder(folder: Path, device: str) -> Any:
    """Load a model with sentence-transformers, from local files only. Pickled weights are refused."""
    require("sentence_transformers", "sentence-transformers", "text", "embedding texts")
    from sentence_transformers import SentenceTransformer

    from errata.training.safe_weights import refuse_pickles, without_progress_bars

    for part in (folder, *(path for path in sorted(folder.rglob("*")) if path.is_dir())):
        refuse_pickles(part)
    where, only_safetensors = None if device == "auto" else device, {"use_safetensors": True}
    try:
        with without_progress_bars():
            return SentenceTransformer(str(folder), device=where, local_files_only=True, model_kwargs=only_safetensors)
    except Exception as error:  # an incomplete folder raises a different type of error for each architecture
        raise InputError(
            f"the sentence model in {folder} cannot be loaded: {one_line(error)}; if its files are damaged, copy the "
            "folder again"
        ) from error


def embedded(data: UserData, model: Path, device: str, work: Path | None, progress: TrainingProgress) -> UserData:
    """The same data with its texts as vectors of length 1 instead of TF-IDF terms.

    Vectors are stored in the folder `work`, so that an interrupted call resumes.
    """
    columns = [name for name, treatment in data.columns.items() if treatment == "text"]
    if not columns or not isinstance(data.fit_features, FrameFeatures):
        raise InputError(f"there is no text to embed in this data ({data.kind}); name a text column with `text=`")
    encoder = load_encoder(model, device)
    vectors = {}
    for number, name in enumerate(columns):
        texts = ["" if text is None else text for text in as_texts(data.inputs[name])]
        folder = None if work is None else work / f"texts-{number}"
        vectors[name] = _vectors(encoder, texts, folder, progress)
    width = sum(values.shape[1] for values in vectors.values())
    return replace(
        data,
        fit_features=replace(data.fit_features, vectors=vectors),
        remarks=(*data.remarks, f"texts are embedded by {model.resolve().name} in {width:,} dimensions"),
        backbone=model.resolve().name,
    )


def _vectors(encoder: Any, texts: list[str], folder: Path | None, progress: TrainingProgress) -> Vectors:
    """Vectors (N, d) of texts, computed block by block; each block is written to a file."""

    def compute(blocks: Sequence[range]) -> Iterator[Vectors]:
        for number, rows in enumerate(blocks):
            vectors = _encoded(encoder, texts[rows.start : rows.stop])
            if not number:
                check_fits(3 * 4.0 * len(texts) * vectors.shape[1], f"the vectors of {counted(len(texts), 'text')}")
            yield vectors

    return stored_blocks(len(texts), BLOCK, folder, compute, "embedding texts", progress)


def _encoded(encoder: Any, texts: list[str]) -> Vectors:
    values = np.asarray(
        encoder.encode(texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False),
        dtype=np.float32,
    )
    if values.ndim != 2 or len(values) != len(texts):
        shape = f"shape {values.shape} for {counted(len(texts), 'text')}, not one vector per text"
        raise InputError(f"the sentence model returned {shape}: pass another `backbone=`")
    if not np.isfinite(values).all():
        raise InputError("the sentence model returned vectors that are not finite: pass another `backbone=`")
    return values
