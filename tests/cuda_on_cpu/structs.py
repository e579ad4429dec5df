"""Structs of ``.cu`` files as NumPy types, to hold them against the layouts that host code fills."""

import re

import numpy as np

from napari_gpubio.core import kernels

_TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned int": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
    "bool": np.bool_,
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
}


def struct_in(text: str, name: str, **aliases: type) -> np.dtype:
    """Read the layout of ``struct name { ... };`` from CUDA source text with its includes spliced in.

    The aliases are the types behind a file's own names, for instance ``REAL=np.float32``.
    """
    body = re.search(rf"struct\s+{name}\s*\{{(.*?)\n\}};", text, re.DOTALL)
    if body is None:
        raise LookupError(f"no struct {name}")
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", "", body[1], flags=re.DOTALL)
    fields = {}
    for declaration in plain.split(";"):
        words = re.sub(r"\bconst\b|\b__restrict__\b", " ", declaration).strip()
        if not words:
            continue
        base = re.match(rf"({'|'.join(sorted([*_TYPES, *aliases], key=len, reverse=True))}|\w+)\b", words)
        for declared in words[base.end() :].split(","):
            field = re.fullmatch(r"\s*(\*?)\s*(\w+)\s*(?:\[(\d+)\])?\s*", declared)
            kind = kernels.POINTER if field[1] else {**_TYPES, **aliases}[base[1]]
            fields[field[2]] = (kind, int(field[3])) if field[3] else kind
    return kernels.struct_layout(fields)
