"""Find the wrong labels in a dataset from the way an ordinary model learned it."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from errata.core.devices import DEVICE_SEARCHES, DeviceSearch

if TYPE_CHECKING:
    from errata import compat as compat
    from errata.core import metrics as metrics
    from errata.core import noise as noise
    from errata.core.methods import methods as methods
    from errata.dynamics.ranking import noise_rates as noise_rates
    from errata.dynamics.ranking import rank as rank
    from errata.dynamics.recorder import Recorder as Recorder
    from errata.dynamics.scoring import flags as flags
    from errata.dynamics.scoring import score as score
    from errata.dynamics.scoring import score_many as score_many
    from errata.dynamics.store import Dynamics as Dynamics
    from errata.errors import ErrataError as ErrataError
    from errata.errors import InputError as InputError
    from errata.errors import StoreError as StoreError
    from errata.finding.detector import ErrataDetector as ErrataDetector
    from errata.finding.find import find as find
    from errata.finding.found import Found as Found
    from errata.review.certificates import certify as certify
    from errata.review.corrected_copy import apply as apply

_HOME = {
    "Dynamics": "errata.dynamics.store",
    "Recorder": "errata.dynamics.recorder",
    "score": "errata.dynamics.scoring",
    "score_many": "errata.dynamics.scoring",
    "flags": "errata.dynamics.scoring",
    "rank": "errata.dynamics.ranking",
    "noise_rates": "errata.dynamics.ranking",
    "methods": "errata.core.methods",
    "ErrataError": "errata.errors",
    "InputError": "errata.errors",
    "StoreError": "errata.errors",
    "ErrataDetector": "errata.finding.detector",
    "Found": "errata.finding.found",
    "apply": "errata.review.corrected_copy",
    "certify": "errata.review.certificates",
    "find": "errata.finding.find",
}
_MODULES = {"compat": "errata.compat", "metrics": "errata.core.metrics", "noise": "errata.core.noise"}

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import errata` is fast."""
    if name == "__version__":
        return import_module("errata.version").installed_version()
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'errata' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _gpu_search() -> DeviceSearch | None:
    """The neighbour search of errata.training, if torch is already imported and has a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    from errata.training.gpu_neighbours import search_on_device

    return search_on_device


DEVICE_SEARCHES.append(_gpu_search)
