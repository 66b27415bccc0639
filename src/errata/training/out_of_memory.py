"""A sentence instead of torch's error if a network does not fit in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from errata.errors import InputError


@contextmanager
def out_of_memory(network: str) -> Iterator[None]:
    """Raise an error with advice if the network of this name runs out of memory in the block."""
    try:
        yield
    except RuntimeError as error:  # on a CPU, torch has no type of its own for this
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise InputError(
            f"there is not enough memory for {network}: name a smaller `model` or `backbone`, or another `device`"
        ) from error
