"""How the scripts in examples/ become the gallery."""

import random
import sys
from pathlib import Path
from typing import Any

from sphinx_gallery.sorting import ExplicitOrder

ROOT = Path(__file__).parents[2]


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
    "reset_modules": (Reset(),),
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 1_000_000,  # the time of the machine that built the site says nothing
    "thumbnail_size": (400, 260),
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,
}
