"""Fluorescence: excitation light that a fluorophore absorbs, and what it emits, with the optics of its wavelength.

The excitation gives a fluence Phi (1/mm^2 per launched photon). A fluorophore with the absorption mu_f (1/mm) and the
quantum yield eta emits eta mu_f Phi photons per mm^3, in all directions; they are the source of the second run. The
noise of the first run is in that source, so photons are shared out among groups: each has an excitation and an emission
of its own, with its own random numbers. Standard errors are those of the groups' spread, whatever comes out of them.
"""

import dataclasses
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import same_grid
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.light.fluorescence.model import FluorescenceResult, Fluorophore
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import check_detectors, check_source, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.batches import FEWEST_BATCHES
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Source, emitting_volume

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
FEWEST_GROUPS = 8
_ENERGY = ("absorbed", "escaped", "truncated", "roulette", "specular", "missed")


def fluorescence_steps(
    excitation_domain: Domain,
    emission_domain: Domain,
    source: Source,
    fluorophore: Fluorophore,
    settings: LightSettings | None = None,
    *,
    detectors: Sequence[Detector] = (),
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, FluorescenceResult]:
    """Trace excitation and emission, step by step; after each group a step's preview is the result so far.

    Parameters
    ----------
    excitation_domain, emission_domain
        The same labels with their optical properties at the two wavelengths. Those of the excitation contain the
        absorption of the fluorophore.
    source
        Source of the excitation.
    fluorophore
        What absorbs and emits.
    settings
        As for `napari_gpubio.light.simulate`, for both runs: as many photons of the emission as of the excitation, and
        ``batches``, at least `FEWEST_GROUPS`, are the groups among which they are shared out. One time gate, from 0,
        because the emission starts anew, whenever it was excited. Photons are rounded down to a multiple of the
        groups; ``halves`` and ``exit_map`` are not used.
    detectors
        Where escaping photons of both kinds are detected.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; the result then holds the groups that are done, with their error, and ``complete`` is
        False.

    Returns
    -------
    FluorescenceResult
        Per launched photon of the excitation. What the fluorophore absorbs of its own emission belongs to the media of
        the emission, and is not emitted again. Light is steady: a lifetime changes nothing.

    Raises
    ------
    InvalidInput
        If the domains differ in more than media, the fluorophore absorbs more than there is, or an input of a run is
        wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import light, optics
    >>> def tissue(mua):
    ...     medium = optics.Medium(label=1, mua_per_mm=mua, mus_per_mm=1.0)
    ...     return optics.Domain(labels=np.ones((9, 9, 9), np.uint8), affine=np.eye(4), media=(medium,))
    >>> dye = light.Fluorophore(mua_per_mm={1: 0.01}, quantum_yield=0.5)
    >>> source = optics.Isotropic(position_mm=(4, 4, 4))
    >>> settings = light.LightSettings(photons=800)
    >>> result = light.fluorescence(tissue(0.03), tissue(0.02), source, dye, settings, device="cpu")
    >>> 0 < result.emitted.value < 0.5
    True
    """
    settings = settings or LightSettings()
    plan = _Plan(excitation_domain, emission_domain, source, fluorophore, settings, tuple(detectors))
    plan.check()
    clock, chosen, sums = RunClock(), choose_device(device), _Sums()
    groups, photons = settings.batches, plan.photons
    total = 2 * groups * photons

    def result_so_far() -> FluorescenceResult:
        about = {"device": chosen.describe(), "seconds": round(clock.seconds, 4)}
        return plan.result(sums, about)

    for group in range(groups):
        done, named = 2 * group * photons, f"group {group + 1} of {groups}"
        excited = yield from _run(plan.excitation(group), chosen, stop, (done, total, f"excitation, {named}"))
        if not excited.complete:
            break
        emitted: LightResult | None = None
        if (rate := plan.emission_rate(excited)) > 0:
            reported = (done + photons, total, f"emission, {named}")
            emitted = yield from _run(plan.emission(group, excited), chosen, stop, reported)
            if not emitted.complete:
                break
        sums.add(plan.numbers(excited, emitted, rate))
        preview = result_so_far if 1 < sums.count < groups else None
        yield Step(done + 2 * photons, total, named, make_preview=preview)
        if stop is not None and stop.is_set():
            break
    return result_so_far()


fluorescence = driven(fluorescence_steps)


