"""Small doses and structures for tests."""

import numpy as np

from napari_gpubio.dose import ContourStructure, Dose, Dvh, LabelStructures, PointStructure, contour_structure


def rotation(degrees, axis):
    """Rodrigues' formula."""
    x, y, z = np.asarray(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = np.deg2rad(degrees)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


ROTATION = rotation(40, (1, 2, 2))
PLANES = np.arange(-6.0, 6.1, 2.0)  # 14 mm with their caps


def affine_of(spacing, first=(0.0, 0.0, 0.0), axes=None):
    """Voxel to world: edge lengths, the world position of the first voxel, axes as columns."""
    affine = np.eye(4)
    affine[:3, :3] = (np.eye(3) if axes is None else axes) * np.broadcast_to(spacing, 3)
    affine[:3, 3] = first
    return affine


def linear_dose(gradient, spacing=2.5, half=40.0, center=40.0):
    """Dose ``center`` + gradient . position around the world's origin, Gy with a gradient in Gy / mm."""
    n = int(np.ceil(half / spacing))
    x, y, z = np.meshgrid(*[spacing * np.arange(-n, n + 1)] * 3, indexing="ij")
    values = center + gradient[0] * x + gradient[1] * y + gradient[2] * z
    return Dose(values=values, affine=affine_of(spacing, [-n * spacing] * 3), unit="Gy")


def uniform_dose(value=2.0, shape=(20, 20, 20), spacing=2.0):
    return Dose(values=np.full(shape, value), affine=affine_of(spacing), unit="Gy")


def circle(radius, points=256, center=(0.0, 0.0)):
    """A polygon with the area of a circle, shape (points, 2)."""
    angles = 2 * np.pi * np.arange(points) / points
    radius = radius * np.sqrt(2 * np.pi / (points * np.sin(2 * np.pi / points)))
    return np.column_stack([center[0] + radius * np.cos(angles), center[1] + radius * np.sin(angles)])


def square(half, center=(0.0, 0.0)):
    return np.array([[-half, -half], [half, -half], [half, half], [-half, half]]) + center


def at(loop, z):
    """A loop in the plane z, shape (N, 3)."""
    return np.column_stack([loop, np.full(len(loop), float(z))])


def stack(loops, positions, name="organ", **more) -> ContourStructure:
    """The same loops in each of some planes."""
    return contour_structure(name, [at(loop, z) for z in positions for loop in loops], **more)


def ramp(name="Heart", low=10.0, high=50.0, volume=20.0, unit="Gy"):
    """The histogram of a structure with the same volume at every dose from low to high."""
    doses, volumes = np.linspace(low, high, 4001), np.linspace(volume, 0.0, 4001)
    return Dvh(name=name, unit=unit, doses=doses, volumes_cc=volumes, mean=(low + high) / 2)


NO_VOLUME = Dvh(name="Empty", unit="Gy", doses=np.empty(0), volumes_cc=np.empty(0), mean=float("nan"))


def check_same(found, expected):
    """Histograms are equal, bit for bit."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.doses, b.doses)
        np.testing.assert_array_equal(a.volumes_cc, b.volumes_cc)
        np.testing.assert_array_equal([a.mean, a.outside_cc], [b.mean, b.outside_cc])


def random_case(seed, *, degenerate=False):
    """A rough dose, and contours, labels and points that overlap and leave it, on oblique grids."""
    rng = np.random.default_rng(seed)
    shape = (9, 8, 11)
    values = np.full(shape, 5.0) if degenerate else rng.random(shape) * 60.0
    dose = Dose(values=values, affine=affine_of((2.0, 2.5, 3.0), (-9, -9, -15), ROTATION), unit="Gy")
    ring = stack([circle(7.0, 40), circle(3.0, 24, (1, 1))], np.arange(-6.0, 6.1, 3.0), "ring")
    far = stack([square(4.0, (9.0, 3.0))], [0.0, 2.0], "far")
    labels = rng.integers(0, 4, (7, 6, 9)).astype(np.uint8)
    parts = LabelStructures(
        labels=labels, affine=affine_of((2.5, 3.1, 2.0), (-8, -8, -9)), structures={1: "one", 3: "three"}
    )
    wide = LabelStructures(labels=labels.astype(np.uint16) * 300, affine=affine_of(2.0, (-7, -6, -8), ROTATION.T))
    points = PointStructure(name="points", points=rng.normal(size=(500, 3)) * 6, volume_cc=2.0)
    return dose, [ring, parts, far, points, wide]
