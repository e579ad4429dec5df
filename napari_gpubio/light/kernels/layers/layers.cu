// Photons through planar layers, by the rules of MCML (Wang et al. 1995). Counterpart: packet.py.
//
// Two kernels trace the same photons: trace_simply shows what happens, trace_layers makes the threads of a warp do the
// same at the same time. Defines: THREADS of a block; CACHE (the hot corner of A(r, z) is tallied in shared memory,
// Alerstam et al. 2010), HISTORY (deposits into one bin are gathered in registers until the packet leaves it),
// ABSORPTION (A(r, z) is tallied at all).
#include "physics.cuh"
#ifndef CACHE
#define CACHE 0
#endif
#ifndef HISTORY
#define HISTORY 1
#endif
#ifndef ABSORPTION
#define ABSORPTION 1
#endif
#ifndef THREADS
#define THREADS 256
#endif

// Chosen by measurement: threads that a processor must have room for; turns that the threads of a warp may miss in all
// before those that wait are served; rounds after which the living packets of a block are gathered.
enum { RESIDENT = 1024, PATIENCE = 96, PACK_AFTER = 64 };
enum { LAYER_NUMBERS = 7 };
typedef unsigned long long word;

struct Layer { float share, per_mut, mut, g, n, thickness, top; };

struct Packet {
    float x, y, z;  // mm; z from the top of the layer
    Vector u;
    float w, booked, s;  // weight, what of it the layer's tally has been told, optical depth to go
    int layer, slot;     // and the batch
    unsigned int dither;
    Xoshiro random;
};

// The layers and the grid.
struct Scene {
    const float* __restrict__ layers;
    int layer_count;
    float n_above, n_below;
    float weight, threshold;  // of a packet at its start, and that below which it plays roulette
    int first_layer, radial, depth, angles;
    float radial_per_mm, depth_per_mm, radial_end, depth_end;  // bins per mm, and where A(r, z) ends
    const float* __restrict__ cosines;  // of the edges of the angular bins, falling from 1 to 0

    __device__ __forceinline__ Layer layer(int index) const
    {
        const float* row = layers + LAYER_NUMBERS * index;
        return Layer{row[0], row[1], row[2], row[3], row[4], row[5], row[6]};
    }

    __device__ __forceinline__ int radial_bin(float r) const { return (int)fminf(r, (float)(radial - 1)); }
    __device__ __forceinline__ int depth_bin(float t) const { return (int)fminf(t, (float)(depth - 1)); }

    __device__ __forceinline__ int angle_bin(float cosine) const
    {
        int low = 0, high = angles - 1;
        while (low < high) {
            const int middle = (low + high + 1) / 2;
            if (cosines[middle] >= cosine) low = middle;
            else high = middle - 1;
        }
        return low;
    }

    // Where the parts of a tally begin, behind A(r, z).
    __device__ __forceinline__ int reflected_at() const { return ABSORPTION ? radial * depth : 0; }
    __device__ __forceinline__ int transmitted_at() const { return reflected_at() + radial * angles; }
    __device__ __forceinline__ int layers_at() const { return transmitted_at() + radial * angles; }
    __device__ __forceinline__ int roulette_at() const { return layers_at() + layer_count; }
};

// The tally of one batch. The corner of A(r, z) of `cached_radial` x `cached_depth` bins lies in shared memory, where
// two words of 32 bits make up a bin, since shared memory adds those in one go; a place there is negative.
struct Tally {
    word* words;
    float scale;
    unsigned int* cache;
    int cached_radial, cached_depth;
    int place;     // the last bin of A(r, z), and what it has not got yet
    word pending;

    __device__ __forceinline__ void add(int at, word amount) const { atomicAdd(words + at, amount); }

    __device__ __forceinline__ void absorb(const Scene& scene, int r, int t, unsigned int amount)
    {
        int here = r * scene.depth + t;
#if CACHE
        if (r < cached_radial && t < cached_depth) here = -1 - (r * cached_depth + t);
#endif
        if (!HISTORY || here != place) flush();
        place = here;
        pending += amount;
    }

    __device__ __forceinline__ void flush()
    {
        if (!pending) return;
#if CACHE
        if (place < 0) {
            unsigned int* bin = cache - 2 * (place + 1);
            const unsigned int low = (unsigned int)pending, before = atomicAdd(bin, low);
            const unsigned int high = (unsigned int)(pending >> 32) + (before + low < before ? 1u : 0u);
            if (high) atomicAdd(bin + 1, high);
        } else
#endif
        add(place, pending);
        pending = 0ull;
    }
};

__device__ __forceinline__ Packet launched(const Scene& scene, word seed, word item, int slot)
{
    Packet photon{};
    photon.random.begin(seed, item);
    photon.u = Vector{0.0f, 0.0f, 1.0f};
    photon.w = photon.booked = scene.weight;
    photon.s = minus_log(photon.random.uniform());
    photon.dither = photon.random.next();
    photon.layer = scene.first_layer;
    photon.slot = slot;
    return photon;
}

