// Photons through planar layers, by the rules of MCML (Wang et al. 1995). Twin: packet.py.
//
// Defines: CACHE (the hot corner of A(r, z) is tallied in shared memory, Alerstam et al. 2010), HISTORY (deposits into
// one bin are gathered in registers until the packet leaves it), ABSORPTION (A(r, z) is tallied at all).
#include "physics.cuh"
#ifndef CACHE
#define CACHE 1
#endif
#ifndef HISTORY
#define HISTORY 1
#endif
#ifndef ABSORPTION
#define ABSORPTION 1
#endif

enum { LAYER_NUMBERS = 7 };
typedef unsigned long long word;

struct Layer { float share, per_mut, mut, g, n, thickness, top; };

__device__ __forceinline__ Layer layer_at(const float* __restrict__ layers, int index)
{
    const float* row = layers + LAYER_NUMBERS * index;
    return Layer{row[0], row[1], row[2], row[3], row[4], row[5], row[6]};
}

// Bin of an angle by its cosine; `cosines` are those of the bins' edges, falling from 1 to 0.
__device__ __forceinline__ int angle_bin(const float* __restrict__ cosines, int bins, float cosine)
{
    int low = 0, high = bins - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (cosines[middle] >= cosine) low = middle;
        else high = middle - 1;
    }
    return low;
}

// Where A(r, z) is tallied: its corner of `cached_radial` x `cached_depth` bins in shared memory, the rest in global.
struct Map {
    word* tally;
    word* cache;
    int depth, cached_radial, cached_depth;

    __device__ __forceinline__ void add(int cell, word amount) const
    {
        if (!amount) return;
#if CACHE
        const int r = cell / depth, t = cell - r * depth;
        if (r < cached_radial && t < cached_depth) {
            atomicAdd(cache + r * cached_depth + t, amount);
            return;
        }
#endif
        atomicAdd(tally + cell, amount);
    }
};

