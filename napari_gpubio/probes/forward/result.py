"""The forward model of a probe: mean partial path lengths, with their errors, as sparse matrices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Gridded, Tabular
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.probes.forward.model import Head, Pair
from napari_gpubio.probes.forward.place import Placement
from napari_gpubio.probes.forward.settings import ForwardSettings
from napari_gpubio.probes.jacobians.model import columns_of, error_of_groups

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class WavelengthModel(ShortRepr):
    """All pairs at one wavelength.

    Parameters
    ----------
    wavelength_nm
        Wavelength.
    row_starts, columns, values
        Rows of the matrix, one after another (CSR): those of pair p are ``row_starts[p]`` to ``row_starts[p + 1]``;
        columns count the voxels of the model, values are mean path lengths in a voxel, mm.
    kept
        Share of a row's sum that its values have, after small ones were dropped, shape (P,).
    detected, detected_error
        What the detector detects of the source, in units of the detector's own light (N of
        `napari_gpubio.light.reciprocity`), 1/mm^2, shape (P,).
    label_paths_mm, label_errors_mm
        Mean path in all of each label, and its standard error, shape (P, labels): from all voxels, dropped or not. 0
        and infinite for pairs that no light reached.
    label_deviations_mm
        How far each group of photons has moved each of them, shape (P, groups, labels), for errors of several labels
        together; see `napari_gpubio.probes.jacobians.model.error_of_groups`.
    close
        Whether source and detector are too close for shells between them, shape (P,); these count as not reached.
    reached
        Whether enough light goes from source to detector: N is known to half of itself, shape (P,).
    done
        Whether both optodes of the pair were simulated, shape (P,).
    """

    wavelength_nm: float
    row_starts: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    kept: npt.NDArray[np.float64]
    detected: npt.NDArray[np.float64]
    detected_error: npt.NDArray[np.float64]
    label_paths_mm: npt.NDArray[np.float64]
    label_errors_mm: npt.NDArray[np.float64]
    label_deviations_mm: npt.NDArray[np.float32]
    close: npt.NDArray[np.bool_]
    reached: npt.NDArray[np.bool_]
    done: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class ForwardModel(Tabular, Gridded):
    """How the optical density of every pair changes with the absorption of every voxel.

    A change of mu_a by ``d`` (1/mm) in each voxel changes the optical density -ln(I / I0) of a pair by the row of its
    matrix times d; rows are mean path lengths of the detected light in each voxel, mm, and positive.

    Parameters
    ----------
    head
        Labels and tissues.
    placement
        The probe on the scalp.
    pairs
        Sources and detectors of the rows, P of them.
    labels
        Labels in the order of their sums: all that occur.
    label_names
        What they are called.
    voxels
        Flat indices, in the head's labels, of the voxels of the columns, shape (V,).
    parts
        One for each wavelength.
    settings
        How it was made.
    complete
        False if the work was stopped before its end.
    parameters
        Device, seconds, versions, as JSON can hold them.
    notes
        What to know about the numbers, for the user.
    parcels
        An atlas on the head's grid, shape (X, Y, Z), for files of netCDF.
    state
        What a stopped run goes on with; it stays on its device, and files of such models have it.
    """

    head: Head
    placement: Placement
    pairs: tuple[Pair, ...]
    labels: tuple[int, ...]
    label_names: tuple[str, ...]
    voxels: npt.NDArray[np.int64]
    parts: tuple[WavelengthModel, ...]
    settings: ForwardSettings
    complete: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    parcels: Array | None = field(default=None, repr=False)
    state: Any = field(default=None, repr=False)

    @property
    def wavelengths_nm(self) -> tuple[float, ...]:
        """Wavelengths of the parts."""
        return tuple(part.wavelength_nm for part in self.parts)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the pairs, ``S1D1``."""
        return tuple(map(self.placement.probe.pair_name, self.pairs))

    @property
    def separations_mm(self) -> Floats:
        """Distance between source and detector of each pair on the scalp, shape (P,)."""
        return np.array([self.placement.probe.separation_mm(pair) for pair in self.pairs])

    def at(self, wavelength_nm: float) -> WavelengthModel:
        """Return the part of a wavelength.

        Raises
        ------
        InvalidInput
            If there is none.
        """
        for part in self.parts:
            if np.isclose(part.wavelength_nm, wavelength_nm):
                return part
        known = ", ".join(f"{wavelength:g}" for wavelength in self.wavelengths_nm)
        raise InvalidInput(f"the model has no wavelength {wavelength_nm:g} nm; it has {known} nm")

    def matrix(self, wavelength_nm: float) -> "csr_array":
        """Mean path lengths, mm, pairs by voxels, as SciPy's sparse matrix."""
        from scipy.sparse import csr_array

        part = self.at(wavelength_nm)
        rows = part.values, part.columns, part.row_starts
        return csr_array(rows, shape=(len(self.pairs), len(self.voxels)))

    def channel(self, wanted: int | str) -> int:
        """Return the row of a pair, given that or its name.

        Raises
        ------
        InvalidInput
            If there is no such pair.
        """
        if isinstance(wanted, str):
            if wanted in self.channels:
                return self.channels.index(wanted)
        elif 0 <= wanted < len(self.pairs):
            return int(wanted)
        some = ", ".join(self.channels[:8]) + (", …" if len(self.pairs) > 8 else "")
        raise InvalidInput(f"there is no pair {wanted!r}; there are {some}")

    def volume(self, channel: int | str, wavelength_nm: float) -> npt.NDArray[np.float32]:
        """Mean path lengths of one pair as a volume, mm, shape (X, Y, Z); 0 where they were dropped."""
        part, row = self.at(wavelength_nm), self.channel(channel)
        chosen = slice(part.row_starts[row], part.row_starts[row + 1])
        found = np.zeros(np.asarray(self.head.labels).size, np.float32)
        found[self.voxels[part.columns[chosen]]] = part.values[chosen]
        return found.reshape(np.asarray(self.head.labels).shape)

    def path_by_label_mm(self, channel: int | str, wavelength_nm: float) -> dict[int, Estimate]:
        """Mean partial path length of the light of a pair in each label, with its standard error, mm."""
        part, row = self.at(wavelength_nm), self.channel(channel)
        numbers = zip(part.label_paths_mm[row].tolist(), part.label_errors_mm[row].tolist(), strict=True)
        return {label: Estimate(*both) for label, both in zip(self.labels, numbers, strict=True)}

    def region(self, wavelength_nm: float, labels: Sequence[int]) -> tuple[Estimate, ...]:
        """Mean path of the light of each pair in some labels together, with its standard error, mm.

        Raises
        ------
        InvalidInput
            If a label does not occur.
        """
        part, columns = self.at(wavelength_nm), columns_of(labels, self.labels)
        values = part.label_paths_mm[:, columns].sum(axis=1)
        errors = error_of_groups(part.label_deviations_mm[:, :, columns].sum(axis=2, dtype=np.float64))
        errors = np.where(part.reached, errors, np.inf)
        return tuple(Estimate(*both) for both in zip(values.tolist(), errors.tolist(), strict=True))

    def unreached(self) -> tuple[str, ...]:
        """Names of pairs and wavelengths that too little light reached: ``S1D8 760``."""
        return tuple(
            f"{name} {part.wavelength_nm:g}"
            for part in self.parts
            for name, reached, known in zip(self.channels, part.reached, part.done & ~part.close, strict=True)
            if known and not reached
        )
