"""Synthetic label noise. The truth of a sample is True if its label is wrong.

transition_noise: labels drawn from a transition matrix. sample_noise: noise that depends on the inputs, long-tailed
class sizes, and samples that belong to none of the classes. It imports errata.core.checks and errata.errors only.

>>> import errata
>>> noisy = errata.noise.symmetric([0, 1, 2] * 100, 0.2, num_classes=3, seed=0)
>>> noisy.labels.shape, noisy.count == int(noisy.truth.sum())
((300,), True)
"""

from errata.core.noise.sample_noise import OpenSetNoise as OpenSetNoise
from errata.core.noise.sample_noise import instance_dependent as instance_dependent
from errata.core.noise.sample_noise import instance_transitions as instance_transitions
from errata.core.noise.sample_noise import long_tailed as long_tailed
from errata.core.noise.sample_noise import open_set as open_set
from errata.core.noise.transition_noise import NOISE_MODELS as NOISE_MODELS
from errata.core.noise.transition_noise import NoisyLabels as NoisyLabels
from errata.core.noise.transition_noise import asymmetric as asymmetric
from errata.core.noise.transition_noise import asymmetric_matrix as asymmetric_matrix
from errata.core.noise.transition_noise import inject as inject
from errata.core.noise.transition_noise import label_hash as label_hash
from errata.core.noise.transition_noise import noise_model as noise_model
from errata.core.noise.transition_noise import pairflip as pairflip
from errata.core.noise.transition_noise import pairflip_matrix as pairflip_matrix
from errata.core.noise.transition_noise import symmetric as symmetric
from errata.core.noise.transition_noise import symmetric_matrix as symmetric_matrix
from errata.core.noise.transition_noise import transition as transition
