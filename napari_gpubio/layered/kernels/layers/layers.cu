// Photons through planar layers, by the rules of MCML (Wang et al. 1995). Counterpart: packet.py.
//
// Two kernels trace the same photons: trace_simply shows what happens, trace_layers makes the threads of a warp do the
// same at the same time. Defines: THREADS of a block; CACHE (the hot corner of A(r, z) is tallied in shared memory,
// Alerstam et al. 2010), HISTORY (deposits into one bin are gathered in registers until the packet leaves it),
// ABSORPTION (A(r, z) is tallied at all), COLLECT (what is absorbed beyond the grid goes to the outermost bins).
#include "optics/kernels/physics.cuh"
#ifndef CACHE
#define CACHE 0
#endif
#ifndef HISTORY
#define HISTORY 1
#endif
#ifndef ABSORPTION
#define ABSORPTION 1
#endif
#ifndef COLLECT
#define COLLECT 1
#endif
#ifndef THREADS
#define THREADS 256
#endif

// Chosen by measurement: threads that a processor must have room for, and turns that each thread of a warp that has
// something to do may miss, on average, before those that wait are served; turns after which they are in any case.
enum { RESIDENT = 1024, PATIENCE = 2, MAX_TURNS = 192, TURNS = MAX_TURNS / PATIENCE };
enum { LAYER_NUMBERS = 8 };
using word = unsigned long long;

struct Layer {
    float share, per_mut, mut, g, n, thickness;
    float top;  // depth of the top, in bins of A(r, z)
    float reach;  // depth before which a scattering event can be: the thickness, or 0 in glass
};

struct Packet {
    float x, y, z;  // mm; z from the top of the layer
    Vector u;
    float w, booked, s;  // weight, what of it is in the layer's tally, optical depth to go
    int layer, slot;  // and the batch
    unsigned int dither;
    Sfc random;
};

// The layers, and the bins of the tally. As SCENE in gpu.py.
struct Scene {
    const float* layers;
    int layer_count;
    float n_above, n_below;
    float weight, threshold;  // of a packet at its start, and that below which it plays roulette
    int first_layer, radial, depth, angles;
    float radial_per_mm, depth_per_mm;  // bins per mm
    float radial_last, depth_last, radial_end, depth_end;  // the last bins, and where A(r, z) ends
    const float* cosines;  // of the edges of the angular bins, falling from 1 to 0
    word seed;
};

// Batches of photons, each with copies of its tally, lest all photons add to the same few bins; blocks share them out. As
// BATCHES in gpu.py.
struct Batches {
    const word* firsts;  // first photon of each
    const unsigned int* counts;
    unsigned int* counters;  // of photons that threads have taken
    int first_slot, slots;
    word* tallies;
    int copies;
    unsigned int tally_size;
    float scale;
    int cached_radial, cached_depth;
    word* resident;  // tallies of all batches, for packets from earlier launches
};

// Packets under way between two launches: those that the one before has left, and room for those that this one leaves,
// with their number; cycles that a warp spends at least when there are no more photons to begin. As UNDERWAY in gpu.py.
struct Underway {
    const Packet* before;
    unsigned int count;
    Packet* after;
    unsigned int* left;
    long long cycles;
};

__device__ __forceinline__ Layer layer_at(const Scene& scene, int index)
{
    const float* row = scene.layers + LAYER_NUMBERS * index;
    return Layer{row[0], row[1], row[2], row[3], row[4], row[5], row[6] * scene.depth_per_mm, row[7]};
}

__device__ __forceinline__ int radial_bin(const Scene& scene, float r)
{
    return (int)fminf(r, scene.radial_last);
}
__device__ __forceinline__ int angle_bin(const Scene& scene, float cosine)
{
    int low = 0, high = scene.angles - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (__ldg(scene.cosines + middle) >= cosine)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// Where the parts of a tally begin, behind A(r, z).
__device__ __forceinline__ int reflected_at(const Scene& scene) { return ABSORPTION ? scene.radial * scene.depth : 0; }
__device__ __forceinline__ int transmitted_at(const Scene& scene)
{
    return reflected_at(scene) + scene.radial * scene.angles;
}
__device__ __forceinline__ int layers_at(const Scene& scene)
{
    return transmitted_at(scene) + scene.radial * scene.angles;
}
__device__ __forceinline__ int roulette_at(const Scene& scene) { return layers_at(scene) + scene.layer_count; }

// Add to a word of shared memory, which is `at` bytes from its beginning; what was there.
__device__ __forceinline__ unsigned int add_shared(unsigned int* shared, unsigned int at, unsigned int amount)
{
#ifdef GPUBIO_ON_CPU
    return atomicAdd(shared + at / sizeof(unsigned int), amount);
#else
    unsigned int before;  // for an address that is known already, which nvcc would find again for every addition
    asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(at), "r"(amount) : "memory");
    return before;
#endif
}

