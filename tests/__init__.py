"""The tests of napari-gpubio."""
