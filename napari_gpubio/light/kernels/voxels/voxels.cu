// Photons through voxels, and the folding of finished batches. Counterpart: trace.py, fold.py.
// Defines: LABEL (the type of the volume), CONTINUOUS (coefficients voxel by voxel), DETECT (detectors are there), GATED
// (there are several time gates, or the first begins later than the light), THIN (light mostly crosses voxels without
// being scattered there), ANISOTROPY (how light scatters where a voxel has a tensor, as ScatteringModel), SOURCE_KIND (see
// start.cuh), SEVERAL (photons start at one of several sources, of any kinds), SHARED (patterns share photons), RECORD
// (photons of a list are traced again: SCORES or TRAILS of record.cuh).
#ifndef LABEL
#define LABEL unsigned char
#endif
#ifndef CONTINUOUS
#define CONTINUOUS 0
#endif
#ifndef DETECT
#define DETECT 0
#endif
#ifndef GATED
#define GATED 1
#endif
#ifndef THIN
#define THIN 0
#endif
#ifndef RECORD
#define RECORD 0
#endif
#ifndef SEVERAL
#define SEVERAL 0
#endif
#ifndef SHARED
#define SHARED 0
#endif
#ifndef SOURCE_KIND
#define SOURCE_KIND scene.kind
#endif

#ifndef ANISOTROPY
#define ANISOTROPY 0
#endif

#include "start.cuh"
#include "fibers.cuh"
#include "record.cuh"

// Chosen by measurement: threads of a block, blocks that a processor must have room for, threads of a warp that must be
// without a photon before they get new ones, and voxels of a thread that folds (as on the host).
enum { THREADS = 128, RESIDENT_BLOCKS = 8, SPAWN = 4, FOLD_CELLS = 8 };

// Which photons a launch traces: `count` of them from `first` on, the first `rest` of them in the batch of
// `first_slot`. As PHOTONS in gpu.py.
struct Photons {
    unsigned long long first;
    unsigned int count;
    unsigned int* counter;  // of photons that threads have taken
    unsigned int first_slot, rest, batch_size;
    float* paths;  // scratch for the path in each medium, a row for each thread
    const unsigned long long* items;  // with RECORD: indices of the photons, in place of those from `first` on
};

// Where they add up. Each batch (slot) has copies of its tally, which blocks share out. As TALLIES in gpu.py.
struct Tallies {
    unsigned long long* path;  // weight times path in quanta of 1 / scale mm
    unsigned int copies, slot_stride, half_stride, gate_stride;
    float scale;
    unsigned long long* energy;  // the energy tally of each slot, in quanta of 1 / energy_scale
    float energy_scale;
    unsigned long long* exits;  // escaped weight of each voxel, or null
    unsigned int capacity;  // of the list of detected photons
    unsigned int* detected;  // their number
    unsigned long long* photons;  // their indices
    float* numbers;
};

// A photon under way.
struct Flight {
    unsigned long long item;
    Xoshiro random;
    Packet photon;
    Medium m;
    Vector ahead, slow;  // mm to the face ahead along each axis, and path per mm on the way to it
    unsigned int base, slot, dither;  // where its tally begins, and its batch
    float s, path, limit, optical;  // optical depth to go, path not booked yet and its limit, optical path
    int gate, scatterings;
    float* paths;
#if RECORD
    unsigned int line;  // of the list of photons
    int seen;  // scattering events that have been scored
#endif
    const float* shares;  // its weights for the patterns that share it
#if ANISOTROPY
    int place;  // of the voxel's tensor, 0 for none
#endif
};

// The face that a photon is at, and the voxel and media row behind it.
struct Face {
    int axis, next, row;
    bool forward;
};

__device__ __forceinline__ unsigned long long quanta_of(const Tallies& tallies, float weight)
{
    return __float2ull_rn(weight * tallies.energy_scale);
}

// Add weight to a part of the energy tally, for all patterns where there are some.
__device__ __forceinline__ void add_energy(
    const Scene& scene, const Tallies& tallies, const Flight& f, EnergyPart part, float weight)
{
#if SHARED
    unsigned long long* const of = tallies.energy + (f.slot * (ENERGY_PARTS + 1u) + part) * scene.shared;
    for (int k = 0; k < scene.shared; ++k)
        if (f.shares[k] > 0.0f) atomicAdd(of + k, quanta_of(tallies, weight * f.shares[k]));
#else
    atomicAdd(tallies.energy + (f.slot * ENERGY_PARTS + part), quanta_of(tallies, weight));
#endif
}

