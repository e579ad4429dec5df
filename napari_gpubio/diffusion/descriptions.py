"""What scans, tensors, orientations and atlases say of themselves."""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from napari_gpubio.core.describe import (
    Curves,
    Fact,
    Item,
    Line,
    Matrix,
    Slices,
    Style,
    describes,
    description,
    grid_facts,
    middle,
)
from napari_gpubio.core.tensor_components import fractional_anisotropy, matrices
from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.model import Array, DiffusionScan, TensorField
from napari_gpubio.diffusion.noise.model import DenoisedScan
from napari_gpubio.diffusion.regions import Atlas

_AXES = ("x", "y", "z")
_COMPONENTS = ("xx", "yy", "zz", "xy", "xz", "yz")


def _mean_of(volumes: Array, values: Array) -> Array:
    return np.asarray(values[..., volumes].mean(axis=-1, dtype=np.float32))


@describes(DiffusionScan)
def _scan(scan: DiffusionScan) -> Iterator[Item]:
    yield from grid_facts(scan.data.shape, scan.affine)
    of = scan.shell_of
    yield Fact("volumes of shells", ", ".join(f"{np.count_nonzero(of == b)} of {b:,}" for b in scan.shells()), "s/mm²")
    along = {"b_value": ("volume", scan.bvals)}
    along |= {f"gradient_{axis}": ("volume", scan.directions[:, n]) for n, axis in enumerate(_AXES)}
    for name, which in (("mean of the lowest shell", of == of.min()), ("mean of the highest shell", of == of.max())):
        shows = functools.partial(_mean_of, which)
        yield Slices("signal", scan.data, scan.affine, "", (*_AXES, "volume"), shows=shows, shown_as=name, along=along)


@describes(DenoisedScan)
def _denoised(one: DenoisedScan) -> Iterator[Item]:
    yield Fact("noise, median", float(np.median(one.noise[one.mask])))
    yield Slices("standard deviation of the noise", one.noise, one.denoised.affine, style="heat")
    yield from description(one.scan)


def _colors_of(tensors: Array) -> Array:
    """Direction of the largest eigenvalue as red, green and blue, as bright as FA, of tensors (..., 6)."""
    values, vectors = np.linalg.eigh(matrices(tensors))
    return np.abs(vectors[..., -1]) * fractional_anisotropy(values)[..., np.newaxis]


def _fa_of(tensors: Array) -> Array:
    return fractional_anisotropy(np.linalg.eigvalsh(matrices(tensors)))


@describes(TensorField)
def _tensors(field: TensorField) -> Iterator[Item]:
    yield from grid_facts(field.shape, field.affine)
    yield Fact("voxels with a tensor", np.count_nonzero(field.mask))
    yield Fact("repaired tensors", field.repaired_count)
    yield Fact("mean diffusivity", float(field.tensors[field.mask][:, :3].mean()), "mm²/s")
    colors = "direction (red left-right, green front-back, blue up-down) by FA"
    shown: tuple[tuple[Style, Any, str], ...] = (("gray", _fa_of, "FA"), ("color", _colors_of, colors))
    for style, shows, name in shown:
        yield Slices(
            "diffusion tensor", field.tensors, field.affine, axes=(*_AXES, "component"), style=style, shows=shows,
            shown_as=name, at=middle(field.mask), along={"component": ("component", _COMPONENTS)},
        )  # fmt: skip


@describes(FodField)
def _fods(fods: FodField) -> Iterator[Item]:
    yield from grid_facts(fods.shape, fods.affine)
    yield Fact("largest order", fods.lmax)
    yield Fact("voxels with a distribution", np.count_nonzero(fods.mask))
    along = harmonics(np.eye(3), fods.lmax)
    yield Slices(
        "FOD", fods.coefficients, fods.affine, axes=(*_AXES, "coefficient"), style="color",
        shows=lambda values: np.clip(values @ along.T, 0, None),
        shown_as="amplitudes left-right (red), front-back (green), up-down (blue)", at=middle(fods.mask),
    )  # fmt: skip
    yield from (Slices(f"density of {name}", density, fods.affine) for name, density in fods.tissues.items())


@describes(FixelField)
def _fixels(one: FixelField) -> Iterator[Item]:
    yield from grid_facts(one.shape, one.affine)
    yield Fact("fixels", len(one.amplitudes))
    yield Fact("voxels with two or more", np.count_nonzero(one.counts > 1))
    yield Slices("fixels of a voxel", one.counts, one.affine, style="heat")
    directions, amplitudes = one.dense(1)
    colors = np.abs(directions[..., 0, :]) * amplitudes
    yield Slices("largest fixel", colors, one.affine, axes=(*_AXES, "direction"), style="color")


@describes(Response)
def _response(one: Response) -> Iterator[Item]:
    yield Fact("largest order", one.lmax)
    shells = [f"b = {bval:,}" for bval in one.bvals] or [f"shell {n + 1}" for n in range(len(one.coefficients))]
    orders = [f"l = {2 * n}" for n in range(one.coefficients.shape[1])]
    yield Matrix("coefficients", one.coefficients, shells, orders)
    angles = np.linspace(0.0, 90.0, 46)
    ways = np.stack([np.sin(np.radians(angles)), 0 * angles, np.cos(np.radians(angles))], axis=1)
    zonal = harmonics(ways, one.lmax)[:, [n * (2 * n + 1) for n in range(one.coefficients.shape[1])]]
    lines = tuple(Line(name, angles, zonal @ row) for name, row in zip(shells, one.coefficients, strict=True))
    yield Curves("signal of a fiber", ("angle to the fiber", "°"), ("signal", ""), lines)


@describes(Atlas)
def _atlas(one: Atlas) -> Iterator[Item]:
    yield from grid_facts(one.labels.shape, one.affine)
    yield Fact("regions", len(one))
    yield Slices("label", one.labels, one.affine, style="labels")
