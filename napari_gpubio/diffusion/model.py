"""What diffusion MRI works on: a scan, a tensor field.

Arrays of volumes are indexed (i, j, k); tensors and directions are in world axes (RAS); lengths in mm, diffusivities
in mm^2/s, b-values in s/mm^2. Six tensor components come in the order xx, yy, zz, xy, xz, yz.
"""

import dataclasses
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm

Array = npt.NDArray[Any]
GROUP = "group/"  # begins the name of a column of fibers that tells which of them are in a group
B0_LIMIT = 50.0  # s/mm^2; a volume up to it counts as not diffusion weighted, as in DIPY
_SHELL_GAP, _SHELL_WIDTH, _SHELL_STEP = 80.0, 200.0, 50  # s/mm^2, see `DiffusionScan.shell_of`


@dataclass(frozen=True, eq=False, kw_only=True)
class DiffusionScan(GriddedArray, array="data"):
    """A diffusion-weighted series with its gradient table.

    Parameters
    ----------
    data
        Signals, shape (X, Y, Z, N), any real type.
    bvals
        b-values in s/mm^2, shape (N,).
    directions
        Unit gradient directions in world axes, shape (N, 3); zero for b = 0.
    affine
        Voxel to world, mm.
    path
        The file it came from, or None.
    notes
        What a reader found or changed, in sentences for the user.
    b0_limit
        Volumes up to this b-value, s/mm^2, count as not diffusion weighted.
    read_with
        Keywords of `read_dwi` with which the file is read to this scan again.

    Raises
    ------
    InvalidInput
        If shapes do not fit each other or the table has values that are not finite.
    """

    data: Array
    bvals: npt.NDArray[np.float64]
    directions: npt.NDArray[np.float64]
    affine: npt.NDArray[np.float64]
    path: Path | None = None
    notes: tuple[str, ...] = ()
    b0_limit: float = B0_LIMIT
    read_with: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.data.ndim != 4:
            raise InvalidInput(f"a diffusion scan has 4 dimensions (x, y, z, volume); this array has {self.data.ndim}")
        n = self.data.shape[3]
        if self.bvals.shape != (n,) or self.directions.shape != (n, 3):
            raise InvalidInput(
                f"the scan has {n} volumes, but there are {self.bvals.size} b-values and "
                f"{self.directions.size // 3} directions; give one of each for every volume"
            )
        if not (np.isfinite(self.bvals).all() and np.isfinite(self.directions).all()):
            raise InvalidInput("the gradient table has values that are not finite; repair the bval and bvec files")
        object.__setattr__(self, "affine", checked_affine(self.affine))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of one volume."""
        return self.data.shape[:3]

    @property
    def is_b0(self) -> npt.NDArray[np.bool_]:
        """Which volumes are not diffusion weighted, shape (N,)."""
        return np.asarray(self.bvals <= self.b0_limit)

    def b0_mean(self) -> npt.NDArray[np.float32]:
        """Return the mean of the b = 0 volumes, shape (X, Y, Z); of those with the lowest b-value if there are none."""
        chosen = self.is_b0 if self.is_b0.any() else self.bvals == self.bvals.min()
        return np.asarray(self.data[..., chosen], np.float32).mean(axis=-1)

    @property
    def shell_of(self) -> npt.NDArray[np.int64]:
        """Shell of each volume, shape (N,): the mean b-value of those near its own, to 50 s/mm^2; 0 for b0 volumes.

        A new shell begins where b-values are more than 80 s/mm^2 apart (as in MRtrix), or the shell would become wider
        than 200 s/mm^2.
        """
        found = np.zeros(len(self.bvals), np.int64)
        shell: list[int] = []
        for volume in np.argsort(self.bvals, kind="stable"):
            bval = self.bvals[volume]
            if self.is_b0[volume]:
                continue
            if shell and (bval - self.bvals[shell[-1]] > _SHELL_GAP or bval - self.bvals[shell[0]] > _SHELL_WIDTH):
                shell = []
            shell.append(volume)
            found[shell] = _SHELL_STEP * round(self.bvals[shell].mean() / _SHELL_STEP)
        return found

    @property
    def lowest_bval(self) -> float:
        """Largest b-value of the lowest shell, rounded up: the limit that takes this shell as b = 0."""
        return float(np.ceil(self.bvals[self.shell_of == self.shells()[0]].max()))

    def with_b0_limit(self, limit: float) -> "DiffusionScan":
        """Return the scan whose volumes up to a b-value, s/mm^2, count as not diffusion weighted."""
        given = {**self.read_with, "b0_limit": limit}
        notes = (*self.notes, f"volumes up to b = {limit:g} s/mm^2 are taken as b = 0")
        return dataclasses.replace(self, b0_limit=limit, read_with=given, notes=notes)

    def shells(self) -> list[int]:
        """b-values of the shells, in order."""
        return [int(shell) for shell in np.unique(self.shell_of)]


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorField(GriddedArray, array="tensors"):
    """Diffusion tensors on a voxel grid.

    Parameters
    ----------
    tensors
        Shape (X, Y, Z, 6), world axes, mm^2/s, order xx, yy, zz, xy, xz, yz; zero outside the mask.
    mask
        Voxels that hold a tensor, shape (X, Y, Z).
    affine
        Voxel to world, mm.
    repaired
        Voxels whose tensor was not positive definite and was repaired, shape (X, Y, Z).
    s0
        Fitted signal at b = 0, or None.
    path
        The file it came from, or None.
    notes
        What a reader or the fit found or changed, in sentences for the user.
    parameters
        How it was made; only what JSON can hold.
    complete
        False if the fit was stopped before its end.
    """

    tensors: Array
    mask: npt.NDArray[np.bool_]
    affine: npt.NDArray[np.float64]
    repaired: npt.NDArray[np.bool_] | None = None
    s0: Array | None = None
    path: Path | None = None
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    cache: "Cache" = field(default_factory=lambda: Cache(), repr=False)

    def __post_init__(self) -> None:
        if self.tensors.ndim != 4 or self.tensors.shape[3] != 6:
            raise InvalidInput(f"tensors have shape (X, Y, Z, 6); this array has shape {self.tensors.shape}")
        if self.mask.shape != self.tensors.shape[:3]:
            raise InvalidInput(
                f"the mask has shape {self.mask.shape} and the tensors {self.tensors.shape[:3]}; they must be the same"
            )
        object.__setattr__(self, "affine", checked_affine(self.affine))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of the grid."""
        return self.tensors.shape[:3]

    @property
    def voxel_sizes_mm(self) -> npt.NDArray[np.float64]:
        """Edge lengths of a voxel in mm."""
        return voxel_sizes_mm(self.affine)

    @property
    def repaired_count(self) -> int:
        """Number of voxels whose tensor was repaired."""
        return 0 if self.repaired is None else int(np.count_nonzero(self.repaired))

    @cached_property
    def eigen(self) -> "Eigen":
        """Eigenvalues and eigenvectors of every tensor (computed once, on the CPU)."""
        from napari_gpubio.diffusion.kernels.tensors.cpu import eigen_decompose

        return Eigen(*eigen_decompose(self.tensors))


