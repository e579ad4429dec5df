"""Random records of any operation, made from its fields alone."""

import dataclasses
import functools
import random
import typing
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import HeldLayer, HeldVolume, Operation, Output, Store, Volume, file, verbs
from napari_gpubio.core.operations.held_layers import LayerParts
from napari_gpubio.core.operations.records import File, Held, input_infos
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.settings import alternatives, hints, is_union, record_fields

_TRIES = 200


@functools.cache
def _makers(kind: type) -> list[tuple[type[Operation], str]]:
    """Operations that make a kind of result, and its name."""
    return [(cls, name) for cls in verbs().values() for name, made in cls.makes.items() if issubclass(made, kind)]


@functools.cache
def _heights() -> dict[type[Operation], int]:
    """Length of the shortest ancestry of an operation of each class."""
    heights: dict[type[Operation], int] = {}
    for height in range(len(verbs())):
        for cls in verbs().values():
            needed = [info.kind for info in input_infos(cls).values() if not info.optional]
            if cls not in heights and all(
                any(heights.get(maker, height) < height for maker, _ in _makers(kind)) for kind in needed
            ):
                heights[cls] = height
    return heights


class Records:
    """Makes random records.

    Parameters
    ----------
    seed
        Of the random numbers.
    store, paths
        For arrays and files.
    among
        Operations that inputs come from; all by default.
    """

    def __init__(self, seed: int, store: Store, paths: list[Any], among: tuple[type[Operation], ...] = ()) -> None:
        self.random, self.store, self.paths, self.among = random.Random(seed), store, paths, among

    def operation(self, cls: type[Operation], depth: int = 2) -> Operation:
        """A random record of an operation, with what it needs."""
        if cls is HeldVolume:
            array = np.random.default_rng(self.random.randrange(4)).random((6, 5, 4)).astype(np.float32)
            return HeldVolume.of(Volume(array=array, affine=np.diag([1.0, 1.0, 2.0, 1.0])), self.store)
        if cls is HeldLayer:
            points = np.random.default_rng(self.random.randrange(4)).random((6, 3))
            values = {"data": {"array": 0}, "opacity": self.random.random()}
            return HeldLayer.of(LayerParts(kind="points", values=values, arrays=(points,)), self.store)
        for _ in range(_TRIES):
            try:
                return self._record(cls, depth)
            except InvalidInput:  # values that do not fit each other
                continue
        raise AssertionError(f"no random {cls.__name__} can be made")

    def _record(self, cls: type, depth: int) -> Any:
        inputs = input_infos(cls) if issubclass(cls, Operation) else {}
        values = {}
        for field in record_fields(cls):
            if field.name in inputs:
                values[field.name] = self._input(inputs[field.name], depth)
            elif field.default is dataclasses.MISSING or self.random.random() < 0.4:
                values[field.name] = self._value(field, hints(cls)[field.name])
        return cls(**values)

    def _input(self, info: Any, depth: int) -> Any:
        makers = [one for one in _makers(info.kind) if not self.among or one[0] in self.among]
        if depth <= 0:  # those that need least
            heights = _heights()
            least = min((heights[cls] for cls, _ in makers), default=0)
            makers = [(cls, name) for cls, name in makers if heights[cls] == least]
        if info.optional and (not makers or self.random.random() < 0.5):
            return () if info.many else None
        made = []
        for _ in range(self.random.randint(1, 3) if info.many else 1):
            cls, name = self.random.choice(makers)
            made.append(Output(self.operation(cls, depth - 1), name))
        return tuple(made) if info.many else made[0]

    def _value(self, field: Any, hint: Any) -> Any:
        if classes := alternatives(hint):
            return self._record(self.random.choice(classes), 0)
        info = param_info(field)
        if info is not None and info.choices:
            return self.random.choice(info.choices)
        if is_union(hint):
            members = [one for one in typing.get_args(hint) if one is not type(None)]
            return None if self.random.random() < 0.3 else self._value(field, members[0])
        if typing.get_origin(hint) is tuple:
            members = typing.get_args(hint)
            if members[-1] is Ellipsis:
                members = members[:1] * self.random.randint(0, 3)
            return tuple(self._value(field, one) for one in members)
        if hint is File:
            return file(self.random.choice(self.paths))
        if hint is Held:
            return self.store.hold(np.arange(self.random.randint(1, 9)))
        if hint is bool:
            return self.random.random() < 0.5
        if hint is str:
            return self.random.choice(["a", "left\nbundle", "'\"\\", "ø µ"])
        low, high = self._limits(info)
        if hint is int:
            return self.random.randint(int(low), int(high))
        return self.random.uniform(low, high)

    def _limits(self, info: Any) -> tuple[float, float]:
        if info is None:
            return -10.0, 10.0
        low = info.minimum if info.minimum is not None else -10.0 if info.above is None else info.above
        high = info.maximum if info.maximum is not None else low + 100.0
        return (np.nextafter(low, high), high) if info.above is not None else (low, high)