// Take weight off a part of the energy tally.
__device__ __forceinline__ void take_energy(
    const Scene& scene, const Tallies& tallies, const Flight& f, EnergyPart part, float weight)
{
#if SHARED
    unsigned long long* const of = tallies.energy + (f.slot * (ENERGY_PARTS + 1u) + part) * scene.shared;
    for (int k = 0; k < scene.shared; ++k) atomicAdd(of + k, 0ull - quanta_of(tallies, weight * f.shares[k]));
#else
    atomicAdd(tallies.energy + (f.slot * ENERGY_PARTS + part), 0ull - quanta_of(tallies, weight));
#endif
}

// Add weight times path to the tally of the photon's voxel.
__device__ __forceinline__ void add_path(const Scene& scene, const Tallies& tallies, Flight* f, float booked)
{
#if SHARED
    const unsigned int first = f->base + f->gate * tallies.gate_stride + f->photon.cell * scene.shared;
    for (int k = 0; k < scene.shared; ++k) {
        if (!(f->shares[k] > 0.0f)) continue;
        const unsigned int amount = quanta(booked * f->shares[k] * tallies.scale, &f->dither);
        if (amount) atomicAdd(tallies.path + (first + k), (unsigned long long)amount);
    }
#else
    const unsigned int amount = quanta(booked * tallies.scale, &f->dither);
    unsigned long long* const place = tallies.path + (f->base + f->gate * tallies.gate_stride + f->photon.cell);
    if (amount) atomicAdd(place, (unsigned long long)amount);
#endif
}

// Add escaping weight to the voxel that it left.
__device__ __forceinline__ void add_exit(const Scene& scene, const Tallies& tallies, const Flight& f)
{
#if SHARED
    unsigned long long* const of = tallies.exits + (size_t)f.photon.cell * scene.shared;
    for (int k = 0; k < scene.shared; ++k)
        if (f.shares[k] > 0.0f) atomicAdd(of + k, quanta_of(tallies, f.photon.w * f.shares[k]));
#else
    atomicAdd(tallies.exits + f.photon.cell, quanta_of(tallies, f.photon.w));
#endif
}

// The parameters, with numbers of the inner loop in registers, which nvcc would read from constant memory at every use, just
// when something waits for them; the strides it computes early from numbers that it has anyway.
__device__ __forceinline__ Scene in_registers(Scene scene)
{
#ifndef GPUBIO_ON_CPU
    asm volatile("" : "+f"(scene.end), "+f"(scene.threshold));
    scene.stride_y = scene.nz + 2;
    scene.stride_x = (scene.ny + 2) * scene.stride_y;
#endif
    return scene;
}

__device__ __forceinline__ Tallies in_registers(Tallies tallies)
{
#ifndef GPUBIO_ON_CPU
    asm volatile("" : "+f"(tallies.scale), "+f"(tallies.energy_scale));
#endif
    return tallies;
}

// Which detector an escaping photon hits, or -1. A detector: center, radius^2, normal (0 for a sphere), half thickness.
__device__ __forceinline__ int detector_at(const float* __restrict__ detectors, int count, Vector at)
{
    for (int d = 0; d < count; ++d) {
        const float* one = detectors + DETECTOR_NUMBERS * d;
        const float x = at.x - one[0], y = at.y - one[1], z = at.z - one[2];
        const float axial = x * one[4] + y * one[5] + z * one[6];
        if (x * x + y * y + z * z - axial * axial <= one[3] && fabsf(axial) <= one[7]) return d;
    }
    return -1;
}

// The medium of the photon's voxel, and of its direction where that counts.
__device__ __forceinline__ void find_medium(const Scene& scene, Flight* f)
{
    f->m = medium_at(scene, f->photon.row, f->photon.cell);
#if ANISOTROPY
    f->place = __ldg(scene.tensor_places + f->photon.cell);
    along_fibers(scene, f->place, f->photon.u, &f->m);
#endif
}