class Cache:
    """A few costly things made from a tensor field (prepared volumes, on the host or a GPU); the oldest goes first."""

    def __init__(self, capacity: int = 16) -> None:
        self._capacity = capacity
        self._kept: dict[Hashable, Any] = {}
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """What is kept belongs to one process; another one, which gets a copy, makes it again."""
        return type(self), (self._capacity,)

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what is kept under a key, making it if it is not there."""
        with self._lock:
            value = self._kept.pop(key) if key in self._kept else make()
            self._kept[key] = value
            while len(self._kept) > self._capacity:
                self._kept.pop(next(iter(self._kept)))
            return value

    def keep(self, key: Hashable, value: Any) -> None:
        """Keep a value under a key, in place of what was there."""
        with self._lock:
            self._kept.pop(key, None)
            self.get(key, lambda: value)

    def clear(self) -> None:
        """Forget everything, which frees GPU memory too."""
        with self._lock:
            self._kept.clear()


@dataclass(frozen=True, eq=False, slots=True)
class Eigen(ShortRepr):
    """Eigen-decomposition of a tensor field.

    Parameters
    ----------
    values
        Shape (X, Y, Z, 3), mm^2/s, descending.
    vectors
        Shape (X, Y, Z, 3, 3); ``vectors[..., n, :]`` is the unit eigenvector of ``values[..., n]``, world axes.
    """

    values: Array
    vectors: Array
