"""The offer to take a layer whose file tells no place voxel by voxel, as another one that has as many voxels."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from napari.layers import Image, Labels

from napari_gpubio.core.napari_io import KEY, carried, grid_of, is_oriented, take_place
from napari_gpubio.core.space import as_many_voxels, same_grid


class Offer(NamedTuple):
    """What a button of a panel offers: a layer is put where another one is."""

    layer: Any
    other: Any
    take: Callable[[], object]

    @property
    def text(self) -> str:
        """Of the button."""
        return f"Take {self.layer.name} voxel by voxel as {self.other.name}"


def place_offers(chosen: Sequence[Any], layers: Sequence[Any]) -> Iterator[Offer]:
    """Yield how volumes without an orientation can be brought together with those that have one.

    Parameters
    ----------
    chosen
        The layers that a panel uses.
    layers
        All of the viewer, any of which may be the other one where it has as many voxels.
    """
    if len({is_oriented(layer) for layer in chosen}) < 2:  # either none is without, or nothing else is there
        return
    for layer in filter(is_volume, chosen):
        for other in filter(is_volume, () if is_oriented(layer) else [*chosen, *layers]):
            grids = *grid_of(layer)[::-1], *grid_of(other)[::-1]
            if is_oriented(other) and as_many_voxels(*grids) and not same_grid(*grids):
                moved, still = (layer, other) if _can_move(layer) else (other, layer)
                if _can_move(moved):
                    yield Offer(moved, still, partial(take_place, moved, grid_of(still)[0], still.name))


def is_volume(layer: Any) -> bool:
    """Whether a layer is a volume of this package, or a series of them."""
    return isinstance(layer, Image | Labels) and carried(layer, "affine") is not None


def _can_move(layer: Any) -> bool:
    """Whether a layer carries nothing that has a place of its own, as a scan, tensors or FODs do."""
    return bool(layer.ndim == 3) and not any(hasattr(value, "affine") for value in layer.metadata[KEY].values())
