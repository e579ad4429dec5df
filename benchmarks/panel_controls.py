"""What the wheel does over every control of every dock widget.

Run it under a display with ``xdotool``, which turns a wheel of the X server, so that Qt cannot tell it from a user's::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/panel_controls.py

Each control is brought on screen on every page of its panel, none has the focus, and the wheel is turned by one notch
down and one up. What may have changed is compared: choices, numbers, tabs, ranges of plots, places of tables.
"""

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import napari
from common import argument_parser, header, header_lines, line, publish, result_path, table
from qtpy.QtWidgets import QApplication, QWidget

from tests import panel_walk

_DOWN, _UP = "5", "4"  # buttons of an X pointer
_SETTLE_S = 0.05


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    viewer = napari.Viewer()
    viewer.window.resize(1400, 900)
    panel_walk.add_layers(viewer)
    rows = [row for name in panel_walk.dock_widgets() for row in rows_of(viewer, name)]
    results = header(quick=False) | {"napari": napari.__version__, "rows": rows}
    lines = [line(r["panel"], r["page"], r["control"], r["tip"], r["scrolled"], r["changed"]) for r in rows]
    counts = f"{len(rows)} controls; the wheel changed {sum(r['changed'] != 'nothing' for r in rows)}."
    titles = ("panel", "page", "control", "tool tip", "the panel scrolled", "changed")
    text = "\n".join(["# The wheel over every control", "", *header_lines(results), counts, "", *table(titles, lines)])
    publish(result_path(options.json, "panel_controls", results["date"]), results, text + "\n")
    viewer.close()


def rows_of(viewer: Any, name: str) -> Iterator[dict[str, str]]:
    """One row for each control of a panel."""
    seen: set[QWidget] = set()
    with panel_walk.shown_panel(viewer, name) as panel:
        for page in panel_walk.pages(panel):
            for control in panel_walk.controls(panel):
                if control not in seen and bring_on_screen(panel, control):
                    seen.add(control)
                    yield {"panel": name, "page": page, **wheel_over(panel, control)}


def bring_on_screen(panel: QWidget, control: QWidget) -> bool:
    """Scroll to a control; returns whether it is seen."""
    if (area := panel_walk.scroll_area(panel)) is not None and area.isAncestorOf(control):
        area.ensureWidgetVisible(control)
    settle()
    return not control.visibleRegion().isEmpty()


def wheel_over(panel: QWidget, control: QWidget) -> dict[str, str]:
    """Turn the wheel both ways over a control, and compare."""
    area = panel_walk.scroll_area(panel)
    bar = area.verticalScrollBar() if area is not None else None
    before, begin = panel_walk.state(panel), bar.value() if bar is not None else 0
    changed, scrolled = set(), False
    for button in (_DOWN, _UP):
        place = control.mapToGlobal(control.visibleRegion().boundingRect().center())
        subprocess.run(["xdotool", "mousemove", str(place.x()), str(place.y()), "click", button], check=True)
        settle()
        after = panel_walk.state(panel)
        changed |= {key for key in before if after.get(key) != before[key]}
        if bar is not None:
            scrolled = scrolled or bar.value() != begin
            bar.setValue(begin)
    return {
        "control": type(control).__name__,
        "tip": control.toolTip().split("\n")[0].replace("|", "/")[:60],
        "scrolled": "yes" if scrolled else "has no room to" if bar is None or bar.maximum() == 0 else "no",
        "changed": ", ".join(sorted(changed)) or "nothing",
    }


def settle() -> None:
    """Let the events of the X server arrive."""
    end = time.monotonic() + _SETTLE_S
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.002)


if __name__ == "__main__":
    main()
