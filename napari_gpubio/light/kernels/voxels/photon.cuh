#pragma once
// Where a photon enters the tissue, and how it gets from face to face. Counterpart: photon.py, same names, same order of
// operations.
//
// A position is a voxel (`cell`, an index into the grid padded by one voxel) and mm from its low corner (x, y, z). In
// flight it is mm to the face ahead along each axis: then to find that face takes a product for each axis, and to cross it
// sets one number, whichever way the packet goes. Between two scattering events the packet goes straight; absorption is
// continuous along the path and is booked when a voxel is left: the integral of the weight over the path (mm) goes to the
// tally, mu_a times it off the weight.
#include "optics/kernels/physics.cuh"

enum { OUTSIDE = 0, EDGE = 1 };  // rows of the media table that are no tissue: label 0, and the rim of the grid
enum FaceRule { DEFAULT = 0, ESCAPE = 1, FRESNEL = 2, MIRROR = 3, CYCLIC = 4 };
enum EnergyPart { SPECULAR = 0, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE, ENERGY_PARTS, LAUNCHED = ENERGY_PARTS };
enum { MEDIUM_NUMBERS = 8, SOURCE_NUMBERS = 24, SURFACE_NUMBERS = 15, DETECTOR_NUMBERS = 8, DETECTED_NUMBERS = 10 };

#define NEVER 1e30f

// 1 / |u|, large but finite for a component that is 0.
__device__ __forceinline__ float slowness(float u) { return 1.0f / fmaxf(fabsf(u), 1e-12f); }

// Coefficients (1/mm), anisotropy, index; and what the packet divides by: mean free path (mm), path per optical path, and
// the path (mm) after which absorption is booked at the latest.
struct Medium {
    float mua, mus, g, n, free_path, per_n, reach;
};

// What a photon meets: the padded grid of media rows, boundaries, time gates, the source and the detectors. As SCENE in
// gpu.py.
struct Scene {
    const LABEL* rows;  // of each voxel; the table of media, and coefficients of each voxel in continuous media
    const float* media;
    const float* mua;
    const float* mus;
    const float* g;  // and n of each voxel, where they are given voxel by voxel; the table of a phase function
    const float* n;
    const float* phase;
    int phase_count;
    int media_rows;
    int nx, ny, nz, stride_x, stride_y;  // size without the rim, and strides with it
    float hx, hy, hz;  // voxel edges, mm
    int faces;  // rules of the six faces, three bits each
    int refraction, specular;
    float threshold;  // weight below which packets play roulette
    const float* edges;  // of the time gates as optical path, mm
    int gates;
    float end;  // the last of these edges
    int kind;  // of the source, with its numbers
    const float* source;
    const float* pattern;
    int pattern_rows, pattern_columns;
    const float* angles;  // tables of launch angles, turns
    const float* chances;  // running sum over several sources, whose numbers, patterns and angles lie end to end
    const int* places;  // of each of them: kind, columns, start and end of its pattern
    int sources;
    const float* shares;  // weights of a photon from each pixel for the patterns that share it
    int shared;  // number of these patterns
    const float* detectors;
    int detector_count;
    unsigned long long seed;
    const int* tensor_places;  // of each voxel in the table of scattering tensors, 0 for none
    const float* tensors;
    const float* surfaces;  // smoothed surfaces that light of the sources enters through, end to end
};

__device__ __forceinline__ int row_at(const Scene& scene, int cell) { return __ldg(scene.rows + cell); }

// Refractive index of a voxel, or of the outside.
__device__ __forceinline__ float index_at(const Scene& scene, int row, int cell)
{
#if CONTINUOUS > 1
    return __ldg(scene.n + cell);
#else
    return __ldg(scene.media + MEDIUM_NUMBERS * row + 3);
#endif
}

__device__ __forceinline__ Medium medium_at(const Scene& scene, int row, int cell)
{
    const float4* two = reinterpret_cast<const float4*>(scene.media + MEDIUM_NUMBERS * row);
    const float4 one = __ldg(two), other = __ldg(two + 1);
    Medium m{one.x, one.y, one.z, one.w, other.x, other.y, other.z};
#if CONTINUOUS
    m.mua = __ldg(scene.mua + cell);
    m.mus = __ldg(scene.mus + cell);
    m.free_path = 1.0f / fmaxf(m.mus, 1e-20f);
    m.reach = 2.0f * (1.0f / fmaxf(m.mua, 1e-20f));
#endif
#if CONTINUOUS > 1
    m.g = __ldg(scene.g + cell);
    m.n = __ldg(scene.n + cell);
    m.per_n = 1.0f / m.n;
#endif
    return m;
}

__device__ __forceinline__ float edge_of(const Scene& scene, int axis)
{
    return axis == 0 ? scene.hx : axis == 1 ? scene.hy : scene.hz;
}

