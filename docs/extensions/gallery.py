"""How the scripts in examples/ become the gallery."""

import random
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

from sphinx.util import logging
from sphinx_gallery.sorting import ExplicitOrder

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 60  # of processor time, which depends less than the clock on what else the machine does
LOGGER = logging.getLogger(__name__)


def processor_seconds() -> float:
    """The processor time of this process, of all its threads, and of the processes that it waited for."""
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


class Clock:
    """Warns about a script that needs too much processor time; `make docs` makes an error of a warning."""

    def __init__(self) -> None:
        self._begun = 0.0

    def __call__(self, gallery: dict[str, Any], file: str, when: str) -> None:
        """Called before and after each script."""
        if when == "before":
            self._begun = processor_seconds()
        elif (used := processor_seconds() - self._begun) > MOST_SECONDS:
            LOGGER.warning(f"{file} needs {used:.0f} s of processor time; examples have at most {MOST_SECONDS} s")


class Reset:
    """Give each script the seeds and the style with which a new process starts."""

    def __call__(self, gallery: dict[str, Any], file: str) -> None:
        """Called before and after each script."""
        import matplotlib.pyplot as plt
        import numpy as np

        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - libraries that an example uses draw from it
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(0)
        plt.rcdefaults()
        plt.rcParams.update({"figure.dpi": 110, "savefig.bbox": "tight", "font.size": 10})
        plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})


GALLERY: dict[str, Any] = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "subsection_order": ExplicitOrder([f"../examples/{name}" for name in ("data", "loops", "research")]),
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": (Reset(), Clock()),
    "reset_modules_order": "both",
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 1_000_000,  # the time of the machine that built the site says nothing
    "thumbnail_size": (400, 260),
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,
}
