// Photons through voxels, and the folding of finished batches. Counterpart: trace.py, fold.py.
// Defines: LABEL (the type of the volume), CONTINUOUS (coefficients voxel by voxel), DETECT (detectors are there), GATED
// (there are several time gates, or the first begins later than the light).
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

#include "launch.cuh"

// Chosen by measurement: threads of a block, blocks that a processor must have room for, threads of a warp that must be
// without a photon before they get new ones, and voxels of a thread that folds (as on the host).
enum { THREADS = 128, RESIDENT_BLOCKS = 8, SPAWN = 4, FOLD_CELLS = 8 };

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

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
trace_photons(const LABEL* __restrict__ rows, const float* __restrict__ media, const float* __restrict__ mua,
              const float* __restrict__ mus, int nx, int ny, int nz, float hx, float hy, float hz, int faces,
              int refraction, int specular, float threshold, const float* __restrict__ edges, int gates, int kind,
              const float* __restrict__ source, const float* __restrict__ pattern, int pattern_rows,
              int pattern_columns, unsigned long long seed, unsigned long long first, unsigned int count,
              unsigned int* counter, unsigned int first_slot, unsigned int copies, unsigned int rest, unsigned int batch_size,
              unsigned long long* tally, unsigned int slot_stride, unsigned int half_stride, unsigned int gate_stride,
              float scale, unsigned long long* ledger, float ledger_scale, unsigned long long* exits,
              const float* __restrict__ detectors, int detector_count, unsigned int capacity, unsigned int* caught,
              unsigned long long* caught_photons, float* caught_numbers, int media_rows, float* paths)
{
    const Grid grid{rows, media, mua, mus, nx, ny, nz, (ny + 2) * (nz + 2), nz + 2, hx, hy, hz, faces};
    const float end = edges[gates];
    unsigned long long item = 0ull;
    Xoshiro random{};
    Packet photon{};
    Medium m{};
    bool alive = false, due = false;
    unsigned int base = 0u, slot = 0u, dither = 0u;  // where the photon's tally begins, and its batch
    float s = 0.0f, path = 0.0f, limit = 0.0f, optical = 0.0f;  // depth to go, path not booked yet, optical path
    int gate = GATED ? -1 : 0;
#if DETECT
    float* own_paths = paths + ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * media_rows;
    int scatterings = 0;
#endif
    for (;;) {
        // What comes next: a scattering event in this voxel, or else its face or a booking that is due.
        float length = s * m.free_path;
        const Vector q{photon.p.x + length * photon.u.x, photon.p.y + length * photon.u.y,
                       photon.p.z + length * photon.u.z};
        const bool scatters = alive && !due && q.x >= 0.0f && q.x <= hx && q.y >= 0.0f && q.y <= hy && q.z >= 0.0f &&
                              q.z <= hz;
        // The warp does what most of its threads wait for (crossing is a little dearer); the others' turn comes.
        const int scattering = threads_with(scatters), crossing = threads_with(alive && !scatters);
        if (threads_with(!alive) >= SPAWN || scattering + crossing == 0) {
            if (alive) continue;
            const unsigned int taken = atomicAdd(counter, 1u);
            if (taken >= count) return;
            item = first + taken;
            slot = first_slot + (taken < rest ? 0u : 1u + (taken - rest) / batch_size);
            base = (slot * copies + blockIdx.x % copies) * slot_stride + (unsigned int)(item & 1u) * half_stride;
            random.begin(seed, item);
            Vector at;
            start(kind, source, pattern, pattern_rows, pattern_columns, &random, &at, &photon.u);
            float lost;
            alive = enter(grid, at, specular, &photon, &lost);
            if (lost > 0.0f) atomicAdd(ledger + (slot * LEDGER + SPECULAR), __float2ull_rn(lost * ledger_scale));
            if (!alive && lost < 1.0f) {
                atomicAdd(ledger + (slot * LEDGER + MISSED), __float2ull_rn((1.0f - lost) * ledger_scale));
            }
            m = grid.medium(photon.row, photon.cell);
            s = minus_log(random.uniform());
            dither = random.next();
            path = 0.0f;
            optical = 0.0f;
            gate = GATED ? -1 : 0;
            limit = fminf(end * m.per_n, m.reach);
            due = false;
#if DETECT
            scatterings = 0;
            for (int r = 0; r < media_rows; ++r) own_paths[r] = 0.0f;
#endif
            continue;
        }
        if (2 * scattering >= 3 * crossing) {
            if (!scatters) continue;
            photon.p = q;
            path += length;
            due = path >= limit;
            const float ct = scattering_cosine(m.g, random.uniform());
            float cp, sp;
            turn(random.next(), &cp, &sp);
            photon.u = turned(photon.u, ct, cp, sp);
            s = minus_log(random.uniform());
#if DETECT
            ++scatterings;
#endif
            continue;
        }
        if (!alive || scatters) continue;
        int axis = 0, next = photon.cell, row = OUTSIDE;
        bool forward = false;
        if (!due) {
            length = fminf(fmaxf(to_face(grid, photon.p, photon.u, &axis), 0.0f), length);
            photon.p = Vector{photon.p.x + length * photon.u.x, photon.p.y + length * photon.u.y,
                              photon.p.z + length * photon.u.z};
            path += length;
            s = fmaxf(s - length * m.mus, 0.0f);
            forward = part(photon.u, axis) > 0.0f;
            const int stride = axis == 2 ? 1 : axis == 1 ? grid.sy : grid.sx;
            next += forward ? stride : -stride;
            row = rows[next];  // long before it is needed
        }

        // Book what the path in this voxel has absorbed.
        const float booked = photon.w * path * mean_decay(m.mua * path);
        const float absorbed = fminf(m.mua * booked, photon.w);
        photon.w -= absorbed;
        optical += m.n * path;
#if DETECT
        own_paths[photon.row] += path;
#endif
        path = 0.0f;
#if GATED
        if (optical >= edges[0] && gate < 0) gate = 0;
        while (gate >= 0 && gate < gates - 1 && optical >= edges[gate + 1]) ++gate;
#endif
        if (gate >= 0) {
            const unsigned int amount = quanta(booked * scale, &dither);
            if (amount) atomicAdd(tally + (base + gate * gate_stride + photon.cell), (unsigned long long)amount);
        } else {
            atomicAdd(ledger + (slot * LEDGER + BEFORE), __float2ull_rn(absorbed * ledger_scale));
        }
        if (optical >= end) {
            atomicAdd(ledger + (slot * LEDGER + TRUNCATED), __float2ull_rn(photon.w * ledger_scale));
            alive = false;
            continue;
        }
        if (photon.w < threshold) {
            if (random.uniform() < SURVIVAL) {
                const float gained = photon.w * (1.0f / SURVIVAL - 1.0f);
                atomicAdd(ledger + (slot * LEDGER + ROULETTE), 0ull - __float2ull_rn(gained * ledger_scale));
                photon.w += gained;
            } else {
                atomicAdd(ledger + (slot * LEDGER + ROULETTE), __float2ull_rn(photon.w * ledger_scale));
                alive = false;
                continue;
            }
        }
        limit = fminf((end - optical) * m.per_n, m.reach);
        if (due) {
            due = false;
            continue;
        }

        // Cross the face; whatever happens there, the next path begins at it.
        const float h = axis == 0 ? hx : axis == 1 ? hy : hz;
        int rule = DEFAULT;
        if (row == EDGE) {
            rule = grid.rule(axis, forward);
            if (rule == CYCLIC) {
                next -= (axis == 0 ? nx : axis == 1 ? ny : nz) * (next - photon.cell);
                row = rows[next];
            } else {
                row = OUTSIDE;
            }
        }
        bool reflected = rule == MIRROR;
        if (!reflected && row != photon.row && (rule == FRESNEL || (refraction && rule != ESCAPE))) {
            const float n2 = grid.n_of(row);
            if (n2 != m.n) {
                float ct;
                const float r = fresnel(fabsf(part(photon.u, axis)), m.n, n2, &ct);
                reflected = random.uniform() < r;
                if (!reflected) photon.u = refracted(photon.u, axis, ct, m.n / n2);
            }
        }
        if (reflected) {
            put(&photon.u, axis, -part(photon.u, axis));
            put(&photon.p, axis, forward ? h : 0.0f);
            continue;
        }
        if (row == OUTSIDE) {
            atomicAdd(ledger + (slot * LEDGER + ESCAPED), __float2ull_rn(photon.w * ledger_scale));
            if (exits) atomicAdd(exits + photon.cell, __float2ull_rn(photon.w * ledger_scale));
#if DETECT
            const int i = photon.cell / grid.sx - 1, j = photon.cell / grid.sy % (ny + 2) - 1;
            const int k = photon.cell % grid.sy - 1;
            put(&photon.p, axis, forward ? h : 0.0f);
            const Vector at{(float)i * hx + photon.p.x, (float)j * hy + photon.p.y, (float)k * hz + photon.p.z};
            const int detector = detector_at(detectors, detector_count, at);
            const unsigned int place = detector < 0 ? capacity : atomicAdd(caught, 1u);
            if (place < capacity) {
                const float numbers[DETECTED_NUMBERS] = {(float)detector, photon.w, (float)scatterings, at.x, at.y, at.z,
                                                         photon.u.x, photon.u.y, photon.u.z, optical};
                float* line = caught_numbers + (size_t)place * (DETECTED_NUMBERS + media_rows);
                caught_photons[place] = item;
                for (int q = 0; q < DETECTED_NUMBERS; ++q) line[q] = numbers[q];
                for (int q = 0; q < media_rows; ++q) line[DETECTED_NUMBERS + q] = own_paths[q];
            }
#endif
            alive = false;
            continue;
        }
        put(&photon.p, axis, forward ? 0.0f : h);
        photon.cell = next;
        if (CONTINUOUS || row != photon.row) {
            photon.row = row;
            m = grid.medium(row, next);
            limit = fminf((end - optical) * m.per_n, m.reach);
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

// Add what the lanes of a warp have gathered to their rows of `energy`, at once where all have the same row.
__device__ __forceinline__ void add_to_rows(unsigned long long* __restrict__ energy, int row,
                                            unsigned long long gathered)
{
    const unsigned full = __ballot_sync(~0u, gathered != 0);
    if (!full) return;
    const int common = __shfl_sync(~0u, row, __ffs(full) - 1);
    if (!__all_sync(~0u, !gathered || row == common)) {
        if (gathered) atomicAdd(energy + row, gathered);
        return;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) gathered += __shfl_xor_sync(~0u, gathered, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(energy + common, gathered);
}

// Add finished batches to the sums and, squared, to the sums of squares (128 bits), and clear them. One thread a voxel.
// `energy` gets what each row absorbed of each batch: mu_a times the tally, in units of 1 / energy_scale.
extern "C" __global__ void fold_batches(unsigned long long* __restrict__ tallies, int batches, unsigned copies,
                                        long long copy_stride, int cells, int gates, int halves,
                                        unsigned long long* __restrict__ sums, unsigned long long* __restrict__ squares,
                                        const LABEL* __restrict__ rows, int media_rows, const float* __restrict__ media,
                                        const float* __restrict__ mua, double energy_scale,
                                        unsigned long long* __restrict__ energy)
{
    const int lane = threadIdx.x, length = blockDim.x * FOLD_CELLS;
    for (int b = 0; b < batches; ++b, tallies += copies * copy_stride, energy += media_rows) {
        int row = -1;
        unsigned long long gathered = 0;
        for (int q = 0; q < FOLD_CELLS; ++q) {  // a thread gathers over some voxels before it adds to their row
            const long long cell = (long long)blockIdx.x * length + q * blockDim.x + lane;
            if (cell >= cells) break;
            unsigned long long whole = 0;
            for (int g = 0; g < gates; ++g) {
                unsigned long long batch = 0;
                for (int h = 0; h < halves; ++h) {
                    const long long place = ((long long)h * gates + g) * cells + cell;
                    const unsigned long long value = taken(tallies, copies, copy_stride, place);
                    if (!value) continue;
                    sums[place] += value;
                    batch += value;
                }
                whole += batch;
                if (batch) add_square(squares + 2 * ((long long)g * cells + cell), batch);
            }
            if (!whole) continue;
            if (gates > 1) add_square(squares + 2 * ((long long)gates * cells + cell), whole);
            const int here = rows[cell];
            if (here != row && gathered) {
                atomicAdd(energy + row, gathered);
                gathered = 0;
            }
            row = here;
            const double absorption = CONTINUOUS ? mua[cell] : media[MEDIUM_NUMBERS * here];
            gathered += (unsigned long long)((double)whole * absorption * energy_scale + 0.5);
        }
        add_to_rows(energy, row, gathered);
    }
}
