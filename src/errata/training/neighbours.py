"""Exact neighbours with torch, on a GPU: products and selection in blocks, then the distances of what may be near."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from errata.core._neighbour_points import COSINE_NOISE, SAME_IN_FLOAT32, Cloud, Metric, Rounded, cloud_of, rounded
from errata.core._neighbour_search import Found, Progress
from errata.core.neighbours import Neighbours

_PRODUCTS = 1 << 26  # numbers in a block of products
_DIFFERENCES = 1 << 24  # numbers in a block of differences, which are float64 and of which several are held


class _Cloud(NamedTuple):
    """A `Cloud` on the device."""

    points: Tensor
    scale: Tensor
    cosine: bool


def nearest_on(
    device: torch.device | str,
    points: Any,
    k: int,
    metric: Metric = "euclidean",
    *,
    progress: Callable[[int], object] | None = None,
) -> Neighbours:
    """The k nearest of every row of points (N, D), as `errata.core.neighbours.nearest` finds them exactly."""
    told = progress or (lambda done: None)
    return Neighbours(*nearest_in(cloud_of(points, k, metric), k, torch.device(device), told), 1.0)


@torch.no_grad()
def nearest_in(cloud: Cloud, k: int, device: torch.device, progress: Progress) -> Found:
    """Index and distance (N, k) of the nearest of every point of the cloud; `progress` is told of points done.

    As on the CPU, float64 is for the rows that float32 leaves too many candidates, and single distances for the rest.
    """
    there = _Cloud(torch.tensor(cloud.points, device=device), torch.tensor(cloud.scale, device=device), cloud.cosine)
    samples = len(cloud.points)
    found = np.empty((samples, k), dtype=np.int32), np.empty((samples, k), dtype=np.float32)
    left = torch.nonzero(there.scale).squeeze(1)
    with torch.autocast(device.type, enabled=False):
        for dtype in _precise_types():
            if len(left):
                left = _by_products(left, there, rounded(cloud, dtype), found, progress)
        without_direction = torch.nonzero(there.scale == 0).squeeze(1)
        _one_by_one(torch.cat([left, without_direction]), there, found, progress)
    return found


def _by_products(rows: Tensor, cloud: _Cloud, near: Rounded, found: Found, progress: Progress) -> Tensor:
    """Find the neighbours of `rows`; returns those that have too many candidates."""
    device, samples, k = rows.device, len(cloud.points), found[0].shape[1]
    coordinates, squares, lows = (
        torch.tensor(array, device=device) for array in (near.coordinates, near.squares, near.lows)
    )
    room = min(k + max(32, k // 4), samples - 1)
    left = []
    for ours in torch.split(rows, max(1, _PRODUCTS // samples)):
        products = (-2 * coordinates[ours]) @ coordinates.T
        products += lows
        products[torch.arange(len(ours), device=device), ours] = torch.inf
        lowest, candidates = products.topk(room, largest=False)
        highest = lowest.double() + 2 * (near.slack * (squares[ours, None] + squares[candidates]) + near.floor)
        limit = highest.sort(dim=1).values[:, k - 1]
        limit += SAME_IN_FLOAT32 * (limit + squares[ours])
        sure = (lowest.amax(dim=1) > limit) | (room == samples - 1)
        _settle(ours[sure], candidates[sure], cloud, found)
        left.append(ours[~sure])
        progress(int(sure.sum()))
    return torch.cat(left)


def _settle(rows: Tensor, candidates: Tensor, cloud: _Cloud, found: Found) -> None:
    """Write the nearest of `rows` (n,) among their candidates (n, m): of equal ones the lower row comes first."""
    candidates = candidates.sort(dim=1).values
    distances = _distances(rows, candidates, cloud)
    distances[candidates == rows[:, None]] = torch.inf
    index, distance = found
    nearest, order = distances.sort(dim=1, stable=True)
    k, places = index.shape[1], rows.cpu().numpy()
    index[places] = candidates.gather(1, order[:, :k]).cpu().numpy()
    distance[places] = nearest[:, :k].cpu().numpy()


def _one_by_one(rows: Tensor, cloud: _Cloud, found: Found, progress: Progress) -> None:
    everything = torch.arange(len(cloud.points), device=rows.device)
    for ours in torch.split(rows, max(1, _PRODUCTS // len(everything))):
        _settle(ours, everything.expand(len(ours), -1), cloud, found)
        progress(len(ours))


def _distances(rows: Tensor, candidates: Tensor, cloud: _Cloud) -> Tensor:
    """Distances (n, m) of `rows` (n,) to each of their candidates (n, m), from float64 differences."""
    first, second = rows[:, None].expand_as(candidates).reshape(-1), candidates.reshape(-1)
    step = max(1, _DIFFERENCES // cloud.points.shape[1])
    parts = [_between(i, j, cloud) for i, j in zip(torch.split(first, step), torch.split(second, step), strict=True)]
    return torch.cat(parts).view_as(candidates)


def _between(i: Tensor, j: Tensor, cloud: _Cloud) -> Tensor:
    points, scale, cosine = cloud
    squared = (points[i] * scale[i, None] - points[j] * scale[j, None]).square_().sum(dim=1)
    if not cosine:
        return squared.sqrt().float()
    distance = torch.where(squared < COSINE_NOISE, 0, squared / 2).float()
    return distance.masked_fill((scale[i] == 0) | (scale[j] == 0), 1)


def _precise_types() -> tuple[type[np.floating[Any]], ...]:
    """Types whose products are as precise as they are, which the bounds on errors rely on; the quickest first."""
    matmul = torch.backends.cuda.matmul
    # From torch 2.9 on the older name cannot be read where somebody has set the newer one.
    rounds_to_tf32 = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    return (np.float64,) if rounds_to_tf32 else (np.float32, np.float64)
