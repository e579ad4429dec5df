"""The verb ``forward``: from a probe file and a segmented head to sensitivities."""

import dataclasses
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_numbers
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.numbers import number_text
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Summary, Words, file, given
from napari_gpubio.core.operations.volumes import Row, Volume, array_on_grid
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.space import checked_affine
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.optics.io.bids_nirs import files_beside
from napari_gpubio.optics.io.foreign import check_labels_file
from napari_gpubio.optics.io.table import read_table
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.tissue.presets import HEAD_TABLES, Presets, presets_of
from napari_gpubio.probes.forward.io import SUFFIXES, check_format, read_unfinished, write_model
from napari_gpubio.probes.forward.model import Head, Probe, TabulatedTissue, head_names, head_tissues, read_probe
from napari_gpubio.probes.forward.place import FARTHEST_MM, place, register
from napari_gpubio.probes.forward.result import ForwardModel
from napari_gpubio.probes.forward.run import forward_model_steps, wavelengths_of
from napari_gpubio.probes.forward.settings import ForwardSettings

Landmarks = tuple[tuple[str, float, float, float], ...]


def _landmarks(rows: list[list[str]]) -> Landmarks:
    try:
        return tuple((name, float(x), float(y), float(z)) for name, x, y, z in rows)
    except ValueError as error:
        raise InvalidInput(f"a landmark is a name and three numbers, mm ({error})") from None


def _matrix(rows: list[list[str]]) -> tuple[Row, ...]:
    matrix = existing_numbers(rows[-1][0])
    if matrix.shape != (4, 4):
        raise InvalidInput(f"{Path(rows[-1][0]).name} has numbers of shape {matrix.shape}; an affine is 4 x 4")
    return tuple(map(tuple, matrix.tolist()))


@dataclass(frozen=True, kw_only=True)
class OpenProbe(Reading, verb="open-probe", makes={"probe": Probe}):
    """Open a probe, and take it to the world of a head by landmarks or an affine, unless it is there already."""

    examples = ("open-probe probe.snirf --landmarks Nz 0 85 -40 --landmarks LPA -80 0 -40 --record probe.json",)

    words: ClassVar[Any] = {
        "landmarks": Words(("NAME", "X", "Y", "Z"), _landmarks),
        "affine": Words(("FILE",), _matrix),
    }

    file: File = part("File", "Probe: .snirf, .nirs, or *_optodes.tsv of BIDS-NIRS.")
    beside: tuple[File, ...] = part("Beside it", "The other files of BIDS that say what it is.", default=())
    landmarks: Landmarks = part(
        "Landmarks", "Where those of the probe's file are in the head's world; three at least.", unit="mm", default=()
    )
    scale: bool = param(False, "Scale", "Also fit one scale to the landmarks.", advanced=True)
    affine: tuple[Row, Row, Row, Row] | None = part(
        "Affine", "Text file with 4 x 4 numbers from the probe's mm to the world.", default=None
    )

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenProbe":
        """Return the operation that opens a probe as it is now."""
        return super().at(path, beside=tuple(map(file, files_beside(path))), **options)

    def check(self) -> None:
        """Raise InvalidInput if there are two ways to its place, or a part of one."""
        if self.landmarks and self.affine is not None:
            raise InvalidInput("both landmarks and an affine are given; give one of them")
        if self.scale and not self.landmarks:
            raise InvalidInput("scale is of the landmarks; give them: NAME X Y Z, three at least")
        if len(dict(self._places())) < len(self.landmarks):
            raise InvalidInput("a landmark is given twice; leave one of them out")
        if self.affine is not None:
            checked_affine(self.affine)

    def _places(self) -> Iterator[tuple[str, tuple[float, float, float]]]:
        return ((name, (x, y, z)) for name, x, y, z in self.landmarks)

    def read(self, data: Any) -> Probe:
        """Read it; InvalidInput if other files lie beside it now."""
        if {*files_beside(data.file)} != {*data.beside}:
            names = ", ".join(sorted(one.name for one in files_beside(data.file))) or "nothing"
            raise InvalidInput(f"beside {data.file.name} lies {names} now, which is not in the record; open it anew")
        probe = read_probe(data.file)
        if self.affine is not None:
            return register(probe, affine=np.array(self.affine))
        return register(probe, landmarks_mm=dict(self._places()), scale=self.scale) if self.landmarks else probe