// The tally of one batch. The corner of A(r, z) of `cached_radial` x `cached_depth` bins lies in shared memory, where
// two words of 32 bits make up a bin, since shared memory adds those in one go; a place there is negative.
struct Tally {
    word* words;
    float scale;
    unsigned int* cache;
    unsigned int cache_at;  // where it begins, bytes
    int cached_radial, cached_depth;  // no bins where the cache is of another batch
    int place;  // the last bin of A(r, z), and what it has not got yet
    word pending;

    __device__ __forceinline__ void add(int at, word amount) const { atomicAdd(words + at, amount); }

    __device__ __forceinline__ void absorb(const Scene& scene, int r, int t, unsigned int amount)
    {
        int here = r * scene.depth + t;
#if CACHE
        if ((r < cached_radial) & (t < cached_depth)) here = -1 - (r * cached_depth + t);
#endif
        if (!HISTORY || here != place) put();
        place = here;
        pending += amount;
    }

    __device__ __forceinline__ void go_to(word* other, int radial)
    {
        if (other == words && radial == cached_radial) return;
        flush();
        words = other;
        cached_radial = radial;
    }

    __device__ __forceinline__ void flush()
    {
        if (pending) put();
    }

    __device__ __forceinline__ void put()
    {
#if CACHE
        if (place < 0) {
            const unsigned int at = cache_at + 8u * (unsigned int)(-1 - place), low = (unsigned int)pending;
            const unsigned int before = add_shared(cache, at, low);
            const unsigned int high = (unsigned int)(pending >> 32) + (before + low < before ? 1u : 0u);
            if (high) add_shared(cache, at + 4u, high);
        } else
#endif
            add(place, pending);
        pending = 0ull;
    }
};

__device__ __forceinline__ Packet launched(const Scene& scene, word item, int slot)
{
    Packet photon{};
    photon.random.begin(scene.seed, item);
    photon.u = Vector{0.0f, 0.0f, 1.0f};
    photon.w = photon.booked = scene.weight;
    photon.s = minus_log(photon.random.uniform());
    photon.dither = photon.random.next();
    photon.layer = scene.first_layer;
    photon.slot = slot;
    return photon;
}

// The step of a packet to its next scattering event, if nothing lies in between: its length (mm), and depth at its end.
struct Ahead {
    float length, z;
};

__device__ __forceinline__ Ahead ahead_of(const Packet& photon, const Layer& m)
{
    const float length = photon.s * m.per_mut;
    return Ahead{length, photon.z + length * photon.u.z};
}

// Whether a scattering event is next: there is weight enough, and it comes before the face ahead.
__device__ __forceinline__ bool goes_on(const Scene& scene, const Packet& photon, const Layer& m, const Ahead& ahead)
{
    // the bits of a float that is not negative grow with it, and are less than those of all negative ones
    return (photon.w >= scene.threshold) & (__float_as_uint(ahead.z) < __float_as_uint(m.reach));
}

// Add what the packet has left in the layer to the layer's tally.
__device__ __forceinline__ void book(const Scene& scene, const Tally& tally, Packet* photon)
{
    tally.add(layers_at(scene) + photon->layer, quanta((photon->booked - photon->w) * tally.scale, &photon->dither));
    photon->booked = photon->w;
}

// Russian roulette: whether the packet survives.
__device__ __forceinline__ bool survives(const Scene& scene, const Tally& tally, Packet* photon)
{
    book(scene, tally, photon);
    const bool alive = photon->random.uniform() < SURVIVAL;
    const float change = alive ? photon->w * (1.0f / SURVIVAL - 1.0f) : photon->w;
    const word amount = quanta(change * tally.scale, &photon->dither);
    tally.add(roulette_at(scene), alive ? 0ull - amount : amount);
    photon->w += change;
    photon->booked = photon->w;
    return alive;
}

