"""Instructions that Numba lacks: atomic addition, and eight numbers at once."""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, overload, register_model

_WORDS = (types.uint64, types.int64)


@intrinsic
def atomic_add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001 - Numba's signature
    """``array[index] += value`` on a one-dimensional contiguous array of 64-bit integers, safe among threads.

    Returns the element as it was before, so that it can hand out places in a list.
    """
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.dtype in _WORDS and array.layout == "C"):
        raise TypingError("atomic_add takes a one-dimensional contiguous array of 64-bit integers")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, index_type, value_type = signature.args
        data = context.make_array(array_type)(context, builder, arguments[0]).data
        place = context.cast(builder, arguments[1], index_type, types.intp)
        addend = context.cast(builder, arguments[2], value_type, array_type.dtype)
        pointer = builder.gep(data, [place])
        return builder.atomic_rmw("add", pointer, addend, ordering="monotonic")

    return array.dtype(array, index, value), generate


SIMD_WIDTH = 8


class SimdVector(types.Type):
    """The Numba type of eight reals."""

    def __init__(self, real: types.Float) -> None:
        self.real = real
        super().__init__(name=f"SimdVector8({real})")


@register_model(SimdVector)
class _SimdVectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: SimdVector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.real).get_value_type(), SIMD_WIDTH))


def _spread(builder: Any, value: Any, vector: ir.VectorType) -> Any:
    i32 = ir.IntType(32)
    unset = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(unset, value, i32(0))
    return builder.shuffle_vector(first, unset, ir.Constant(ir.VectorType(i32, SIMD_WIDTH), [0] * SIMD_WIDTH))


@intrinsic
def spread(typing: Any, value: Any) -> Any:  # noqa: ARG001 - Numba's signature
    """All eight lanes the same number."""
    lanes = SimdVector(value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001 - Numba's signature
        return _spread(builder, arguments[0], context.get_value_type(lanes))

    return lanes(value), generate


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:  # noqa: ARG001 - Numba's signature
    """Eight numbers of a C-contiguous array's memory, from a flat index on; all eight must be in the array's memory."""
    lanes = SimdVector(array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        vector = context.get_value_type(lanes)
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), vector.as_pointer())
        value = builder.load(pointer)
        value.align = context.get_abi_sizeof(context.get_value_type(array.dtype))
        return value

    return lanes(array, types.intp), generate


@intrinsic
def unpack(typing: Any, lanes: Any) -> Any:  # noqa: ARG001 - Numba's signature
    """All eight lanes as a tuple."""
    kind = types.UniTuple(lanes.real, SIMD_WIDTH)  # type: ignore[attr-defined] # Numba makes that name at run time

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001 - Numba's signature
        values = [builder.extract_element(arguments[0], ir.IntType(32)(n)) for n in range(SIMD_WIDTH)]
        return context.make_tuple(builder, kind, values)

    return kind(lanes), generate


def _signature(lanes: SimdVector, *kinds: Any) -> Any:
    """SimdVector of SimdVector and numbers."""
    return lanes(*(kind if isinstance(kind, SimdVector) else lanes.real for kind in kinds))


def _vectors(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """The arguments of an operation, numbers spread over all lanes."""
    vector = context.get_value_type(signature.return_type)
    return [
        value if isinstance(kind, SimdVector) else _spread(builder, value, vector)
        for value, kind in zip(arguments, signature.args, strict=True)
    ]


@intrinsic
def multiply_add(typing: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001 - Numba's signature
    """a * b + c, rounded once, as CUDA's ``__fmaf_rn``, of SimdVector and numbers, or of three numbers.

    One instruction on processors since about 2013; on older ones LLVM calls a function for every lane.
    """
    lanes = next((kind for kind in (a, b, c) if isinstance(kind, SimdVector)), None)
    if lanes is None:
        return _fused(a, f"f{a.bitwidth}", a(a, a, a), lambda _context, _builder, _signature, arguments: arguments)
    return _fused(lanes, f"v{SIMD_WIDTH}f{lanes.real.bitwidth}", _signature(lanes, a, b, c), _vectors)


def _fused(kind: Any, suffix: str, signature: Any, values_of: Callable[..., Any]) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.get_value_type(kind)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(value, [value] * 3), f"llvm.fma.{suffix}"
        )
        return builder.call(function, values_of(context, builder, signature, arguments))

    return signature, generate


def _arithmetic(instruction: str) -> Any:
    """Make an operation on two SimdVector, or on one and a number."""

    @intrinsic
    def operation(typing: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - Numba's signature
        lanes = a if isinstance(a, SimdVector) else b

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*_vectors(context, builder, signature, arguments))

        return _signature(lanes, a, b), generate

    return operation


def _overload_operator(symbol: Callable[..., Any], operation: Any) -> None:
    @overload(symbol)
    def choose(a, b):  # type: ignore[no-untyped-def] # Numba compares this signature with the lambda's
        if isinstance(a, SimdVector) or isinstance(b, SimdVector):
            return lambda a, b: operation(a, b)
        return None


for _symbol, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _overload_operator(_symbol, _arithmetic(_instruction))
