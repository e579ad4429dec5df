"""Every row of the table of what readers do is true, and the docs have that table."""

from pathlib import Path

import pytest

from tests.conformance import (
    Did,
    atlases,
    ct,
    dangerous,
    dose,
    frames,
    gradients,
    light,
    light_window,
    lost_frames,
    mrtrix_images,
    neighbors,
    nifti_headers,
    orientations,
    places,
    plans,
    recordings,
    several_volumes,
    shell,
    slices,
    structures,
    studies,
    table,
    tiny_tracks,
    tractogram_arrays,
    tractograms,
    transforms,
    volumes,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "formats.md"
_MODULES = (
    *(dangerous, volumes, nifti_headers, mrtrix_images, gradients, several_volumes, orientations, atlases),
    *(tractograms, tractogram_arrays, tiny_tracks, places, structures, slices, dose, plans, ct, studies),
    *(light, light_window, frames, lost_frames, recordings, neighbors, transforms, shell),
)
KINDS = tuple(kind.ROWS for kind in _MODULES)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for rows in KINDS for row in rows])
def test_a_row_of_the_table_is_true(row, tmp_path):
    row.check(tmp_path)


def test_the_docs_have_the_table():
    assert PAGE.read_text(encoding="utf-8") == table(KINDS, dangerous.ELSEWHERE), "run: python -m tests.conformance"


def test_no_row_is_there_twice():
    names = [row.name for rows in KINDS for row in rows]
    assert len(names) == len(set(names))


def test_dangerous_inputs_are_refused_or_noted():
    rows = {(row.reader, row.trait): row for rows in KINDS for row in rows}
    chosen = [rows[reader, trait] for reader, traits in dangerous.ELSEWHERE.items() for trait in traits]
    assert len({row.name for row in (*chosen, *dangerous.ROWS)}) >= 40
    assert all(row.did is not Did.READ for row in chosen)
