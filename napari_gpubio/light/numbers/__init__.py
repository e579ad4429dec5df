"""The numbers of a light result: what the dock widget shows, the command line prints and a CSV file holds."""

from napari_gpubio.light.numbers.detectors import DetectorNumbers, TimeSpread, detector_numbers, time_spread
from napari_gpubio.light.numbers.findings import Finding, findings
from napari_gpubio.light.numbers.labels import LabelFluence, label_fluence, label_name
from napari_gpubio.light.numbers.rows import (
    NumberRow,
    detector_rows,
    energy_rows,
    fluence_rows,
    number_rows,
    write_csv,
)
from napari_gpubio.light.numbers.sensitivity import sensitivity_rows
from napari_gpubio.light.numbers.text import number_text
from napari_gpubio.light.numbers.units import PER_PHOTON, FluenceUnit, fluence_units

__all__ = [
    "PER_PHOTON",
    "DetectorNumbers",
    "Finding",
    "FluenceUnit",
    "LabelFluence",
    "NumberRow",
    "TimeSpread",
    "detector_numbers",
    "detector_rows",
    "energy_rows",
    "findings",
    "fluence_rows",
    "fluence_units",
    "label_fluence",
    "label_name",
    "number_rows",
    "number_text",
    "sensitivity_rows",
    "time_spread",
    "write_csv",
]
