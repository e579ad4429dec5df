#pragma once
// Where a photon starts, and where it enters the tissue. Counterpart: launch.py, same names, same order of operations.
#include "photon.cuh"

// Where a photon starts (grid mm) and in which direction. `source`: position, rows of the frame (width, height,
// direction), two sizes, 1 - cosine of the opening, rows and columns of the pattern in one number each.
__device__ __forceinline__ void start(int kind, const float* __restrict__ source, const float* __restrict__ pattern,
                                      int pattern_rows, int pattern_columns, Xoshiro* random, Vector* at, Vector* along)
{
    if (kind == PENCIL) {
        *at = Vector{source[0], source[1], source[2]};
        *along = Vector{source[9], source[10], source[11]};
        return;
    }
    const float u0 = random->uniform(), u1 = random->uniform(), u2 = random->uniform();
    float cp, sp;
    turn(random->next(), &cp, &sp);
    const float size = source[12], other = source[13];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    if (kind == FIBER || kind == DISK || kind == LAMBERTIAN || kind == GAUSSIAN) {
        const float r = kind == GAUSSIAN ? size * sqrtf(0.5f * minus_log(u0)) : size * sqrtf(u0);
        x = r * cp;
        y = r * sp;
    } else if (kind == PLANAR) {
        x = (u0 - 0.5f) * size;
        y = (u1 - 0.5f) * other;
    } else if (kind == PATTERN) {
        int low = 0, high = pattern_rows * pattern_columns - 1;
        while (low < high) {  // the first pixel whose running sum exceeds u2
            const int middle = (low + high) / 2;
            if (pattern[middle] > u2) high = middle;
            else low = middle + 1;
        }
        const int row = low / pattern_columns, column = low - row * pattern_columns;
        x = (((float)column + u0) / (float)pattern_columns - 0.5f) * size;
        y = (((float)row + u1) / (float)pattern_rows - 0.5f) * other;
    } else if (kind == LINE || kind == CYLINDER) {
        z = (u0 - 0.5f) * other;
    }
    float lx = 0.0f, ly = 0.0f, lz = 1.0f;
    if (kind == CYLINDER) {
        x = size * cp;
        y = size * sp;
    }
    const bool spread = kind == ISOTROPIC || kind == LINE || kind == CONE || kind == FIBER || kind == LAMBERTIAN ||
                        kind == CYLINDER;
    if (spread) {
            const float v = random->uniform();
        float ca, sa;
        turn(random->next(), &ca, &sa);
        const bool cosine_law = kind == LAMBERTIAN || kind == CYLINDER;
        const float ct = cosine_law ? sqrtf(v) : kind == CONE || kind == FIBER ? 1.0f - source[14] * v : 2.0f * v - 1.0f;
        const float st = sqrtf(fmaxf(0.0f, 1.0f - ct * ct));
        lx = st * ca;
        ly = st * sa;
        lz = ct;
        if (kind == CYLINDER) {  // around the outward normal (cp, sp, 0)
            const float across = lx, upward = ly;
            lx = ct * cp - across * sp;
            ly = ct * sp + across * cp;
            lz = upward;
        }
    }
    const float* f = source + 3;
    *at = Vector{source[0] + (x * f[0] + y * f[3] + z * f[6]), source[1] + (x * f[1] + y * f[4] + z * f[7]),
                 source[2] + (x * f[2] + y * f[5] + z * f[8])};
    *along = Vector{lx * f[0] + ly * f[3] + lz * f[6], lx * f[1] + ly * f[4] + lz * f[7],
                    lx * f[2] + ly * f[5] + lz * f[8]};
}

// A coordinate that does not change along the ray, kept off the faces of voxels by a thousandth of an edge: a packet that
// runs in a face would be reflected there for ever.
__device__ __forceinline__ float beside_face(float a, float u, float h, int count)
{
    if (u != 0.0f || a < -1e-3f * h || a > ((float)count + 1e-3f) * h) return a;
    const float cell = fminf(fmaxf(floorf(a / h), 0.0f), (float)count - 1.0f);
    return fminf(fmaxf(a, (cell + 1e-3f) * h), (cell + 0.999f) * h);
}