@dataclass(frozen=True, kw_only=True)
class MediaAt(Settings):
    """Optical properties of labels at a wavelength."""

    wavelength_nm: float = part("Wavelength", "Where they are known.", unit="nm")
    media: tuple[Medium, ...] = part("Optical properties", "Those of each label.")

    @property
    def title(self) -> str:
        """What people call them."""
        return f"media at {self.wavelength_nm:g} nm"


def _media(rows: list[list[str]]) -> tuple[MediaAt, ...]:
    try:
        wavelengths = [float(nm) for nm, _ in rows]
    except ValueError as error:
        raise InvalidInput(f"media are a wavelength in nm and a table ({error}); give both") from None
    return tuple(
        MediaAt(wavelength_nm=nm, media=tuple(read_table(path)))
        for nm, (_, path) in zip(wavelengths, rows, strict=True)
    )


@dataclass(frozen=True, kw_only=True)
class OpenHead(Reading, verb="open-head", makes={"head": Head}):
    """Open a segmented head, and say what its labels are at all wavelengths: one of three ways."""

    examples = ("open-head head.nii.gz --head-table 'Strangman 2003' --record head.json",)

    words: ClassVar[Any] = {
        "presets": Words(("LABEL", "PRESET"), presets_of),
        "media": Words(("NM", "TABLE"), _media),
    }

    file: File = part("File", "Label volume (NIfTI); 0 is outside.")
    head_table: str | None = param(
        None, "Table", "Labels 1 to 5 are scalp, skull, CSF, gray and white matter.", choices=tuple(HEAD_TABLES)
    )
    presets: Presets = part("Presets", "Of labels, such as 4 'gray matter (Cassano 2019)'.", default=())
    media: tuple[MediaAt, ...] = part("Tables", "Table of optical properties at a wavelength.", default=())
    outside_n: float = param(
        1.0, "n outside", "Refractive index of what surrounds the head.", minimum=1.0, advanced=True
    )

    def check(self) -> None:
        """Raise InvalidInput if it is no label volume, or tissues are given in no way, in several, or twice."""
        check_labels_file(self.file.path)
        if sum(map(bool, (self.head_table, self.presets, self.media))) != 1:
            raise InvalidInput("give the tissues of the labels: one of head-table, presets and media")
        keys = [f"label {label}" for label, _ in self.presets] or [f"{one.wavelength_nm:g} nm" for one in self.media]
        if len({*keys}) < len(keys):
            raise InvalidInput(f"one occurs twice among {', '.join(keys)}; leave one of them out")

    def read(self, data: Any) -> Head:
        """Read it."""
        labels, affine = read_volume(data.file)
        volume: dict[str, Any] = {"labels": labels, "affine": affine, "path": data.file, "outside_n": self.outside_n}
        if self.head_table is not None:
            return Head(**volume, tissues=head_tissues(self.head_table), names=head_names())
        tables = {one.wavelength_nm: one.media for one in self.media}
        return Head(**volume, tissues=TabulatedTissue.of_tables(tables) if tables else dict(self.presets))


