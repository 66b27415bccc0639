"""Neighbour searches on other devices, such as a GPU. Packages above core register theirs here.

This module imports only typing, so that registering a search does not load numpy or numba.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from errata.core._neighbour_points import Cloud, Neighbours

Progress = Callable[[int], object]
"""Called with the number of samples done since the last call."""


class DeviceSearch(Protocol):
    """An exact search on a device."""

    def __call__(self, cloud: "Cloud", k: int) -> "Neighbours":
        """The k nearest points of every point, as `errata.core.neighbours.nearest` finds them."""


DEVICE_SEARCHES: list[Callable[[], DeviceSearch | None]] = []
"""Functions that return a search if its device is available, else None. The first search returned is used."""


def find_device_search() -> DeviceSearch | None:
    """The first registered search whose device is available."""
    return next((search for find in DEVICE_SEARCHES if (search := find()) is not None), None)
