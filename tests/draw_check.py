"""What is drawn is inside the buffers that it is read from: a graphics driver may crash where it is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from vispy.gloo import gl, glir

_INDEX_TYPES = {gl.GL_UNSIGNED_BYTE: np.uint8, gl.GL_UNSIGNED_SHORT: np.uint16, gl.GL_UNSIGNED_INT: np.uint32}
_VALUE_BYTES = 4  # of an attribute's components: vispy passes 32-bit numbers only


class CheckedDraws:
    """Counts the draws of vispy programs, and lists those that read beyond a buffer or from a deleted one."""

    def __init__(self) -> None:
        self.count = 0
        self.problems: list[str] = []
        self._indices: dict[Any, bytearray] = {}

    def resize(self, buffer: Any, size: int) -> None:
        """Note the size of a buffer on the graphics card, in bytes."""
        if isinstance(buffer, glir.GlirIndexBuffer) and len(self._indices.get(buffer, b"")) != size:
            self._indices[buffer] = bytearray(size)

    def fill(self, buffer: Any, offset: int, data: Any) -> None:
        """Note the indices that a buffer on the graphics card gets."""
        if offset + data.nbytes > buffer._buffer_size:
            self.problems.append(f"{data.nbytes} bytes from {offset} into a buffer of {buffer._buffer_size}")
        if isinstance(buffer, glir.GlirIndexBuffer):
            self._indices[buffer][offset : offset + data.nbytes] = np.ascontiguousarray(data).tobytes()

    def draw(self, program: Any, selection: tuple[Any, ...]) -> None:
        """Compare the vertices of a draw with the buffers of its attributes."""
        if len(selection) == 3:
            identity, kind, count = selection
            held = self._indices.get(program._parser.get_object(identity), bytearray())
            dtype = np.dtype(_INDEX_TYPES[glir.as_enum(kind)])
            if count * dtype.itemsize > len(held):
                self.problems.append(f"{count} indices of a buffer of {len(held)} bytes")
                return
            used = np.frombuffer(bytes(held[: count * dtype.itemsize]), dtype)
            rows = int(used.max()) + 1 if len(used) else 0
        else:
            first, count = selection
            rows = first + count if count else 0
        if rows:
            self.count += 1
            self._check_rows(program, rows)

    def _check_rows(self, program: Any, rows: int) -> None:
        buffers = {
            item.handle: item for item in program._parser._objects.values() if isinstance(item, glir.GlirVertexBuffer)
        }
        for name, (handle, _place, _function, details, divisor) in program._attributes.items():
            if not handle or divisor:
                continue
            if handle not in buffers:
                self.problems.append(f"attribute {name} of a deleted buffer")
                continue
            components, _type, _normalized, stride, offset = details
            row = components * _VALUE_BYTES
            needed = (rows - 1) * (stride or row) + offset + row
            if needed > buffers[handle]._buffer_size:
                self.problems.append(f"attribute {name}: {needed} bytes of a buffer of {buffers[handle]._buffer_size}")


@contextmanager
def checked_draws() -> Iterator[CheckedDraws]:
    """Check all draws of vispy programs; buffers must be made meanwhile."""
    checked = CheckedDraws()
    set_size, set_data, draw = glir.GlirBuffer.set_size, glir.GlirBuffer.set_data, glir.GlirProgram.draw

    def checked_size(buffer: Any, size: int) -> None:
        set_size(buffer, size)
        checked.resize(buffer, size)

    def checked_data(buffer: Any, offset: int, data: Any) -> None:
        checked.fill(buffer, offset, data)
        set_data(buffer, offset, data)

    def checked_draw(program: Any, mode: Any, selection: tuple[Any, ...], instances: int = 1) -> None:
        checked.draw(program, selection)
        draw(program, mode, selection, instances)

    with (
        patch.object(glir.GlirBuffer, "set_size", checked_size),
        patch.object(glir.GlirBuffer, "set_data", checked_data),
        patch.object(glir.GlirProgram, "draw", checked_draw),
    ):
        yield checked
