"""Named seeds (bundles), one of them current."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from napari_gpubio.core.errors import InvalidInput

Position = tuple[float, float, float]
_DIGITS = 4  # of a seed's position in mm: a script that names it with these digits has the same seed
_keys = itertools.count(1)  # no two bundles of this process have the same, in whichever viewer they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A seed with a name; its fibers are a layer of the same name."""

    key: int  # stays the same when it is renamed or moved
    name: str
    center_mm: Position
    color: str  # of its marker


class BundleList:
    """Seeds, one of them current. Bundles get the colors in turn."""

    def __init__(self, colors: Sequence[str]) -> None:
        self._colors = tuple(colors)
        self._bundles: tuple[Bundle, ...] = ()
        self._current = -1

    def __len__(self) -> int:
        return len(self._bundles)

    def __iter__(self) -> Iterator[Bundle]:
        return iter(self._bundles)

    @property
    def current(self) -> Bundle | None:
        """The bundle that clicks and settings apply to."""
        return self._bundles[self._current] if self._bundles else None

    @property
    def current_index(self) -> int:
        """Its place in the list, -1 if there is none."""
        return self._current

    def find(self, key: object) -> Bundle | None:
        """Return the bundle of a key, or None if it is not in the list (any more)."""
        return next((b for b in self._bundles if b.key == key), None)

    @property
    def kept(self) -> tuple[tuple[Bundle, ...], int]:
        """All of them, and the place of the current one."""
        return self._bundles, self._current

    @kept.setter
    def kept(self, kept: tuple[tuple[Bundle, ...], int]) -> None:
        self._bundles, self._current = kept

    def choose(self, index: int) -> None:
        """Make another bundle the current one."""
        if 0 <= index < len(self._bundles):
            self._current = index

    def adopt(self, bundles: Iterable[Bundle]) -> None:
        """Add bundles that another panel has made."""
        self._bundles = (*self._bundles, *bundles)
        self._current = len(self._bundles) - 1

    def add(self, center_mm: Position, name: str | None = None) -> Bundle:
        """Add a bundle and make it current."""
        numbers = [int(found[1]) for b in self._bundles if (found := re.fullmatch(r"bundle ([0-9]+)", b.name))]
        used = {b.color for b in self._bundles}
        color = next((c for c in self._colors if c not in used), self._colors[len(self) % len(self._colors)])
        bundle = Bundle(
            key=next(_keys),
            name=name or f"bundle {max(numbers, default=0) + 1}",
            center_mm=_rounded(center_mm),
            color=color,
        )
        self._bundles, self._current = (*self._bundles, bundle), len(self._bundles)
        return bundle

    def duplicate(self) -> Bundle | None:
        """Add a bundle with the current one's seed and make it current; None if there is none."""
        if self.current is None:
            return None
        names = {b.name for b in self._bundles}
        copies = (f"{self.current.name} copy{'' if n == 1 else f' {n}'}" for n in itertools.count(1))
        return self.add(self.current.center_mm, next(name for name in copies if name not in names))

    def move(self, center_mm: Position) -> None:
        """Move the seed of the current bundle."""
        self._replace(self._current, center_mm=_rounded(center_mm))

    def rename(self, name: str, key: object = None) -> None:
        """Rename the bundle of a key, or the current one; InvalidInput if the name is empty or taken."""
        index = next((i for i, b in enumerate(self._bundles) if b.key == key), self._current)
        name = name.strip()
        others = [b.name for i, b in enumerate(self._bundles) if i != index]
        if not name or name in others:
            raise InvalidInput(f"{name!r} cannot be the bundle's name; choose one that is not empty and not taken")
        self._replace(index, name=name)

    def remove(self) -> None:
        """Remove the current bundle."""
        if self._bundles:
            rest = self._bundles[: self._current] + self._bundles[self._current + 1 :]
            self._bundles, self._current = rest, min(self._current, len(rest) - 1)

    def _replace(self, index: int, **changes: Any) -> None:
        if self._bundles:
            changed = list(self._bundles)
            changed[index] = replace(changed[index], **changes)
            self._bundles = tuple(changed)


def _rounded(center_mm: Position) -> Position:
    x, y, z = (round(float(value), _DIGITS) for value in center_mm)
    return x, y, z
