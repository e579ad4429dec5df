"""Records of doses: they come back from JSON and scripts, each setting counts, and values are those of their layers."""

import dataclasses
import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
from napari.layers import Image, Labels, Shapes

from napari_gpubio import dose as engine
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import (
    STORE,
    HeldVolume,
    Output,
    Settings,
    Store,
    Volume,
    digest,
    from_graph,
    graph,
    run,
    schema,
    script,
    verbs,
)
from napari_gpubio.core.operations.command_options import options_of
from napari_gpubio.core.operations.layer_sources import shown_as
from napari_gpubio.core.operations.records import input_infos
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.settings import alternatives, field_names, hints, record_fields
from napari_gpubio.dose import (
    ByAccuracy,
    BySpacing,
    Dose,
    DvhSettings,
    LabelStructures,
    SurfaceSettings,
    contour_structure,
    dvh,
    surface_histograms,
)
from napari_gpubio.dose.operations import DoseDifference, DoseOf, DoseSum, DoseVolume, HeldContours, LabelsOf
from napari_gpubio.dose.operations.layer_sources import dose_shown, labels_shown, layers_of
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.gui.operation_form import _settings_of
from tests.core.operations.randoms import Records
from tests.dose.gui.panel_samples import AFFINE, NAMES, a_dose, dose_values, label_values, organs
from tests.dose.samples import circle, linear_dose, stack

OURS = [cls for cls in verbs().values() if cls.__module__.startswith(engine.__name__)]
METRICS = ("D95%[Gy]", "max", "V20Gy", "gEUD(a=8)", "EQD2(D2cc[Gy], alpha_beta=3, fractions=30)", "CV5%[cc]", "HI")
PLANES = (-4.0, -2.0, 0.0, 2.0, 4.0)


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "a'b.nii"
    path.write_text("abc")
    return Records(3, Store(), [path])


def some(records, cls, n):
    """A random record; of histograms with metrics, too."""
    made = records.operation(cls)
    chosen = random.Random(n).sample(METRICS, n % 4)
    return dataclasses.replace(made, metrics=tuple(chosen)) if cls is DoseVolume else made


@pytest.mark.parametrize("cls", OURS)
def test_records_come_back_from_json_and_scripts(records, tmp_path, monkeypatch, cls):
    found = []
    monkeypatch.setattr("napari_gpubio.core.operations.run", lambda output, **_: found.append(output))
    for n in range(25):
        made = some(records, cls, n)
        assert [*from_graph(json.loads(json.dumps(graph(made), allow_nan=False))).values()][-1] == made
        exec(compile(script(made, folder=tmp_path, store=records.store), "script", "exec"), {})
        assert (found[-1].of if isinstance(found[-1], Output) else found[-1]) == made


def settings_in(cls, before=()):
    """Ways to each setting of an operation, in all alternatives."""
    for field in record_fields(cls):
        if field.name in (input_infos(cls) if cls in OURS else {}):
            continue
        classes = alternatives(hints(cls)[field.name])
        if len(classes) != 1:
            yield (*before, field.name)
        for one in classes:
            yield from settings_in(one, (*before, field.name))


@pytest.mark.parametrize("cls", [one for one in OURS if one is not HeldContours])  # whose points no user can type
def test_each_setting_is_an_option_and_in_the_schema_and_of_settings_a_row(qtbot, cls):
    ways = {*settings_in(cls)}
    inputs = {(name,) for name in input_infos(cls)}
    assert {one.path for one in options_of(cls)} == ways | inputs
    listed = schema()["properties"]["operations"]["additionalProperties"]["oneOf"]
    (row,) = [one["properties"] for one in listed if one["properties"]["verb"]["const"] == cls.verb]
    assert {*row} == {"verb", "version", *(way[0] for way in ways), *(way[0] for way in inputs)} | {
        field.name for field in record_fields(cls)
    }
    if "settings" in _settings_of(cls).__dataclass_fields__:
        form = ParamForm(cls.__dataclass_fields__["settings"].default)
        qtbot.addWidget(form)
        own = {way[1:] for way in ways if way[0] == "settings"}
        rows = {*form._rows}
        assert own - rows <= {("resolution_mm",)}, "a number without a default has its row once the kit has one for it"


# -- no setting is ignored --------------------------------------------------------------------------------------------


