"""Copies of folders that Hugging Face `datasets` has saved to disk."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.finding.sources import INFO, STATE, arrow_table
from errata.review.applying.arrow_columns import new_labels, relabelled
from errata.review.applying.edits import Advance, Edits, Original, Samples
from errata.review.applying.new_folders import written_folder

if TYPE_CHECKING:
    import pyarrow as pa

IN_SCHEMA = b"huggingface"  # under which a schema says what its columns are


@dataclass(frozen=True, eq=False)
class SavedDataset(Original):
    """A folder that `Dataset.save_to_disk` has written. state, info: its two files of JSON."""

    label: str
    state: dict[str, Any] = field(repr=False)
    info: dict[str, Any] = field(repr=False)

    @classmethod
    def open(cls, path: Path, label: str, samples: Samples) -> "SavedDataset":
        """A folder that `errata find` can read."""
        state, info = (json.loads((path / name).read_text(encoding="utf-8")) for name in (STATE, INFO))
        return cls(path, samples, label, state, info)

    def check(self, edits: Edits) -> None:
        """Refuse labels that are not of the column's type; of classes with names there may be more."""
        self._new_labels(edits, arrow_table(self._files[0]).schema.field(self.label).type)

    def write(self, edits: Edits, target: Path, advance: Advance) -> list[str]:
        """Write the folder, file by file, with as many files as before."""
        import pyarrow as pa

        tables = [arrow_table(file) for file in self._files]
        column = pa.chunked_array([chunk for table in tables for chunk in table.column(self.label).chunks])
        kept = edits.kept(len(column))
        column = relabelled(column, edits, self._new_labels(edits, column.type))
        start = 0
        with written_folder(target) as folder:
            for file, table in zip(self._files, tables, strict=True):
                place, stop = table.schema.get_field_index(self.label), start + len(table)
                labels = column.slice(start, len(table))
                corrected = table.set_column(place, table.schema.field(place), labels).filter(kept[start:stop])
                self._write_table(corrected, edits, folder / file.name)
                start = stop
            _write_json(folder / STATE, {**self.state, "_fingerprint": self._fingerprint(edits)})
            _write_json(folder / INFO, self._counted(self._with_classes(self.info, edits), int(kept.sum())))
        return []

    @property
    def _files(self) -> list[Path]:
        return [self.path / part["filename"] for part in self.state["_data_files"]]

    @property
    def _names(self) -> list[str] | None:
        """The names of the classes, where the column holds their numbers."""
        feature = (self.info.get("features") or {}).get(self.label)
        return feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None

    def _new_labels(self, edits: Edits, type_: "pa.DataType") -> "pa.Array":
        import pyarrow as pa

        if self._names is None:
            return new_labels(edits, type_, f"column {self.label!r} of {self.path}")
        names = _with_new(self._names, edits)
        return pa.array([names.index(str(value)) for value in edits.fresh], type=type_)

    def _write_table(self, table: "pa.Table", edits: Edits, file: Path) -> None:
        import pyarrow as pa

        about = dict(table.schema.metadata or {})
        if IN_SCHEMA in about:
            described = json.loads(about[IN_SCHEMA])
            described["info"] = self._with_classes(described.get("info") or {}, edits)
            table = table.replace_schema_metadata({**about, IN_SCHEMA: json.dumps(described).encode()})
        with pa.OSFile(str(file), "wb") as to, pa.ipc.new_stream(to, table.schema) as stream:
            stream.write_table(table)

    def _with_classes(self, info: dict[str, Any], edits: Edits) -> dict[str, Any]:
        """What is said of the dataset, with the classes that are new among the names."""
        features = info.get("features") or {}
        if self._names is None or self.label not in features:
            return info
        feature = {**features[self.label], "names": _with_new(self._names, edits)}
        return {**info, "features": {**features, self.label: feature}}

    def _counted(self, info: dict[str, Any], rows: int) -> dict[str, Any]:
        """What is said of the dataset, with the number of its rows."""
        splits, name = info.get("splits") or {}, self.state.get("_split")
        if name not in splits:
            return info
        return {**info, "splits": {**splits, name: {**splits[name], "num_examples": rows}}}

    def _fingerprint(self, edits: Edits) -> str:
        """Another than the original's, or `datasets` would take results from its cache that are of the original."""
        told = [self.state.get("_fingerprint"), edits.drop, [(one.row, str(one.after)) for one in edits.changes]]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def _with_new(names: Sequence[str], edits: Edits) -> list[str]:
    return list(dict.fromkeys([*names, *map(str, edits.fresh)]))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