// Each block works on the photons of one batch (`slot`) after another, so that the cache holds those of one batch only.
extern "C" __global__ void __launch_bounds__(256)
trace_layers(const float* __restrict__ layers, int layer_count, float n_above, float n_below, int first_layer,
             float weight, float threshold, int radial, int depth, float radial_per_mm, float depth_per_mm,
             const float* __restrict__ cosines, int angles, int collect, word seed, const word* __restrict__ firsts,
             const unsigned int* __restrict__ counts, unsigned int* counters, int slots, word* tallies,
             unsigned int tally_size, float scale, int cached_radial, int cached_depth)
{
#if CACHE
    extern __shared__ word cache[];
    const int cached = cached_radial * cached_depth;
    for (int i = threadIdx.x; i < cached; i += blockDim.x) cache[i] = 0ull;
    __syncthreads();
#else
    word* cache = nullptr;
#endif
    const int reflected_at = ABSORPTION ? radial * depth : 0;
    const int transmitted_at = reflected_at + radial * angles, layers_at = transmitted_at + radial * angles;
    const int roulette_at = layers_at + layer_count;
    for (int turn_of = 0; turn_of < slots; ++turn_of) {
        const int slot = (int)((blockIdx.x + turn_of) % slots);
        word* tally = tallies + (size_t)slot * tally_size;
        const Map map{tally, cache, depth, cached_radial, cached_depth};
        Draws draws{(unsigned int)seed, (unsigned int)(seed >> 32), 0u, 0u, 0u, 0u, 0u, 0u, 0u};
        Vector u{0.0f, 0.0f, 1.0f};
        Layer m{};
        float x = 0.0f, y = 0.0f, z = 0.0f, w = 0.0f, booked = 0.0f, s = 0.0f;
        int layer = 0, cell = 0;
        unsigned int dither = 0u;
        word pending = 0ull;  // what the last bin has not got yet
        bool alive = false;
        for (;;) {
            if (!alive) {
                const unsigned int taken = atomicAdd(counters + slot, 1u);
                if (taken >= counts[slot]) break;
                const word item = firsts[slot] + taken;
                draws.item0 = (unsigned int)item;
                draws.item1 = (unsigned int)(item >> 32);
                draws.block = 0u;
                draws.next();
                s = minus_log(unit_float(draws.a));
                dither = draws.b;
                x = y = z = 0.0f;
                u = Vector{0.0f, 0.0f, 1.0f};
                w = booked = weight;
                layer = first_layer;
                m = layer_at(layers, layer);
                alive = true;
            }
            const bool down = u.z > 0.0f;
            const float room = down ? m.thickness - z : z;  // depth to the face ahead
            const float length = s * m.per_mut;
            if (m.mut > 0.0f && length * fabsf(u.z) < room) {
                x += length * u.x;
                y += length * u.y;
                z = fminf(fmaxf(z + length * u.z, 0.0f), m.thickness);
                const float absorbed = w * m.share;
                w -= absorbed;
#if ABSORPTION
                const float r = sqrtf(x * x + y * y) * radial_per_mm, t = (m.top + z) * depth_per_mm;
                if (collect || (r < (float)radial && t < (float)depth)) {
                    const int here = (int)fminf(r, (float)(radial - 1)) * depth + (int)fminf(t, (float)(depth - 1));
                    const unsigned int amount = quanta(absorbed * scale, &dither);
#if HISTORY
                    if (here != cell) {
                        map.add(cell, pending);
                        cell = here;
                        pending = 0ull;
                    }
                    pending += amount;
#else
                    map.add(here, amount);
#endif
                }
#endif
                draws.next();
                float cp, sp;
                turn(draws.b, &cp, &sp);
                u = turned(u, scattering_cosine(m.g, unit_float(draws.a)), cp, sp);
                s = minus_log(unit_float(draws.c));
                dither = draws.d;
                if (w >= threshold) continue;
                atomicAdd(tally + layers_at + layer, (word)quanta((booked - w) * scale, &dither));
                draws.next();
                if (unit_float(draws.a) < SURVIVAL) {
                    const float gained = w * (1.0f / SURVIVAL - 1.0f);
                    atomicAdd(tally + roulette_at, 0ull - (word)quanta(gained * scale, &dither));
                    w += gained;
                    booked = w;
                    continue;
                }
                atomicAdd(tally + roulette_at, (word)quanta(w * scale, &dither));
                alive = false;
                continue;
            }

            // Cross the face, or be reflected at it.
            const float to_face = u.z != 0.0f ? room / fabsf(u.z) : 0.0f;
            x += to_face * u.x;
            y += to_face * u.y;
            z = down ? m.thickness : 0.0f;
            s = s - to_face * m.mut;
            const int behind = down ? layer + 1 : layer - 1;
            const bool outside = behind < 0 || behind >= layer_count;
            const float n2 = outside ? (down ? n_below : n_above) : layers[LAYER_NUMBERS * behind + 4];
            float ct = fabsf(u.z);
            if (n2 != m.n) {
                const float reflectance = fresnel(fabsf(u.z), m.n, n2, &ct);
                draws.next();
                if (unit_float(draws.a) < reflectance) {
                    u.z = -u.z;
                    continue;
                }
                const float ratio = m.n / n2;
                u = Vector{u.x * ratio, u.y * ratio, down ? ct : -ct};
            }
            atomicAdd(tally + layers_at + layer, (word)quanta((booked - w) * scale, &dither));
            booked = w;
            if (outside) {
                const int r = (int)fminf(sqrtf(x * x + y * y) * radial_per_mm, (float)(radial - 1));
                const unsigned int amount = quanta(w * scale, &dither);
                const int place = r * angles + angle_bin(cosines, angles, ct);
                atomicAdd(tally + (down ? transmitted_at : reflected_at) + place, (word)amount);
                alive = false;
                continue;
            }
            layer = behind;
            m = layer_at(layers, layer);
            z = down ? 0.0f : m.thickness;
        }
        map.add(cell, pending);
#if CACHE
        __syncthreads();
        for (int i = threadIdx.x; i < cached; i += blockDim.x) {
            if (!cache[i]) continue;
            atomicAdd(tally + (size_t)(i / cached_depth) * depth + i % cached_depth, cache[i]);
            cache[i] = 0ull;
        }
        __syncthreads();
#endif
    }
}
