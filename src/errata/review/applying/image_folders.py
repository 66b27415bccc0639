"""Copies of folders of images: an image whose class changes lies in another class folder of the copy."""

import os
import shutil
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from errata.errors import InputError, StoreError
from errata.readers.folders import list_images
from errata.review.applying.edits import Advance, Edits, Original, Samples
from errata.review.applying.new_folders import written_folder
from errata.wording import counted, gigabytes

FORBIDDEN = '/\\:*?"<>|\0'  # in the name of a folder, on one system or another


@dataclass(frozen=True, eq=False)
class ImageFolder(Original):
    """Images in class folders. others: the files beside them. link: whether the copy shares the files."""

    others: tuple[str, ...]
    link: bool

    @classmethod
    def open(cls, path: Path, link: bool) -> "ImageFolder":
        """A folder of images; one that `errata find` cannot read is copied like any other."""
        listing = list_images(path)
        labels = [_class_of(image) for image in listing.paths]
        samples = Samples(listing.paths, list(labels), list(range(len(labels))), tuple(sorted(set(labels))))
        return cls(path, samples, tuple(listing.others), link)

    def check(self, edits: Edits) -> None:
        """Refuse classes that no folder can be named after."""
        for name in map(str, edits.fresh):
            if name.startswith(".") or name != name.strip() or any(letter in FORBIDDEN for letter in name):
                raise InputError(f"the new class {name!r} cannot be the name of a folder")

    @property
    def files(self) -> int:
        """The images, and what lies beside them."""
        return len(self.samples.ids) + len(self.others)

    def new_ids(self, edits: Edits) -> dict[str, str]:
        """Where the images that change lie in the copy, no two in the same place."""
        moved = {change.decision.id: str(change.after) for change in edits.relabelled.values()}
        taken = {*self.samples.ids, *self.others} - moved.keys()
        places: dict[str, str] = {}
        for image, name in moved.items():
            places[image] = _free_place(image, name, taken)
            taken.add(places[image])
        return places

    def write(self, edits: Edits, target: Path, advance: Advance) -> list[str]:
        """Write the copy, in which everything else lies where it was."""
        self._check_room(target.parent)
        moved, dropped = self.new_ids(edits), {change.decision.id for change in edits.changes if edits.drop}
        with written_folder(target) as folder:
            for name in self.samples.classes:
                (folder / name).mkdir()  # a class stays, if without images
            for file in (*self.samples.ids, *self.others):
                if file not in dropped:
                    self._copy(file, folder / moved.get(file, file))
                advance(1)
        renamed = sum(PurePosixPath(old).name != PurePosixPath(new).name for old, new in moved.items())
        return [
            "its files are linked, not copied: whoever writes into one of them changes the original too"
            if self.link
            else "its files are copies",
            *([f"{counted(renamed, 'image has', 'images have')} a new name, as the old one was taken"] * bool(renamed)),
            *([f"{counted(len(self.others), 'file')} of other kinds lie where they were"] * bool(self.others)),
        ]

    def _check_room(self, folder: Path) -> None:
        if self.link:
            return
        size = sum((self.path / file).stat().st_size for file in (*self.samples.ids, *self.others))
        free = shutil.disk_usage(folder).free
        if size > free:
            raise StoreError(
                f"a copy of {self.path} takes {gigabytes(size)}, and {gigabytes(free)} are free in {folder}; "
                "linked files (--link) take no room"
            )

    def _copy(self, file: str, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        if not self.link:
            shutil.copy2(self.path / file, to)
            return
        try:
            os.link((self.path / file).resolve(), to)
        except OSError as error:
            raise StoreError(
                f"{self.path / file} cannot be linked ({error.strerror}): copy the files, without --link"
            ) from error


def _class_of(image: str) -> str:
    return image.split("/", 1)[0]


def _free_place(image: str, name: str, taken: Set[str]) -> str:
    """The same path in another class folder, with the old class in its name where that is taken."""
    path = PurePosixPath(name, image.split("/", 1)[1])
    for ending in ("", *(f".from-{_class_of(image)}{again}" for again in ("", *map("-{}".format, range(2, 10_000))))):
        place = path.with_name(f"{path.stem}{ending}{path.suffix}").as_posix()
        if place not in taken:
            return place
    raise StoreError(f"there is no free name for {image} in the class folder {name}")