__device__ __forceinline__ int voxels_along(const Scene& scene, int axis)
{
    return axis == 0 ? scene.nx : axis == 1 ? scene.ny : scene.nz;
}

__device__ __forceinline__ int stride_of(const Scene& scene, int axis)
{
    return axis == 2 ? 1 : axis == 1 ? scene.stride_y : scene.stride_x;  // this order: nvcc makes branches of the other
}

__device__ __forceinline__ int rule_of(int faces, int axis, bool forward)
{
    return faces >> (3 * (2 * axis + (forward ? 1 : 0))) & 7;
}

// Position in the voxel, as mm to the faces ahead, or back again.
__device__ __forceinline__ Vector mirrored(const Scene& scene, Vector p, Vector u)
{
    return Vector{
        u.x > 0.0f ? scene.hx - p.x : p.x, u.y > 0.0f ? scene.hy - p.y : p.y, u.z > 0.0f ? scene.hz - p.z : p.z};
}

// The same position to a packet that has turned.
__device__ __forceinline__ Vector turned_about(const Scene& scene, Vector ahead, Vector before, Vector u)
{
    return Vector{
        (u.x > 0.0f) != (before.x > 0.0f) ? scene.hx - ahead.x : ahead.x,
        (u.y > 0.0f) != (before.y > 0.0f) ? scene.hy - ahead.y : ahead.y,
        (u.z > 0.0f) != (before.z > 0.0f) ? scene.hz - ahead.z : ahead.z};
}

__device__ __forceinline__ Vector slowness_of(Vector u) { return Vector{slowness(u.x), slowness(u.y), slowness(u.z)}; }

// The faces ahead of a packet that has gone on.
__device__ __forceinline__ Vector nearer(Vector ahead, Vector u, float length)
{
    return Vector{ahead.x - length * fabsf(u.x), ahead.y - length * fabsf(u.y), ahead.z - length * fabsf(u.z)};
}

// The faces ahead of a packet that has just come through a face, or back from it: before it lies the whole edge.
__device__ __forceinline__ Vector before_whole_voxel(const Scene& scene, Vector ahead, int axis)
{
    return Vector{
        axis == 0 ? scene.hx : ahead.x, axis == 1 ? scene.hy : ahead.y, axis == 2 ? scene.hz : ahead.z};
}

struct Packet {
    int cell, row;
    Vector p, u;
    float w;
};

__device__ __forceinline__ float part(Vector v, int axis) { return axis == 0 ? v.x : axis == 1 ? v.y : v.z; }

__device__ __forceinline__ void put(Vector* v, int axis, float value)
{
    if (axis == 0)
        v->x = value;
    else if (axis == 1)
        v->y = value;
    else
        v->z = value;
}

// Distance (mm) along the path to the voxel's face, and the axis of that face.
__device__ __forceinline__ float to_face(const Scene& scene, Vector p, Vector u, int* axis)
{
    const float tx = (u.x > 0.0f ? scene.hx - p.x : p.x) * slowness(u.x);
    const float ty = (u.y > 0.0f ? scene.hy - p.y : p.y) * slowness(u.y);
    const float tz = (u.z > 0.0f ? scene.hz - p.z : p.z) * slowness(u.z);
    float nearest = tx;
    *axis = 0;
    if (ty < nearest) {
        nearest = ty;
        *axis = 1;
    }
    if (tz < nearest) {
        nearest = tz;
        *axis = 2;
    }
    return nearest;
}

__device__ __forceinline__ float within(float value, float high) { return fminf(fmaxf(value, 0.0f), high); }

__device__ __forceinline__ Vector moved(const Scene& scene, Vector p, Vector u, float length)
{
    return Vector{
        within(p.x + length * u.x, scene.hx), within(p.y + length * u.y, scene.hy),
        within(p.z + length * u.z, scene.hz)};
}

__device__ __forceinline__ Vector refracted(Vector u, int axis, float ct, float ratio)
{
    Vector v{u.x * ratio, u.y * ratio, u.z * ratio};
    put(&v, axis, part(u, axis) > 0.0f ? ct : -ct);
    return v;
}

// A coordinate that does not change along the ray, kept off the faces of voxels by a thousandth of an edge: a packet that
// runs in a face would be reflected there for ever.
__device__ __forceinline__ float beside_face(float a, float u, float h, int count)
{
    if (u != 0.0f || a < -1e-3f * h || a > ((float)count + 1e-3f) * h) return a;
    const float cell = fminf(fmaxf(floorf(a / h), 0.0f), (float)count - 1.0f);
    return fminf(fmaxf(a, (cell + 1e-3f) * h), (cell + 0.999f) * h);
}

// Voxel that holds a coordinate, the first or the last for one beyond them.
__device__ __forceinline__ int voxel_of(float a, float h, int count)
{
    const int i = (int)floorf(a / h);
    return i < 0 ? 0 : i > count - 1 ? count - 1 : i;
}