def changed(settings, name):
    """The settings with another value in one field."""
    field = type(settings).__dataclass_fields__[name]
    others = {
        "outside": "exclude", "interpolation": "shape", "caps": "none", "bins": 50, "bin_scale": "logarithmic",
        "within_voxels": "constant", "any_frame": True, "accuracy_percent": 5.0, "spacing_mm": 3.0,
        "resolution_mm": 1.5, "sampling": BySpacing(spacing_mm=2.0),
    }  # fmt: skip
    assert others[name] != field.default
    return dataclasses.replace(settings, **{name: others[name]})


def outcome(count, structure, settings):
    """Numbers of a histogram, or the sentence of a refusal."""
    dose = dataclasses.replace(linear_dose((0.3, 0.5, 0.7)), frame_of_reference="1")
    try:
        (found,) = count(dose, structure, settings)
    except InvalidInput as error:
        return str(error)
    curve = found.areas_cm2 if count is surface_histograms else found.volumes_cc
    return found.doses.tolist(), curve.tolist()


def count_volume(dose, structure, settings):
    return dvh(dose, structure, settings, device="cpu")


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (count_volume, DvhSettings()),
        (count_volume, ByAccuracy()),
        (count_volume, BySpacing()),
        (surface_histograms, SurfaceSettings()),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Settings) else "",
)
def test_each_field_of_settings_changes_something(count, settings):
    """The structure leaves the dose, narrows from plane to plane, and for one field is of another frame."""
    loops = [circle(radius, 64, (34.0, 0.0)) for radius in (8.0, 7.0, 6.0, 4.0, 3.0)]
    points = [np.column_stack([loop, np.full(len(loop), z)]) for loop, z in zip(loops, PLANES, strict=True)]
    for field in record_fields(settings):
        frame = "2" if field.name == "any_frame" else "1"
        structure = contour_structure("organ", points, frame_of_reference=frame)
        whole = [settings, changed(settings, field.name)]
        if not isinstance(settings, (DvhSettings, SurfaceSettings)):
            whole = [DvhSettings(sampling=one) for one in whole]
        first, second = (outcome(count, structure, one) for one in whole)
        assert first != second, field.name


def test_each_field_of_an_operation_changes_a_result():
    """But for constraints, which are reported and change the exit status, and for what is only said in a note."""
    values = np.stack([dose_values(), dose_values(scale=0.5)], -1)
    series = HeldVolume.of(Volume(array=values, affine=AFFINE, quantity=Quantity("values")))
    one = DoseOf(volume=series, unit="Gy", frame=0)
    labels = LabelsOf(volume=HeldVolume.of(Volume(array=label_values(), affine=AFFINE)))
    moved = DoseOf(volume=series, unit="Gy", frame=1, frame_of_reference="1.2")
    histograms = DoseVolume(doses=(one,), structures=(labels,), metrics=("D50%[%]",), reference_dose=2.0)
    name = run(histograms, device="cpu").curves.dvhs[0].name
    cases = {
        one: {"unit": "J/cm2", "frame": 1, "values_unit": "cGy", "quantity": "fluence", "frame_of_reference": "1.2"},
        labels: {"names": ("1=organ",), "frame_of_reference": "1.2"},
        DoseSum(doses=(one, moved)): {"weights": (1.0, 2.0)},
        histograms: {"reference_dose": 3.0, "scale": 2.0, "only": (name,), "metrics": ("Mean",)},
    }
    ineffective = {
        DoseOf: {"is_oriented"},
        LabelsOf: {"is_oriented"},
        DoseVolume: {"constraints", "constraint_file"},
    }
    ineffective |= {DoseSum: {"any_frame"}}  # below: it is refused without
    for usual, changes in cases.items():
        others = {"settings", *input_infos(type(usual)), *ineffective[type(usual)]}
        assert {*changes} == field_names(type(usual)) - others
        for field, value in changes.items():
            other = dataclasses.replace(usual, **{field: value})
            digests = [
                [digest(each.output(name).value_in(made)) for name in each.makes if each.has(name)]
                for each, made in ((each, run(each, device="cpu")) for each in (usual, other))
            ]
            assert digests[0] != digests[1], (usual, field)
    plain = HeldVolume.of(Volume(array=values[..., 0], affine=AFFINE, quantity=Quantity("fluence", "J/cm2")))
    for field, value in (("frame", 1), ("values_unit", "Gy"), ("quantity", "dose")):
        with pytest.raises(InvalidInput, match=f"{field} is .*; leave {field} out"):
            run(DoseOf(volume=plain, **{field: value}), device="cpu")
    elsewhere = dataclasses.replace(one, frame_of_reference="1.3")
    for verb in (DoseSum(doses=(elsewhere, moved)), DoseDifference(dose=elsewhere, minus=moved)):
        with pytest.raises(InvalidInput, match="frame"):
            run(verb, device="cpu")
        run(dataclasses.replace(verb, any_frame=True), device="cpu")


