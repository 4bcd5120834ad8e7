// One iteration of the Gaussian transform as one would write it by hand in C++: the yardstick for the package's kernels.
//
// Points sorted by square (cubic) cells of side eps/6 (eps/3), arrays of structures' fields, rows of cells scanned as contiguous
// stretches, pairs recomputed in each of the two passes: means of the balls, then covariances of the moved points over
// the same balls. A pair is inside the ball by the same test without roots as in the package:
//   kappa = (eps^2 - |x - x'|^2) / lam,  P = (tr A + tr B - kappa) / 2,  |x - x'| <= eps, and
//   P <= 0  or  (2-D) P^2 <= I1 + 2r  or  (3-D) L = (P^2 - I1) / 2 has L <= 0 or L^2 <= I2 + 2rP,
//   I1 = tr(AB),  I2 = tr(adj A adj B),  r = sqrt(det A det B).
// Before each pass the arrays are sorted anew, as any implementation must once the points have moved.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using Doubles = std::vector<double>;

// Cells in dimension D: sorted order of the points, and where each cell begins.
template <int D> struct Cells {
    double low[3] = {0, 0, 0}, side;
    int64_t count[3] = {1, 1, 1};
    std::vector<int64_t> order, begin;

    Cells(const double* x, int64_t n, double side_) : side(side_), order(n) {
        for (int d = 0; d < D; ++d) {
            double lo = x[d], hi = x[d];
            for (int64_t i = 1; i < n; ++i) {
                lo = std::min(lo, x[i * D + d]);
                hi = std::max(hi, x[i * D + d]);
            }
            low[d] = lo;
            count[d] = int64_t((hi - lo) / side) + 1;
        }
        std::vector<int64_t> cell(n);
        begin.assign(count[0] * count[1] * count[2] + 1, 0);
        for (int64_t i = 0; i < n; ++i) {
            cell[i] = 0;
            for (int d = D - 1; d >= 0; --d) cell[i] = cell[i] * count[d] + of(x[i * D + d], d);
            ++begin[cell[i] + 1];
        }
        std::partial_sum(begin.begin(), begin.end(), begin.begin());
        std::vector<int64_t> next(begin.begin(), begin.end() - 1);
        for (int64_t i = 0; i < n; ++i) order[next[cell[i]]++] = i;
    }

    int64_t of(double value, int d) const {
        return std::clamp<int64_t>(int64_t((value - low[d]) / side), 0, count[d] - 1);
    }

    // Distance from value to the cell's extent along axis d.
    double gap(double value, int64_t cell, int d) const {
        const double from = low[d] + cell * side;
        return std::max({0.0, from - value, value - (from + side)});
    }

    // Call visit(first, last) for each stretch of sorted points that can lie within reach of p.
    template <class Visit> void stretches(const double* p, double reach, Visit visit) const {
        const int64_t y0 = of(p[1] - reach, 1), y1 = of(p[1] + reach, 1);
        const int64_t z0 = D == 3 ? of(p[2] - reach, 2) : 0, z1 = D == 3 ? of(p[2] + reach, 2) : 0;
        for (int64_t z = z0; z <= z1; ++z)
            for (int64_t y = y0; y <= y1; ++y) {
                const double dy = gap(p[1], y, 1), dz = D == 3 ? gap(p[2], z, 2) : 0;
                // The last bit of a cell's border may be rounded either way: look a hair further.
                const double rest = reach * reach * (1 + 1e-9) - dy * dy - dz * dz;
                if (rest < 0) continue;
                const double half = std::sqrt(rest);
                const int64_t row = (z * count[1] + y) * count[0];
                visit(begin[row + of(p[0] - half, 0)], begin[row + of(p[0] + half, 0) + 1]);
            }
    }
};

// What the membership test reads of a covariance: its entries, adjugate (3-D), trace and root of the determinant.
template <int D> constexpr int n_entries = D == 2 ? 3 : 6;
template <int D> constexpr int n_shape = D == 2 ? 5 : 14;

template <int D> void shape_of(const double* S, double* out) {
    if constexpr (D == 2) {
        out[0] = S[0], out[1] = S[1], out[2] = S[2];
        out[3] = S[0] + S[2];
        out[4] = std::sqrt(std::max(0.0, S[0] * S[2] - S[1] * S[1]));
    } else {  // entries xx, xy, xz, yy, yz, zz
        for (int k = 0; k < 6; ++k) out[k] = S[k];
        double* adj = out + 6;
        adj[0] = S[3] * S[5] - S[4] * S[4];
        adj[1] = S[2] * S[4] - S[1] * S[5];
        adj[2] = S[1] * S[4] - S[2] * S[3];
        adj[3] = S[0] * S[5] - S[2] * S[2];
        adj[4] = S[1] * S[2] - S[0] * S[4];
        adj[5] = S[0] * S[3] - S[1] * S[1];
        out[12] = S[0] + S[3] + S[5];
        out[13] = std::sqrt(std::max(0.0, S[0] * adj[0] + S[1] * adj[1] + S[2] * adj[2]));
    }
}

template <int D>
inline bool inside(double distance_squared, const double* a, const double* const* b, int64_t j, double reach_squared,
                   double inverse_lam) {
    const double kappa = (reach_squared - distance_squared) * inverse_lam;
    if constexpr (D == 2) {
        const double P = 0.5 * (a[3] + b[3][j] - kappa);
        const double I1 = a[0] * b[0][j] + 2 * a[1] * b[1][j] + a[2] * b[2][j];
        return (kappa >= 0) & ((P <= 0) | (P * P <= I1 + 2 * a[4] * b[4][j]));
    } else {
        const double P = 0.5 * (a[12] + b[12][j] - kappa);
        const double I1 = a[0] * b[0][j] + a[3] * b[3][j] + a[5] * b[5][j] +
                          2 * (a[1] * b[1][j] + a[2] * b[2][j] + a[4] * b[4][j]);
        const double I2 = a[6] * b[6][j] + a[9] * b[9][j] + a[11] * b[11][j] +
                          2 * (a[7] * b[7][j] + a[8] * b[8][j] + a[10] * b[10][j]);
        const double L = 0.5 * (P * P - I1);
        return (kappa >= 0) & ((P <= 0) | (L <= 0) | (L * L <= I2 + 2 * a[13] * b[13][j] * P));
    }
}

