"""Groups of fibers that a file names (trx, DSI Studio's clusters) as bundles."""

import numpy as np

from napari_gpubio.tracts.model import GROUP, Tractogram


def by_group(fibers: Tractogram) -> dict[str, Tractogram]:
    """Return the fibers of each group by its name, and those in none, if there are any, under an empty one.

    A group is a column of fibers named ``group/NAME``; a fiber may be in several.
    """
    masks = {name: np.asarray(v, bool) for name, v in fibers.per_fiber.items() if name.startswith(GROUP)}
    rest = ~np.any([*masks.values(), np.zeros(len(fibers), bool)], axis=0)
    found = {name.removeprefix(GROUP): fibers.select(mask) for name, mask in masks.items()}
    return found if masks and not rest.any() else found | {"": fibers.select(rest)}