// Take a photon from its start to the first tissue. Whether there is any.
__device__ __forceinline__ bool launch(
    const Scene& scene, const Photons& photons, const Tallies& tallies, unsigned int taken, Flight* f)
{
#if RECORD
    f->item = photons.items[taken];
    f->line = taken;
    f->seen = 0;
#else
    f->item = photons.first + taken;
#endif
    f->slot = photons.first_slot + (taken < photons.rest ? 0u : 1u + (taken - photons.rest) / photons.batch_size);
    f->base = (f->slot * tallies.copies + blockIdx.x % tallies.copies) * tallies.slot_stride +
              (unsigned int)(f->item & 1u) * tallies.half_stride;
    f->random.begin(scene.seed, f->item);
#if SHARED
    f->shares = scene.shares + (size_t)pixel_of(scene, f->random) * scene.shared;
    add_energy(scene, tallies, *f, LAUNCHED, 1.0f);
#endif
    Vector at;
    begin_somewhere(scene, &f->random, &at, &f->photon.u);
    float lost;
    const bool inside = enter(scene, at, &f->photon, &lost);
    if (lost > 0.0f) add_energy(scene, tallies, *f, SPECULAR, lost);
    if (!inside && lost < 1.0f) add_energy(scene, tallies, *f, MISSED, 1.0f - lost);
    find_medium(scene, f);
    f->ahead = mirrored(scene, f->photon.p, f->photon.u);
    f->slow = slowness_of(f->photon.u);
    f->s = minus_log(f->random.uniform());
    f->dither = f->random.next();
    f->path = 0.0f;
    f->optical = 0.0f;
    f->gate = GATED ? -1 : 0;
    f->limit = fminf(scene.end * f->m.per_n, f->m.reach);
#if DETECT
    f->scatterings = 0;
    for (int r = 0; r < scene.media_rows; ++r) f->paths[r] = 0.0f;
#endif
    return inside;
}

// Go on in the same voxel.
__device__ __forceinline__ void go_on(Flight* f, float length)
{
    f->ahead = nearer(f->ahead, f->photon.u, length);
    f->path += length;
}

// Turn by a scattering angle.
__device__ __forceinline__ void scatter(const Scene& scene, Flight* f)
{
    const Vector before = f->photon.u;
    const float chance = f->random.uniform();
    float ct = scattering_cosine(f->m.g, chance);
    float cp, sp;
    turn(f->random.next(), &cp, &sp);
#if ANISOTROPY
    const Vector around = turning_point(scene, f->place, before, &ct, chance, &f->random);
    const Vector after = turned(around, ct, cp, sp);
    f->photon.u = beside_fibers(scene, f->place, before, after, &f->m, &f->random);
#else
    f->photon.u = turned(before, ct, cp, sp);
#endif
    f->ahead = turned_about(scene, f->ahead, before, f->photon.u);
    f->slow = slowness_of(f->photon.u);
    f->s = minus_log(f->random.uniform());
#if DETECT
    ++f->scatterings;
#endif
}

// Go on to the voxel's face, the nearest of those that are `ways` away.
__device__ __forceinline__ Face go_to_face(const Scene& scene, Flight* f, Vector ways, float length)
{
    Face face;
    const Packet& photon = f->photon;
    face.axis = ways.y < ways.x ? 1 : 0;
    if (ways.z < fminf(ways.x, ways.y)) face.axis = 2;
    go_on(f, length);
    f->s = fmaxf(f->s - length * f->m.mus, 0.0f);
    face.forward = part(photon.u, face.axis) > 0.0f;
    face.next = photon.cell + (face.forward ? stride_of(scene, face.axis) : -stride_of(scene, face.axis));
    face.row = row_at(scene, face.next);  // long before it is needed
    return face;
}

// Time gate of an optical path, given that of a shorter one; -1 before the first gate.
__device__ __forceinline__ int gate_after(const Scene& scene, int gate, float optical)
{
    if (optical >= __ldg(scene.edges) && gate < 0) gate = 0;
    while (gate >= 0 && gate < scene.gates - 1 && optical >= __ldg(scene.edges + gate + 1)) ++gate;
    return gate;
}

// Book what the path in this voxel has absorbed.
__device__ __forceinline__ void book(const Scene& scene, const Tallies& tallies, Flight* f)
{
    const Medium& m = f->m;
    const float booked = f->photon.w * f->path * mean_decay(m.mua * f->path);
    const float absorbed = fminf(m.mua * booked, f->photon.w);
    f->photon.w -= absorbed;
    f->optical += m.n * f->path;
#if DETECT
    f->paths[f->photon.row] += f->path;
#endif
    f->path = 0.0f;
#if GATED
    f->gate = gate_after(scene, f->gate, f->optical);
#endif
    if (f->gate >= 0) {
        add_path(scene, tallies, f, booked);
    } else {
        add_energy(scene, tallies, *f, BEFORE, absorbed);
    }
}

