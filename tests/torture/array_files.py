"""Ways to write .npz and .npy files, and damaged archives of any arrays."""

import io
import os
import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from torture.hostile import Content

ROWS = 48
Arrays = dict[str, Any]


class Marker:
    """A pickle that writes a file when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


def npy(array: Any) -> bytes:
    """The array as a .npy file, pickled if need be."""
    sink = io.BytesIO()
    np.lib.format.write_array(sink, np.asanyarray(array), allow_pickle=True)
    return sink.getvalue()


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo("unnamed")
            member.filename, member.compress_type = name, method  # the name may be empty
            with archive.open(member, "w") as file:
                file.write(content)
    return sink.getvalue()


def npz(arrays: Arrays, method: int = zipfile.ZIP_STORED) -> bytes:
    """The arrays as a .npz file."""
    return _zip({f"{name}.npy": npy(array) for name, array in arrays.items()}, method)


def lying(array: Any, shape: str) -> bytes:
    """A .npy file whose header gives another shape."""
    content = npy(array)
    start = content.index(b"(", 20)
    end = content.index(b")", start) + 1
    header = content[:start] + shape.encode() + content[end:]
    length = len(header) - len(content)
    return content[:8] + struct.pack("<H", struct.unpack("<H", content[8:10])[0] + length) + header[10:]


def _header(text: str, data: bytes = b"") -> bytes:
    """A .npy file with this header."""
    padded = text.encode() + b" " * (118 - len(text) % 64 + 0) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + data


def _flags(content: bytes, flag: int) -> bytes:
    """The archive with a flag set in all headers: 1 says encrypted."""
    changed = bytearray(content)
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(magic)
        while place >= 0:
            changed[place + offset] |= flag
            place = content.find(magic, place + 1)
    return bytes(changed)


def not_executed(folder: Path, output: str) -> str:
    """Check that no pickle was loaded."""
    return "a pickle was executed" if (folder / "executed").exists() else ""


def damaged_archives(arrays: Arrays) -> dict[str, tuple[Content, str]]:
    """Archives that are damaged or strange as files, with the expected outcome."""
    first = next(iter(arrays))
    whole, packed = npz(arrays), npz(arrays, zipfile.ZIP_DEFLATED)
    others = {f"{name}.npy": npy(array) for name, array in arrays.items() if name != first}
    data = packed.index(first.encode()) + 200
    block = 30 + sum(struct.unpack("<HH", packed[26:30]))  # after the header, the name and the extra field
    huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000), }"
    return {
        "empty": (b"", "refused"),
        "an archive without members": (_zip({}), "refused"),
        "cut in half": (whole[: len(whole) // 2], "refused"),
        "cut by a byte": (whole[:-1], "refused"),
        "text instead of an archive": (b"a,b,label\n1,2,no\n", "refused"),
        "a .npy file instead of an archive": (npy(arrays[first]), "refused"),
        "damaged compression": (packed[:data] + b"\xff" * 40 + packed[data + 40 :], "refused"),
        "an impossible block of compressed data": (packed[:block] + b"\xff" + packed[block + 1 :], "refused"),
        "a damaged member": (whole[:300] + b"\xff" * 40 + whole[340:], "refused"),
        "the flag of encryption": (_flags(whole, 1), "refused"),
        "an unknown method of compression": (
            whole.replace(b"\x14\x00\x00\x00\x00\x00", b"\x14\x00\x00\x00\x63\x00"),
            "refused",
        ),
        "compression by LZMA": (npz(arrays, zipfile.ZIP_LZMA), "either"),
        "compression by bzip2": (npz(arrays, zipfile.ZIP_BZIP2), "either"),
        "a member with an empty name": (_zip({**{f"{n}.npy": npy(a) for n, a in arrays.items()}, "": b"x"}), "either"),
        "a member that leaves the folder": (
            _zip({**{f"{n}.npy": npy(a) for n, a in arrays.items()}, "../../evil.npy": npy(1)}),
            "either",
        ),
        "a member that is no array": (
            _zip({**{f"{n}.npy": npy(a) for n, a in arrays.items()}, "notes.txt": b"x"}),
            "either",
        ),
        "a member twice": (partial(_twice, arrays), "either"),
        "an empty member": (_zip({f"{first}.npy": b"", **others}), "refused"),
        "a member that is text": (_zip({f"{first}.npy": b"hello", **others}), "refused"),
        "a header that promises too much": (
            _zip({f"{first}.npy": lying(arrays[first], "(1000000, 4, 2)"), **others}),
            "refused",
        ),
        "a header that promises terabytes": (_zip({f"{first}.npy": _header(huge), **others}), "refused"),
        "a header with a negative shape": (
            _zip({f"{first}.npy": lying(arrays[first], "(-1, 4, 2)"), **others}),
            "refused",
        ),
        "a header with code": (
            _zip({f"{first}.npy": _header("__import__('os').system('touch executed')"), **others}),
            "refused",
        ),
        "a header of deep nesting": (_zip({f"{first}.npy": _header("(" * 9000), **others}), "refused"),
        "a header with an unknown type": (
            _zip({f"{first}.npy": _header("{'descr': '<q9', 'fortran_order': False, 'shape': (1,), }"), **others}),
            "refused",
        ),
        "a version of tomorrow": (
            _zip({f"{first}.npy": b"\x93NUMPY\x09\x00" + npy(arrays[first])[8:], **others}),
            "refused",
        ),
        "pickled objects": (npz({**arrays, first: np.array([Marker()] * ROWS, dtype=object)}), "refused"),
        "pickled objects in a further member": (
            npz({**arrays, "extra": np.array([Marker()], dtype=object)}),
            "either",
        ),
        "garbage before the archive": (b"garbage" * 30 + whole, "either"),
        "garbage after the archive": (whole + b"garbage" * 30, "either"),
    }


def _twice(arrays: Arrays) -> bytes:
    import warnings

    sink = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(sink, "w") as archive:
        warnings.simplefilter("ignore")
        for name, array in [*arrays.items(), *arrays.items()]:
            archive.writestr(f"{name}.npy", npy(array))
    return sink.getvalue()
