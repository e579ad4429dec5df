"""Small operations of every engine that really run, with random settings, for what must hold of every verb."""

import functools
from collections.abc import Callable
from random import Random

import numpy as np

from napari_gpubio.core.operations import STORE, HeldVolume, Operation, Volume
from napari_gpubio.denoise import DenoiseSettings
from napari_gpubio.denoise.operations import Denoise, DenoiseFluence
from napari_gpubio.diffusion import FitSettings, OrdinaryLeastSquares, WeightedLeastSquares
from napari_gpubio.diffusion import operations as diffusion_operations
from napari_gpubio.diffusion.fods.settings import CsdSettings
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.dose.operations import DoseDifference, DoseOf, DoseSum, DoseSurface, DoseVolume, LabelsOf
from napari_gpubio.fibers import operations as fibers_operations
from napari_gpubio.fibers.seeds import AtPoints
from napari_gpubio.fibers.settings import IFOD1, IFOD2, EuDX, Hamiltonian, SDStream
from napari_gpubio.layered import operations as layers
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light import operations as light
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Domain, Layer, Medium
from napari_gpubio.optics.sources import Isotropic, Pencil
from napari_gpubio.registration import operations as registration
from napari_gpubio.speckle import operations as speckle
from napari_gpubio.speckle.mesi.model import MesiRecipe
from napari_gpubio.speckle.settings import ContrastSettings, Spatial
from napari_gpubio.tractograms import operations as tractograms_operations
from napari_gpubio.workflows.operations import CleanFluence

AFFINE = np.diag([1.0, 1.0, 2.0, 1.0])
SHAPE = (9, 8, 7)
PART = (slice(18, 32), slice(28, 44), slice(25, 35))  # of the brain: the middle of the corpus callosum
Make = Callable[[Random], Operation]


def volume(seed: int) -> HeldVolume:
    """A noisy volume that no file holds."""
    values = np.random.default_rng(seed).gamma(20.0, 5.0, SHAPE).astype(np.float32)
    return HeldVolume.of(Volume(array=values, affine=AFFINE, name=f"volume {seed}"), STORE)


# -- denoise ----------------------------------------------------------------------------------------------------------


def denoise(random: Random) -> Operation:
    settings = DenoiseSettings(search_radius=random.choice((1, 2)), noise_model=random.choice(("gaussian", "rician")))
    return Denoise(image=volume(random.randrange(3)), settings=settings, sigma=random.choice((2.0, 20.0)))


def denoise_fluence(random: Random) -> Operation:
    return DenoiseFluence(image=volume(1), second=random.choice((None, volume(2))))


# -- dose -------------------------------------------------------------------------------------------------------------


def dose(seed: int) -> DoseOf:
    return DoseOf(volume=volume(seed), unit="Gy")


def organs() -> LabelsOf:
    labels = np.zeros(SHAPE, np.uint8)
    labels[2:6, 2:6, 2:5], labels[6:8, 3:6, 1:4] = 1, 2
    return LabelsOf(volume=HeldVolume.of(Volume(array=labels, affine=AFFINE), STORE), names=("1=heart", "2=lung"))


def dvh(random: Random) -> Operation:
    metrics = random.choice(((), ("D95%[Gy]", "gEUD(a=8)")))
    doses = tuple(dose(seed) for seed in range(random.choice((1, 2))))
    return DoseVolume(doses=doses, structures=(organs(),), metrics=metrics, scale=random.choice((1.0, 0.5)))


def dose_sum(random: Random) -> Operation:
    return DoseSum(doses=(dose(0), dose(1)), weights=random.choice(((), (1.0, 2.5))))


def dose_difference(random: Random) -> Operation:
    return DoseDifference(dose=dose(random.randrange(3)), minus=dose(3))


def dose_surface(random: Random) -> Operation:
    return DoseSurface(dose=dose(random.randrange(3)), structures=(organs(),))


# -- speckle ----------------------------------------------------------------------------------------------------------


def frames(random: Random, count: int = 6) -> speckle.HeldFrames:
    counts = np.random.default_rng(random.randrange(3)).gamma(4.0, 25.0, (count, 12, 14)).astype(np.uint16)
    return speckle.HeldFrames.of(counts)


