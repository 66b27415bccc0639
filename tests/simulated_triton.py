"""The part of Triton that errata uses, as Python on CPU tensors: tests of kernels need neither a GPU nor Triton.

The programs of a grid run one after the other. Reading outside of a tensor fails, and so does writing a place twice.
"""

import importlib
import sys
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from itertools import product
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pointer:
    """Places in a tensor, counted in the order in which it is stored."""

    tensor: Tensor
    places: Tensor | int = 0

    def __add__(self, offset):
        return replace(self, places=self.places + offset)

    @property
    def memory(self):
        return self.tensor.detach().as_strided((self.tensor.numel(),), (1,))

    @property
    def dtype(self):
        return SimpleNamespace(element_ty=self.tensor.dtype)


class Kernel:
    """A function that other kernels call; from outside, `kernel[grid](...)` calls it once per program of the grid."""

    running = None

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)

    def __getitem__(self, grid):
        def launch(*arguments, num_warps):
            assert num_warps in (1, 2, 4, 8, 16)
            pointers = [Pointer(one) if isinstance(one, Tensor) else one for one in arguments]
            written = {}
            for program in product(*map(range, grid)):
                Kernel.running = SimpleNamespace(program=program, grid=grid, written=written)
                self.function(*pointers)

        return launch


def jit(function=None, do_not_specialize=()):
    return Kernel if function is None else Kernel(function)


def load(pointer, mask=None, other=0.0):
    places = torch.as_tensor(pointer.places)
    inside = torch.ones(()).bool() if mask is None else mask
    return torch.where(inside, pointer.memory[torch.where(inside, places, 0)], other)


def store(pointer, value, mask=None):
    places = torch.as_tensor(pointer.places)
    inside = torch.ones(()).bool() if mask is None else mask
    inside = inside.expand(places.shape)
    memory = pointer.memory
    written = Kernel.running.written.setdefault(memory.data_ptr(), torch.zeros(len(memory), dtype=torch.bool))
    assert not written[places[inside]].any(), "a place is written twice"
    written[places[inside]] = True
    memory[places[inside]] = value.expand(places.shape)[inside]


def install(monkeypatch):
    """Make `import triton` return this, and import the kernels again."""
    language, triton = ModuleType("triton.language"), ModuleType("triton")
    for name in ("arange", "where", "sum", "maximum", "sqrt", "float32", "zeros"):
        setattr(language, name, getattr(torch, name))
    language.maximum = lambda a, b: torch.maximum(*torch.broadcast_tensors(torch.as_tensor(a), torch.as_tensor(b)))
    language.zeros = lambda shape, dtype: torch.zeros(shape, dtype=dtype)
    language.load, language.store, language.static_range, language.constexpr = load, store, range, int
    language.program_id = lambda axis: Kernel.running.program[axis]
    language.num_programs = lambda axis: Kernel.running.grid[axis]
    triton.jit, triton.language, triton.__spec__ = jit, language, ModuleSpec("triton", None)
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.delitem(sys.modules, "errata.training.norm_kernels", raising=False)
    kernels = importlib.import_module("errata.training.norm_kernels")
    monkeypatch.setitem(sys.modules, "errata.training.norm_kernels", kernels)
    return kernels