// From a starting point to the first tissue: through the outside in a straight line, with the specular loss at the
// surface. False if there is no tissue on the way; `lost` is what the surface reflected.
__device__ __forceinline__ bool enter(const Grid& grid, Vector at, bool specular, Packet* photon, float* lost)
{
    Vector u = photon->u;
    at = Vector{beside_face(at.x, u.x, grid.hx, grid.nx), beside_face(at.y, u.y, grid.hy, grid.ny),
                beside_face(at.z, u.z, grid.hz, grid.nz)};
    const Vector slow{slowness(u.x), slowness(u.y), slowness(u.z)};
    const float ex = (float)grid.nx * grid.hx, ey = (float)grid.ny * grid.hy, ez = (float)grid.nz * grid.hz;
    const float ax = (u.x > 0.0f ? -at.x : at.x - ex) * slow.x, bx = (u.x > 0.0f ? ex - at.x : at.x) * slow.x;
    const float ay = (u.y > 0.0f ? -at.y : at.y - ey) * slow.y, by = (u.y > 0.0f ? ey - at.y : at.y) * slow.y;
    const float az = (u.z > 0.0f ? -at.z : at.z - ez) * slow.z, bz = (u.z > 0.0f ? ez - at.z : at.z) * slow.z;
    const float first = fmaxf(ax, fmaxf(ay, az)), last = fminf(bx, fminf(by, bz));
    *lost = 0.0f;
    if (first > last || last < 0.0f) return false;
    int entered = -1;
    if (first > 0.0f) {  // from beyond the grid to its face
        entered = first == ax ? 0 : first == ay ? 1 : 2;
        at = Vector{at.x + first * u.x, at.y + first * u.y, at.z + first * u.z};
    }
    int i = (int)floorf(at.x / grid.hx), j = (int)floorf(at.y / grid.hy), k = (int)floorf(at.z / grid.hz);
    i = i < 0 ? 0 : i > grid.nx - 1 ? grid.nx - 1 : i;
    j = j < 0 ? 0 : j > grid.ny - 1 ? grid.ny - 1 : j;
    k = k < 0 ? 0 : k > grid.nz - 1 ? grid.nz - 1 : k;
    Vector p{within(at.x - (float)i * grid.hx, grid.hx), within(at.y - (float)j * grid.hy, grid.hy),
             within(at.z - (float)k * grid.hz, grid.hz)};
    int cell = (i + 1) * grid.sx + (j + 1) * grid.sy + k + 1;
    int row = grid.rows[cell];
    while (row == OUTSIDE) {
        int axis;
        const float d = to_face(grid, p, u, &axis);
        const bool forward = part(u, axis) > 0.0f;
        p = moved(grid, p, u, d);
        put(&p, axis, forward ? 0.0f : axis == 0 ? grid.hx : axis == 1 ? grid.hy : grid.hz);
        cell += forward ? grid.stride(axis) : -grid.stride(axis);
        row = grid.rows[cell];
        entered = axis;
    }
    if (row == EDGE) return false;
    if (entered < 0) {  // a start on the outer face of the tissue counts as coming from outside
        for (int axis = 2; axis >= 0; --axis) {
            const float h = axis == 0 ? grid.hx : axis == 1 ? grid.hy : grid.hz;
            const bool forward = part(u, axis) > 0.0f;
            const float depth = forward ? part(p, axis) : h - part(p, axis);
            const int behind = grid.rows[forward ? cell - grid.stride(axis) : cell + grid.stride(axis)];
            const bool open = behind == OUTSIDE || (behind == EDGE && grid.rule(axis, !forward) < MIRROR);
            if (open && part(u, axis) != 0.0f && depth < 1e-3f * h) entered = axis;
        }
    }
    const float n1 = grid.n_of(OUTSIDE), n2 = grid.n_of(row);
    if (specular && entered >= 0 && n1 != n2) {
        float ct;
        *lost = fresnel(fabsf(part(u, entered)), n1, n2, &ct);
        u = refracted(u, entered, ct, n1 / n2);
    }
    photon->cell = cell;
    photon->row = row;
    photon->p = p;
    photon->u = u;
    photon->w = 1.0f - *lost;
    return photon->w > 0.0f;
}
