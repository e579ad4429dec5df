"""What others need for K and SFI of a frame: the filters of SciPy and OpenCV, as scripts use them."""

import importlib.metadata
import importlib.util
from collections.abc import Callable

import numpy as np
from common import Array
from scipy.ndimage import uniform_filter

PACKAGES = {"scipy": "scipy", "cv2": "opencv-python-headless"}


def versions() -> dict[str, str]:
    """Versions of the peers that are installed."""
    found = {}
    for module, package in PACKAGES.items():
        if importlib.util.find_spec(module) is not None:
            for name in (package, "opencv-python", module):
                try:
                    found[module] = importlib.metadata.version(name)
                    break
                except importlib.metadata.PackageNotFoundError:
                    continue
    return found


def missing(module: str) -> str | None:
    """Why a peer cannot take part, or None."""
    return None if importlib.util.find_spec(module) is not None else f"pip install {PACKAGES[module]}"


def _indices(mean: Array, squares: Array, window: int, exposure_s: float) -> tuple[Array, Array]:
    """K and SFI of local means of I and I²."""
    n = window**2
    k2 = (squares - mean * mean) * mean.dtype.type(n / (n - 1)) / (mean * mean)
    return np.sqrt(k2), mean.dtype.type(0.5 / exposure_s) / k2


def scipy_contrast(kind: type) -> Callable[[Array], tuple[Array, Array]]:
    """Make the contrast of `scipy.ndimage.uniform_filter` in a precision, 5 x 5."""

    def work(frame: Array) -> tuple[Array, Array]:
        values = frame.astype(kind)
        return _indices(uniform_filter(values, 5), uniform_filter(values * values, 5), 5, 0.01)

    return work


def opencv_contrast(kind: type) -> Callable[[Array], tuple[Array, Array]]:
    """Make the contrast of OpenCV's box filters in a precision, 5 x 5, on as many threads as it likes."""
    import cv2

    depth = cv2.CV_64F if kind is np.float64 else cv2.CV_32F

    def work(frame: Array) -> tuple[Array, Array]:
        mean = cv2.boxFilter(frame, depth, (5, 5), borderType=cv2.BORDER_REFLECT)
        squares = cv2.sqrBoxFilter(frame, depth, (5, 5), borderType=cv2.BORDER_REFLECT)
        return _indices(mean, squares, 5, 0.01)

    return work
