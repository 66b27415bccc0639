"""Exact nearest neighbours on a GPU, with torch; the same results as `errata.core.neighbours` on a CPU.

Products and selection run in blocks; then the distances of the candidates are computed.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from errata.core._neighbour_points import COSINE_NOISE, SAME_IN_FLOAT32, Cloud, Neighbours, Rounded, rounded

_PRODUCTS = 1 << 26  # numbers in a block of products
_DIFFERENCES = 1 << 24  # numbers in a block of differences; several blocks are in memory as float64


class _Cloud(NamedTuple):
    """A `Cloud` on the device."""

    points: Tensor
    scale: Tensor
    cosine: bool


@torch.no_grad()
def search_on_device(cloud: Cloud, k: int, device: torch.device | str = "cuda") -> Neighbours:
    """The k nearest points of every point.

    As on a CPU, rows with too many candidates in float32 are searched in float64, and the rest from all distances.
    """
    device = torch.device(device)
    on_device = _Cloud(
        torch.tensor(cloud.points, device=device), torch.tensor(cloud.scale, device=device), cloud.cosine
    )
    result = Neighbours.empty(len(cloud.points), k)
    left = torch.nonzero(on_device.scale).squeeze(1)
    with torch.autocast(device.type, enabled=False):
        for dtype in _precise_types():
            if len(left):
                left = _search_products(left, on_device, rounded(cloud, dtype), result)
        without_direction = torch.nonzero(on_device.scale == 0).squeeze(1)
        _search_all_distances(torch.cat([left, without_direction]), on_device, result)
    return result


def _search_products(rows: Tensor, cloud: _Cloud, near: Rounded, result: Neighbours) -> Tensor:
    """Write the neighbours of `rows`; returns the rows that have too many candidates."""
    device, samples, k = rows.device, len(cloud.points), result.index.shape[1]
    coordinates, squares, lows = (
        torch.tensor(array, device=device) for array in (near.coordinates, near.squares, near.lows)
    )
    room = min(k + max(32, k // 4), samples - 1)
    left = []
    for block in torch.split(rows, max(1, _PRODUCTS // samples)):
        products = (-2 * coordinates[block]) @ coordinates.T
        products += lows
        products[torch.arange(len(block), device=device), block] = torch.inf
        lowest, candidates = products.topk(room, largest=False)
        highest = lowest.double() + 2 * (near.slack * (squares[block, None] + squares[candidates]) + near.floor)
        limit = highest.sort(dim=1).values[:, k - 1]
        limit += SAME_IN_FLOAT32 * (limit + squares[block])
        sure = (lowest.amax(dim=1) > limit) | (room == samples - 1)
        _select_nearest(block[sure], candidates[sure], cloud, result)
        left.append(block[~sure])
    return torch.cat(left)


def _select_nearest(rows: Tensor, candidates: Tensor, cloud: _Cloud, result: Neighbours) -> None:
    """Write the nearest of `rows` (n,) among their candidates (n, m): of equal ones the lower row comes first."""
    candidates = candidates.sort(dim=1).values
    distances = _distances(rows, candidates, cloud)
    distances[candidates == rows[:, None]] = torch.inf
    index, distance = result
    nearest, order = distances.sort(dim=1, stable=True)
    k, places = index.shape[1], rows.cpu().numpy()
    index[places] = candidates.gather(1, order[:, :k]).cpu().numpy()
    distance[places] = nearest[:, :k].cpu().numpy()


def _search_all_distances(rows: Tensor, cloud: _Cloud, result: Neighbours) -> None:
    everything = torch.arange(len(cloud.points), device=rows.device)
    for block in torch.split(rows, max(1, _PRODUCTS // len(everything))):
        _select_nearest(block, everything.expand(len(block), -1), cloud, result)


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
    """Types in which torch multiplies at full precision, which the error bounds require; the fastest first."""
    matmul = torch.backends.cuda.matmul
    # From torch 2.9 on, reading the older name fails if the newer one was set.
    rounds_to_tf32 = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    return (np.float64,) if rounds_to_tf32 else (np.float32, np.float64)
