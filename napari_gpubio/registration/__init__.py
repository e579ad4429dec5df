"""Registration: a T1, a template or an atlas' own image onto a diffusion scan, and labels carried over with it.

From a T1 and its labels to labels on the scan's grid, in two commands of Python::

    found = registration.register(t1.array, t1.affine, b0, scan.affine)
    labels = registration.resampled(aparc.labels, aparc.affine, [found], b0.shape, scan.affine, linear=False)

`found` has figures that say how well it went, and notes on what is to be looked at. Files of transforms are in
`registration.io`. It needs SimpleITK: ``python -m pip install 'napari-gpubio[registration]'``.
"""

from napari_gpubio.registration import io
from napari_gpubio.registration.model import Transform, Warp
from napari_gpubio.registration.quality import foreground, mutual_information, overlap
from napari_gpubio.registration.resample import checkerboard, resampled
from napari_gpubio.registration.run import register, register_steps
from napari_gpubio.registration.settings import RegistrationSettings

__all__ = [
    "RegistrationSettings",
    "Transform",
    "Warp",
    "checkerboard",
    "foreground",
    "io",
    "mutual_information",
    "overlap",
    "register",
    "register_steps",
    "resampled",
]
