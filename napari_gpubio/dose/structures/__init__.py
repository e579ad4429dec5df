"""Structures: closed planar contours, labels of a volume, point samples."""
