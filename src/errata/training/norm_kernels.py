"""Batch norm, leaky ReLU and max pooling of 2 x 2 with fewer passes over the memory of a GPU, written in Triton.

The input of a layer is x (M, C): the pixels of all images of a batch, channels last. Its output has R rows: M, or M / 4
if pixels are pooled. Sums over rows are computed in parts, each by one program, and then added up in a fixed order.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 264  # parts of a sum: 2 for each of the 132 processors of an H200. All five are measured for cnn9.
ROWS, POOLED_ROWS, CHANNELS, WARPS = 32, 8, 64, 4  # of a block
END_PARTS, END_CHANNELS = 128, 16


def block_channels(channels: int) -> int:
    """The number of channels of a block: the largest power of 2 that divides the channels, up to CHANNELS."""
    return min(channels & -channels, CHANNELS)


@triton.jit
def _pixel(row, number, width: tl.constexpr, pool: tl.constexpr):
    """The row of x with one of the pixels that are pooled to a row of the output; width is that of the output."""
    if pool == 1:
        return row
    return (row // width * 2 + number // 2) * (2 * width) + row % width * 2 + number % 2


@triton.jit
def _load(pointer, row, c, inside, channels: tl.constexpr):
    return tl.load(pointer + row[:, None] * channels + c[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _leaky(value, slope):
    return tl.where(value > 0, value, value * slope)


@triton.jit
def _largest(x, row, c, inside, scale, shift, slope, channels: tl.constexpr, width: tl.constexpr, pool: tl.constexpr):
    """The output: the largest activation of the pooled pixels."""
    best = _leaky(_load(x, _pixel(row, 0, width, pool), c, inside, channels) * scale + shift, slope)
    for number in tl.static_range(1, pool):
        value = _load(x, _pixel(row, number, width, pool), c, inside, channels) * scale + shift
        best = tl.maximum(best, _leaky(value, slope))
    return best


@triton.jit(do_not_specialize=["rows"])
def _sum_values(x, parts, rows, channels: tl.constexpr, block: tl.constexpr, columns: tl.constexpr):
    """Part of the sums over rows of x and of its square: parts (2, programs, C)."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * columns + tl.arange(0, columns)
    first = tl.zeros([block, columns], tl.float32)
    second = tl.zeros([block, columns], tl.float32)
    for start in range(program * block, rows, programs * block):
        row = start + tl.arange(0, block)
        value = _load(x, row, c, row[:, None] < rows, channels)
        first += value
        second += value * value
    tl.store(parts + program * channels + c, tl.sum(first, 0))
    tl.store(parts + (programs + program) * channels + c, tl.sum(second, 0))


@triton.jit
def _total(parts, start, programs, c, channels: tl.constexpr, block: tl.constexpr, columns: tl.constexpr):
    total = tl.zeros([block, columns], tl.float32)
    for first in range(0, programs, block):
        part = first + tl.arange(0, block)
        total += _load(parts, start + part, c, part[:, None] < programs, channels)
    return tl.sum(total, 0)


