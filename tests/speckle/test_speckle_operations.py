"""The operations of speckle imaging: records, scripts, files that are written while they are made, every setting."""

import contextlib
import dataclasses
import json
import threading

import numpy as np
import pytest
import tifffile

from napari_gpubio.core.device import CPU
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import (
    State,
    Store,
    arrays,
    digest,
    from_graph,
    graph,
    open_session,
    run,
    runs,
    save,
    save_session,
    schema,
    script,
)
from napari_gpubio.core.operations.command_options import options_of
from napari_gpubio.core.operations.records import input_infos
from napari_gpubio.core.settings import alternatives, hints, kind_of, record_fields
from napari_gpubio.core.steps import drive
from napari_gpubio.speckle import contrast, measure_dark, mesi, operations, register, settings
from napari_gpubio.speckle.io import read_frames, write_regions
from napari_gpubio.speckle.mesi import FittedBeta, GivenBeta, MesiRecipe, MesiSettings
from napari_gpubio.speckle.opening import HeldFrames, HeldRegions, OpenFrames, OpenRegions
from napari_gpubio.speckle.operations import Contrast, MeasureDark, Mesi, Pulsatility, RegionCurves, Register
from napari_gpubio.speckle.pulsatility import PulsatilitySettings
from napari_gpubio.speckle.settings import ContrastSettings, NoiseModel, RelativeFlow, Spatial, Temporal
from tests.core.operations.randoms import Records
from tests.shell import run_verb
from tests.speckle.test_speckle_region_files import FPS, LABELS, beating_frames

VERBS = (Register, MeasureDark, Contrast, RegionCurves, Pulsatility, Mesi)
FRAMES = np.random.default_rng(0).integers(100, 4096, (9, 26, 30), np.uint16)
DARK = np.random.default_rng(1).integers(40, 60, (30, 26, 30), np.uint16)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def frames(store):
    return HeldFrames.of(FRAMES, "frames", store)


def test_scripts_and_files_of_random_records_are_the_records(tmp_path, monkeypatch, store):
    path, found = tmp_path / "a'b\"c.tif", []
    path.write_text("abc")
    monkeypatch.setattr("napari_gpubio.core.operations.run", lambda output, **_: found.append(output))
    records = Records(3, store, [path])
    for n in range(300):
        made = records.operation(VERBS[n % len(VERBS)])
        exec(compile(script(made, folder=tmp_path, store=store), "script", "exec"), {})
        assert (found[-1].of if hasattr(found[-1], "of") else found[-1]) == made
        assert from_graph(json.loads(json.dumps(graph(made))))[made.id] == made


def leaves(cls, before=()):
    """Paths of all fields of a class of settings, and of all alternatives of its parts."""
    for field in record_fields(cls):
        classes = alternatives(hints(cls)[field.name])
        if len(classes) != 1:
            yield (*before, field.name)
        for one in classes:
            yield from leaves(one, (*before, field.name))


def properties(found, before=()):
    """Paths of all properties of a schema."""
    for name, one in found["properties"].items():
        each = one.get("oneOf", [one])
        if len(each) > 1 or "properties" not in one:
            yield (*before, name)
        for other in each:
            if "properties" in other and "operation" not in other["properties"]:
                yield from properties(other, (*before, name))


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_is_an_option_and_a_property(verb):
    each = schema()["properties"]["operations"]["additionalProperties"]["oneOf"]
    mine = next(one for one in each if one["properties"]["verb"]["const"] == verb.verb)
    wanted = {*leaves(verb)}
    assert {option.path for option in options_of(verb)} == wanted
    known = {path for path in properties(mine) if path[-1] not in ("verb", "version", "kind")}
    assert known | {(name,) for name in input_infos(verb)} == wanted


# -- what they make ---------------------------------------------------------------------------------------------------


def test_maps_are_those_of_the_engine(store, frames):
    dark = MeasureDark(recording=HeldFrames.of(DARK, store=store))
    chosen = ContrastSettings(index=RelativeFlow(baseline=(0, 3)))
    verb = Contrast(recording=Register(recording=frames), dark=dark, noise=NoiseModel(gain=0.1), settings=chosen)
    made = run(verb, device="cpu", store=store)
    expected = contrast(register(FRAMES), chosen, noise=measure_dark(DARK, gain=0.1), device="cpu")
    for name in verb.makes:
        found = run(verb.output(name), device="cpu", store=store)
        np.testing.assert_array_equal(found.array, getattr(expected, name))
        assert digest(found) == digest(verb.result(made, name))
    assert store.runs == 5, "frames, dark frames, both measured, and maps: each once"


