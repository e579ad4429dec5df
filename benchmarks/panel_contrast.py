"""The contrast of every label, input, table and plot axis of every dock widget on napari's themes.

Run under a display::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/panel_contrast.py

The contrast is that of WCAG 2, which asks for 4.5 of text. For each dock widget and theme: the least of all pages.
"""

from typing import Any

import napari
from common import argument_parser, header, header_lines, line, publish, result_path, table

from tests import panel_walk

THEMES = ("dark", "light", "system")


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    viewer = napari.Viewer()
    viewer.window.resize(1400, 900)
    panel_walk.add_layers(viewer)
    names = [name for name in panel_walk.dock_widgets() if name != "Linked views"]  # which has no text of its own
    rows = [row for name in names for row in rows_of(viewer, name)]
    results = header(quick=False) | {"napari": napari.__version__, "rows": rows}
    lines = [line(r["panel"], r["theme"], r["texts"], f"{r['least']:.1f}", r["text"], r["color"]) for r in rows]
    titles = ("panel", "theme", "texts", "least contrast", "of", "color")
    text = "\n".join(["# Contrast of texts", "", *header_lines(results), "", *table(titles, lines), ""])
    publish(result_path(options.json, "panel_contrast", results["date"]), results, text)
    viewer.close()


def rows_of(viewer: Any, name: str) -> list[dict[str, Any]]:
    """One row for each theme: how many texts, and the one that is hardest to read."""
    rows = []
    with panel_walk.shown_panel(viewer, name) as panel:
        for theme in THEMES:
            viewer.theme = theme
            texts = {one for _ in panel_walk.pages(panel) for one in panel_walk.text_contrasts(viewer, panel)}
            text, color, least = min(texts, key=lambda one: one[2])
            words = text.replace("|", "/").replace("\n", " ")
            rows.append({
                "panel": name, "theme": theme, "texts": len(texts), "least": least, "text": words, "color": color
            })  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
