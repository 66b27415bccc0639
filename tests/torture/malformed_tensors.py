"""Calls with masked arrays and unusual tensors. Only an ErrataError counts as a refusal."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from torture.calls import (
    INPUTS,
    LABELS,
    LOGITS,
    ROWS,
    dynamics,
    find,
    rank,
    recorded,
    recorder,
    score,
)
from torture.cases import Case, Expected, WrongResultError

Call = Callable[[], object]
MASKED_AT = (2, 5, 1)  # the place of the first masked logit


def _masked(array: Any, *place: int) -> Any:
    mask = np.zeros(array.shape, bool)
    mask[place] = True
    mask[-1] = True
    return np.ma.masked_array(array, mask)


def _same_scores(make: Callable[[Any], Any]) -> None:
    """Score logits as another object; the scores must be those of the array."""
    import torch

    import errata

    expected = errata.score(LOGITS, LABELS, "Mean-LM")
    there = errata.score(make(torch.from_numpy(LOGITS)), LABELS, "Mean-LM")
    if not np.allclose(there, expected, atol=0.2):
        raise WrongResultError("the scores differ from those of the same array")


MASKED: dict[str, tuple[Call, str]] = {
    "logits in score": (lambda: score(_masked(LOGITS, *MASKED_AT)), "5"),
    "labels in score": (lambda: score(LOGITS, _masked(LABELS, 5)), "5"),
    "logits in Dynamics": (lambda: dynamics(_masked(LOGITS, *MASKED_AT)), "5"),
    "labels in Dynamics": (lambda: dynamics(LOGITS, _masked(LABELS, 5)), "5"),
    "features in Dynamics": (lambda: dynamics(features=_masked(INPUTS, 5, 2)), "5"),
    "averaged logits in Dynamics": (lambda: dynamics(swa_logits=_masked(LOGITS[0], 5, 1)), "5"),
    "ids in Dynamics": (lambda: dynamics(ids=_masked(np.arange(ROWS), 5)), "5"),
    "inputs in find": (lambda: find(_masked(INPUTS, 5, 2), LABELS), "5"),
    "labels in find": (lambda: find(INPUTS, _masked(LABELS, 5)), "5"),
    "ids in find": (lambda: find(INPUTS, LABELS, id=_masked(np.arange(ROWS), 5)), "5"),
    "labels in Recorder": (lambda: recorder(labels=_masked(LABELS, 5)), "5"),
    "ids in Recorder": (lambda: recorder(ids=_masked(np.arange(ROWS), 5)), "5"),
    "logits in update": (lambda: recorded(None, _masked(LOGITS[0], 5, 1)), "5"),
    "logits in update_all": (lambda: recorder().update_all(_masked(LOGITS[0], 5, 1)), "5"),
    "ids in update": (lambda: recorded(_masked(np.arange(ROWS), 5)), "5"),
    "features in finish": (lambda: recorded(features=_masked(INPUTS, 5, 2)), "5"),
    "inputs in finish": (lambda: recorded(inputs=_masked(INPUTS, 5, 2)), "5"),
    "averaged logits in finish": (lambda: recorded(swa_logits=_masked(LOGITS[0], 5, 1)), "5"),
    "labels in rank": (lambda: rank(dynamics(LOGITS, _masked(LABELS, 5))), "5"),
}


def _tensors() -> dict[str, tuple[Call, Expected]]:
    import torch

    logits = torch.from_numpy(LOGITS)
    changes: dict[str, tuple[Callable[[Any], Any], Expected]] = {
        "meta": (lambda tensor: tensor.to("meta"), "refused"),
        "sparse": (lambda tensor: tensor.to_sparse(), "either"),
        "sparse by rows": (lambda tensor: tensor[0].to_sparse_csr(), "either"),
        "complex": (lambda tensor: tensor.to(torch.complex64), "refused"),
        "complex conjugate": (lambda tensor: tensor.to(torch.complex64).conj(), "refused"),
        "real part of a conjugate": (lambda tensor: torch.complex(tensor, tensor).conj().real, "read"),
        "imaginary part of a conjugate": (lambda tensor: torch.complex(tensor, -tensor).conj().imag, "read"),
        "float8": (lambda tensor: tensor.to(torch.float8_e4m3fn), "either"),
        "bfloat16": (lambda tensor: tensor.to(torch.bfloat16), "read"),
        "float16": (lambda tensor: tensor.to(torch.float16), "read"),
        "float64 with gradients": (lambda tensor: tensor.double().requires_grad_(), "read"),
        "inference": (lambda tensor: _inference(tensor), "read"),
        "quantised": (lambda tensor: torch.quantize_per_tensor(tensor, 0.05, 0, torch.qint8), "either"),
        "nested": (lambda tensor: torch.nested.nested_tensor(list(tensor)), "either"),
        "parameter": (lambda tensor: torch.nn.Parameter(tensor), "read"),
        "strided view": (lambda tensor: tensor.repeat_interleave(2, 0)[::2], "read"),
        "uninitialised": (lambda tensor: torch.nn.parameter.UninitializedParameter(), "refused"),
    }
    calls: dict[str, tuple[Call, Expected]] = {}
    for name, (change, expected) in changes.items():
        calls[f"{name} tensor as logits"] = partial(_same_scores, change), expected
    for name in ("meta", "sparse", "complex conjugate", "float8", "quantised"):
        change, _ = changes[name]
        calls[f"{name} tensor in update"] = lambda change=change: recorded(None, change(logits[1])), "either"
        calls[f"{name} tensor as features"] = lambda change=change: recorded(features=change(logits[1])), "either"
    labels = torch.from_numpy(LABELS)
    calls["meta tensor as labels"] = lambda: score(LOGITS, labels.to("meta")), "refused"
    calls["sparse tensor as labels"] = lambda: score(LOGITS, labels.to_sparse()), "either"
    calls["float8 tensor as labels"] = lambda: score(LOGITS, labels.to(torch.float8_e4m3fn)), "either"
    calls["meta tensor as inputs of find"] = lambda: find(logits[0].to("meta"), LABELS), "refused"
    calls["meta tensor as ids"] = lambda: recorded(torch.arange(ROWS, device="meta")), "refused"
    calls["a model instead of logits"] = lambda: score(torch.nn.Linear(2, 2)), "refused"
    return calls


def _inference(tensor: Any) -> Any:
    import torch

    with torch.inference_mode():
        return tensor * 1


def cases() -> Iterator[Case]:
    """All calls with masked arrays and tensors."""
    for name, (call, place) in MASKED.items():
        yield Case(f"call, masked: {name}", lambda folder: None, call, says=place)
    for name, (call, expected) in _tensors().items():
        yield Case(f"call, {name}", lambda folder: None, call, expected)