def test_settings_of_contours_are_refused_for_labels_alone():
    labels = LabelsOf(volume=HeldVolume.of(Volume(array=label_values(), affine=AFFINE)))
    volume = HeldVolume.of(Volume(array=dose_values(), affine=AFFINE))
    drawn = HeldContours.of([stack([circle(6.0)], PLANES)])
    given = {"doses": (DoseOf(volume=volume, unit="Gy"),), "settings": DvhSettings(interpolation="shape")}
    with pytest.raises(InvalidInput, match="interpolation is 'shape', which has no effect: the structures are labels"):
        DoseVolume(structures=(labels,), **given)
    assert DoseVolume(structures=(labels, drawn), **given).settings.interpolation == "shape"


# -- values -----------------------------------------------------------------------------------------------------------


def test_drawn_contours_come_back_bit_by_bit():
    loops = [(6.0, 40), (3.0, 30)]
    made = [
        stack([circle(*loops[0]), circle(*loops[1])], PLANES),
        contour_structure("single", [np.column_stack([circle(4.0), np.zeros(len(circle(4.0)))])], thickness_mm=2.5),
        contour_structure("empty", []),
    ]
    found = run(HeldContours.of(made), device="cpu")
    assert [one.name for one in found] == [one.name for one in made]
    dose = linear_dose((0.0, 0.0, 1.0))
    for one, again in zip(made[:2], found, strict=False):
        assert (again.thickness_mm, again.overlaps) == (one.thickness_mm, one.overlaps)
        first, second = (dvh(dose, structure, device="cpu").dvhs[0] for structure in (one, again))
        np.testing.assert_array_equal(first.volumes_cc, second.volumes_cc)
        np.testing.assert_array_equal(first.doses, second.doses)
    assert digest(found) == digest(run(HeldContours.of(found), device="cpu"))


def test_a_series_of_logarithms_with_errors_is_one_dose():
    values = np.random.default_rng(0).random((4, 5, 6, 3)).astype(np.float32)
    volume = Volume(array=np.log10(values), affine=AFFINE, quantity=Quantity("fluence", "1/mm2", "log10"),
                    halves=np.stack([0.9 * values, 1.1 * values]))  # fmt: skip
    error = HeldVolume.of(Volume(array=0.1 * values, affine=AFFINE))
    made = DoseOf(volume=HeldVolume.of(volume), standard_error=error, unit="1/cm2", frame=1)
    dose = run(made, device="cpu")
    np.testing.assert_allclose(dose.values, 100 * values[..., 1], rtol=1e-5)
    np.testing.assert_allclose(dose.halves[1], 110 * values[..., 1], rtol=1e-5)
    np.testing.assert_allclose(dose.standard_error, 10 * values[..., 1], rtol=1e-5)
    assert (dose.unit, dose.quantity) == ("1/cm²", "fluence")
    with pytest.raises(InvalidInput, match="3 volumes; choose one of them, not 7"):
        run(dataclasses.replace(made, frame=7), device="cpu")
    with pytest.raises(InvalidInput, match="'furlong' is not a known unit"):
        dataclasses.replace(made, unit="furlong")


def test_layers_of_results_are_what_made_them():
    """A dose, labels and contours that are shown are found again, and painted labels are held."""
    operations = (
        DoseOf(volume=HeldVolume.of(Volume(array=dose_values(), affine=AFFINE)), unit="Gy"),
        LabelsOf(volume=HeldVolume.of(Volume(array=label_values(), affine=AFFINE)), names=("1=lung", "2=heart")),
        HeldContours.of([stack([circle(6.0)], PLANES)]),
    )
    shown = []
    for one, kind in zip(operations, (Image, Labels, Shapes), strict=True):
        ((data, keywords, _),) = shown_as(run(one, device="cpu"), one.output(), "shown")
        shown.append(kind(data, **keywords))
    found, _ = dose_shown(shown[0], "Gy")
    assert found.of == operations[0]
    assert dose_shown(shown[0], "cGy")[0].of != operations[0]
    labels, source = labels_shown(shown[1], NAMES)
    assert digest(run(labels, device="cpu")) == digest(run(operations[1], device="cpu"))
    shown[1].data = np.array(shown[1].data)
    shown[1].data[3, 4, 5] = 2
    painted, _ = labels_shown(shown[1], NAMES, known=source)
    assert painted != labels
    assert run(painted, device="cpu").labels.T[3, 4, 5] == run(painted, device="cpu").labels.T.max() == 2


