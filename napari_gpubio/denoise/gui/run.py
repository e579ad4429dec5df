"""A run of the panel, in a worker: the denoised image as layers show it, its noise, and how much it has gained."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import operations
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.operations.layer_sources import LayerSource
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence import FluenceResult
from napari_gpubio.denoise.gain import gain_steps
from napari_gpubio.denoise.napari_io import Array, LayerVolume
from napari_gpubio.denoise.operations import Denoise, DenoiseFluence
from napari_gpubio.denoise.parts import Filtering
from napari_gpubio.denoise.values import in_place
from napari_gpubio.denoise.volumes import DenoisedVolume

UNKNOWN = "not known"
_NAN = float("nan")


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Draft:
    """What the panel is set to: an operation whose inputs are still layers.

    Parameters
    ----------
    image
        How the image is shown.
    verb, fields
        The operation, and its fields but for the inputs.
    sources
        Its inputs, by the names of their fields.
    device
        As the API takes it.
    """

    image: LayerVolume
    verb: type[Denoise | DenoiseFluence]
    fields: dict[str, Any]
    sources: dict[str, LayerSource]
    device: str

    def operation(self) -> Operation:
        """Return the operation; where its inputs come from is looked for, which takes a moment."""
        inputs: dict[str, Any] = {name: one.output() for name, one in self.sources.items()}
        return self.verb(**inputs, **self.fields)

    def filtering(self) -> Filtering:
        """Return what it does, beside all operations; for parts of an image."""
        return Filtering.of(self.fields, {name: one.volume for name, one in self.sources.items()})

    @property
    def partner(self) -> str:
        """Name of the layer that is the other half of the image; empty if the image is the whole."""
        return self.sources["second"].volume.name if "second" in self.sources else ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Medians over the voxels with more signal than noise; NaN where there are none, or where they are not known."""

    noise: float  # standard deviation before denoising, in the unit of the image
    relative_noise: float  # the same divided by the signal
    before_db: float  # signal / noise before denoising
    gain_db: float  # of signal / noise, estimated
    left: float = _NAN  # standard deviation after denoising
    relative_left: float = _NAN

    @property
    def times(self) -> float:
        """How many times the photons (or repetitions) would give the same signal / noise without a filter."""
        return float(10.0 ** (self.gain_db / 10.0))


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Denoised(ShortRepr):
    """Result of a run, ready to be shown."""

    draft: Draft
    operation: Operation
    made: DenoisedVolume
    standard_error: Array | None  # that is left in it, on the linear scale, if the mode knows it
    residual_limit: float  # largest absolute residual that the colors resolve
    numbers: Numbers


def run_steps(draft: Draft, stop: threading.Event) -> Generator[Step, None, Denoised]:
    """Denoise what is drafted, and find what is shown of it."""
    yield Step(0, 1, "reading the image")
    operation = draft.operation()
    made: DenoisedVolume = yield from without_previews(operations.run_steps(operation, device=draft.device, stop=stop))
    numbers = yield from without_previews(_numbers_steps(draft, made, stop))
    is_known = isinstance(made.result, FluenceResult) and made.has_halves
    return Denoised(
        draft=draft,
        operation=operation,
        made=made,
        standard_error=_error_left(draft, made) if is_known else None,
        residual_limit=_limit(made.residual.array),
        numbers=numbers,
    )


def without_previews(steps: Generator[Step, None, Any]) -> Generator[Step, None, Any]:
    """Take the same steps, of which the GUI thread makes no previews meanwhile."""
    try:
        while True:
            yield next(steps).showing(None)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def _error_left(draft: Draft, made: DenoisedVolume) -> Array:
    """Standard error of the denoised image on the linear scale, of the whole image's shape."""
    nowhere, chosen = np.full(draft.image.shape, np.nan, np.float32), draft.fields["volumes"]
    volumes = None if chosen is None else slice(chosen[0], chosen[1] + 1)
    return in_place(nowhere, made.result.noise, volumes, keeps_gaps=False)


def _limit(residual: Array) -> float:
    """Nearly the largest absolute residual, of those that are not 0."""
    sizes = np.abs(residual[np.isfinite(residual) & (residual != 0)])
    return float(np.percentile(sizes[:: max(1, sizes.size // 1_000_000)], 99)) if sizes.size else 1.0


# -- numbers ----------------------------------------------------------------------------------------------------------


def _numbers_steps(draft: Draft, made: DenoisedVolume, stop: threading.Event) -> Generator[Step, None, Numbers]:
    """Compute the numbers of a result: from two halves, or from the answer of the filter to added noise."""
    result = made.result
    if isinstance(result, FluenceResult):
        yield Step(1, 1, "the numbers")
        left = result.noise if made.has_halves else None
        return _numbers_of(result.image, result.raw_noise, result.snr_gain_db, left)
    gain_db = _NAN
    if result.complete:
        gain_db = yield from gain_steps(draft.filtering(), result, device=draft.device, stop=stop)
    return _numbers_of(result.image, result.noise, gain_db)


def _numbers_of(image: Array, noise: Array, gain_db: float, left: Array | None = None) -> Numbers:
    """Numbers of a denoised image, its noise before denoising, and that which is left where it is known."""
    there = (noise > 0) & (image > noise)
    signal, sigma = image[there], noise[there].astype(np.float64)
    rest = np.array([]) if left is None else left[there].astype(np.float64)
    relative = _median(sigma / signal)
    return Numbers(
        noise=_median(sigma),
        relative_noise=relative,
        before_db=float(-20.0 * np.log10(relative)),
        gain_db=gain_db,
        left=_median(rest),
        relative_left=_NAN if left is None else _median(rest / signal),
    )


def _median(values: npt.NDArray[Any]) -> float:
    return float(np.median(values)) if values.size else _NAN


def number_texts(
    numbers: Numbers, image: LayerVolume, times: str = "photons or averages", about: str = "≈"
) -> dict[str, str]:
    """Return the numbers of an image as they are shown; of logarithms the noise relative to the signal.

    ``times`` names what more of would do the same without a filter; ``about`` stands before the gain.
    """
    if image.is_log:
        amounts, unit = (100 * numbers.relative_noise, 100 * numbers.relative_left), "%"
    else:
        amounts, unit = (numbers.noise, numbers.left), image.unit
    noise = f"{' → '.join(short_number(amount, 3) for amount in amounts if np.isfinite(amount))} {unit}".rstrip()
    has_gain = np.isfinite(numbers.gain_db)
    return {
        "noise": noise if np.isfinite(numbers.noise) else UNKNOWN,
        "before": f"{numbers.before_db:.1f} dB" if np.isfinite(numbers.before_db) else UNKNOWN,
        "gain": f"{about} {numbers.gain_db:.0f} dB" if has_gain else UNKNOWN,  # known to a decibel at best
        "times": f"{about} {short_number(float(f'{numbers.times:.2g}'))} × the {times}" if has_gain else UNKNOWN,
    }