def test_a_map_that_the_settings_leave_out_is_refused(store, frames):
    chosen = ContrastSettings(index=settings.NoIndex(), mask=settings.NoMask())
    verb = Contrast(recording=frames, settings=chosen)
    assert [name for name in verb.makes if verb.has(name)] == ["contrast"]
    for name in ("index", "mask"):
        with pytest.raises(InvalidInput, match=f"has no {name} with these settings"):
            run(verb.output(name), device="cpu", store=store)


def test_a_folder_is_one_input_whose_frames_count(tmp_path, store):
    for n, frame in enumerate(FRAMES):
        tifffile.imwrite(tmp_path / f"f{n}.tif", frame)
    opened = OpenFrames.at(tmp_path)
    (tmp_path / "notes.txt").write_text("frames of Tuesday")
    assert opened.id == OpenFrames.at(tmp_path).id
    np.testing.assert_array_equal(np.asarray(run(opened, store=store).frames), FRAMES)
    tifffile.imwrite(tmp_path / "f3.tif", FRAMES[0])
    assert opened.id != OpenFrames.at(tmp_path).id
    with pytest.raises(InvalidInput, match="has changed"):
        run(opened, store=Store())


def test_a_mapped_file_takes_no_room_in_the_store(tmp_path):
    tifffile.imwrite(tmp_path / "f.tif", FRAMES, photometric="minisblack")
    store, opening = Store(budget=FRAMES.nbytes - 1), OpenFrames.at(tmp_path / "f.tif")
    opened, small = run(opening, store=store), HeldRegions.of({"a": np.ones((2, 2))}, store)
    run(small, store=store)
    assert store.result(opening, "cpu") is opened
    run(HeldFrames.of(FRAMES, store=store), store=store)
    assert store.result(opening, "cpu") is None, "those in memory take the room"
    assert digest(opened) == digest(run(HeldFrames.of(FRAMES, store=store), store=store))


