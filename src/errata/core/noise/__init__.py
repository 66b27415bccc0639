"""Synthetic label noise. The truth of a sample is True if its label is wrong.

`matrices`: transition matrices from true class to given label. `labels`: labels drawn from such a matrix. `instance`:
noise that depends on the inputs. `subsets`: long-tailed class sizes, and samples that belong to none of the classes.
"""

from errata.core.noise.instance import instance_dependent, instance_transitions
from errata.core.noise.labels import (
    Draw,
    MatrixNoise,
    NoisyLabels,
    asymmetric,
    inject,
    label_hash,
    pairflip,
    symmetric,
    transition,
)
from errata.core.noise.matrices import (
    NOISE_MODELS,
    asymmetric_matrix,
    noise_model,
    pairflip_matrix,
    symmetric_matrix,
)
from errata.core.noise.subsets import OpenSetNoise, long_tailed, open_set

__all__ = [
    "NOISE_MODELS",
    "Draw",
    "MatrixNoise",
    "NoisyLabels",
    "OpenSetNoise",
    "asymmetric",
    "asymmetric_matrix",
    "inject",
    "instance_dependent",
    "instance_transitions",
    "label_hash",
    "long_tailed",
    "noise_model",
    "open_set",
    "pairflip",
    "pairflip_matrix",
    "symmetric",
    "symmetric_matrix",
    "transition",
]
