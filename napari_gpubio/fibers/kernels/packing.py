"""Rays put together to fibers, in Numba; the counterpart of ``packing.cuh``."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

from napari_gpubio.core.jit import kernel


@kernel
def pack(start, stop, affine, rays, seed_values, output, fibers):
    """Join the two rays of each fiber (backward reversed, seed, forward) and turn voxels into mm."""
    points, written, _, _ = output
    seeds, _, per_fiber, _, _ = rays
    offsets, packed, packed_values = fibers
    for f in range(start, stop):
        forward = per_fiber * f
        back = written[2 * f + 1] if per_fiber == 2 else 0
        for n in range(offsets[f + 1] - offsets[f]):
            at = offsets[f] + n
            if n == back:
                x, y, z, value = seeds[f, 0], seeds[f, 1], seeds[f, 2], seed_values[f]
            else:
                ray, p = (forward + 1, back - 1 - n) if n < back else (forward, n - back - 1)
                x, y, z, value = points[ray, p, 0], points[ray, p, 1], points[ray, p, 2], points[ray, p, 3]
            for a in range(3):
                packed[at, a] = affine[a, 0] * x + affine[a, 1] * y + affine[a, 2] * z + affine[a, 3]
            packed_values[at] = value