// Depth (mm) to the face ahead.
__device__ __forceinline__ float room(const Packet& photon, const Layer& m)
{
    return photon.u.z > 0.0f ? m.thickness - photon.z : photon.z;
}

// Whether the next scattering event comes before the face ahead.
__device__ __forceinline__ bool stays(const Packet& photon, const Layer& m)
{
    return m.mut > 0.0f && photon.s * m.per_mut * fabsf(photon.u.z) < room(photon, m);
}

// Tell the layer's tally what the packet has left in the layer.
__device__ __forceinline__ void book(const Scene& scene, const Tally& tally, Packet* photon)
{
    tally.add(scene.layers_at() + photon->layer, quanta((photon->booked - photon->w) * tally.scale, &photon->dither));
    photon->booked = photon->w;
}

// Russian roulette: whether the packet survives.
__device__ __forceinline__ bool survives(const Scene& scene, const Tally& tally, Packet* photon)
{
    book(scene, tally, photon);
    const bool alive = photon->random.uniform() < SURVIVAL;
    const float change = alive ? photon->w * (1.0f / SURVIVAL - 1.0f) : photon->w;
    const word amount = quanta(change * tally.scale, &photon->dither);
    tally.add(scene.roulette_at(), alive ? 0ull - amount : amount);
    photon->w += change;
    photon->booked = photon->w;
    return alive;
}

// Go on to the next scattering event, leave a part of the weight there, and turn. Whether the packet lives on.
__device__ __forceinline__ bool scatter(const Scene& scene, Tally* tally, Packet* photon, const Layer& m)
{
    const float length = photon->s * m.per_mut;
    photon->x += length * photon->u.x;
    photon->y += length * photon->u.y;
    photon->z = fminf(fmaxf(photon->z + length * photon->u.z, 0.0f), m.thickness);
    const float absorbed = photon->w * m.share;
    photon->w -= absorbed;
#if ABSORPTION
    const float r = sqrtf(photon->x * photon->x + photon->y * photon->y) * scene.radial_per_mm;
    const float t = (m.top + photon->z) * scene.depth_per_mm;
    const unsigned int amount = quanta(absorbed * tally->scale, &photon->dither);
    if (r < scene.radial_end && t < scene.depth_end) {
        tally->absorb(scene, scene.radial_bin(r), scene.depth_bin(t), amount);
    }
#else
    photon->dither = redithered(photon->dither);  // so that the rest is the same with and without the map
#endif
    const float ct = scattering_cosine(m.g, photon->random.uniform());
    float cp, sp;
    turn(photon->random.next(), &cp, &sp);
    photon->u = turned(photon->u, ct, cp, sp);
    photon->s = minus_log(photon->random.uniform());
    return photon->w >= scene.threshold || survives(scene, *tally, photon);
}

// Go on to the face ahead, and cross it or be reflected. Whether the packet lives on.
__device__ __forceinline__ bool cross(const Scene& scene, const Tally& tally, Packet* photon, Layer* m)
{
    const bool down = photon->u.z > 0.0f;
    const float length = photon->u.z != 0.0f ? room(*photon, *m) / fabsf(photon->u.z) : 0.0f;
    photon->x += length * photon->u.x;
    photon->y += length * photon->u.y;
    photon->z = down ? m->thickness : 0.0f;
    photon->s = photon->s - length * m->mut;
    const int behind = down ? photon->layer + 1 : photon->layer - 1;
    const bool outside = behind < 0 || behind >= scene.layer_count;
    const float n2 = outside ? (down ? scene.n_below : scene.n_above) : scene.layers[LAYER_NUMBERS * behind + 4];
    float ct = fabsf(photon->u.z);
    if (n2 != m->n) {
        const float reflectance = fresnel(fabsf(photon->u.z), m->n, n2, &ct);
        if (photon->random.uniform() < reflectance) {
            photon->u.z = -photon->u.z;
            return true;
        }
        const float ratio = m->n / n2;
        photon->u = Vector{photon->u.x * ratio, photon->u.y * ratio, down ? ct : -ct};
    }
    book(scene, tally, photon);
    if (outside) {
        const int r = scene.radial_bin(sqrtf(photon->x * photon->x + photon->y * photon->y) * scene.radial_per_mm);
        const int at = (down ? scene.transmitted_at() : scene.reflected_at()) + r * scene.angles + scene.angle_bin(ct);
        tally.add(at, quanta(photon->w * tally.scale, &photon->dither));
        return false;
    }
    photon->layer = behind;
    *m = scene.layer(behind);
    photon->z = down ? 0.0f : m->thickness;
    return true;
}

#define SCENE_AND_TALLIES                                                                                              \
    const float *__restrict__ layers, int layer_count, float n_above, float n_below, int first_layer, float weight,    \
        float threshold, int radial, int depth, float radial_per_mm, float depth_per_mm, float radial_end,             \
        float depth_end, const float *__restrict__ cosines, int angles, word seed, const word *__restrict__ firsts,    \
        const unsigned int *__restrict__ counts, unsigned int *counters, int slots, word *tallies, int copies,         \
        unsigned int tally_size, float scale, int cached_radial, int cached_depth

