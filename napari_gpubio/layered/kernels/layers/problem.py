"""A layered simulation made ready for a backend: the table of layers, the grid, the order of a tally."""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.batches import BatchedProblem
from napari_gpubio.optics.model import THICKEST_MM

LAYER_NUMBERS = 8  # mu_a / mu_t, 1 / mu_t, mu_t, g, n, thickness, depth of the top, reach
SCALE = 2.0**31  # quanta of a tally per photon weight: an entry fits in 32 bits, those of 2^32 photons in 63

_MAX_CPU_BYTES = 512 << 20  # each thread has a tally of its own
_MAX_TALLIES, _COPIED_BYTES = 96, 256 << 20  # of the batches that a GPU traces together
MIN_WEIGHT = 1e-30  # of a packet; less is nothing


class Scene(NamedTuple):
    """What a photon meets, and the bins of the tally, as the CPU kernels take them."""

    layers: npt.NDArray[np.float32]  # the table, shape (L, LAYER_NUMBERS)
    n_above: np.float32
    n_below: np.float32
    first_layer: int  # where photons start
    weight: np.float32  # which they have there
    threshold: np.float32  # below this weight packets play roulette
    radial: int  # number of bins
    depth: int
    radial_per_mm: np.float32
    depth_per_mm: np.float32
    cosines: npt.NDArray[np.float32]  # of the edges of the angular bins, falling
    collect: bool  # whether absorption beyond the grid goes to the outermost bins
    absorption: bool  # whether A(r, z) is tallied at all
    scale: np.float32  # quanta of a tally per photon weight
    seed: np.uint64


@dataclass(frozen=True, eq=False)
class LayeredProblem(BatchedProblem):
    """A layered simulation as photons see it.

    ``batch_size`` is that of a resumed run, where there is one; by default photons / batches.
    """

    work = "light transport in these layers"
    medium: LayeredMedium
    settings: LayeredSettings
    batch_size: int = 0

    @cached_property
    def layers(self) -> npt.NDArray[np.float32]:
        """mu_a / mu_t, 1 / mu_t, mu_t, g, n, thickness, depth of the top, reach; shape (L, LAYER_NUMBERS), mm.

        The reach is the depth before which a packet can be scattered: the thickness, or 0 in glass.
        """
        table = np.zeros((len(self.medium.layers), LAYER_NUMBERS))
        for row, layer, top in zip(table, self.medium.layers, self.medium.tops_mm, strict=False):
            mut, thickness = layer.mua_per_mm + layer.mus_per_mm, min(layer.thickness_mm, THICKEST_MM)
            if mut:
                row[:2] = layer.mua_per_mm / mut, 1.0 / mut
            row[2:] = mut, layer.g, layer.n, thickness, top, thickness if mut else 0.0
        largest = np.finfo(np.float32).max  # a damaged file may hold more
        return table.clip(-largest, largest).astype(np.float32)

    @property
    def first_layer(self) -> int:
        """Where photons start: under a top layer of glass, where there is one."""
        return 1 if self.medium.layers[0].is_glass and len(self.medium.layers) > 1 else 0

    @property
    def specular(self) -> float:
        """Specular reflectance."""
        return self.medium.specular_reflectance()

    @property
    def threshold(self) -> np.float32:
        """Weight below which packets play roulette; never zero, lest one without weight walks a half-space for ever."""
        return np.float32(max(self.settings.roulette_threshold, MIN_WEIGHT))

    @cached_property
    def cosines(self) -> npt.NDArray[np.float32]:
        """Cosines of the edges of the angular bins, from 1 to 0."""
        edges = np.cos(np.linspace(0.0, np.pi / 2, self.settings.angle_bins + 1))
        edges[-1] = 0.0
        return edges.astype(np.float32)

    # -- the order of a tally -------------------------------------------------------------------------------------

    @property
    def absorption_cells(self) -> int:
        """Bins of A(r, z), which come first; none without the map."""
        s = self.settings
        return s.radial_bins * s.depth_bins if s.has_map else 0

    @property
    def angular_cells(self) -> int:
        """Bins of R(r, a), which follow, and as many of T(r, a)."""
        return self.settings.radial_bins * self.settings.angle_bins

    @property
    def tally_size(self) -> int:
        """Numbers of a tally: the maps, absorption by layer, and the balance of Russian roulette."""
        return self.absorption_cells + 2 * self.angular_cells + len(self.medium.layers) + 1

    # -- memory ---------------------------------------------------------------------------------------------------

    @cached_property
    def key(self) -> str:
        """Fingerprint of everything but the number of photons: runs with the same key trace the same photons.

        Without the reach, which follows from the rest.
        """
        s = self.settings
        words: tuple[Any, ...] = (s.seed, s.dr_mm, s.dz_mm, s.radial_bins, s.depth_bins, s.angle_bins, s.absorption)
        words += (s.roulette_threshold, self.medium.n_above, self.medium.n_below)
        return hashlib.sha256(repr(words).encode() + self.layers[:, :-1].tobytes()).hexdigest()

    def copies(self, batches: int) -> int:
        """Tallies of each of so many batches that a GPU traces together: blocks of threads share them out."""
        return max(1, min(-(-_MAX_TALLIES // batches), _COPIED_BYTES // (8 * self.tally_size * batches)))

    @property
    def resident_bytes(self) -> int:
        """Bytes of a tally for each batch."""
        return 8 * self.tally_size * self.batch_count

    def tallies(self, threads: int) -> int:
        """Tallies that so many threads of a CPU share, as far as the memory goes."""
        return int(min(threads, max(1, _MAX_CPU_BYTES // (8 * self.tally_size))))

    @property
    def gpu_bytes(self) -> int:
        """Bytes that a run on a GPU needs: the tallies, and their copies while it traces."""
        return self.resident_bytes * (1 + self.copies(self.batch_count))

    def options(self, device: Device) -> dict[str, Any]:
        """Of how many GPUs each is one."""
        return {"sharers": len(device.indices)} if device.is_gpu else {}


def per_mm(width: float) -> np.float32:
    """Bins in a mm."""
    return np.float32(1.0 / width) if math.isfinite(width) else np.float32(0.0)