template <int D>
int64_t iterate(const double* x, const double* covariances, int64_t n, double eps, double lam, double* moved,
                double* moved_covariances) {
    const double reach_squared = eps * eps * (1 + 1e-9), reach = std::sqrt(reach_squared);
    const Cells<D> cells(x, n, eps / (D == 2 ? 6 : 3));
    constexpr int E = n_entries<D>, K = n_shape<D>;

    Doubles position(D * n), shape(K * n), y(D * n), rows(K * n);
    const double *px[D], *ps[K];
    for (int d = 0; d < D; ++d) px[d] = &position[d * n];
    for (int k = 0; k < K; ++k) ps[k] = &shape[k * n];
    for (int64_t s = 0; s < n; ++s) {
        const int64_t i = cells.order[s];
        for (int d = 0; d < D; ++d) position[d * n + s] = x[i * D + d];
        shape_of<D>(covariances + i * E, &rows[s * K]);
        for (int k = 0; k < K; ++k) shape[k * n + s] = rows[s * K + k];
    }

    int64_t candidates = 0;
#pragma omp parallel for schedule(dynamic, 256) reduction(+ : candidates)
    for (int64_t s = 0; s < n; ++s) {
        double p[D], sum[D] = {}, mass = 0;
        for (int d = 0; d < D; ++d) p[d] = px[d][s];
        const double* a = &rows[s * K];
        cells.stretches(p, reach, [&](int64_t first, int64_t last) {
            candidates += last - first;
            double m0 = 0, s0 = 0, s1 = 0, s2 = 0;
            for (int64_t j = first; j < last; ++j) {
                const double dx = px[0][j] - p[0], dy = px[1][j] - p[1], dz = D == 3 ? px[D - 1][j] - p[D - 1] : 0;
                const double w = inside<D>(dx * dx + dy * dy + dz * dz, a, ps, j, reach_squared, 1 / lam) ? 1 : 0;
                m0 += w, s0 += w * dx, s1 += w * dy, s2 += w * dz;
            }
            mass += m0, sum[0] += s0, sum[1] += s1;
            if constexpr (D == 3) sum[2] += s2;
        });
        for (int d = 0; d < D; ++d) y[d * n + s] = p[d] + sum[d] / mass;
    }

    const double* py[D];
    for (int d = 0; d < D; ++d) py[d] = &y[d * n];
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t s = 0; s < n; ++s) {
        double p[D], centre[D], t[10] = {};
        for (int d = 0; d < D; ++d) p[d] = px[d][s], centre[d] = py[d][s];
        const double* a = &rows[s * K];
        cells.stretches(p, reach, [&](int64_t first, int64_t last) {
            double m = 0, u = 0, v = 0, q = 0, uu = 0, uv = 0, uq = 0, vv = 0, vq = 0, qq = 0;
            for (int64_t j = first; j < last; ++j) {
                const double dx = px[0][j] - p[0], dy = px[1][j] - p[1], dz = D == 3 ? px[D - 1][j] - p[D - 1] : 0;
                const double w = inside<D>(dx * dx + dy * dy + dz * dz, a, ps, j, reach_squared, 1 / lam) ? 1 : 0;
                const double ex = py[0][j] - centre[0], ey = py[1][j] - centre[1];
                const double ez = D == 3 ? py[D - 1][j] - centre[D - 1] : 0;
                m += w, u += w * ex, v += w * ey, q += w * ez;
                uu += w * ex * ex, uv += w * ex * ey, uq += w * ex * ez;
                vv += w * ey * ey, vq += w * ey * ez, qq += w * ez * ez;
            }
            const double part[10] = {m, u, v, q, uu, uv, uq, vv, vq, qq};
            for (int k = 0; k < 10; ++k) t[k] += part[k];
        });
        const double m = t[0], u = t[1] / m, v = t[2] / m, q = t[3] / m;
        const int64_t i = cells.order[s];
        double* S = moved_covariances + i * E;
        if constexpr (D == 2) {
            S[0] = t[4] / m - u * u, S[1] = t[5] / m - u * v, S[2] = t[7] / m - v * v;
        } else {
            S[0] = t[4] / m - u * u, S[1] = t[5] / m - u * v, S[2] = t[6] / m - u * q;
            S[3] = t[7] / m - v * v, S[4] = t[8] / m - v * q, S[5] = t[9] / m - q * q;
        }
        for (int d = 0; d < D; ++d) moved[i * D + d] = py[d][s];
    }
    return candidates;
}

}  // namespace

// One iteration: points (n, D) and upper triangles of covariances (n, 3 or 6) in, the same out. Returns how many
// candidate pairs one pass looks at.
extern "C" int64_t iterate_2d(const double* x, const double* covariances, int64_t n, double eps, double lam,
                              double* moved, double* moved_covariances) {
    return iterate<2>(x, covariances, n, eps, lam, moved, moved_covariances);
}

extern "C" int64_t iterate_3d(const double* x, const double* covariances, int64_t n, double eps, double lam,
                              double* moved, double* moved_covariances) {
    return iterate<3>(x, covariances, n, eps, lam, moved, moved_covariances);
}