@dataclass(frozen=True, kw_only=True)
class MakeForwardModel(Operation, verb="forward", makes={"model": ForwardModel}):
    """Simulate every optode of a probe at every wavelength: the sensitivities of all pairs.

    What is done is kept every 8 s beside --out (of model.nc in model_unfinished.npz), and Ctrl-C adds pairs whose
    optodes are done. The same command goes on with it, also after a kill.
    """

    examples = (
        (
            'forward probe.snirf --head head.nii.gz --head-table "Cassano 2019" --wavelengths-nm 760 850 '
            '--landmarks Nz 0 86 -42 --landmarks LPA -76 -12 -40 --landmarks RPA 76 -12 -40 --labels "gray matter" '
            "--longest-mm 45 --out model.nc"
        ),
        "forward sub-01_optodes.tsv --head head.nii.gz --media 760 a.csv --media 850 b.csv --out model.npz",
    )
    continues = "model"

    probe: Ref[Probe] = given("Probe", "Sources and detectors: .snirf, .nirs, or *_optodes.tsv of BIDS-NIRS.")
    head: Ref[Head] = given("Head", "Label volume (NIfTI), 0 is outside.")
    mask: Ref[Volume] | None = given("Mask", "Only its voxels other than 0 are kept.", optional=True)
    atlas: Ref[Volume] | None = given("Atlas", "Parcels on the same grid, for .nc.", optional=True)
    labels: tuple[str, ...] = part(
        "Labels", "Those whose voxels are kept, by number or name; all by default.", default=()
    )
    project: bool = param(False, "Project", "Move optodes that are far off onto the scalp.")
    farthest_mm: float = param(
        FARTHEST_MM, "Farthest", "From the scalp, where they are not projected.", unit="mm", minimum=0.0, advanced=True
    )
    settings: ForwardSettings = part("Simulation", "Photons, and what is kept.", default=ForwardSettings())

    def steps(self, data: Any, *, known: Any = None, **run: Any) -> Generator[Step, None, ForwardModel]:
        """Simulate it; pairs whose optodes are not done when it is stopped have no row."""
        yield Step(0, 1, "places of optodes")
        head, probe = data.head, data.probe
        grid = Volume(array=head.labels, affine=head.affine, name="the head")
        mask, atlas = (None if one is None else array_on_grid(one, grid) for one in (data.mask, data.atlas))
        wavelengths = wavelengths_of(probe, self.settings)
        placed = place(probe, head.at(wavelengths[0]), farthest_mm=self.farthest_mm, project=self.project)
        found = yield from forward_model_steps(
            head, placed, self.settings, labels=self.labels or None, mask=mask, resume=known, **run
        )
        return dataclasses.replace(found, parcels=atlas)

    def summary(self, made: ForwardModel) -> Summary:
        """Mean partial paths of every pair, mm, with their standard errors."""
        names = "wavelength_nm", "mean_path_mm", "mean_path_error_mm"  # of each channel in each label
        paths = [(part.wavelength_nm, part.label_paths_mm, part.label_errors_mm) for part in made.parts]
        numbers = {
            "channels": made.channels, "separations_mm": made.separations_mm, "labels": made.labels,
            "label_names": made.label_names, "wavelengths": [dict(zip(names, one, strict=True)) for one in paths],
        }  # fmt: skip
        return Summary(tuple(_lines(made)), numbers)


def _lines(model: ForwardModel) -> Iterator[str]:
    yield (
        f"{len(model.pairs)} pairs, {len(model.voxels):,} voxels, {model.parameters['photons']:,} photons of each of "
        f"{model.parameters['optodes']} optodes in {model.parameters['seconds']:.1f} s on {model.parameters['device']}"
    )
    names = [name or f"label {label}" for label, name in zip(model.labels, model.label_names, strict=True)]
    for part_ in model.parts:
        yield f"{part_.wavelength_nm:g} nm: mean path, mm: {', '.join(names)}"
        for row, (channel, apart) in enumerate(zip(model.channels, model.separations_mm, strict=True)):
            if not part_.reached[row]:
                why = "too close" if part_.close[row] else "not reached" if part_.done[row] else "not done"
                yield f"  {channel:10}{apart:6.1f} mm  {why}"
                continue
            paths = zip(part_.label_paths_mm[row], part_.label_errors_mm[row], strict=True)
            yield f"  {channel:10}{apart:6.1f} mm  " + ", ".join(number_text(*path) for path in paths)


# -- files ------------------------------------------------------------------------------------------------------------


def _kept_at(path: Path) -> Path:
    """File of what is done of a model: .npz, which says what is missing, under a name of its own beside .nc."""
    check_format(path)
    return path if path.suffix.lower() == ".npz" else path.with_name(f"{path.stem}_unfinished.npz")


def _write(model: ForwardModel, path: Path, record: Mapping[str, Any]) -> None:
    write_model(path, dataclasses.replace(model, parameters={**model.parameters, RECORD: record}))


register_kind(
    Probe,
    counts=lambda one: (one.names, one.positions_mm, one.all_pairs, one.wavelengths_nm),
    opens=OpenProbe,
)
register_kind(Head, counts=lambda one: (one.labels, one.affine, one.tissues, one.names, one.outside_n), opens=OpenHead)
register_kind(
    ForwardModel,
    counts=lambda one: (one.channels, one.labels, one.voxels, one.parts, one.parcels),
    endings=SUFFIXES,
    write=_write,
    kept_at=_kept_at,
    unfinished=read_unfinished,
)