// The rule of a face; beyond the rim there is the outside, or the far side of the grid.
__device__ __forceinline__ int behind_face(const Scene& scene, int cell, Face* face)
{
    if (face->row != EDGE) return DEFAULT;
    const int rule = rule_of(scene.faces, face->axis, face->forward);
    if (rule == CYCLIC) {
        face->next -= voxels_along(scene, face->axis) * (face->next - cell);
        face->row = row_at(scene, face->next);
    } else {
        face->row = OUTSIDE;
    }
    return rule;
}

// Reflect the packet at a face, or bend it where the index changes. Whether it is reflected.
__device__ __forceinline__ bool reflect_or_bend(const Scene& scene, Flight* f, const Face& face, int rule)
{
    Packet& photon = f->photon;
    bool reflected = rule == MIRROR;
    if (!reflected && face.row != photon.row && (rule == FRESNEL || (scene.refraction && rule != ESCAPE))) {
        const float n2 = n_of(scene, face.row);
        if (n2 != f->m.n) {
            float ct;
            const float r = fresnel(fabsf(part(photon.u, face.axis)), f->m.n, n2, &ct);
            reflected = f->random.uniform() < r;
            if (!reflected) {
                photon.u = refracted(photon.u, face.axis, ct, f->m.n / n2);
                f->slow = slowness_of(photon.u);
            }
        }
    }
    if (reflected) put(&photon.u, face.axis, -part(photon.u, face.axis));
    return reflected;
}

// Add a photon that escapes to the list if it hits a detector.
__device__ __forceinline__ void list_photon(const Scene& scene, const Tallies& tallies, const Flight& f)
{
    const int cell = f.photon.cell;
    const int i = cell / scene.stride_x - 1, j = cell / scene.stride_y % (scene.ny + 2) - 1;
    const int k = cell % scene.stride_y - 1;
    const Vector u = f.photon.u, p = mirrored(scene, f.ahead, u);
    const Vector at{(float)i * scene.hx + p.x, (float)j * scene.hy + p.y, (float)k * scene.hz + p.z};
    const int detector = detector_at(scene.detectors, scene.detector_count, at);
    const unsigned int place = detector < 0 ? tallies.capacity : atomicAdd(tallies.detected, 1u);
    if (place >= tallies.capacity) return;
    const float numbers[DETECTED_NUMBERS] = {
        (float)detector, f.photon.w, (float)f.scatterings, at.x, at.y, at.z, u.x, u.y, u.z, f.optical};
    float* line = tallies.numbers + (size_t)place * (DETECTED_NUMBERS + scene.media_rows);
    tallies.photons[place] = f.item;
    for (int q = 0; q < DETECTED_NUMBERS; ++q) line[q] = numbers[q];
    for (int q = 0; q < scene.media_rows; ++q) line[DETECTED_NUMBERS + q] = f.paths[q];
}

#if RECORD == TRAILS
__device__ __forceinline__ void note_vertex(const Trails& trails, const Scene& scene, const Flight& f, VertexKind kind)
{
    note_vertex(trails, scene, f.line, kind, f.photon, mirrored(scene, f.ahead, f.photon.u), f.m, f.path, f.optical);
}

// Note what happens at a face, on this side of it, and behind it where the grid is cyclic.
__device__ __forceinline__ void note_face(
    const Trails& trails, const Scene& scene, const Flight& f, const Face& face, bool reflected, bool bent, bool wrapped)
{
    const float h = edge_of(scene, face.axis);
    Vector at = mirrored(scene, f.ahead, f.photon.u);
    put(&at, face.axis, face.forward ? h : 0.0f);
    const VertexKind kind = reflected              ? REFLECTED
                            : face.row == OUTSIDE ? ESCAPED_AT
                            : wrapped             ? LEFT
                            : bent                ? BENT
                                                  : CROSSED;
    if (kind != CROSSED || trails.crossings)
        note(trails, scene, f.line, kind, f.photon.cell, at, f.photon.w, f.optical);
    if (kind != LEFT) return;
    put(&at, face.axis, face.forward ? 0.0f : h);
    note(trails, scene, f.line, JUMPED, face.next, at, f.photon.w, f.optical);
}
#endif