// Axis of the outer face of the tissue that a photon starts on, which counts as coming from outside, or -1.
__device__ __forceinline__ int outer_face(const Scene& scene, int cell, Vector p, Vector u)
{
    int entered = -1;
    for (int axis = 2; axis >= 0; --axis) {
        const float h = edge_of(scene, axis);
        const bool forward = part(u, axis) > 0.0f;
        const float depth = forward ? part(p, axis) : h - part(p, axis);
        const int behind = row_at(scene, forward ? cell - stride_of(scene, axis) : cell + stride_of(scene, axis));
        const bool open = behind == OUTSIDE || (behind == EDGE && rule_of(scene.faces, axis, !forward) < MIRROR);
        if (open && part(u, axis) != 0.0f && depth < 1e-3f * h) entered = axis;
    }
    return entered;
}

// Reflectance of a smoothed surface, and the direction behind it; false if it turns its back on the light. Its normal changes
// linearly with the place.
__device__ __forceinline__ bool behind_surface(
    const Scene& scene, int surface, int cell, Vector p, float n1, float n2, Vector* u, float* lost)
{
    const float* const of = scene.surfaces + surface;
    const float x = (float)(cell / scene.stride_x - 1) * scene.hx + p.x - of[0];
    const float y = (float)(cell / scene.stride_y % (scene.ny + 2) - 1) * scene.hy + p.y - of[1];
    const float z = (float)(cell % scene.stride_y - 1) * scene.hz + p.z - of[2];
    const float nx = of[3] + (of[6] * x + of[7] * y + of[8] * z);
    const float ny = of[4] + (of[9] * x + of[10] * y + of[11] * z);
    const float nz = of[5] + (of[12] * x + of[13] * y + of[14] * z);
    const float per_length = 1.0f / sqrtf(nx * nx + ny * ny + nz * nz);
    const float ci = (u->x * nx + u->y * ny + u->z * nz) * per_length;
    if (!(ci > 0.0f)) return false;
    float ct;
    *lost = fresnel(ci, n1, n2, &ct);
    const float ratio = n1 / n2, along = (ct - ratio * ci) * per_length;
    *u = Vector{ratio * u->x + along * nx, ratio * u->y + along * ny, ratio * u->z + along * nz};
    return true;
}

// From a starting point to the first tissue: through the outside in a straight line, with the specular loss at the
// surface. False if there is no tissue on the way; `lost` is what the surface reflected. `surface` is where the numbers of the
// smoothed surface begin that light enters through, or -1 for the face.
__device__ __forceinline__ bool enter(const Scene& scene, int surface, Vector at, Packet* photon, float* lost)
{
    Vector u = photon->u;
    at = Vector{
        beside_face(at.x, u.x, scene.hx, scene.nx), beside_face(at.y, u.y, scene.hy, scene.ny),
        beside_face(at.z, u.z, scene.hz, scene.nz)};
    const Vector slow{slowness(u.x), slowness(u.y), slowness(u.z)};
    const float ex = (float)scene.nx * scene.hx, ey = (float)scene.ny * scene.hy, ez = (float)scene.nz * scene.hz;
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
    const int i = voxel_of(at.x, scene.hx, scene.nx), j = voxel_of(at.y, scene.hy, scene.ny);
    const int k = voxel_of(at.z, scene.hz, scene.nz);
    Vector p{
        within(at.x - (float)i * scene.hx, scene.hx), within(at.y - (float)j * scene.hy, scene.hy),
        within(at.z - (float)k * scene.hz, scene.hz)};
    int cell = (i + 1) * scene.stride_x + (j + 1) * scene.stride_y + k + 1;
    int row = row_at(scene, cell);
    while (row == OUTSIDE) {
        int axis;
        const float d = to_face(scene, p, u, &axis);
        const bool forward = part(u, axis) > 0.0f;
        p = moved(scene, p, u, d);
        put(&p, axis, forward ? 0.0f : edge_of(scene, axis));
        cell += forward ? stride_of(scene, axis) : -stride_of(scene, axis);
        row = row_at(scene, cell);
        entered = axis;
    }
    if (row == EDGE) return false;
    if (entered < 0) entered = outer_face(scene, cell, p, u);
    const float n1 = __ldg(scene.media + MEDIUM_NUMBERS * OUTSIDE + 3), n2 = index_at(scene, row, cell);
    if (scene.specular && entered >= 0 && n1 != n2) {
        if (surface < 0 || !behind_surface(scene, surface, cell, p, n1, n2, &u, lost)) {
            float ct;
            *lost = fresnel(fabsf(part(u, entered)), n1, n2, &ct);
            u = refracted(u, entered, ct, n1 / n2);
        }
    }
    photon->cell = cell;
    photon->row = row;
    photon->p = p;
    photon->u = u;
    photon->w = 1.0f - *lost;
    return photon->w > 0.0f;
}
