#pragma once
// Where a photon starts and in which direction. Counterpart: start.py, same names, same order of operations.
// With SOURCE_KIND as a number, the compiler leaves out what other kinds need, which would slow down all photons.
#include "photon.cuh"

// Where photons of a source start, and how they leave; the source's kind is shape + EMISSION_STEP * emission.
enum Shape { POINT = 0, DISK, GAUSSIAN, RECTANGLE, PATTERN, LINE, CYLINDER, ARRAY, FOURIER, WAIST, VOLUME, FOURIER_2D };
enum Emission {
    COLLIMATED = 0, FOCUSED, ISOTROPIC, CONE, COSINE, EVEN, NORMAL, ZGAUSSIAN, ANGLES, AROUND, SPREAD
};
enum { EMISSION_STEP = 16 };

// What has been drawn: three numbers from 0 to 1 and a turn for the place, one and a turn for the direction.
struct Drawn {
    float u0, u1, u2, cp, sp, v, ca, sa;
};

// Which of some increasing numbers is the first that exceeds another; the last one if none does.
__device__ __forceinline__ int first_above(const float* sums, int count, float u)
{
    int low = 0, high = count - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (sums[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// A point of a pattern: x and y over width and height, from 0 to 1.
__device__ __forceinline__ void in_pattern(const Scene& scene, float* u0, float* u1, float u2)
{
    const int low = first_above(scene.pattern, scene.pattern_rows * scene.pattern_columns, u2);
    const int row = low / scene.pattern_columns, column = low - row * scene.pattern_columns;
    *u0 = ((float)column + *u0) / (float)scene.pattern_columns;
    *u1 = ((float)row + *u1) / (float)scene.pattern_rows;
}

// A point of a cell of a volume, from its center, mm; two numbers of 24 bits choose the cell.
__device__ __forceinline__ void in_volume(
    const Scene& scene, const Drawn& drawn, float* x, float* y, float* z, Sfc* random)
{
    const float* const source = scene.source;
    const float a = (float)(random->next() >> 8), b = (float)(random->next() >> 8);
    const int columns = (int)source[18], layers = (int)source[19];
    int low = 0, high = (int)source[17] * columns * layers - 1;
    while (low < high) {  // the first cell whose running sum exceeds the number
        const int middle = (low + high) / 2;
        const float* const sum = scene.pattern + 2 * (size_t)middle;
        if (sum[0] > a || (sum[0] == a && sum[1] > b))
            high = middle;
        else
            low = middle + 1;
    }
    const int row = low / layers, k = low - row * layers;
    const int i = row / columns, j = row - i * columns;
    *x = (((float)i + drawn.u0) / source[17] - 0.5f) * source[12];
    *y = (((float)j + drawn.u1) / source[18] - 0.5f) * source[13];
    *z = (((float)k + drawn.u2) / source[19] - 0.5f) * source[20];
}

// Cosine of the polar angle that a number from 0 to 1 stands for.
__device__ __forceinline__ float cosine_of(const float* source, int emission, float v)
{
    return emission == COSINE ? sqrtf(v) : emission == CONE ? 1.0f - source[14] * v : 2.0f * v - 1.0f;
}

// One of some spots that are spread evenly from edge to edge, from 0 to 1; a single one lies in the middle.
__device__ __forceinline__ float spot(float u, float count)
{
    return count <= 1.0f ? 0.5f : fminf(floorf(u * count), count - 1.0f) / (count - 1.0f);
}

__device__ __forceinline__ Vector unit(float x, float y, float z)
{
    const float scale = 1.0f / sqrtf(x * x + y * y + z * z);
    return Vector{x * scale, y * scale, z * scale};
}

// Modulation of a rectangle's irradiance, from -1 to 1, at a point from 0 to 1 along both edges.
__device__ __forceinline__ float fringes(const float* source, int shape, float u0, float u1)
{
    float cosine, across, up;
    if (shape == FOURIER) {
        turned_by(source[17] * u0 + source[18] * u1 + source[19], &cosine, &across);
        return cosine;
    }
    turned_by(source[17] * u0 + source[19], &cosine, &across);
    turned_by(source[18] * u1 + source[21], &cosine, &up);
    return across * up;
}

// A point of a ring or sector, an array, fringes or a beam that narrows, mm; that of another shape stays.
__device__ __forceinline__ void rare_place(
    const float* source, int shape, const Drawn& drawn, float* x, float* y, Sfc* random)
{
    float u0 = drawn.u0, u1 = drawn.u1, u2 = drawn.u2, cp = drawn.cp, sp = drawn.sp;
    if (shape == DISK) {
        const float r = source[12] * sqrtf(u0 + (1.0f - u0) * source[17]);
        if (source[19] > 0.0f) turned_by(source[18] + u1 * source[19], &cp, &sp);
        *x = r * cp;
        *y = r * sp;
        return;
    }
    if (shape == WAIST) {
        const float r = source[12] * sqrtf(0.5f * minus_log(u0)), behind = -source[16] / source[17];
        *x = r * (cp - behind * sp);
        *y = r * (sp + behind * cp);
        return;
    }
    if (shape == ARRAY) {
        u0 = spot(u0, source[17]);
        u1 = spot(u1, source[18]);
    } else if (shape == FOURIER || shape == FOURIER_2D) {
        float fringe = fringes(source, shape, u0, u1);
        while (u2 * (1.0f + source[20]) > 1.0f + source[20] * fringe) {  // drawn again until it is accepted
            u0 = random->uniform();
            u1 = random->uniform();
            u2 = random->uniform();
            fringe = fringes(source, shape, u0, u1);
        }
    } else {
        return;
    }
    *x = (u0 - 0.5f) * source[12];
    *y = (u1 - 0.5f) * source[13];
}

// The launch angle (turns) of a table that a number from 0 to 1 stands for; a negative count: no other angles.
__device__ __forceinline__ float angle_of(const float* angles, int first, int count, float v)
{
    if (count < 0) return angles[first + min((int)(v * (float)-count), -count - 1)];
    const float place = v * (float)(count - 1);
    const int step = min((int)place, count - 2);
    const float share = place - (float)step;
    return angles[first + step] * (1.0f - share) + angles[first + step + 1] * share;
}

// Direction towards a focus, in a beam that narrows, or by a law of the angle; else the given one. The place of a point
// does not need what has been drawn for it.
__device__ __forceinline__ Vector rare_direction(
    const Scene& scene, int shape, int emission, const Drawn& drawn, float x, float y, Vector given)
{
    const float* const source = scene.source;
    const float focus = source[16];
    if (shape == WAIST) {
        const float r = source[12] * sqrtf(0.5f * minus_log(drawn.u0));
        return unit(-r * drawn.sp, r * drawn.cp, source[17]);
    }
    if (emission == FOCUSED) {
        const float ahead = focus > 0.0f ? 1.0f : -1.0f;
        return Vector{-ahead * x, -ahead * y, ahead * focus};  // of any length, since the frame may be oblique
    }
    if (emission <= COSINE) return given;
    if (emission == SPREAD) {
        const float r = sqrtf(2.0f * minus_log(drawn.v));
        return unit(source[17] * (r * drawn.ca), source[18] * (r * drawn.sa), 1.0f);
    }
    if (emission == AROUND) {
        float ca = drawn.ca, sa = drawn.sa;
        if (source[19] > 0.0f) turned_by(source[18] + drawn.v * source[19], &ca, &sa);
        return Vector{ca, sa, 0.0f};
    }
    float share = drawn.v;
    if (emission == NORMAL || emission == ZGAUSSIAN)
        share = sqrtf(2.0f * minus_log(drawn.u0)) * (emission == NORMAL ? drawn.cp : 1.0f - 2.0f * drawn.u1);
    float turns = source[15] * share, ct, st;
    if (emission == ANGLES) turns = angle_of(scene.angles, (int)source[22], (int)source[23], drawn.v);
    turned_by(turns, &ct, &st);
    return Vector{st * drawn.ca, st * drawn.sa, ct};
}

// Where a photon starts (grid mm) and in which direction. The source's numbers: see `source_numbers` in problem.py.
__device__ __forceinline__ void begin(const Scene& scene, Sfc* random, Vector* at, Vector* along)
{
    const float* const source = scene.source;
    const int shape = SOURCE_KIND % EMISSION_STEP, emission = SOURCE_KIND / EMISSION_STEP;
    if (shape == POINT && emission == COLLIMATED) {
        *at = Vector{source[0], source[1], source[2]};
        *along = Vector{source[9], source[10], source[11]};
        return;
    }
    Drawn drawn{};
    drawn.u0 = random->uniform();
    drawn.u1 = random->uniform();
    drawn.u2 = random->uniform();
    turn(random->next(), &drawn.cp, &drawn.sp);
    const float size = source[12], other = source[13];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    if (shape == DISK || shape == GAUSSIAN) {
        const float r = size * sqrtf(shape == DISK ? drawn.u0 : 0.5f * minus_log(drawn.u0));
        x = r * drawn.cp;
        y = r * drawn.sp;
    } else if (shape == RECTANGLE || shape == PATTERN) {
        if (shape == PATTERN) in_pattern(scene, &drawn.u0, &drawn.u1, drawn.u2);
        x = (drawn.u0 - 0.5f) * size;
        y = (drawn.u1 - 0.5f) * other;
    } else if (shape == LINE || shape == CYLINDER) {
        z = (drawn.u0 - 0.5f) * other;
        if (shape == CYLINDER) {
            x = size * drawn.cp;
            y = size * drawn.sp;
        }
    }
    rare_place(source, shape, drawn, &x, &y, random);
    if (shape == VOLUME) in_volume(scene, drawn, &x, &y, &z, random);
    Vector l{0.0f, 0.0f, 1.0f};
    if (emission > FOCUSED) {
        drawn.v = random->uniform();
        turn(random->next(), &drawn.ca, &drawn.sa);
        const float ct = cosine_of(source, emission, drawn.v), st = sqrtf(fmaxf(0.0f, 1.0f - ct * ct));
        l = Vector{st * drawn.ca, st * drawn.sa, ct};
        if (shape == CYLINDER) {  // around the outward normal (cp, sp, 0)
            const float across = l.x, upward = l.y;
            l.x = ct * drawn.cp - across * drawn.sp;
            l.y = ct * drawn.sp + across * drawn.cp;
            l.z = upward;
        }
    }
    l = rare_direction(scene, shape, emission, drawn, x, y, l);
    const float* f = source + 3;
    *at = Vector{
        source[0] + (x * f[0] + y * f[3] + z * f[6]), source[1] + (x * f[1] + y * f[4] + z * f[7]),
        source[2] + (x * f[2] + y * f[5] + z * f[8])};
    *along = Vector{
        l.x * f[0] + l.y * f[3] + l.z * f[6], l.x * f[1] + l.y * f[4] + l.z * f[7],
        l.x * f[2] + l.y * f[5] + l.z * f[8]};
    if (emission == FOCUSED) *along = unit(along->x, along->y, along->z);
}

// As `begin`, at one of several sources, which the first random number draws.
__device__ __forceinline__ void begin_somewhere(const Scene& scene, Sfc* random, Vector* at, Vector* along)
{
#if SEVERAL
    Scene origin = scene;
    const int which = first_above(scene.chances, scene.sources, random->uniform());
    const int* const place = scene.places + 4 * which;
    origin.kind = place[0];
    origin.source += SOURCE_NUMBERS * which;
    origin.pattern += place[2];
    origin.pattern_columns = place[1];
    origin.pattern_rows = (place[3] - place[2]) / place[1];
    begin(origin, random, at, along);
#else
    begin(scene, random, at, along);
#endif
}

// Where the surface begins that light of a photon's source enters through, drawn as above with a copy of the random numbers; -1
// for faces of voxels. A source without one has zeros in place of the normal.
__device__ __forceinline__ int surface_of(const Scene& scene, Sfc random)
{
#if SMOOTH
    int first = 0;
#if SEVERAL
    first = first_above(scene.chances, scene.sources, random.uniform()) * SURFACE_NUMBERS;
#endif
    const float* const normal = scene.surfaces + first + 3;
    return normal[0] == 0.0f && normal[1] == 0.0f && normal[2] == 0.0f ? -1 : first;
#else
    return -1;
#endif
}

// Pixel of a pattern that a photon starts from, as `begin` draws it; the random numbers are a copy.
__device__ __forceinline__ int pixel_of(const Scene& scene, Sfc random)
{
    random.uniform();
    random.uniform();
    return first_above(scene.pattern, scene.pattern_rows * scene.pattern_columns, random.uniform());
}
