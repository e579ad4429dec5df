"""Records of light: they are made again from plain data and from scripts, and make what the plain API makes."""

import dataclasses
import json

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import Output, Store, digest, file, from_graph, graph, run, save, script, verbs
from napari_gpubio.core.operations.volumes import record_beside
from napari_gpubio.core.settings import record_fields
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import read_array, write_volume
from napari_gpubio.layered import operations as of_layers
from napari_gpubio.layered.beams import FlatBeam, convolved
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.run import simulate as simulate_layers
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io import save_result
from napari_gpubio.light.io.volumes import write_fluence
from napari_gpubio.light.kernels.voxels.source_table import PackedSource, source_table
from napari_gpubio.light.operations import (
    AddPhotons,
    Fluence,
    HeldDiffusionTensors,
    HeldDomain,
    OpenDomain,
    OpenRun,
    Simulate,
    WithFibers,
)
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.anisotropy import with_fibers
from napari_gpubio.optics.detectors import Detector, FaceDetector
from napari_gpubio.optics.estimates import FluenceUnit
from napari_gpubio.optics.model import Domain, Layer, Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources import KINDS, Collimated, Pattern, Pencil, emitting_volume
from tests.core.operations.randoms import Records
from tests.light.result_samples import sample_result
from tests.light.voxel_samples import make_domain, source_of

FEW = LightSettings(photons=400, batches=4, halves=True)
SOURCES = (
    Pencil(position_mm=(3.0, 3.0, -1.0), launch_angles_deg=(0.0, 10.0, 40.0)),
    Pattern(position_mm=(4.0, 4.0, -1.0), width_mm=3.0, pattern=np.outer([1.0, 2.0], [1.0, 0.5]), weight=2.0),
)
DETECTORS = (Detector(position_mm=(4.0, 4.0, 0.0), name="D1"), FaceDetector(face="+k"))
LAYERS = LayeredMedium(
    layers=(Layer(mua_per_mm=0.1, mus_per_mm=5.0), Layer(mua_per_mm=0.2, mus_per_mm=1.0, thickness_mm=np.inf)),
    n_below=1.2,
)
COARSE = LayeredSettings(photons=300, radial_bins=10, depth_bins=12, dr_mm=0.5, dz_mm=0.2, batches=4)
VERBS = [one for one in verbs().values() if one.__module__.startswith("napari_gpubio.light.")]


@pytest.fixture
def store():
    return Store()


def domain(**more):
    return make_domain((8, 8, 8), **more)


def simulated(*of, **more):
    """A run of the plain API, with the guide of a denoiser."""
    return drive(guided_steps(simulate_steps(*of, device="cpu", **more), device="cpu"))


# -- again from data, and from code -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.verb)
def test_random_records_come_back(verb, store, tmp_path, monkeypatch):
    path = tmp_path / "a'b\"c.txt"
    path.write_text("abc")
    records, found = Records(3, store, [path]), []
    monkeypatch.setattr("napari_gpubio.core.operations.run", lambda output, **_: found.append(output))
    for _ in range(15):
        made = records.operation(verb)
        assert [*from_graph(json.loads(json.dumps(graph(made)))).values()][-1] == made
        exec(compile(script(made, folder=tmp_path, store=store), "script", "exec"), {})
        assert (found[-1].of if isinstance(found[-1], Output) else found[-1]) == made


# -- what they make ---------------------------------------------------------------------------------------------------


def test_a_run_is_that_of_the_plain_api(store, tmp_path):
    made = Simulate.of(HeldDomain.of(domain(), store=store), SOURCES, FEW, DETECTORS, store)
    found = run(made, device="cpu", store=store)
    expected = simulated(domain(), SOURCES, FEW, detectors=DETECTORS)
    assert digest(found) == digest(expected)
    assert found.guide is not None
    assert simulate(domain(), SOURCES, FEW, detectors=DETECTORS, device="cpu").guide is None
    assert found.detected.labels == expected.detected.labels
    more = run(AddPhotons(run=made, photons=900), device="cpu", store=store)
    longer = dataclasses.replace(FEW, photons=900)
    again = simulated(domain(), SOURCES, longer, detectors=DETECTORS, resume=expected)
    assert digest(more) == digest(again)
    save_result(tmp_path / "r.npz", found)
    assert digest(run(OpenRun.at(tmp_path / "r.npz"), store=store)) == digest(found)