// Go on to the next scattering event, leave a part of the weight there, and turn.
__device__ __forceinline__ void scatter(
    const Scene& scene, Tally* tally, Packet* photon, const Layer& m, const Ahead& ahead)
{
    photon->x += ahead.length * photon->u.x;
    photon->y += ahead.length * photon->u.y;
    photon->z = ahead.z;
    const float absorbed = photon->w * m.share;
    photon->w -= absorbed;
#if ABSORPTION
    const float r = sqrtf(photon->x * photon->x + photon->y * photon->y) * scene.radial_per_mm;
    const float t = photon->z * scene.depth_per_mm + m.top;
    const unsigned int amount = quanta(absorbed * tally->scale, &photon->dither);
#if COLLECT
    tally->absorb(scene, radial_bin(scene, r), (int)fminf(t, scene.depth_last), amount);
#else
    if (r < scene.radial_end && t < scene.depth_end) tally->absorb(scene, (int)r, (int)t, amount);
#endif
#else
    photon->dither = redithered(photon->dither);  // so that the rest is the same with and without the map
#endif
    const unsigned int one = photon->random.next(), other = photon->random.next();
    float cp, sp;
    turn(left_over_bits(one, other), &cp, &sp);
    photon->u = turned(photon->u, scattering_cosine(m.g, unit_float(one)), cp, sp);
    photon->s = minus_log(unit_float(other));
}

// Go on to the face ahead, and cross it or be reflected. Whether the packet lives on.
__device__ __forceinline__ bool cross(const Scene& scene, const Tally& tally, Packet* photon, Layer* m)
{
    const bool down = photon->u.z > 0.0f;
    const float room = down ? m->thickness - photon->z : photon->z;  // depth to the face
    const float length = photon->u.z != 0.0f ? room / fabsf(photon->u.z) : 0.0f;
    photon->x += length * photon->u.x;
    photon->y += length * photon->u.y;
    photon->z = down ? m->thickness : 0.0f;
    photon->s = fmaxf(photon->s - length * m->mut, 0.0f);
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
        const int r = radial_bin(scene, sqrtf(photon->x * photon->x + photon->y * photon->y) * scene.radial_per_mm);
        const int at = (down ? transmitted_at(scene) : reflected_at(scene)) + r * scene.angles + angle_bin(scene, ct);
        tally.add(at, quanta(photon->w * tally.scale, &photon->dither));
        return false;
    }
    photon->layer = behind;
    *m = layer_at(scene, behind);
    photon->z = down ? 0.0f : m->thickness;
    return true;
}

// What comes instead of a scattering event: roulette, or the face ahead. Whether the packet lives on.
__device__ __forceinline__ bool leave(const Scene& scene, const Tally& tally, Packet* photon, Layer* m)
{
    return photon->w < scene.threshold ? survives(scene, tally, photon) : cross(scene, tally, photon, m);
}

__device__ __forceinline__ word* tally_of(const Batches& batches, int slot)
{
    const int own = slot - batches.first_slot;
    if (own < 0 || own >= batches.slots) return batches.resident + (size_t)slot * batches.tally_size;
    const size_t copy = (int)blockIdx.x % batches.copies;
    return batches.tallies + (copy * batches.slots + own) * batches.tally_size;
}

// One photon after another: what trace_layers does, plainly.
extern "C" __global__ void __launch_bounds__(THREADS) trace_simply(const Scene scene, const Batches batches)
{
    for (int slot = 0; slot < batches.slots; ++slot) {
        Tally tally{tally_of(batches, batches.first_slot + slot), batches.scale, nullptr, 0u, 0, 0, 0, 0ull};
        for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < batches.counts[slot];
             i += gridDim.x * blockDim.x) {
            Packet photon = launched(scene, batches.firsts[slot] + i, batches.first_slot + slot);
            Layer m = layer_at(scene, photon.layer);
            for (bool alive = true; alive;) {
                const Ahead ahead = ahead_of(photon, m);
                if (goes_on(scene, photon, m, ahead))
                    scatter(scene, &tally, &photon, m, ahead);
                else
                    alive = leave(scene, tally, &photon, &m);
            }
        }
        tally.flush();
    }
}

