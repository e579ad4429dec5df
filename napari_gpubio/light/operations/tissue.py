"""Tissue for light as values of operations: of a file, or held, along fibers, at many wavelengths."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Held, Operation, Reading, Ref, Words, given
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import Row
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.space import checked_affine
from napari_gpubio.core.steps import Step
from napari_gpubio.core.tensor_components import PLACES
from napari_gpubio.light.io.volumes import (
    read_diffusion_tensors,
    read_domain,
)
from napari_gpubio.light.spectrum import spectrum_media
from napari_gpubio.optics.anisotropy.calibration import FiberCalibration, with_fibers
from napari_gpubio.optics.io.foreign import check_labels_file
from napari_gpubio.optics.io.table import read_table
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.scattering_tensors import PRODUCT, SCATTERING_MODELS
from napari_gpubio.optics.tissue import media_at_wavelengths
from napari_gpubio.optics.tissue.presets import Presets, presets_of

Affine = tuple[Row, Row, Row, Row]
MAX_WAVELENGTHS = 10_000
_VOXELS = ("mua_per_mm", "mus_per_mm", "g", "n")


@dataclass(frozen=True, kw_only=True)
class _Tissue(Reading):
    """What both ways to give a tissue have."""

    media: tuple[Medium, ...] = part("Optical properties", "Those of each label.")
    outside_n: float = param(
        1.0, "n outside", "Refractive index of what surrounds the labels.", minimum=1.0, advanced=True
    )


def _table(rows: list[list[str]]) -> tuple[Medium, ...]:
    if len(rows) > 1:
        raise InvalidInput("there are several tables of optical properties; give one, with a row for each label")
    return tuple(read_table(rows[0][0]))


def _affine(rows: list[list[str]]) -> Affine:
    try:
        matrix: Any = tuple(map(tuple, np.array(rows[-1][0].split(), np.float64).reshape(4, 4).tolist()))
    except ValueError:
        raise InvalidInput(f"the affine is {rows[-1][0]!r}; give 16 numbers, row by row, in quotes") from None
    return matrix


@dataclass(frozen=True, kw_only=True)
class AtWavelengths(Settings):
    """Tissues at several wavelengths."""

    are_parts = False
    words: ClassVar[Any] = {"presets": Words(("LABEL", "PRESET"), presets_of)}

    presets: Presets = part(
        "Presets", "Of labels, at wavelengths, such as 1 'skin (Cassano 2019)'.", default=(), advanced=True
    )
    wavelengths_nm: tuple[float, float, float] | None = part(
        "Wavelengths", "The first, the last, and the step between.", unit="nm", default=None, advanced=True
    )

    def media_by_wavelength(self) -> dict[float, tuple[Medium, ...]]:
        """Return the media of the presets at each wavelength, nm; InvalidInput if there is no such preset."""
        return media_at_wavelengths(dict(self.presets), self._wavelengths())

    def _wavelengths(self) -> list[float]:
        """All of them; InvalidInput if there are none, or too many, or presets that do not fit."""
        if not self.presets or self.wavelengths_nm is None:
            raise InvalidInput("presets and wavelengths belong together; give both")
        (first, last, step), labels = self.wavelengths_nm, [label for label, _ in self.presets]
        count = math.floor((last - first) / step + 1e-9) + 1 if step else 0
        if not 1 <= count <= MAX_WAVELENGTHS:
            raise InvalidInput(
                f"the wavelengths are {self.wavelengths_nm} nm; give the first, the last and the step, such as 650 950 "
                f"6, and {MAX_WAVELENGTHS:,} at most"
            )
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise InvalidInput(f"there are two presets of label {twice}; leave one of them out")
        return [first + index * step for index in range(count)]


@dataclass(frozen=True, kw_only=True)
class OpenDomain(_Tissue, AtWavelengths, verb="open-tissue", makes={"domain": Domain}):
    """Open a label volume, and give it optical properties: those of a table, or of presets for many wavelengths.

    For many wavelengths, it has the least absorption of all, and a scattering in the middle; see the verb spectrum.
    """

    words: ClassVar[Any] = {
        **AtWavelengths.words,
        "media": Words(("TABLE",), _table),
        "affine": Words(("ROWS",), _affine),
    }

    file: File = part("File", "NIfTI volume of labels; 0 is outside.")
    media: tuple[Medium, ...] = part(
        "Optical properties", "Those of each label, of a table .csv or .json: label, mua_per_mm, ...", default=()
    )
    mua: File | None = part("µa", "Volume of absorption coefficients.", default=None, unit="1/mm", advanced=True)
    mus: File | None = part("µs", "Volume of scattering coefficients.", default=None, unit="1/mm", advanced=True)
    g: File | None = part("g", "Volume of the anisotropy g instead.", default=None, advanced=True)
    n: File | None = part("n", "Volume of the refractive index instead.", default=None, advanced=True)
    air_in_cavities: bool = param(
        False, "Air in cavities", "Light crosses voxels of label 0 that tissue encloses, as air.", advanced=True
    )
    affine: Affine | None = part(
        "Affine", "Voxel to world, row by row, in the digits that a file has not.", default=None, unit="mm",
        advanced=True,
    )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if there are no optical properties, or twice, or it is no volume of labels."""
        check_labels_file(self.file.path)
        has_presets = bool(self.presets) or self.wavelengths_nm is not None
        if bool(self.media) == has_presets:
            raise InvalidInput(
                f"{Path(self.file.path).name} has {'two kinds of' if has_presets else 'no'} optical properties; give a "
                "table (--media), or presets at wavelengths"
            )
        if has_presets:
            self._wavelengths()
        if has_presets and self.mua is not None:
            raise InvalidInput("mua gives absorption voxel by voxel, and presets by label; leave one of them out")

    def read(self, data: Any) -> Domain:
        """Read it."""
        maps = {f"{name}_path": getattr(data, name) for name in ("mua", "mus", "g", "n")}
        media = self.media or spectrum_media(self.media_by_wavelength())
        domain = read_domain(data.file, media, outside_n=self.outside_n, affine=self.affine, **maps)
        return domain.with_air_in_cavities() if self.air_in_cavities else domain


