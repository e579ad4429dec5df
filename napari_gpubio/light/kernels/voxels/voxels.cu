// Photons through voxels. Counterpart: trace.py. The module has `fold_batches` of fold.cuh, too.
// Defines: LABEL (the type of the volume), CONTINUOUS (1: coefficients voxel by voxel, 2: g and n, too), PHASE_TABLE
// (there is a table of the phase function), DETECT (detectors are there), GATED (time gates are asked for), THIN (light
// mostly crosses voxels without being scattered there), ANISOTROPY (how light scatters where a voxel has a tensor, as
// ScatteringModel), SOURCE_KIND (see start.cuh), SEVERAL (photons start at one of several sources, of any kinds),
// SMOOTH (light of a source enters through a smoothed surface), SHARED (patterns share photons), RECORD (photons of a
// list are traced again: SCORES or TRAILS of record.cuh).
#ifndef LABEL
#define LABEL unsigned char
#endif
#ifndef CONTINUOUS
#define CONTINUOUS 0
#endif
#ifndef PHASE_TABLE
#define PHASE_TABLE 0
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
#ifndef SMOOTH
#define SMOOTH 0
#endif
#ifndef SOURCE_KIND
#define SOURCE_KIND scene.kind
#endif
#ifndef ANISOTROPY
#define ANISOTROPY 0
#endif

#include "fibers.cuh"
#include "fold.cuh"
#include "record.cuh"
#include "start.cuh"
#include "tally.cuh"

// Chosen by measurement: threads of a block, blocks that a processor must have room for, and threads of a warp that must be
// without a photon before they get new ones.
enum { THREADS = 128, RESIDENT_BLOCKS = 8, SPAWN = 4 };

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
    const int surface = surface_of(scene, f->random);
    begin_somewhere(scene, &f->random, &at, &f->photon.u);
    float lost;
    const bool inside = enter(scene, surface, at, &f->photon, &lost);
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

// Cosine of the scattering angle at a random number, from a table of it where there is one.
__device__ __forceinline__ float deflection(const Scene& scene, float g, float u)
{
#if PHASE_TABLE
    const float place = u * (float)(scene.phase_count - 1);
    const int low = min((int)place, scene.phase_count - 2);
    const float a = __ldg(scene.phase + low), part = place - (float)low;
    return a + part * (__ldg(scene.phase + low + 1) - a);
#else
    return scattering_cosine(g, u);
#endif
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
#if ANISOTROPY
    const Tensor t = tensor_at(scene, f->place);  // early: what follows does not wait for it
#endif
    const unsigned int one = f->random.next(), other = f->random.next();
    const float chance = unit_float(one);
    float ct = deflection(scene, f->m.g, chance);
    float cp, sp;
    turn(left_over_bits(one, other), &cp, &sp);
#if ANISOTROPY
    const Vector around = turning_point(t, f->place, before, &ct, chance, &f->random);
    const Vector after = turned(around, ct, cp, sp);
    f->photon.u = beside_fibers(t, f->place, before, after, &f->m, &f->random);
#else
    f->photon.u = turned(before, ct, cp, sp);
#endif
    f->ahead = turned_about(scene, f->ahead, before, f->photon.u);
    f->slow = slowness_of(f->photon.u);
    f->s = minus_log(unit_float(other));
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
    face.next = photon.cell + (face.forward ? 1 : -1) * stride_of(scene, face.axis);  // nvcc makes branches of other forms
    face.row = row_at(scene, face.next);  // long before it is needed
    return face;
}

// Book what a path in a voxel absorbs.
__device__ __forceinline__ void book(const Scene& scene, const Tallies& tallies, Flight* f, float path)
{
    const Medium& m = f->m;
    const float booked = f->photon.w * path * mean_decay(m.mua * path);
    const float absorbed = fminf(m.mua * booked, f->photon.w);
    f->photon.w -= absorbed;
    if (f->gate >= 0) {
        add_path(scene, tallies, f, booked);
    } else {
        add_energy(scene, tallies, *f, BEFORE, absorbed);
    }
}

// Book what the path in this voxel absorbs, each piece of it in the time gate in which it happens (-1 before the first).
// The path that is left is that after the last gate.
__device__ __forceinline__ void book(const Scene& scene, const Tallies& tallies, Flight* f)
{
    float left = 0.0f;
#if GATED
    left = f->path;
    for (;;) {
        const float edge = __ldg(scene.edges + f->gate + 1), reached = f->optical + f->m.n * left;
        const bool ends = reached >= edge;
        const float piece = ends ? fminf(fmaxf((edge - f->optical) * f->m.per_n, 0.0f), left) : left;
        book(scene, tallies, f, piece);
        left -= piece;
        f->optical = ends ? edge : reached;
        if (!ends || f->gate + 1 == scene.gates) break;
        ++f->gate;
    }
#else
    book(scene, tallies, f, f->path);
    f->optical += f->m.n * f->path;
#endif
#if DETECT
    f->paths[f->photon.row] += f->path - left;
#endif
    f->path = left;
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
    const bool can_differ = CONTINUOUS > 1 || face.row != photon.row;
    if (!reflected && can_differ && (rule == FRESNEL || (scene.refraction && rule != ESCAPE))) {
        const float n2 = index_at(scene, face.row, face.next);
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
            go_on(&f, -f.path);  // back to where it was when the last gate ended
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
        f.ahead = before_whole_voxel(scene, f.ahead, face.axis);
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
            list_photon(scene, tallies, f, face);
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