def test_a_volume_that_emits_keeps_its_cells(store):
    emission = np.zeros((8, 8, 8))
    emission[3:5, 4, 5] = 1.0, 3.0
    source = emitting_volume(emission, domain().affine)
    made = Simulate.of(HeldDomain.of(domain(), store=store), [source], FEW, store=store)
    assert digest(run(made, device="cpu", store=store)) == digest(simulated(domain(), source, FEW))
    with pytest.raises(InvalidInput, match="1 with patterns, and 0 patterns"):
        dataclasses.replace(made, patterns=())
    with pytest.raises(InvalidInput, match="there are 0 sources"):
        dataclasses.replace(made, sources=(), patterns=())


def test_fluence_is_written_as_by_the_plain_api(store, tmp_path):
    made = Simulate.of(HeldDomain.of(domain(), store=store), SOURCES[:1], FEW, store=store)
    unit = FluenceUnit("mW/mm²", 3.0)
    fluence = Fluence(run=made, unit=unit.name, factor=unit.factor, hide_uncertain=True)
    found = run(fluence.output("fluence"), device="cpu", store=store)
    write_fluence(tmp_path / "plain.nii", found.run, unit=unit, hide_uncertain=True)
    save(fluence, tmp_path / "made.nii", device="cpu", store=store)
    (plain, _), (written, _) = (read_array(tmp_path / f"{name}.nii") for name in ("plain", "made"))
    assert np.array_equal(plain, written, equal_nan=True)
    assert np.array_equal(written, found.array, equal_nan=True)
    assert np.isnan(written).any()
    assert record_beside(tmp_path / "made.nii")["output"] == "fluence"
    with pytest.raises(InvalidInput, match="the unit is 'W'"):
        Fluence(run=made, unit="W")


@pytest.mark.parametrize(
    "more",
    [
        {"mua_per_mm": np.full((8, 8, 8), 0.03), "n": np.full((8, 8, 8), 1.5)},
        {"phase_function": TabulatedPhaseFunction(cosines=[-1.0, 0.5, 1.0])},
        {"mus_tensor_per_mm": np.broadcast_to(np.diag([1.0, 1.0, 2.0]), (8, 8, 8, 3, 3)), "scattering_model": "free"},
    ],
    ids=["by voxel", "phase function", "tensors"],
)
def test_a_tissue_is_held_with_all_that_it_has(store, more):
    given = domain(**more, outside_n=1.2)
    made = HeldDomain.of(given, store=store)
    assert digest(run(made, store=store)) == digest(given) != digest(domain(outside_n=1.2))


def test_a_tissue_of_a_file_has_the_affine_of_the_record(tmp_path, store):
    affine = np.diag([1 / 3, 1 / 3, 1 / 3, 1.0])
    write_volume(tmp_path / "labels.nii", np.ones((4, 4, 4), np.uint8), affine)
    media = (Medium(label=1, mua_per_mm=0.1),)
    made = OpenDomain(file=file(tmp_path / "labels.nii"), media=media, affine=affine, outside_n=1.3)
    expected = Domain(labels=np.ones((4, 4, 4), np.uint8), affine=affine, media=media, outside_n=1.3)
    assert digest(run(made, store=store)) == digest(expected)


def test_fibers_make_tensors(store):
    white = make_domain((8, 8, 8), Medium(label=1, mua_per_mm=0.02, mus_per_mm=5.0))
    tensors = np.zeros((8, 8, 8, 6), np.float32)
    tensors[..., :3] = 3e-3, 3e-4, 3e-4
    held = HeldDiffusionTensors(tensors=store.hold(tensors), affine=white.affine)
    made = WithFibers(tissue=HeldDomain.of(white, store=store), tensors=held)
    found = run(made, store=store)
    assert digest(found) == digest(with_fibers(white, tensors, white.affine))
    assert found.is_anisotropic