// Trace photons from their starts to their ends; threads without one take the next. A turn of the loop that has nothing
// more to do goes back to its head, where the threads of a warp meet again; steps with early returns in functions of
// their own would make them meet in between, which costs some percent.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    trace_photons(const Scene given_scene, const Photons photons, const Tallies given_tallies
#if RECORD == SCORES
        , const Scores record
#elif RECORD == TRAILS
        , const Trails record
#endif
    )
{
    const Scene scene = in_registers(given_scene);
    const Tallies tallies = in_registers(given_tallies);
    Flight f{};
    Packet& photon = f.photon;
    bool alive = false;
#if DETECT
    f.paths = photons.paths + ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * scene.media_rows;
#endif
    for (;;) {
        // What comes next: a scattering event in this voxel, or else its face, or a booking, since the packet has gone far
        // enough.
        const Vector ways{f.ahead.x * f.slow.x, f.ahead.y * f.slow.y, f.ahead.z * f.slow.z};
        const float to_face = fmaxf(fminf(fminf(ways.x, ways.y), ways.z), 0.0f);
        const float length = f.s * f.m.free_path;
        const bool due = f.path >= f.limit, scatters = alive && !due && length < to_face;
        // The warp does what most of its threads wait for; the others' turn comes.
        const int scattering = threads_with(scatters), crossing = threads_with(alive && !scatters);
        if (threads_with(!alive) >= SPAWN || scattering + crossing == 0) {
            if (alive) continue;
            const unsigned int taken = atomicAdd(photons.counter, 1u);
            if (taken >= photons.count) return;
            alive = launch(scene, photons, tallies, taken, &f);
#if RECORD == TRAILS
            if (alive) note_vertex(record, scene, f, START);
#endif
            continue;
        }
        if (THIN ? scattering >= crossing : 2 * scattering >= 3 * crossing) {
            if (!scatters) continue;
            go_on(&f, length);
#if RECORD == TRAILS
            note_vertex(record, scene, f, SCATTERED);
#endif
            scatter(scene, &f);
            continue;
        }
        if (!alive || scatters) continue;

        Face face{0, photon.cell, OUTSIDE, false};
        if (!due) face = go_to_face(scene, &f, ways, to_face);
#if RECORD == SCORES
        f.seen = add_scores(record, f.line, photon.cell, f.m.mus, f.path, f.scatterings, f.seen);
#endif
        book(scene, tallies, &f);
        if (f.optical >= scene.end) {
            add_energy(scene, tallies, f, TRUNCATED, photon.w);
#if RECORD == TRAILS
            note_vertex(record, scene, f, TRUNCATED_AT);
#endif
            alive = false;
            continue;
        }
        if (photon.w < scene.threshold) {  // Russian roulette
            if (f.random.uniform() < SURVIVAL) {
                const float gained = photon.w * (1.0f / SURVIVAL - 1.0f);
                take_energy(scene, tallies, f, ROULETTE, gained);
                photon.w += gained;
            } else {
                add_energy(scene, tallies, f, ROULETTE, photon.w);
#if RECORD == TRAILS
                note_vertex(record, scene, f, ROULETTE_AT);
#endif
                alive = false;
                continue;
            }
        }
        f.limit = fminf((scene.end - f.optical) * f.m.per_n, f.m.reach);
        if (due) continue;

        // Cross the face, be reflected at it, or escape. Before a packet that stays lies the whole edge of a voxel.
        const int rule = behind_face(scene, photon.cell, &face);
#if RECORD == TRAILS
        const Vector before = photon.u;
#endif
        const bool reflected = reflect_or_bend(scene, &f, face, rule);
#if RECORD == TRAILS
        const bool bent = photon.u.x != before.x || photon.u.y != before.y || photon.u.z != before.z;
        note_face(record, scene, f, face, reflected, bent, rule == CYCLIC);
#endif
        put(&f.ahead, face.axis, edge_of(scene, face.axis));
        if (reflected) {
#if ANISOTROPY
            along_fibers(scene, f.place, photon.u, &f.m);
#endif
            continue;
        }
        if (face.row == OUTSIDE) {
            add_energy(scene, tallies, f, ESCAPED, photon.w);
            if (tallies.exits) add_exit(scene, tallies, f);
#if DETECT
            put(&f.ahead, face.axis, 0.0f);
            list_photon(scene, tallies, f);
#endif
            alive = false;
            continue;
        }
        photon.cell = face.next;
        if (CONTINUOUS || ANISOTROPY || face.row != photon.row) {
            photon.row = face.row;
            find_medium(scene, &f);
            f.limit = fminf((scene.end - f.optical) * f.m.per_n, f.m.reach);
        }
    }
}

