"""The journal of a search: what candidates came to, written down as it is found, so that a killed search goes on."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from errata.dynamics.files import replace_atomically
from errata.training.recipes import Recipe
from errata.training.validation import Tried


@dataclass(frozen=True)
class Journal:
    """A file of what was tried in one search, told by its `fingerprint`; that of another search is begun anew."""

    path: Path
    fingerprint: str

    def remembered(self, recipes: Sequence[Recipe], epochs: int, find: Callable[[], list[Tried]]) -> list[Tried]:
        """What the recipes come to in so many epochs: as it is written down, or else found now and written down."""
        key = json.dumps([[asdict(recipe) for recipe in recipes], epochs])
        entries = self._read()
        if key not in entries:
            entries[key] = [asdict(one) for one in find()]
            text = json.dumps({"fingerprint": self.fingerprint, "entries": entries})
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(self.path, lambda file: file.write(text.encode()))
        return [Tried(**one | {"recipe": Recipe.of(one["recipe"])}) for one in entries[key]]

    def forget(self) -> None:
        """The search is over."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> dict[str, list[dict[str, Any]]]:
        if not self.path.exists():
            return {}
        kept = json.loads(self.path.read_text(encoding="utf-8"))
        entries: dict[str, list[dict[str, Any]]] = kept["entries"]
        return entries if kept["fingerprint"] == self.fingerprint else {}
