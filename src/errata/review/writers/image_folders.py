"""Folders of images in class folders. An image with a new label is in another class folder of the copy."""

import os
import shutil
from collections.abc import Set
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path, PurePosixPath

from errata.errors import InputError, StoreError
from errata.readers.image_files import list_images
from errata.review.writers.label_writer import LabelEdits, LabelledSamples, LabelWriter, Progress
from errata.wording import counted, gigabytes

NOT_IN_FOLDER_NAMES = '/\\:*?"<>|\0'  # on Linux, macOS or Windows


@dataclass(frozen=True, eq=False)
class ImageFolder(LabelWriter):
    """Images in class folders. others: all other files. link: create hard links instead of copies."""

    others: tuple[str, ...]
    link: bool

    @classmethod
    def open(cls, path: Path, link: bool) -> "ImageFolder":
        """List the files. Images are not opened, so damaged ones are copied too."""
        listing = list_images(path)
        labels = [image.split("/", 1)[0] for image in listing.paths]
        samples = LabelledSamples(listing.paths, labels, list(range(len(labels))), tuple(sorted(set(labels))))
        return cls(path, samples, tuple(listing.others), link)

    @property
    def file_count(self) -> int:
        return len(self.samples.ids) + len(self.others)

    def check(self, edits: LabelEdits) -> None:
        for name in map(str, edits.new_classes):
            if name.startswith(".") or name != name.strip() or any(letter in NOT_IN_FOLDER_NAMES for letter in name):
                raise InputError(f"the new class {name!r} cannot be the name of a folder")

    def new_ids(self, edits: LabelEdits) -> dict[str, str]:
        new_classes = {edit.decision.id: str(edit.after) for edit in edits.relabelled}
        used = {*self.samples.ids, *self.others} - new_classes.keys()
        paths: dict[str, str] = {}
        for image, class_name in new_classes.items():
            paths[image] = _unused_path(image, class_name, used)
            used.add(paths[image])
        return paths

    def write(self, edits: LabelEdits, target: Path, progress: Progress) -> list[str]:
        """Write the folder. All files except the relabelled images keep their paths."""
        self._check_disk_space(target.parent)
        moved, dropped = self.new_ids(edits), {edit.decision.id for edit in edits.entries if edits.drop}
        target.mkdir()
        for name in self.samples.classes:
            (target / name).mkdir()  # also for a class without images
        for file in (*self.samples.ids, *self.others):
            if file not in dropped:
                self._copy(file, target / moved.get(file, file))
            progress(1)
        renamed = sum(PurePosixPath(old).name != PurePosixPath(new).name for old, new in moved.items())
        links = "its files are hard links: writing to one of them changes the original too"
        remarks = [links if self.link else "its files are copies"]
        if renamed:
            remarks.append(f"{counted(renamed, 'image was', 'images were')} renamed because the name was in use")
        if self.others:
            remarks.append(f"{counted(len(self.others), 'file')} of other types kept their paths")
        return remarks

    def _check_disk_space(self, folder: Path) -> None:
        if self.link:
            return
        size = sum((self.path / file).stat().st_size for file in (*self.samples.ids, *self.others))
        free = shutil.disk_usage(folder).free
        if size > free:
            raise StoreError(
                f"a copy of {self.path} needs {gigabytes(size)}, but {folder} has {gigabytes(free)} free. "
                "Hard links need no space: `link=True`"
            )

    def _copy(self, file: str, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        if not self.link:
            shutil.copy2(self.path / file, to)
            return
        try:
            os.link((self.path / file).resolve(), to)
        except OSError as error:
            raise StoreError(f"cannot link {self.path / file} ({error.strerror}). Omit `link=True` to copy.") from error


def _unused_path(image: str, class_name: str, used: Set[str]) -> str:
    """The same path in another class folder. If it is in use, the old class is added to the file name."""
    old_class, _, rest = image.partition("/")
    path = PurePosixPath(class_name, rest)
    numbered = (f".from-{old_class}-{number}" for number in count(2))
    additions = chain(("", f".from-{old_class}"), numbered)
    candidates = (path.with_name(f"{path.stem}{addition}{path.suffix}").as_posix() for addition in additions)
    return next(candidate for candidate in candidates if candidate not in used)
