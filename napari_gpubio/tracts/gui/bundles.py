"""Named seeds (bundles), one of them current, with undo."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from napari_gpubio.core.errors import InvalidInput

Position = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A seed with a name; its fibers are a layer of the same name."""

    key: int  # stays the same when it is renamed or moved
    name: str
    center_mm: Position
    color: str  # of its marker


class BundleList:
    """Seeds, one of them current; every change can be undone. Bundles get the colors in turn."""

    def __init__(self, colors: Sequence[str]) -> None:
        self._colors = tuple(colors)
        self._bundles: tuple[Bundle, ...] = ()
        self._current = -1
        self._made = 0
        self._past: list[tuple[tuple[Bundle, ...], int]] = []

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
    def can_undo(self) -> bool:
        """Whether there is a change to undo."""
        return bool(self._past)

    def choose(self, index: int) -> None:
        """Make another bundle the current one (no change to undo)."""
        if 0 <= index < len(self._bundles):
            self._current = index

    def add(self, center_mm: Position, name: str | None = None) -> Bundle:
        """Add a bundle and make it current."""
        numbers = [int(found[1]) for b in self._bundles if (found := re.fullmatch(r"bundle ([0-9]+)", b.name))]
        used = {b.color for b in self._bundles}
        color = next((c for c in self._colors if c not in used), self._colors[len(self) % len(self._colors)])
        self._made += 1
        bundle = Bundle(
            key=self._made, name=name or f"bundle {max(numbers, default=0) + 1}", center_mm=center_mm, color=color
        )
        self._change((*self._bundles, bundle), len(self._bundles))
        return bundle

    def move(self, center_mm: Position) -> None:
        """Move the seed of the current bundle."""
        self._replace_current(center_mm=center_mm)

    def rename(self, name: str) -> None:
        """Rename the current bundle; InvalidInput if the name is empty or taken."""
        name = name.strip()
        others = [b.name for i, b in enumerate(self._bundles) if i != self._current]
        if not name or name in others:
            raise InvalidInput(f"{name!r} cannot be the bundle's name; choose one that is not empty and not taken")
        self._replace_current(name=name)

    def remove(self) -> None:
        """Remove the current bundle."""
        if self._bundles:
            rest = self._bundles[: self._current] + self._bundles[self._current + 1 :]
            self._change(rest, min(self._current, len(rest) - 1))

    def undo(self) -> None:
        """Go back to how the list was before the last change."""
        if self._past:
            self._bundles, self._current = self._past.pop()

    def _replace_current(self, **changes: Any) -> None:
        if self.current is not None:
            changed = list(self._bundles)
            changed[self._current] = replace(self.current, **changes)
            if changed[self._current] != self._bundles[self._current]:
                self._change(tuple(changed), self._current)

    def _change(self, bundles: tuple[Bundle, ...], current: int) -> None:
        self._past.append((self._bundles, self._current))
        self._bundles, self._current = bundles, current
