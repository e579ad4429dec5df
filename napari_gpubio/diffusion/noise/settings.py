"""Settings of Marchenko-Pastur PCA."""

from dataclasses import dataclass

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings

FEWEST = 10  # volumes, and voxels of a window: the eigenvalues that noise and signal are distinguished by


@dataclass(frozen=True, kw_only=True)
class NoiseSettings(Settings):
    """How a diffusion scan is denoised."""

    window: int = param(
        0,
        "Window",
        "Edge of the cube of voxels around each voxel, an odd number; 0: the smallest cube with as many voxels as "
        "there are volumes (5 for 28 to 125 of them).",
        unit="voxels",
        minimum=0,
        maximum=15,
        step=2,
    )
    estimator: str = param(
        "exp2",
        "Estimator",
        "How noise and signal are told apart: exp2 (Cordero-Grande 2019) allows for the signal's components, exp1 is "
        "that of Veraart (2016).",
        choices=("exp2", "exp1"),
        advanced=True,
    )
    rician: bool = param(
        False,
        "Correct magnitudes",
        "Take the mean of the noise out of the magnitudes (Koay and Basser 2006) after they are denoised (never "
        "before): for scans with a signal-to-noise ratio below 3.",
    )
    precision: str = param(
        "double",
        "Precision",
        "Of the sums over a window. Single precision takes 0.5 to 0.8 of the time, and changes the noise level by less "
        "than 0.1 % up to a signal-to-noise ratio of 50.",
        choices=("double", "single"),
        advanced=True,
    )

    def check(self) -> None:
        """Raise InvalidInput if the window is none."""
        if self.window and (self.window < 3 or self.window % 2 == 0):
            raise InvalidInput(f"window is {self.window} voxels; give an odd number from 3 on, or 0 for a fitting one")

    def edge(self, volumes: int) -> int:
        """Return the edge of the window in voxels, of a scan that is large enough, for a number of volumes."""
        return self.window or next(edge for edge in range(3, volumes + 3, 2) if edge**3 >= volumes)

    def edges(self, shape: tuple[int, ...], volumes: int) -> tuple[int, int, int]:
        """Return the edges of the window in voxels, which is cut where the scan has fewer voxels along an axis.

        Parameters
        ----------
        shape
            (X, Y, Z) of the scan.
        volumes
            Number of volumes.

        Raises
        ------
        InvalidInput
            If there are fewer than 10 volumes, or voxels in a window, too few to separate noise from signal.
        """
        if volumes < FEWEST:
            raise InvalidInput(
                f"the scan has {volumes} volumes; to tell noise from signal takes at least {FEWEST}: "
                "put all volumes of the session into one series, or use the filter of the denoise engine"
            )
        x, y, z = (min(self.edge(volumes), size) for size in shape[:3])
        if x * y * z < FEWEST:
            raise InvalidInput(
                f"a window of {x} x {y} x {z} voxels is all that the scan of {' x '.join(map(str, shape[:3]))} voxels "
                f"has room for; at least {FEWEST} voxels tell noise from signal: give a larger part of the scan"
            )
        return x, y, z