class Later:
    """Frames that are read when they are asked for, such as of dask, and how many were read at once."""

    shape, dtype, ndim, most = FRAMES.shape, FRAMES.dtype, 3, 0

    def __len__(self):
        return len(FRAMES)

    def __getitem__(self, which):
        self.most = max(self.most, FRAMES[which].nbytes // FRAMES[0].nbytes)
        return FRAMES[which]


def test_frames_larger_than_the_memory_stay_where_they_are(tmp_path, monkeypatch, in_chunks_of):
    in_chunks_of(2)
    monkeypatch.setattr("napari_gpubio.speckle.kernels.contrast.problem.BATCH_BYTES", 1)
    monkeypatch.setattr(arrays, "_BLOCK", 2 * FRAMES[0].nbytes)
    store, later, again = Store(budget=FRAMES.nbytes - 1), Later(), Store()
    operation = HeldFrames.of(later, store=store)
    assert operation == HeldFrames.of(FRAMES, store=again) == HeldFrames.of(Later(), store=again)
    verb = Contrast(recording=operation)
    drive(runs.write_steps(verb, {"contrast": tmp_path / "k.tif"}, device=CPU, store=store))
    save_session(tmp_path / "s.zip", State(drafts=(("speckle", verb),)), store)
    assert later.most <= 3
    opened = open_session(tmp_path / "s.zip", kept := Store()).state.drafts[0][1]
    assert opened == verb
    made = run(opened.output("contrast"), device="cpu", store=kept)
    np.testing.assert_array_equal(read_frames(tmp_path / "k.tif"), made.array)


def test_regions_of_a_file_and_held_ones_are_the_same(tmp_path, store, frames):
    regions = {"one": np.eye(26, 30) > 0, "two": np.ones((26, 30), bool)}
    write_regions(tmp_path / "r.tif", regions)
    made = [
        run(RegionCurves(recording=frames, regions=one), device="cpu", store=store)
        for one in (OpenRegions.at(tmp_path / "r.tif"), HeldRegions.of(regions, store))
    ]
    assert digest(made[0]) == digest(made[1])
    assert [curve.name for curve in made[0].curves] == ["one", "two"]


# -- files that are written while they are made -----------------------------------------------------------------------


def test_maps_go_to_files_as_they_are_made_and_a_stop_keeps_them(tmp_path, monkeypatch, in_chunks_of, store):
    in_chunks_of(2)
    monkeypatch.setattr("napari_gpubio.speckle.kernels.contrast.problem.BATCH_BYTES", 1)
    tifffile.imwrite(tmp_path / "f.tif", FRAMES, photometric="minisblack")
    verb, stop = Contrast(recording=OpenFrames.at(tmp_path / "f.tif")), threading.Event()
    paths = {name: tmp_path / f"{name}.tif" for name in verb.makes}
    steps = runs.write_steps(verb, paths, device=CPU, store=store, stop=stop)
    with contextlib.suppress(StopIteration):
        while True:
            stop.set() if next(steps).done >= 4 else None
    whole = run(verb, device="cpu", store=store)
    for name, path in paths.items():
        found = read_frames(path)
        assert 4 <= len(found) < len(FRAMES)
        np.testing.assert_array_equal(found, verb.result(whole, name).array[: len(found)])
        about = json.loads(tifffile.TiffFile(path).pages[0].description)
        assert from_graph({key: about["record"][key] for key in about["record"] if key != "output"})[verb.id] == verb
        assert (about["record"]["output"], about["complete"]) == (name, False)
    save(verb.output("index"), tmp_path / "again.tif", device="cpu", store=store)
    np.testing.assert_array_equal(read_frames(tmp_path / "again.tif"), whole.index)


def test_nothing_is_built_on_frames_whose_registration_was_stopped(tmp_path, store, frames):
    stop = threading.Event()
    verb = Contrast(recording=Register(recording=frames))
    steps = runs.write_steps(verb, {"contrast": tmp_path / "k.tif"}, device=CPU, store=store, stop=stop)
    stop.set()
    assert drive(steps) is None
    assert not (tmp_path / "k.tif").exists()


# -- no setting is ignored --------------------------------------------------------------------------------------------

SATURATED = FRAMES.copy()
SATURATED[:, 5:9, 5:9] = 4000
SATURATED[:, 15:22, 12:20] = 300


def same(verb, other, store):
    """Whether two operations make the same."""
    results = [one.result(run(one, device="cpu", store=store), name) if len(one.makes) > 1
               else run(one, device="cpu", store=store) for one in (verb, other) for name in verb.makes]  # fmt: skip
    half = len(results) // 2
    digests = [None if one is None else digest(one) for one in results]
    return digests[:half] == digests[half:]


INDICES = {
    settings.Inverse: ({"nonfinite": "clip"},),
    settings.FlowIndex: ({"nonfinite": "nan"}, {"exposure_ms": 3.0}),
    settings.InverseCorrelationTime: ({"nonfinite": "nan"}, {"exposure_ms": 3.0}, {"beta": 0.4}),
    settings.RelativeFlow: ({"nonfinite": "nan"}, {"baseline": (2, 4)}),
    settings.Squared: (),
    settings.NoIndex: (),
}
WINDOWS = {
    settings.Spatial: ({"window": 7}, {"edges": "shrink"}),
    settings.Temporal: ({"frames": 3}, {"blocks": True}),
    settings.SpatioTemporal: ({"window": 7}, {"edges": "shrink"}, {"frames": 3}, {"blocks": True}),
}
MASKS = {settings.Validity: ({"saturation": 4000}, {"low_signal": 500.0}), settings.NoMask: ()}
NOISE = {NoiseModel: ({"dark_adu": 20.0}, {"gain": 0.3}, {"read_noise_adu": 9.0}, {"quantization": True})}
RECIPES = (
    (MesiSettings(), {"model": "gaussian"}), (MesiSettings(), {"contrast_error": 0.1}),
    (MesiSettings(), {"fit_rho": False}), (MesiSettings(), {"fit_noise": True}),
    (MesiSettings(), {"beta": GivenBeta()}),
    (MesiSettings(beta=GivenBeta(static_k2=0.9)), {"beta": GivenBeta(static_k2=0.8)}),
    (MesiSettings(beta=GivenBeta(static_k2=0.9)), {"beta": GivenBeta(static_k2=0.9, static_k2_error=0.05)}),
)  # fmt: skip
BEATS = ({"slowest_bpm": 200.0}, {"fastest_bpm": 100.0}, {"false_alarm": 0.5})


@pytest.mark.parametrize(("part", "classes"), [("index", INDICES), ("mode", WINDOWS), ("mask", MASKS)])
def test_each_setting_of_each_alternative_changes_a_map(store, part, classes):
    given = np.concatenate([SATURATED] * 4)
    given[:, :9, 20:] = 777  # whose contrast is 0
    recording = HeldFrames.of(given, store=store)
    base = ContrastSettings(mode=Temporal(frames=4) if part == "mode" else Spatial())
    assert {*classes} == {*alternatives(hints(ContrastSettings)[part])}
    for cls, changes in classes.items():
        assert {name for one in changes for name in one} == {field.name for field in record_fields(cls)}
        usual = dataclasses.replace(base, **{part: cls()})
        for change in changes:
            other = dataclasses.replace(base, **{part: cls(**change)})
            verbs = [Contrast(recording=recording, settings=one) for one in (usual, other)]
            assert not same(*verbs, store), (cls, change)


def test_each_number_of_the_noise_changes_a_map(store, frames):
    for cls, changes in NOISE.items():
        assert {name for one in changes for name in one} == {field.name for field in record_fields(cls)}
        for change in changes:
            assert not same(Contrast(recording=frames), Contrast(recording=frames, noise=cls(**change)), store), change


def test_each_setting_of_a_fit_changes_it(store):
    exposures = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    light = np.random.default_rng(3).gamma(6.0 * np.sqrt(np.array(exposures))[:, None, None], 100.0, (6, 14, 15))
    recording = HeldFrames.of(
        np.repeat(light, 2, axis=0).astype(np.float32) + np.arange(12)[:, None, None], store=store
    )
    changed = {name for _, change in RECIPES for name in change}
    assert changed == {field.name for field in record_fields(MesiSettings)}
    assert record_fields(FittedBeta) == ()
    for usual, change in RECIPES:
        verbs = [
            Mesi(recording=recording, recipe=MesiRecipe(exposures_ms=exposures, settings=one))
            for one in (usual, dataclasses.replace(usual, **change))
        ]
        assert not same(*verbs, store), change
    recipe = MesiRecipe(exposures_ms=exposures)
    for change in ({"order": "one after another"}, {"exposures_ms": (1.0, 2.0, 4.0, 8.0, 16.0, 64.0)}):
        verbs = [Mesi(recording=recording, recipe=one) for one in (recipe, dataclasses.replace(recipe, **change))]
        assert not same(*verbs, store), change


def test_each_setting_of_a_beat_changes_what_is_found(store):
    noise = np.random.default_rng(7).integers(100, 4000, (400, *LABELS.shape), np.uint16)  # a beat by chance, of some %
    regions = HeldRegions.of({"beating": LABELS == 1, "noise": LABELS == 4}, store)
    recording = HeldFrames.of(np.where(LABELS == 1, beating_frames(), noise), store=store)
    usual = Pulsatility(recording=recording, regions=regions, rate_hz=FPS)
    assert {name for one in BEATS for name in one} == {field.name for field in record_fields(PulsatilitySettings)}
    for change in BEATS:
        other = dataclasses.replace(usual, settings=PulsatilitySettings(**change))
        assert not same(usual, other, store), change
    for change in ({"rate_hz": 2 * FPS}, {"flow": settings.FlowIndex(exposure_ms=2.0)}):
        assert not same(usual, dataclasses.replace(usual, **change), store), change


def test_what_contradicts_itself_is_refused(store, frames):
    dark = MeasureDark(recording=HeldFrames.of(DARK, store=store))
    with pytest.raises(InvalidInput, match="dark_adu is 3 ADU, which has no effect: the dark frames say it"):
        Contrast(recording=frames, dark=dark, noise=NoiseModel(dark_adu=3.0))
    recipe = MesiRecipe(exposures_ms=(1.0,), settings=MesiSettings(beta=GivenBeta()))
    with pytest.raises(InvalidInput, match="β is given and there is a static target"):
        Mesi(recording=frames, recipe=recipe, static_target=frames)
    with pytest.raises(InvalidInput, match="rate_hz is not given"):
        Pulsatility(recording=frames, regions=HeldRegions.of({"a": np.ones((26, 30))}, store))
    assert kind_of(mesi.FittedBeta) == "fitted"
    assert operations.Contrast.writes_files()
    assert not Mesi.writes_files()


def test_nothing_is_written_among_frames(tmp_path):
    for n, frame in enumerate(FRAMES):
        tifffile.imwrite(tmp_path / f"f{n}.TIF", frame)
    before = sorted(tmp_path.iterdir())
    for output in (("--out", f"{tmp_path}/k.tif"), ("--json", "--record", f"{tmp_path}/k.json")):
        with pytest.raises(InvalidInput, match=f"in the folder {tmp_path.name}, which is read"):
            run_verb("speckle", str(tmp_path), *output, "--device", "cpu")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("pixels", "names", "sentence"),
    [
        (np.ones((1, 4, 4), np.uint8), ("a", "b"), "for 1 regions"),
        (np.ones((2, 4, 4), np.uint8), ("a", "a"), "a name of its own"),
        (np.ones((4, 4), np.uint8), ("a", "b", "c", "d"), "of shape"),
        (np.ones((1, 4, 4)), ("a",), "float64"),
        (np.ones((0, 4, 4), np.uint8), (), "of shape"),
    ],
)
def test_held_regions_that_do_not_fit_are_a_sentence(store, pixels, names, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        run(HeldRegions(pixels=store.hold(pixels), names=names), device="cpu", store=store)


@pytest.mark.parametrize("regions", [{}, {"a": np.ones((4, 4)), "b": np.ones((4, 5))}])
def test_regions_of_no_frames_are_a_sentence(regions):
    with pytest.raises(InvalidInput, match="give regions of the same frames"):
        HeldRegions.of(regions)
