"""Atomic addition for Numba, which has none on the CPU."""

from typing import Any

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

_WORDS = (types.uint64, types.int64)


@intrinsic
def atomic_add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001 - Numba's signature
    """``array[index] += value`` on a one-dimensional contiguous array of 64-bit integers, safe among threads.

    Returns the element as it was before, so that it can hand out places in a list.
    """
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.dtype in _WORDS and array.layout == "C"):
        raise TypingError("atomic_add wants a one-dimensional contiguous array of 64-bit integers")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, index_type, value_type = signature.args
        data = context.make_array(array_type)(context, builder, arguments[0]).data
        place = context.cast(builder, arguments[1], index_type, types.intp)
        addend = context.cast(builder, arguments[2], value_type, array_type.dtype)
        pointer = builder.gep(data, [place])
        return builder.atomic_rmw("add", pointer, addend, ordering="monotonic")

    return array.dtype(array, index, value), generate
