"""How a measurement's sensitivity to absorption is shared among the labels."""

from napari_gpubio.light.numbers.labels import label_name
from napari_gpubio.light.numbers.rows import NumberRow
from napari_gpubio.light.sensitivity import Sensitivity


def sensitivity_rows(found: Sensitivity, detector: str) -> tuple[NumberRow, ...]:
    """Share of each label in the sensitivity to a detector, and the mean path in it, as rows of the table of numbers.

    Neither has an error: voxels share photons; see `Sensitivity.path_by_label_mm`.

    Parameters
    ----------
    found
        Sensitivity to absorption.
    detector
        Its name.
    """
    share, path = f"Sensitivity to {detector}, share", f"Sensitivity to {detector}, mean path"
    rows = [_row(share, found, label, 100 * part, "%") for label, part in found.share_by_label().items()]
    rows += [_row(path, found, label, part, "mm") for label, part in found.path_by_label_mm.items()]
    return tuple(rows)


def _row(group: str, found: Sensitivity, label: int, value: float, unit: str) -> NumberRow:
    name = label_name(found.domain, label)
    return NumberRow(group=group, name=name, value=value, unit=unit, label=label)