@triton.jit(do_not_specialize=["rows", "programs"])
def _end_statistics(
    parts, weight, bias, statistics, running_mean, running_variance, rows, programs, eps, momentum,
    channels: tl.constexpr, block: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """Mean, 1 / standard deviation, scale and shift of every channel (4, C); also updates the running statistics."""
    c = tl.program_id(0) * columns + tl.arange(0, columns)
    mean = _total(parts, 0, programs, c, channels, block, columns) / rows
    square = _total(parts, programs, programs, c, channels, block, columns) / rows
    variance = tl.maximum(square - mean * mean, 0.0)
    inverse = 1.0 / tl.sqrt(variance + eps)
    scale = inverse * tl.load(weight + c)
    tl.store(statistics + c, mean)
    tl.store(statistics + channels + c, inverse)
    tl.store(statistics + 2 * channels + c, scale)
    tl.store(statistics + 3 * channels + c, tl.load(bias + c) - mean * scale)
    before = tl.load(running_mean + c)
    tl.store(running_mean + c, before + momentum * (mean - before))
    before = tl.load(running_variance + c)
    tl.store(running_variance + c, before + momentum * (variance * (rows / (rows - 1.0)) - before))


@triton.jit(do_not_specialize=["rows"])
def _output(
    x, y, statistics, rows, slope,
    channels: tl.constexpr, block: tl.constexpr, columns: tl.constexpr, width: tl.constexpr, pool: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(1) * columns + tl.arange(0, columns)
    scale = tl.load(statistics + 2 * channels + c)[None, :]
    shift = tl.load(statistics + 3 * channels + c)[None, :]
    row = tl.program_id(0) * block + tl.arange(0, block)
    inside = row[:, None] < rows
    best = _largest(x, row, c, inside, scale, shift, slope, channels, width, pool)
    tl.store(y + row[:, None] * channels + c[None, :], best.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def _sum_gradients(
    x, dy, parts, statistics, rows, slope,
    channels: tl.constexpr, block: tl.constexpr, columns: tl.constexpr, width: tl.constexpr, pool: tl.constexpr,
):  # fmt: skip
    """Part of the sums over pixels of the gradient g before the activation, and of g times the normalised x."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * columns + tl.arange(0, columns)
    mean = tl.load(statistics + c)[None, :]
    inverse = tl.load(statistics + channels + c)[None, :]
    scale = tl.load(statistics + 2 * channels + c)[None, :]
    shift = tl.load(statistics + 3 * channels + c)[None, :]
    first = tl.zeros([block, columns], tl.float32)
    second = tl.zeros([block, columns], tl.float32)
    for start in range(program * block, rows, programs * block):
        row = start + tl.arange(0, block)
        inside = row[:, None] < rows
        left = _load(dy, row, c, inside, channels)
        best = _largest(x, row, c, inside, scale, shift, slope, channels, width, pool)
        for number in tl.static_range(pool):
            value = _load(x, _pixel(row, number, width, pool), c, inside, channels)
            before = value * scale + shift
            gradient = left
            if pool > 1:  # only the first of the largest pixels has a gradient
                gradient = tl.where(_leaky(before, slope) == best, left, 0.0)
                left = left - gradient
            gradient = tl.where(before > 0, gradient, gradient * slope)
            first += gradient
            second += gradient * (value - mean) * inverse
    tl.store(parts + program * channels + c, tl.sum(first, 0))
    tl.store(parts + (programs + program) * channels + c, tl.sum(second, 0))


@triton.jit(do_not_specialize=["programs"])
def _end_gradients(parts, sums, programs, channels: tl.constexpr, block: tl.constexpr, columns: tl.constexpr):
    """The two sums of `_sum_gradients` (2, C), which are the gradients of bias and weight."""
    c = tl.program_id(0) * columns + tl.arange(0, columns)
    tl.store(sums + c, _total(parts, 0, programs, c, channels, block, columns))
    tl.store(sums + channels + c, _total(parts, programs, programs, c, channels, block, columns))


@triton.jit(do_not_specialize=["rows", "pixels"])
def _input_gradient(
    x, dy, dx, statistics, sums, rows, pixels, slope,
    channels: tl.constexpr, block: tl.constexpr, columns: tl.constexpr, width: tl.constexpr, pool: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(1) * columns + tl.arange(0, columns)
    mean = tl.load(statistics + c)[None, :]
    inverse = tl.load(statistics + channels + c)[None, :]
    scale = tl.load(statistics + 2 * channels + c)[None, :]
    shift = tl.load(statistics + 3 * channels + c)[None, :]
    mean_gradient = tl.load(sums + c)[None, :] / pixels
    slant = tl.load(sums + channels + c)[None, :] / pixels
    row = tl.program_id(0) * block + tl.arange(0, block)
    inside = row[:, None] < rows
    left = _load(dy, row, c, inside, channels)
    best = _largest(x, row, c, inside, scale, shift, slope, channels, width, pool)
    for number in tl.static_range(pool):
        pixel = _pixel(row, number, width, pool)
        value = _load(x, pixel, c, inside, channels)
        before = value * scale + shift
        gradient = left
        if pool > 1:
            gradient = tl.where(_leaky(before, slope) == best, left, 0.0)
            left = left - gradient
        gradient = tl.where(before > 0, gradient, gradient * slope)
        result = scale * (gradient - mean_gradient - (value - mean) * inverse * slant)
        tl.store(dx + pixel[:, None] * channels + c[None, :], result.to(dx.dtype.element_ty), mask=inside)


class NormActivation(torch.autograd.Function):
    """Images (n, C, H, W) to (n, C, H, W), or to (n, C, H / 2, W / 2) if `pool` is 4 instead of 1."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor], constants: tuple[float, ...]
    ) -> Tensor:
        """running: mean and variance, which are updated. constants: eps, momentum, slope of the activation, pool."""
        x = x.contiguous(memory_format=torch.channels_last)
        eps, momentum, slope, pool = constants
        count, channels, height, width = x.shape
        size = (height, width) if pool == 1 else (height // 2, width // 2)
        pixels, rows = count * height * width, count * size[0] * size[1]
        columns = block_channels(channels)
        programs = _programs(pixels, ROWS, channels // columns)
        parts = x.new_empty((2, programs, channels), dtype=torch.float32)
        _sum_values[programs, channels // columns](x, parts, pixels, channels, ROWS, columns, num_warps=WARPS)
        statistics = x.new_empty((4, channels), dtype=torch.float32)
        _end_statistics[(channels // END_CHANNELS,)](
            parts, weight, bias, statistics, *running, pixels, programs, eps, momentum,
            channels, END_PARTS, END_CHANNELS, num_warps=WARPS,
        )  # fmt: skip
        y = torch.empty((count, channels, *size), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        ctx.shape = (channels, ROWS if pool == 1 else POOLED_ROWS, columns, size[1], int(pool))
        blocks = -(-rows // ctx.shape[1])
        _output[blocks, channels // columns](x, y, statistics, rows, slope, *ctx.shape, num_warps=WARPS)
        ctx.save_for_backward(x, statistics)
        ctx.rows, ctx.pixels, ctx.slope = rows, pixels, slope
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of x, weight and bias."""
        x, statistics = ctx.saved_tensors
        dy = gradients[0].contiguous(memory_format=torch.channels_last)
        channels, block, columns, _, _ = ctx.shape
        programs = _programs(ctx.rows, block, channels // columns)
        parts = x.new_empty((2, programs, channels), dtype=torch.float32)
        _sum_gradients[programs, channels // columns](
            x, dy, parts, statistics, ctx.rows, ctx.slope, *ctx.shape, num_warps=WARPS
        )
        sums = x.new_empty((2, channels), dtype=torch.float32)
        _end_gradients[(channels // END_CHANNELS,)](
            parts, sums, programs, channels, END_PARTS, END_CHANNELS, num_warps=WARPS
        )
        dx = torch.empty_like(x)
        _input_gradient[-(-ctx.rows // block), channels // columns](
            x, dy, dx, statistics, sums, ctx.rows, ctx.pixels, ctx.slope, *ctx.shape, num_warps=WARPS
        )
        return dx, sums[1], sums[0], None, None


def _programs(rows: int, block: int, columns: int) -> int:
    return max(1, min(PROGRAMS // columns, -(-rows // block)))