def _run(
    arguments: tuple[Domain, Source, LightSettings, tuple[Detector, ...]],
    device: Device,
    stop: threading.Event | None,
    reported: tuple[int, int, str],
) -> Generator[Step, None, LightResult]:
    """One of the runs, its steps counted among all."""
    domain, source, settings, detectors = arguments
    steps = simulate_steps(domain, source, settings, detectors=detectors, device=device, stop=stop)
    done, total, message = reported
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            result: LightResult = end.value
            return result
        yield Step(done + step.done, total, message)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which runs are made, and what of each group counts."""

    excitation_domain: Domain
    emission_domain: Domain
    source: Source
    fluorophore: Fluorophore
    settings: LightSettings
    detectors: tuple[Detector, ...]

    def check(self) -> None:
        a, b, settings = self.excitation_domain, self.emission_domain, self.settings
        if not same_grid(a.shape, a.affine, b.shape, b.affine) or not np.array_equal(a.labels, b.labels):
            raise InvalidInput(
                "excitation and emission have other labels or grids; give one volume with two sets of media"
            )
        if settings.gate_count != 1 or settings.time_gates_ns[0] != 0:
            raise InvalidInput(
                f"the time gates are {list(settings.time_gates_ns)} ns; fluorescence is simulated in steady light: "
                "give one gate, from 0"
            )
        if settings.batches < FEWEST_GROUPS:
            raise InvalidInput(
                f"batches is {settings.batches}; give at least {FEWEST_GROUPS} groups: their spread gives the standard "
                "errors"
            )
        if self.photons < FEWEST_BATCHES:
            raise InvalidInput(
                f"there are {settings.photons} photons for {settings.batches} groups; give {FEWEST_BATCHES} for each"
            )
        check_source(a, self.source)
        check_detectors(a, self.detectors)
        if not self.mua.any():
            raise InvalidInput("the fluorophore is in no voxel of tissue; check its labels or its volume")

    @cached_property
    def mua(self) -> npt.NDArray[np.float32]:
        """Absorption of the fluorophore, 1/mm."""
        return self.fluorophore.absorption(self.excitation_domain)

    @cached_property
    def seeds(self) -> list[int]:
        """Of the excitation and then the emission of each group."""
        words = np.random.SeedSequence(self.settings.seed).generate_state(2 * self.settings.batches, np.uint64)
        return [int(word) for word in words]

    @property
    def photons(self) -> int:
        """Photons of each run of a group."""
        return self.settings.photons // self.settings.batches

    def excitation(self, group: int) -> tuple[Domain, Source, LightSettings, tuple[Detector, ...]]:
        """What the first run of a group takes."""
        settings = self._settings(self.seeds[2 * group])
        return self.excitation_domain, self.source, settings, self.detectors

    def emission(self, group: int, excited: LightResult) -> tuple[Domain, Source, LightSettings, tuple[Detector, ...]]:
        """What the second one takes."""
        domain, settings = self.emission_domain, self._settings(self.seeds[2 * group + 1])
        return domain, emitting_volume(self._absorbed(excited), domain.affine), settings, self.detectors

    def _settings(self, seed: int) -> LightSettings:
        return dataclasses.replace(
            self.settings, photons=self.photons, seed=seed, batches=FEWEST_BATCHES, halves=False, exit_map=False
        )

    def _absorbed(self, excited: LightResult) -> Floats:
        """Photons that the fluorophore absorbed, per mm^3."""
        return excited.fluence.astype(np.float64) * self.mua

    def emission_rate(self, excited: LightResult) -> float:
        """Photons emitted for each launched one."""
        absorbed = float(self._absorbed(excited).sum()) * self.excitation_domain.voxel_volume_mm3
        return absorbed * self.fluorophore.quantum_yield

    def numbers(self, excited: LightResult, emitted: LightResult | None, rate: float) -> dict[str, Any]:
        """Everything of a group whose mean and spread make the result, per launched photon of the excitation."""
        domain = self.emission_domain
        fluence: Array = np.zeros(domain.shape)
        energy, labels = dict.fromkeys(_ENERGY, 0.0), dict.fromkeys(domain.labels_present, 0.0)
        detected = np.zeros(len(self.detectors))
        if emitted is not None:
            fluence = emitted.fluence * rate
            energy = {name: rate * getattr(emitted.energy, name).value for name in _ENERGY}
            labels = {label: rate * part.value for label, part in emitted.absorbed.items()}
            detected = rate * _weights(emitted, len(self.detectors))
        counts = np.bincount(domain.labels.ravel())
        sums = np.bincount(domain.labels.ravel(), weights=fluence.ravel())
        return {
            "excitation": excited.fluence.astype(np.float64),
            "fluence": np.asarray(fluence, np.float64),
            "emitted": np.array(rate),
            "excitation_energy": np.array([getattr(excited.energy, name).value for name in _ENERGY]),
            "energy": np.array([energy[name] for name in _ENERGY]),
            "absorbed": np.array([labels[label] for label in domain.labels_present]),
            "mean_fluence": np.array([sums[label] / counts[label] for label in domain.labels_present]),
            "excitation_detected": _weights(excited, len(self.detectors)),
            "detected": detected,
        }

    def result(self, sums: "_Sums", about: Mapping[str, Any]) -> FluorescenceResult:
        """Means over the groups, with the errors of their spread."""
        shape, labels = self.emission_domain.shape, self.emission_domain.labels_present
        shapes = {"excitation": shape, "fluence": shape, "absorbed": (len(labels),), "mean_fluence": (len(labels),)}
        shapes |= dict.fromkeys(("excitation_energy", "energy"), (len(_ENERGY),))
        shapes |= dict.fromkeys(("excitation_detected", "detected"), (len(self.detectors),))

        def estimates(name: str) -> tuple[Estimate, ...]:
            mean, error = sums.mean_and_error(name, shapes.get(name, ()))
            return tuple(Estimate(float(m), float(e)) for m, e in zip(np.ravel(mean), np.ravel(error), strict=True))

        (excitation, excitation_error), (fluence, fluence_error) = (
            [part.astype(np.float32) for part in sums.mean_and_error(name, shape)] for name in ("excitation", "fluence")
        )
        (emitted,), yielded = estimates("emitted"), self.fluorophore.quantum_yield
        parameters = {
            "software": f"napari-gpubio {__version__}", "settings": dataclasses.asdict(self.settings),
            "seeds": self.seeds, **about,
        }  # fmt: skip
        return FluorescenceResult(
            excitation_domain=self.excitation_domain,
            emission_domain=self.emission_domain,
            source=self.source,
            fluorophore=self.fluorophore,
            settings=self.settings,
            detectors=self.detectors,
            groups=sums.count,
            launched=sums.count * self.photons,
            excitation_fluence=excitation,
            excitation_error=excitation_error,
            fluence=fluence,
            fluence_error=fluence_error,
            absorbed_by_fluorophore=Estimate(emitted.value / yielded, emitted.error / yielded),
            emitted=emitted,
            excitation_energy=dict(zip(_ENERGY, estimates("excitation_energy"), strict=True)),
            energy=dict(zip(_ENERGY, estimates("energy"), strict=True)),
            absorbed=dict(zip(labels, estimates("absorbed"), strict=True)),
            mean_fluence=dict(zip(labels, estimates("mean_fluence"), strict=True)),
            excitation_detected=estimates("excitation_detected"),
            detected=estimates("detected"),
            complete=sums.count == self.settings.batches,
            parameters=parameters,
        )


def _weights(result: LightResult, detectors: int) -> Floats:
    """Detected weight of each detector per launched photon."""
    found = result.detected
    return np.bincount(found.detector, weights=found.weight, minlength=detectors) / max(1, found.listed_launched)


class _Sums:
    """Mean of what the groups gave, and the sum of their squared deviations (Welford 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self._means: dict[str, Floats] = {}
        self._squares: dict[str, Floats] = {}

    def add(self, numbers: Mapping[str, Any]) -> None:
        """Add a group."""
        self.count += 1
        for name, value in numbers.items():
            if self.count == 1:
                self._means[name], self._squares[name] = np.array(value), np.zeros(np.shape(value))
                continue
            off = value - self._means[name]
            self._means[name] = self._means[name] + off / self.count
            self._squares[name] = self._squares[name] + off * (value - self._means[name])

    def mean_and_error(self, name: str, shape: Iterable[int]) -> tuple[Floats, Floats]:
        """Mean of the groups and its standard error; zero without groups, and an unknown error with a single one."""
        if not self.count:
            return np.zeros(tuple(shape)), np.full(tuple(shape), np.nan)
        if self.count == 1:
            return self._means[name], np.full(self._means[name].shape, np.nan)
        variance = self._squares[name] / (self.count - 1)
        return self._means[name], np.sqrt(np.maximum(variance, 0.0) / self.count)