@dataclass(frozen=True, kw_only=True)
class HeldDomain(_Tissue, verb="held-tissue", makes={"domain": Domain}):
    """A label volume that no file holds, such as a painted one, with optical properties by label or by voxel."""

    labels: Held = part("Labels", "0 is outside.")
    affine: Affine = part("Affine", "Voxel to world, row by row.", unit="mm")
    name: str = param("labels", "Name", "As people know it.", compare=False)
    mua_per_mm: Held | None = part("µa", "Absorption coefficient of each voxel.", default=None, unit="1/mm")
    mus_per_mm: Held | None = part("µs", "Scattering coefficient of each voxel.", default=None, unit="1/mm")
    g: Held | None = part("g", "Mean cosine of the scattering angle of each voxel.", default=None)
    n: Held | None = part("n", "Refractive index of each voxel.", default=None)
    cosines: Held | None = part("Phase function", "Its inverse distribution, instead of g.", default=None)
    mus_tensor_per_mm: Held | None = part("Tensors", "Scattering tensor of each voxel.", default=None, unit="1/mm")
    scattering_model: str = param(
        PRODUCT, "Model", "How light scatters where there is a tensor.", choices=SCATTERING_MODELS
    )

    @classmethod
    def of(cls, domain: Domain, name: str = "labels", store: Store = STORE) -> "HeldDomain":
        """Return the operation of a tissue as it is, whose arrays are copied."""
        arrays = {one: getattr(domain, one) for one in (*_VOXELS, "mus_tensor_per_mm")}
        arrays["cosines"] = None if domain.phase_function is None else domain.phase_function.cosines
        held: dict[str, Any] = {one: store.hold(array) for one, array in arrays.items() if array is not None}
        if domain.is_anisotropic:
            held["scattering_model"] = domain.scattering_model
        rows: Any = np.asarray(domain.affine, np.float64)
        return cls(
            labels=store.hold(domain.labels), affine=rows, name=name, media=domain.media, outside_n=domain.outside_n,
            **held,
        )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if the affine is none, or there is a model without tensors."""
        checked_affine(self.affine)
        if self.mus_tensor_per_mm is None and self.scattering_model != PRODUCT:
            raise InvalidInput(f"the model is {self.scattering_model!r} without scattering tensors; leave it out")

    def read(self, data: Any) -> Domain:
        """Take it from where it is held."""
        by_voxel = {name: getattr(data, name) for name in (*_VOXELS, "mus_tensor_per_mm")}
        table = None if data.cosines is None else TabulatedPhaseFunction(cosines=data.cosines)
        return Domain(
            labels=data.labels, affine=np.array(self.affine), media=self.media, outside_n=self.outside_n,
            phase_function=table, scattering_model=self.scattering_model, **by_voxel,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class DiffusionTensors:
    """Diffusion tensors in world axes, shape (X, Y, Z, 6), and where they lie."""

    tensors: Any
    affine: Any


@dataclass(frozen=True, kw_only=True)
class OpenDiffusionTensors(Reading, verb="open-diffusion-tensors", makes={"tensors": DiffusionTensors}):
    """Open an image of diffusion tensors, along which light is scattered."""

    file: File = part("File", "NIfTI image.")
    order: str = param(
        "mrtrix", "Order",
        "Of components: mrtrix (xx yy zz xy xz yz), fsl (xx xy xz yy yz zz), dipy (xx xy yy xz yz zz), full (3 x 3).",
        choices=tuple(PLACES),
    )  # fmt: skip
    axes: str = param(
        "auto", "Axes", "That they refer to: world for mrtrix and full, FSL's for the others.",
        choices=("auto", "world", "voxel", "fsl"),
    )  # fmt: skip

    def read(self, data: Any) -> DiffusionTensors:
        """Read it."""
        axes = None if self.axes == "auto" else self.axes
        return DiffusionTensors(*read_diffusion_tensors(data.file, self.order, axes=axes))


@dataclass(frozen=True, kw_only=True)
class HeldDiffusionTensors(Reading, verb="held-diffusion-tensors", makes={"tensors": DiffusionTensors}):
    """Diffusion tensors that no file holds."""

    tensors: Held = part("Tensors", "In world axes, shape (X, Y, Z, 6).")
    affine: Affine = part("Affine", "Voxel of the tensors to world, row by row.", unit="mm")

    def read(self, data: Any) -> DiffusionTensors:
        """Take them from where they are held."""
        return DiffusionTensors(data.tensors, np.array(self.affine))


register_kind(DiffusionTensors, counts=lambda one: (one.tensors, one.affine), opens=OpenDiffusionTensors)


@dataclass(frozen=True, kw_only=True)
class WithFibers(Operation, verb="fibers-in-tissue", makes={"domain": Domain}):
    """Let light scatter less along fibers than across them, whose directions diffusion tensors have.

    Its record is a tissue for light.
    """

    examples = (
        "fibers-in-tissue labels.nii.gz --media tissues.csv --tensors dti.nii.gz --order fsl --record tissue.json",
    )

    tissue: Ref[Domain] = given("Tissue", "Labels with optical properties.")
    tensors: Ref[DiffusionTensors] = given("Tensors", "Image of diffusion tensors.")
    labels: tuple[int, ...] | None = part("Labels", "Those that have fibers; all by default.", default=None)
    calibration: FiberCalibration = part("Calibration", "How much fibers scatter.", default=FiberCalibration())
    model: str = param(
        PRODUCT, "Model", "How light scatters: product is reciprocal, free as in other programs is not.",
        choices=SCATTERING_MODELS,
    )  # fmt: skip

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Domain]:
        """Find them."""
        yield Step(0, 1, "fibers of the tissue")
        given_ = data.tensors
        how: dict[str, Any] = {"labels": self.labels, "calibration": self.calibration, "model": self.model}
        return with_fibers(data.tissue, given_.tensors, given_.affine, **how)


register_kind(
    Domain,
    counts=lambda one: (
        one.labels,
        one.affine,
        one.media,
        one.outside_n,
        *(getattr(one, name) for name in _VOXELS),
        None if one.phase_function is None else one.phase_function.cosines,
        one.mus_tensor_per_mm,
        one.scattering_model,
    ),
    opens=OpenDomain,
)
