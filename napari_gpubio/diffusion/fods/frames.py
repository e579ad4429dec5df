"""What turns harmonics and directions of other programs into those of MRtrix 3 in world axes.

Programs write directions in one of three frames (see `napari_gpubio.core.tensor_components.axes_of`): MRtrix in world
axes whatever the affine is, DIPY and FSL in the axes of the bvec file (``"fsl"``), DSI Studio in those of the voxels.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import axes_of
from napari_gpubio.diffusion.fods.harmonics import coefficient_count, half_sphere, harmonics

Floats = npt.NDArray[np.float64]
FRAMES = {
    "world": "world axes",
    "fsl": "the axes of the bvec file (the voxels', the first one reversed if the affine's determinant is positive)",
    "voxel": "the axes of the voxels",
}
USUAL_FRAMES = {"mrtrix": "world", "mrtrix0.2": "world", "descoteaux_legacy": "fsl", "descoteaux": "fsl"}
_SAMPLES_EACH = 4  # directions for each coefficient, which makes the fit exact to 1e-14


def checked_frame(frame: str, usual: str) -> str:
    """Return a frame, the usual one of the program for ``"auto"``; InvalidInput for an unknown one."""
    if frame not in ("auto", *FRAMES):
        raise InvalidInput(f"frame is {frame!r}; choose one of 'auto', {', '.join(map(repr, FRAMES))}")
    return usual if frame == "auto" else frame


def frame_note(what: str, frame: str, program: str, *, source: str) -> str:
    """Sentence that says in which axes directions were taken, and how to choose others.

    ``source``: who said so, such as "as requested"; empty where the convention of ``program`` was assumed ("MRtrix has
    them").
    """
    others = " or ".join(repr(other) for other in FRAMES if other != frame)
    if source:
        return f"{what} were taken in {FRAMES[frame]}, {source}"
    return f"{what} were taken in {FRAMES[frame]}, as {program}; if they use others, choose {others}"


def to_world_matrix(lmax: int, basis: str, frame: str, affine: npt.ArrayLike) -> Floats:
    """Matrix (N, N) that turns coefficients of a basis and a frame into those of MRtrix 3 in world axes.

    Parameters
    ----------
    lmax
        Largest order, even.
    basis
        One of `napari_gpubio.diffusion.fods.harmonics.BASES`.
    frame
        One of `FRAMES`.
    affine
        Voxel to world, mm.
    """
    # A direction w of the frame is Q w in the world, so the amplitudes in some u of the world are those in Q^T u.
    world = half_sphere(_SAMPLES_EACH * coefficient_count(lmax))
    own = world @ axes_of(frame, affine)
    return np.asarray(np.linalg.lstsq(harmonics(world, lmax), harmonics(own, lmax, basis), rcond=None)[0])


def to_world(coefficients: npt.NDArray[Any], lmax: int, basis: str, frame: str, affine: npt.ArrayLike) -> Any:
    """Coefficients (..., N) of a basis and a frame as those of MRtrix 3 in world axes, in their type."""
    return coefficients @ to_world_matrix(lmax, basis, frame, affine).T.astype(coefficients.dtype)
