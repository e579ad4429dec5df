// Sums over groups of photons, and derivatives with their errors from them. Counterpart: fold.py, same names, same order of
// operations; compiled without fused multiplication and addition. Defines: LABEL (the type of the volume).
#ifndef LABEL
#define LABEL unsigned char
#endif

// Tallies of finished groups, and the sums that they are added to. As FOLD in gpu.py.
struct Fold {
    unsigned long long* tally;  // of each group, cleared
    int groups, volumes, cells;
    const double* units;  // size of a quantum of each derivative
    const double* shares;  // of these groups, (groups, volumes, 2)
    double* sums;  // four volumes of each derivative
    const LABEL* rows;
    int media_rows;
    unsigned long long* labels;  // sums over each media row, (groups, volumes, rows)
};

// Sums over all groups, and the derivatives and errors that are made of them. As FINISH in gpu.py.
struct Finish {
    const double* sums;
    int volumes, cells;
    const long long* partners;
    const double* products;  // (volumes, 3)
    double freedom;
    float* values;
    float* errors;
};

// Add groups to the sums and clear them; one thread for each cell.
extern "C" __global__ void fold_groups(const Fold fold)
{
    const long long cells = fold.cells, all = (long long)fold.volumes * cells;
    const long long cell = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    const int row = fold.rows[cell];
    for (int group = 0; group < fold.groups; ++group) {
        for (int v = 0; v < fold.volumes; ++v) {
            const int one = group * fold.volumes + v;
            unsigned long long* const from = fold.tally + (one * cells + cell);
            const unsigned long long amount = *from;
            if (!amount) continue;
            *from = 0;
            const double x = (double)(long long)amount * fold.units[v];
            const long long place = v * cells + cell;
            fold.sums[place] += x;
            fold.sums[all + place] += x * x;
            fold.sums[2 * all + place] += x * fold.shares[2 * one];
            fold.sums[3 * all + place] += x * fold.shares[2 * one + 1];
            atomicAdd(fold.labels + ((long long)one * fold.media_rows + row), amount);
        }
    }
}

// Derivatives and their standard errors from the sums; one thread for each cell.
extern "C" __global__ void finish_cells(const Finish finish)
{
    const long long cells = finish.cells, all = (long long)finish.volumes * cells;
    const long long cell = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    for (int v = 0; v < finish.volumes; ++v) {
        const long long place = v * cells + cell, p = finish.partners[v];
        const double q = finish.sums[place], r = p == v ? 0.0 : finish.sums[p * cells + cell];
        const double squares = finish.sums[all + place];
        const double own = finish.sums[2 * all + place], other = finish.sums[3 * all + place];
        const double* const products = finish.products + 3 * v;
        double spread = squares - 2.0 * (q * own + r * other);
        spread += q * q * products[0] + 2.0 * (q * r) * products[1] + r * r * products[2];
        finish.values[place] = (float)q;
        finish.errors[place] = (float)sqrt((spread > 0.0 ? spread : 0.0) * finish.freedom);
    }
}