// Add the square of a 64-bit number to a sum of 128 bits, two words.
__device__ __forceinline__ void add_square(unsigned long long* __restrict__ sum, unsigned long long value)
{
    const unsigned long long low = value * value, before = sum[0];
    sum[0] = before + low;
    sum[1] += __umul64hi(value, value) + (before + low < low ? 1ull : 0ull);
}

// What is in a place of all copies of a tally, which is cleared.
__device__ __forceinline__ unsigned long long taken(
    unsigned long long* __restrict__ tally, unsigned copies, long long copy_stride, long long place)
{
    unsigned long long value = 0;
    for (unsigned c = 0; c < copies; ++c) {
        unsigned long long* const from = tally + c * copy_stride + place;
        if (!*from) continue;
        value += *from;
        *from = 0;
    }
    return value;
}

// Add what the lanes of a warp have gathered to their rows of `absorbed`, at once where all have the same row.
__device__ __forceinline__ void add_to_rows(
    unsigned long long* __restrict__ absorbed, int row, unsigned long long gathered)
{
    const unsigned full = __ballot_sync(~0u, gathered != 0);
    if (!full) return;
    const int common = __shfl_sync(~0u, row, __ffs(full) - 1);
    if (!__all_sync(~0u, !gathered || row == common)) {
        if (gathered) atomicAdd(absorbed + row, gathered);
        return;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) gathered += __shfl_xor_sync(~0u, gathered, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(absorbed + common, gathered);
}

// Finished batches, one after another, and the sums that they are added to. As FOLD in gpu.py.
struct Fold {
    unsigned long long* path;  // tallies of the batches, each in copies
    int batches;
    unsigned int copies;
    long long copy_stride;
    int cells, gates, halves;
    unsigned long long* sums;
    unsigned long long* squares;  // two words each
    const LABEL* rows;
    int media_rows;
    const float* media;
    const float* mua;
    double absorbed_scale;
    unsigned long long* absorbed;  // by each row in each batch: mu_a times the tally, in units of 1 / absorbed_scale
};

// Add the halves and gates of one voxel of a batch to the sums. The sum of them.
__device__ __forceinline__ unsigned long long fold_voxel(const Fold& fold, unsigned long long* path, long long cell)
{
    unsigned long long whole = 0;
    for (int g = 0; g < fold.gates; ++g) {
        unsigned long long batch = 0;
        for (int h = 0; h < fold.halves; ++h) {
            const long long place = ((long long)h * fold.gates + g) * fold.cells + cell;
            const unsigned long long value = taken(path, fold.copies, fold.copy_stride, place);
            if (!value) continue;
            fold.sums[place] += value;
            batch += value;
        }
        whole += batch;
        if (batch) add_square(fold.squares + 2 * ((long long)g * fold.cells + cell), batch);
    }
    if (whole && fold.gates > 1) add_square(fold.squares + 2 * ((long long)fold.gates * fold.cells + cell), whole);
    return whole;
}

// Add finished batches to the sums and, squared, to the sums of squares (128 bits), and clear them. A thread gathers
// over some voxels before it adds to their row.
extern "C" __global__ void fold_batches(const Fold fold)
{
    const int lane = threadIdx.x, length = blockDim.x * FOLD_CELLS;
    unsigned long long* path = fold.path;
    unsigned long long* absorbed = fold.absorbed;
    for (int b = 0; b < fold.batches; ++b, path += fold.copies * fold.copy_stride, absorbed += fold.media_rows) {
        int row = -1;
        unsigned long long gathered = 0;
        for (int q = 0; q < FOLD_CELLS; ++q) {
            const long long cell = (long long)blockIdx.x * length + q * blockDim.x + lane;
            if (cell >= fold.cells) break;
            const unsigned long long whole = fold_voxel(fold, path, cell);
            if (!whole) continue;
            const int here = __ldg(fold.rows + cell);
            if (here != row && gathered) {
                atomicAdd(absorbed + row, gathered);
                gathered = 0;
            }
            row = here;
            const double absorption = CONTINUOUS ? __ldg(fold.mua + cell) : __ldg(fold.media + MEDIUM_NUMBERS * here);
            gathered += (unsigned long long)((double)whole * absorption * fold.absorbed_scale + 0.5);
        }
        add_to_rows(absorbed, row, gathered);
    }
}
