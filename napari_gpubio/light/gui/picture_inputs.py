"""What both light panels offer for a picture: how many decades its colors span, and to keep it."""

from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSpinBox, QWidget

from napari_gpubio.light.napari_io import DECADES


def decades_input(brightest: str, parent: QWidget) -> tuple[QSpinBox, QHBoxLayout]:
    """Return the number of powers of ten that the colors span, and the row it stands in.

    Parameters
    ----------
    brightest
        From what they are counted: ``voxel`` or ``bin``.
    """
    box = QSpinBox(parent)
    box.setRange(1, 15)
    box.setValue(DECADES)
    box.setToolTip(f"How many powers of ten the colors span, counted from the brightest {brightest}")
    row = QHBoxLayout()
    row.addWidget(box)
    row.addWidget(QLabel("decades, log₁₀", parent), 1)
    return box, row


def keep_button(parent: QWidget) -> QPushButton:
    """Return the button that leaves the picture to the user."""
    button = QPushButton("Keep this picture", parent)
    button.setToolTip("Leave the layer as it is; the next run makes a new one, to compare")
    return button


def kept_text(name: str) -> str:
    """What to say of the layer that was left to the user; ``name`` is empty where there was none."""
    return f"{name} stays as it is; the next run makes a new layer" if name else "there is no picture yet"