// A batch has several copies of its tally, lest all photons add to the same few bins; blocks share them out.
#define TALLY_OF(slot) tallies + ((size_t)((int)blockIdx.x % copies * slots) + (slot)) * tally_size

#define SCENE                                                                                                          \
    Scene{layers, layer_count, n_above, n_below, weight, threshold, first_layer, radial, depth, angles, radial_per_mm, \
          depth_per_mm, radial_end, depth_end, cosines}

// One photon after another: what trace_layers does, plainly.
extern "C" __global__ void __launch_bounds__(THREADS) trace_simply(SCENE_AND_TALLIES)
{
    const Scene scene = SCENE;
    for (int slot = 0; slot < slots; ++slot) {
        Tally tally{TALLY_OF(slot), scale, nullptr, 0, 0, 0, 0ull};
        for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < counts[slot]; i += gridDim.x * blockDim.x) {
            Packet photon = launched(scene, seed, firsts[slot] + i, slot);
            Layer m = scene.layer(photon.layer);
            while (stays(photon, m) ? scatter(scene, &tally, &photon, m) : cross(scene, tally, &photon, &m)) {}
        }
        tally.flush();
    }
}

// Hand the packets of a block over to its first threads, so that warps are full and the other warps at rest: some packets
// live a hundred times longer than most. All threads of the block must ask. Whether the thread has one now.
__device__ __forceinline__ bool packed(Packet* own, bool alive, int living)
{
    __shared__ Packet parked[THREADS];
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (alive) parked[atomicAdd(&count, 1)] = *own;
    __syncthreads();
    if ((int)threadIdx.x < living) *own = parked[threadIdx.x];
    return (int)threadIdx.x < living;
}

// With a cache, each block works on the photons of one batch (`slot`) after another, so that the cache holds those of
// one batch only. Without, each thread does.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT / THREADS) trace_layers(SCENE_AND_TALLIES)
{
    unsigned int* cache = nullptr;
#if CACHE
    extern __shared__ unsigned int bins[];
    const int cached = cached_radial * cached_depth;
    for (int i = threadIdx.x; i < 2 * cached; i += blockDim.x) bins[i] = 0u;
    __syncthreads();
    cache = bins;
#endif
    const Scene scene = SCENE;
    for (int first_turn = 0; first_turn < (CACHE ? slots : 1); ++first_turn) {
        int slot = (int)((blockIdx.x + first_turn) % slots), left = CACHE ? 1 : slots;  // batches to take photons of
        Tally tally{TALLY_OF(slot), scale, cache, cached_radial, cached_depth, 0, 0ull};
        Packet photon{};
        Layer m{};
        bool alive = false, packing = false;
        int rounds = 0, busy = THREADS / 32;
        for (;;) {
            while (packing ? threads_with(alive) && rounds-- > 0 : !threads_with(left == 0)) {
                if (!alive && left > 0) {
                    const unsigned int taken = atomicAdd(counters + slot, 1u);
                    if (taken < counts[slot]) {
                        photon = launched(scene, seed, firsts[slot] + taken, slot);
                        m = scene.layer(photon.layer);
                        alive = true;
                    } else {  // on to the next batch
                        tally.flush();
                        if (--left > 0) {
                            slot = slot + 1 == slots ? 0 : slot + 1;
                            tally.words = TALLY_OF(slot);
                        }
                    }
                }
                // Scatter, until the threads of the warp that have something else to do have waited long enough.
                bool scatters = alive && stays(photon, m);
                int missed = 0;
                do {
                    if (!scatters) continue;
                    alive = scatter(scene, &tally, &photon, m);
                    scatters = alive && stays(photon, m);
                } while ((missed += 32 - threads_with(scatters)) < PATIENCE);
                if (alive && !scatters) alive = cross(scene, tally, &photon, &m);
            }
            // No photons wait any more: the living ones of the block gather in few warps, again and again.
            packing = true;
            left = 0;
            rounds = PACK_AFTER;
            tally.flush();
            const int living = __syncthreads_count(alive);
            if (!living) break;
            if ((living + 31) / 32 >= busy) continue;
            busy = (living + 31) / 32;
            alive = packed(&photon, alive, living);
            m = scene.layer(photon.layer);
            tally.words = TALLY_OF(photon.slot);
        }
#if CACHE
        for (int i = threadIdx.x; i < cached; i += blockDim.x) {
            const word gathered = (word)cache[2 * i + 1] << 32 | cache[2 * i];
            if (!gathered) continue;
            tally.add(i / cached_depth * depth + i % cached_depth, gathered);
            cache[2 * i] = cache[2 * i + 1] = 0u;
        }
        __syncthreads();
#endif
    }
}