def halves() -> speckle.HeldRegions:
    left = np.zeros((12, 14), bool)
    left[:, :7] = True
    return speckle.HeldRegions.of({"left": left, "right": ~left})


def contrast(random: Random) -> Operation:
    settings = ContrastSettings(mode=Spatial(window=random.choice((3, 5))))
    return speckle.Contrast(recording=frames(random), settings=settings)


def registered(random: Random) -> Operation:
    return speckle.Register(recording=frames(random))


def dark(random: Random) -> Operation:
    return speckle.MeasureDark(recording=frames(random))


def curves(random: Random) -> Operation:
    return speckle.RegionCurves(recording=frames(random), regions=halves())


def pulse(random: Random) -> Operation:
    return speckle.Pulsatility(recording=frames(random, 120), regions=halves(), rate_hz=30.0)


def mesi(random: Random) -> Operation:
    recipe = MesiRecipe(exposures_ms=(0.1, 0.5, 1.0, 5.0, 10.0, 20.0))
    return speckle.Mesi(recording=frames(random), recipe=recipe)


# -- tractography -----------------------------------------------------------------------------------------------------


@functools.cache
def scan() -> diffusion_operations.HeldScan:
    """A part of the sample brain."""
    whole = load_brain_phantom()
    affine = whole.affine.copy()
    affine[:3, 3] += affine[:3, :3] @ [one.start for one in PART]
    part = type(whole)(data=whole.data[PART], bvals=whole.bvals, directions=whole.directions, affine=affine)
    return diffusion_operations.HeldScan.of(part, "part of a brain")


def atlas() -> diffusion_operations.HeldAtlas:
    labels = np.zeros((14, 16, 10), np.int32)
    labels[:5], labels[9:] = 1, 2
    return diffusion_operations.HeldAtlas(
        affine=scan().affine, labels=STORE.hold(labels), names=((1, "left"), (2, "right"))
    )


def seeds() -> AtPoints:
    """A ball of points in the middle."""
    x, y, z = (float(one) for one in (np.array(scan().affine) @ [7, 8, 5, 1])[:3])
    return AtPoints(seed=((x, y, z),), radius_mm=3.0, points=4)


def mppca(_: Random) -> Operation:
    return diffusion_operations.Mppca(scan=scan())


def tensors(random: Random) -> Operation:
    estimator = random.choice((OrdinaryLeastSquares(), WeightedLeastSquares(iterations=1)))
    return diffusion_operations.FitTensors(scan=scan(), settings=FitSettings(estimator=estimator))


def response(_: Random) -> Operation:
    return diffusion_operations.EstimateResponse(scan=scan())


def fods(random: Random) -> Operation:
    return diffusion_operations.Deconvolve(scan=scan(), settings=CsdSettings(lmax=random.choice((4, 6))))


def peaks(random: Random) -> Operation:
    return diffusion_operations.FindPeaks(fods=fods(random))


def track(random: Random) -> Operation:
    method = random.choice((Hamiltonian(min_length_mm=2.0), EuDX(min_length_mm=2.0)))
    return fibers_operations.Track(field=tensors(random), seeds=seeds(), method=method)


def track_fods(random: Random) -> Operation:
    method = random.choice((IFOD2, IFOD1, SDStream))(min_length_mm=2.0)
    return fibers_operations.TrackInFods(field=fods(random), seeds=seeds(), method=method)


def dissect(random: Random) -> Operation:
    region = diffusion_operations.SphereRegion(center_mm=seeds().seed[0], radius_mm=random.choice((2.0, 8.0)))
    return tractograms_operations.Dissect(fibers=track(random), include=(region,))


def flow(random: Random) -> Operation:
    of = random.choice(("overlap", "arrivals"))
    gate = diffusion_operations.SphereRegion(center_mm=seeds().seed[0], radius_mm=random.choice((8.0, 9.0)))
    which = {random.choice(("include", "exclude")): (gate,)}
    return fibers_operations.FlowBetweenRegions(fixels=peaks(random), atlas=atlas(), of=of, between="left,2", **which)