// The clock of the processor; on a CPU, the number of calls.
__device__ __forceinline__ long long cycles_now()
{
#ifdef GPUBIO_ON_CPU
    static long long calls = 0;
    return ++calls;
#else
    return clock64();
#endif
}

// With a cache, each block works on the photons of one batch (`slot`) after another, so that the cache holds those of
// one batch only. Without, each thread does. What lives when there are no more photons to begin, some cycles later,
// stays under way.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT / THREADS)
    trace_layers(const Scene scene, const Batches batches, const Underway underway)
{
    unsigned int *cache = nullptr, cache_at = 0u;
#if CACHE
    extern __shared__ unsigned int bins[];
    const int cached = batches.cached_radial * batches.cached_depth;
    for (int i = threadIdx.x; i < 2 * cached; i += blockDim.x) bins[i] = 0u;
    __syncthreads();
    cache = bins;
#ifndef GPUBIO_ON_CPU
    cache_at = __shfl_sync(~0u, (unsigned int)__cvta_generic_to_shared(bins), 0);  // known from now on
#endif
#endif
    Tally tally{nullptr, batches.scale, cache, cache_at, 0, batches.cached_depth, 0, 0ull};
    Packet photon{};
    Layer m{};
    const unsigned int own = threadIdx.x * gridDim.x + blockIdx.x;  // few are spread over all processors
    bool alive = own < underway.count;
    if (alive) {
        photon = underway.before[own];
        m = layer_at(scene, photon.layer);
        tally.words = tally_of(batches, photon.slot);
    }
    const long long end = cycles_now() + underway.cycles;
    const int turns = CACHE && batches.slots > 0 ? batches.slots : 1;
    for (int turn = 0; turn < turns; ++turn) {
        int slot = batches.slots > 0 ? (int)((blockIdx.x + turn) % batches.slots) : 0;
        int left = CACHE ? batches.slots > 0 : batches.slots;  // batches to take photons of
        while (!threads_with(left == 0) || threads_with(alive && underway.cycles > 0 && cycles_now() < end)) {
            if (!alive && left > 0) {
                const unsigned int taken = atomicAdd(batches.counters + slot, 1u);
                if (taken < batches.counts[slot]) {
                    photon = launched(scene, batches.firsts[slot] + taken, batches.first_slot + slot);
                    m = layer_at(scene, photon.layer);
                    alive = true;
                    tally.go_to(tally_of(batches, photon.slot), batches.cached_radial);
                }
                if (taken + 1 >= batches.counts[slot] && --left > 0) {  // on to the next batch
                    slot = slot + 1 == batches.slots ? 0 : slot + 1;
                }
            }
            // Scatter, until the threads of the warp that have something else to do have waited long enough.
            Ahead ahead = ahead_of(photon, m);
            bool scatters = goes_on(scene, photon, m, ahead);
            const int busy = threads_with(alive || left > 0), if_all_miss = (1 + TURNS) * busy, most = MAX_TURNS * busy;
            int missed = 0;
            do {
                if (scatters) {
                    scatter(scene, &tally, &photon, m, ahead);
                    ahead = ahead_of(photon, m);
                }
                scatters = goes_on(scene, photon, m, ahead);
                // one turn that all miss counts as much as MAX_TURNS / PATIENCE that none does
                missed += if_all_miss;
                missed -= TURNS * threads_with(scatters);
            } while (missed < most);
            if (alive && !scatters) alive = leave(scene, tally, &photon, &m);
            if (!alive) photon.w = 0.0f;  // so that it does not go on
        }
#if CACHE
        tally.go_to(tally.words, 0);
        __syncthreads();
        if (batches.slots == 0) break;
        word* const words = tally_of(batches, batches.first_slot + slot);
        for (int i = threadIdx.x; i < cached; i += blockDim.x) {
            const word gathered = (word)cache[2 * i + 1] << 32 | cache[2 * i];
            if (!gathered) continue;
            atomicAdd(words + i / batches.cached_depth * scene.depth + i % batches.cached_depth, gathered);
            cache[2 * i] = cache[2 * i + 1] = 0u;
        }
        __syncthreads();
#endif
    }
    tally.flush();
    if (alive) underway.after[atomicAdd(underway.left, 1u)] = photon;
}