def test_layers_are_those_of_the_plain_api(store, tmp_path):
    made = of_layers.SimulateLayers(medium=LAYERS, settings=COARSE)
    assert digest(run(made, device="cpu", store=store)) == digest(simulate_layers(LAYERS, COARSE, device="cpu"))
    more = run(of_layers.AddLayerPhotons(run=made, photons=700), device="cpu", store=store)
    assert more.launched == 700
    beam = FlatBeam(radius_mm=0.7)
    shown = run(of_layers.UnderBeam(run=made, beam=beam), device="cpu", store=store)
    wide = convolved(simulate_layers(LAYERS, COARSE, device="cpu"), beam)
    assert shown.numbers.rows[0].value == 300
    assert any(np.array_equal(curve.value, wide.Rd_r.value[:-1]) for curve in shown.curves.curves)
    assert shown.picture.array.shape == (20, 12)


# -- no number is for nothing -----------------------------------------------------------------------------------------

_OTHER = {
    "position_mm": (4.0, 4.5, 0.5), "direction": (0.1, 0.2, 1.0), "weight": 3.0, "entry": "faces",
    "launch_angles_deg": (0.0, 30.0), "width_axis": (0.3, 1.0, 0.0), "height_axis": (1.0, 1.0, 0.3),
    "sector_deg": (0.0, 90.0), "launch_angles_are_discrete": True,
}  # fmt: skip


def seen(source):
    """All that the backends get of a source, the second of two, in front of a ball."""
    center = np.indices((9, 9, 9)) - 4
    ball = make_domain((np.square(center).sum(axis=0) <= 16).astype(np.uint8), Medium(label=1, n=1.4), outside_n=1.0)
    parts = [PackedSource(Pencil(), ball), PackedSource(source, ball)]
    return [array.tobytes() for array in (*source_table(parts), parts[1].surface)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_a_source_counts(kind):
    """Each field, changed alone, changes what the backends get; so no source has one that is ignored."""
    pattern = np.arange(1.0, 9.0).reshape((2, 2, 2) if kind == "volume" else (2, 4))
    base = source_of(kind, position_mm=(4.5, 4.5, -1.0), pattern=pattern, sector_deg=None)
    for field in record_fields(base):
        own, name = base, field.name
        if name == "launch_angles_are_discrete":
            own = dataclasses.replace(base, launch_angles_deg=(0.0, 10.0))
        if name == "height_axis":
            own = dataclasses.replace(base, width_axis=(1.0, 0.0, 0.0))
        value = getattr(own, name)
        other = _OTHER.get(name, pattern[::-1] if name == "pattern" else None)
        other = (value / 2 if value else 0.3) if other is None else other
        other = max(1, int(other)) if isinstance(value, int) and not isinstance(value, bool) else other
        assert seen(dataclasses.replace(own, **{name: other})) != seen(own), name
    assert isinstance(base, Collimated) == ("launch_angles_deg" in base.__dataclass_fields__)


def test_all_that_a_run_has_counts():
    one = sample_result((8, 8, 8), detectors=(3.0,), photons=3000)
    other = np.ones((8, 8, 8), np.float32)
    values = {"guide": other, "escaped_weight": other, "half_fluences": np.stack([one.gates, one.gates])}
    label, absorbed = next(iter(one.absorbed.items()))
    values |= {"absorbed": {**one.absorbed, label: absorbed._replace(value=2.0)}}
    values |= {"detected": dataclasses.replace(one.detected, weight=one.detected.weight / 2)}
    digests = {digest(dataclasses.replace(one, **{name: value})) for name, value in values.items()}
    assert len(digests | {digest(one)}) == 1 + len(values)