def flow_routes(random: Random) -> Operation:
    x, y, z = seeds().seed[0]
    ends = (
        diffusion_operations.SphereRegion(center_mm=(x + away, y, z), radius_mm=random.choice((3.0, 4.0)))
        for away in (-8.0, 8.0)
    )
    return fibers_operations.FindRoutes(**dict(zip(("source", "target"), ends, strict=True)), fixels=peaks(random))


def flow_from(random: Random) -> Operation:
    source = diffusion_operations.SphereRegion(center_mm=seeds().seed[0], radius_mm=random.choice((3.0, 4.0)))
    return fibers_operations.FlowFromSource(fixels=peaks(random), source=source, atlas=atlas())


def track_along(random: Random) -> Operation:
    return fibers_operations.TrackAlongRoutes(fods=fods(random), routes=flow_routes(random))


def connectome(random: Random) -> Operation:
    return tractograms_operations.MakeConnectome(fibers=track(random), atlas=atlas())


# -- registration -----------------------------------------------------------------------------------------------------


def transform_labels(random: Random) -> Operation:
    return registration.TransformLabels(moving=atlas(), onto=random.choice((volume(1), volume(2))))


def transform_image(random: Random) -> Operation:
    return registration.TransformImage(moving=volume(random.randrange(3)), onto=volume(3))


# -- light ------------------------------------------------------------------------------------------------------------


def tissue() -> light.HeldDomain:
    """Two halves of a block."""
    labels = np.ones((6, 5, 5), np.uint8)
    labels[3:] = 2
    media = (Medium(label=1, mua_per_mm=0.02, mus_per_mm=5.0, g=0.5), Medium(label=2, mua_per_mm=0.1, mus_per_mm=2.0))
    return light.HeldDomain.of(Domain(labels=labels, affine=np.eye(4), media=media))


def light_run(random: Random) -> Operation:
    source = random.choice((Pencil(position_mm=(2, 2, -0.5)), Isotropic(position_mm=(2, 2, 2))))
    settings = LightSettings(photons=500, batches=4, seed=random.randint(0, 9), halves=random.random() < 0.5)
    return light.Simulate.of(tissue(), [source], settings)


def more_photons(random: Random) -> Operation:
    return light.AddPhotons(run=light_run(random), photons=random.randint(500, 900))


def fluence(random: Random) -> Operation:
    return light.Fluence(run=light_run(random), factor=random.uniform(0.5, 2.0))


def layers_run(random: Random) -> Operation:
    skin = LayeredMedium(layers=(Layer(thickness_mm=random.uniform(0.5, 2.0), mua_per_mm=0.1, mus_per_mm=10.0, g=0.8),))
    return layers.SimulateLayers(medium=skin, settings=LayeredSettings(photons=500, seed=random.randint(0, 9)))


def more_layer_photons(random: Random) -> Operation:
    return layers.AddLayerPhotons(run=layers_run(random), photons=random.randint(500, 900))


def under_beam(random: Random) -> Operation:
    return layers.UnderBeam(run=layers_run(random), quantity=random.choice(("fluence", "absorbed")))


def clean_fluence(random: Random) -> Operation:
    return CleanFluence(run=light_run(random), factor=random.choice((1.0, 2.5)))


SAMPLES: dict[str, Make] = {
    "denoise": denoise,
    "denoise-fluence": denoise_fluence,
    "dvh": dvh,
    "dose-sum": dose_sum,
    "dose-difference": dose_difference,
    "dose-surface": dose_surface,
    "speckle": contrast,
    "register-frames": registered,
    "measure-dark": dark,
    "region-curves": curves,
    "pulsatility": pulse,
    "mesi": mesi,
    "mppca": mppca,
    "tensors": tensors,
    "response": response,
    "fod": fods,
    "peaks": peaks,
    "track": track,
    "track-fods": track_fods,
    "dissect": dissect,
    "connectome": connectome,
    "flow": flow,
    "flow-routes": flow_routes,
    "flow-from": flow_from,
    "track-along": track_along,
    "transform-labels": transform_labels,
    "transform-image": transform_image,
    "simulate-light": light_run,
    "add-photons": more_photons,
    "fluence": fluence,
    "clean-fluence": clean_fluence,
    "simulate-layers": layers_run,
    "add-layer-photons": more_layer_photons,
    "under-beam": under_beam,
}