def test_what_was_found_before_is_taken_again_while_it_holds(monkeypatch):
    ((data, keywords, _),) = layers_of(a_dose(), DoseOf(volume=HeldVolume.of(
        Volume(array=dose_values(), affine=AFFINE))).output(), "x")  # fmt: skip
    layer = Image(data, **{**keywords, "metadata": {"unit": "Gy"}})
    first, known = dose_shown(layer, "Gy")
    held = []
    monkeypatch.setattr(STORE, "hold", lambda array: held.append(array))
    assert dose_shown(layer, "Gy", known=known)[0] == first
    assert held == []
    monkeypatch.undo()
    layer.data[0, 0, 0] += 1
    assert dose_shown(layer, "Gy", known=known)[0] != first


def test_a_record_makes_the_same_bits_again():
    dose = DoseOf(volume=HeldVolume.of(Volume(array=dose_values(), affine=AFFINE)), unit="Gy")
    labels = LabelsOf(volume=HeldVolume.of(Volume(array=label_values(), affine=AFFINE)), names=("1=lung", "2=heart"))
    asked = DoseVolume(doses=(dose,), structures=(labels,), metrics=METRICS, constraints=("lung: Mean[Gy] < 99",))
    found = run(asked, device="cpu")
    fresh = Store()
    fresh.adopt_arrays(STORE)
    again = run(asked, store=fresh, device="cpu")
    for name in asked.makes:
        assert digest(getattr(found, name)) == digest(getattr(again, name))
    expected = dvh(a_dose(), organs(), device="cpu")
    for one, other in zip(found.curves, expected, strict=True):
        np.testing.assert_array_equal(one.volumes_cc, other.volumes_cc)


def test_labels_of_a_volume_take_names_and_whole_numbers_only():
    held = HeldVolume.of(Volume(array=np.array([[[0.0, 1.0, 300.0]]]), affine=np.eye(4)))
    found = run(LabelsOf(volume=held, names=("300=far=away",)), device="cpu")
    assert isinstance(found, LabelStructures)
    assert (found.values, found.names) == ((300,), ("far=away",))
    with pytest.raises(InvalidInput, match="write each label once"):
        LabelsOf(volume=held, names=("1=a", "1=b"))
    fractions = HeldVolume.of(Volume(array=np.full((2, 2, 2), 0.5), affine=np.eye(4)))
    with pytest.raises(InvalidInput, match="holds fractions, not labels"):
        run(LabelsOf(volume=fractions), device="cpu")


def test_a_dose_without_a_unit_is_refused():
    plain = SimpleNamespace(volume=Volume(array=dose_values(), affine=AFFINE), standard_error=None)
    with pytest.raises(InvalidInput, match="it is never guessed"):
        DoseOf(volume=HeldVolume.of(plain.volume)).read(plain)
    assert isinstance(DoseOf(volume=HeldVolume.of(plain.volume), values_unit="Gy").read(plain), Dose)


@pytest.mark.parametrize(
    ("loops", "points", "sentence"),
    [
        (np.array([0, 4]), np.zeros((4, 3)), "loops is int64 of shape"),
        (np.array([[0.0, 4.0]]), np.zeros((4, 3)), "loops is float64"),
        (np.array([[0, 4]]), np.zeros((4, 2)), "points is float64 of shape"),
        (np.array([[0, 4]]), np.zeros((4, 3), complex), "points is complex128"),
        (np.array([[1, 4]]), np.zeros((4, 3)), "structures that are not there"),
        (np.array([[0, 5], [0, -1]]), np.zeros((4, 3)), "none may be negative"),
        (np.array([[0, 3]]), np.zeros((4, 3)), "contours of 3 points"),
        (np.empty((0, 2), np.int64), np.zeros((4, 3)), "contours of 0 points"),
    ],
)
def test_held_contours_that_do_not_fit_are_a_sentence(loops, points, sentence):
    drawn = HeldContours.of([stack([circle(6.0)], PLANES)])
    changed = dataclasses.replace(drawn, loops=STORE.hold(loops), points=STORE.hold(points))
    with pytest.raises(InvalidInput, match=sentence):
        run(changed, device="cpu")
