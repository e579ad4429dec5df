#pragma once
// Photons of a launch, and where they add up: paths in voxels, energy, escaping light, and the list of detected photons.
// Counterpart: the functions of these names in trace.py.
#include "photon.cuh"

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
    Sfc random;
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
    const unsigned int cell = f->photon.cell, patterns = scene.shared;
    const unsigned int first = f->base + f->gate * tallies.gate_stride + cell * patterns;
    for (int k = 0; k < scene.shared; ++k) {
        if (!(f->shares[k] > 0.0f)) continue;
        const unsigned int amount = quanta(booked * f->shares[k] * tallies.scale, &f->dither);
        if (amount) atomicAdd(tallies.path + (first + k), (unsigned long long)amount);
    }
#else
    const unsigned int amount = quanta(booked * tallies.scale, &f->dither);
    unsigned long long* const place = tallies.path + (f->base + f->gate * tallies.gate_stride + f->photon.cell);
    atomicAdd(place, (unsigned long long)amount);  // to look whether it is 0 would take as long
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

// Which detector a photon hits that escapes, through a face of the grid or inside it (-1); -1 for none. A detector:
// center, radius^2, normal (0 for a sphere), half thickness. A whole face has -1 - its number as radius^2.
__device__ __forceinline__ int detector_at(const float* __restrict__ detectors, int count, int face, Vector at)
{
    for (int d = 0; d < count; ++d) {
        const float* one = detectors + DETECTOR_NUMBERS * d;
        if (one[3] < 0.0f) {
            if ((float)face == -1.0f - one[3]) return d;
            continue;
        }
        const float x = at.x - one[0], y = at.y - one[1], z = at.z - one[2];
        const float axial = x * one[4] + y * one[5] + z * one[6];
        if (x * x + y * y + z * z - axial * axial <= one[3] && fabsf(axial) <= one[7]) return d;
    }
    return -1;
}

// Add a photon that escapes through a face to the list if it hits a detector.
__device__ __forceinline__ void list_photon(
    const Scene& scene, const Tallies& tallies, const Flight& f, const Face& through)
{
    const int cell = f.photon.cell;
    const int i = cell / scene.stride_x - 1, j = cell / scene.stride_y % (scene.ny + 2) - 1;
    const int k = cell % scene.stride_y - 1;
    const Vector u = f.photon.u, p = mirrored(scene, f.ahead, u);
    const Vector at{(float)i * scene.hx + p.x, (float)j * scene.hy + p.y, (float)k * scene.hz + p.z};
    const int face = row_at(scene, through.next) == EDGE ? 2 * through.axis + (through.forward ? 1 : 0) : -1;
    const int detector = detector_at(scene.detectors, scene.detector_count, face, at);
    const unsigned int place = detector < 0 ? tallies.capacity : atomicAdd(tallies.detected, 1u);
    if (place >= tallies.capacity) return;
    const float numbers[DETECTED_NUMBERS] = {
        (float)detector, f.photon.w, (float)f.scatterings, at.x, at.y, at.z, u.x, u.y, u.z, f.optical};
    float* line = tallies.numbers + (size_t)place * (DETECTED_NUMBERS + scene.media_rows);
    tallies.photons[place] = f.item;
    for (int q = 0; q < DETECTED_NUMBERS; ++q) line[q] = numbers[q];
    for (int q = 0; q < scene.media_rows; ++q) line[DETECTED_NUMBERS + q] = f.paths[q];
}
