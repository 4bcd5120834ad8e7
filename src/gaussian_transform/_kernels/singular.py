"""Singular values of many small matrices at once.

Sixteen matrices lie side by side, entry by entry, so that each operation is a vector operation over these lanes, and
no lane's numbers depend on its neighbours. Householder reflections bring each matrix to an upper bidiagonal B, and qd
sweeps find the eigenvalues λ of BBᵀ from the smallest up. With q and e the squares on and above the diagonal, a sweep
takes B to the B' with B'ᵀB' = BBᵀ − s by additions, products and quotients of positive numbers alone, which keeps small
values accurate as long as s is at most the smallest λ. The same sweep sums S₁ = Σ 1/λ and S₂ = Σ 1/λ² of B', and
Laguerre's bound n / (S₁ + √((n−1)(n S₂ − S₁²))) is at most the smallest λ and close to it: the next shift. It never
fails, so there are no cases to tell apart, and about three sweeps split off a value.
"""

from __future__ import annotations

import math

import numpy as np

from gaussian_transform._parallel import njit
from gaussian_transform._typing import FloatArray

_LANES = 16
_EPS = 2.0**-52
# Relative error that splitting off one λ may cause.
_TOLERANCE = 4.0 * _EPS
# Squares below this count as 0: the largest entry of each matrix is scaled to about 1.
_TINY = 1e-60
# After so many sweeps without a value at the end of the diagonal it is sought elsewhere too.
_PATIENCE = 5

# The compiler makes vector loops of what lies at constant distances in few arrays. Hence tiles of two columns by four
# rows, and blocks of vectors under these names, each of _LANES numbers (per row or column of the tile).
_SECOND_COLUMN = 4 * _LANES
# Per four rows: the last left reflection v, the last x, and the new left reflection w.
_V, _X, _W = 0, 4 * _LANES, 8 * _LANES
# Per two columns: y, the last right reflection u and a sum, then the same of the second column.
_Y, _U, _SUM, _SECOND = 0, _LANES, 2 * _LANES, 3 * _LANES
# The reflection of a vector with first entry alpha and sum of squares of the others `rest`.
_ALPHA, _REST, _FIRST, _FACTOR, _SQUARE, _DOT = range(0, 6 * _LANES, _LANES)
# The state of the sweeps. "Part" means without the last row of B.
_D, _A, _B, _PART_1, _PART_2, _FULL_1, _FULL_2, _SHIFT = range(0, 8 * _LANES, _LANES)
_SIZE, _FOUND, _FLOOR, _STALL, _Q, _E, _IS_DONE = range(8 * _LANES, 15 * _LANES, _LANES)


@njit
def _aligned(n_rows, n_columns):
    """Return zeros that begin on a cache line: vectors that straddle two lines cost up to a quarter of the time."""
    buffer = np.zeros(n_rows * n_columns + 8)
    first = (-buffer.ctypes.data % 64) // 8
    return buffer[first : first + n_rows * n_columns].reshape(n_rows, n_columns)


@njit
def _load(matrices, start, tiles):
    """Copy a batch into tiles; the last batch is filled up with the last matrix."""
    n, r, _ = matrices.shape
    if r % 4 > 0:  # what fills up the tiles is still 0, unless the last batch had NaN
        tiles[:] = 0.0
    for pair in range(tiles.shape[0]):
        columns = tiles[pair]
        for lane in range(_LANES):
            for side in range(min(2, r - 2 * pair)):
                column = matrices[min(start + lane, n - 1), 2 * pair + side]
                place = side * _SECOND_COLUMN + lane
                for block in range(r // 4):
                    for h in range(4):
                        columns[block, place + h * _LANES] = column[4 * block + h]
                for h in range(r % 4):
                    columns[r // 4, place + h * _LANES] = column[r // 4 * 4 + h]


@njit
def _scale(tiles, units):
    """Divide each matrix by a power of two that its largest entry is close to, and write that power."""
    units[:] = 0.0
    for pair in range(tiles.shape[0]):
        for block in range(tiles.shape[1]):
            tile = tiles[pair, block]
            for lane in range(_LANES):
                largest = units[lane]
                for k in range(8):
                    largest = max(largest, abs(tile[k * _LANES + lane]))
                units[lane] = largest
    for lane in range(_LANES):
        # Beyond these exponents the power or its inverse would leave the range of normal numbers.
        units[lane] = math.ldexp(1.0, min(max(math.frexp(units[lane])[1], -1000), 1000))
    for pair in range(tiles.shape[0]):
        for block in range(tiles.shape[1]):
            tile = tiles[pair, block]
            for lane in range(_LANES):
                inverse = 1.0 / units[lane]
                for k in range(8):
                    tile[k * _LANES + lane] *= inverse


@njit
def _reflect(work):
    """Find the reflections 1 − factor·vvᵀ of vectors (alpha, ...) to multiples of (1, 0, ...): v = (first, ...)."""
    for lane in range(_LANES):
        alpha, rest = work[_ALPHA + lane], work[_REST + lane]
        square = alpha * alpha + rest
        norm = math.sqrt(square)
        factor = 1.0 / (square + abs(alpha) * norm)
        work[_FACTOR + lane] = factor if rest > _TINY else 0.0
        work[_FIRST + lane] = alpha + norm if alpha >= 0.0 else alpha - norm
        work[_SQUARE + lane] = square


@njit
def _reflect_column(tiles, left, right, k, work):
    """Bring column k up to date and find its reflection w."""
    block, place = k // 4, k % 4
    side = k % 2
    ys = right[k // 2, side * _SECOND : (side + 1) * _SECOND]
    work[_REST : _REST + _LANES] = 0.0
    for c in range(block, tiles.shape[1]):
        column = tiles[k // 2, c, side * _SECOND_COLUMN : (side + 1) * _SECOND_COLUMN]
        rows = left[c]
        for lane in range(_LANES):
            y, u, rest = ys[_Y + lane], ys[_U + lane], work[_REST + lane]
            for h in range(4):
                at = h * _LANES + lane
                w = column[at] - rows[_V + at] * y - rows[_X + at] * u
                rows[_W + at] = w
                rest += w * w
            work[_REST + lane] = rest
        if c == block:  # the rows above k are done with, and row k is alpha
            work[_REST : _REST + _LANES] = 0.0
            rows[_W : _W + place * _LANES] = 0.0
            for h in range(place + 1, 4):
                w = rows[_W + h * _LANES : _W + (h + 1) * _LANES]
                for lane in range(_LANES):
                    work[_REST + lane] += w[lane] * w[lane]
    first = left[block, _W + place * _LANES : _W + (place + 1) * _LANES]
    for lane in range(_LANES):
        work[_ALPHA + lane] = first[lane]
    _reflect(work)
    for lane in range(_LANES):
        first[lane] = work[_FIRST + lane]


@njit
def _update(tiles, left, right, k, work):
    """Carry out the last step, A − vyᵀ − xuᵀ, and reflect from the left: y = factor·Aᵀw and row k, u = A_k − w_k y.

    Writes Σu² and Σuy as well, without the row's first entry.
    """
    block, place, first_pair = k // 4, k % 4, (k + 1) // 2
    work[_REST : _REST + _LANES] = 0.0
    work[_DOT : _DOT + _LANES] = 0.0
    for pair in range(first_pair, tiles.shape[0]):
        ys = right[pair]
        for lane in range(_LANES):
            ys[_SUM + lane] = 0.0
            ys[_SECOND + _SUM + lane] = 0.0
        for c in range(block, tiles.shape[1]):
            tile, rows = tiles[pair, c], left[c]
            for lane in range(_LANES):
                y0, u0, sum0 = ys[_Y + lane], ys[_U + lane], ys[_SUM + lane]
                y1, u1, sum1 = ys[_SECOND + _Y + lane], ys[_SECOND + _U + lane], ys[_SECOND + _SUM + lane]
                for h in range(4):
                    at = h * _LANES + lane
                    v, x, w = rows[_V + at], rows[_X + at], rows[_W + at]
                    a0 = tile[at] - v * y0 - x * u0
                    a1 = tile[_SECOND_COLUMN + at] - v * y1 - x * u1
                    tile[at] = a0
                    tile[_SECOND_COLUMN + at] = a1
                    sum0 += w * a0
                    sum1 += w * a1
                ys[_SUM + lane] = sum0
                ys[_SECOND + _SUM + lane] = sum1
        row = tiles[pair, block, place * _LANES : place * _LANES + _SECOND_COLUMN + _LANES]
        # The row begins in the first or the second column of its first pair, with an entry that the sums leave out.
        is_later = 0.0 if pair == first_pair else 1.0
        is_whole = is_later if k % 2 == 0 else 1.0
        for lane in range(_LANES):
            factor, first = work[_FACTOR + lane], work[_FIRST + lane]
            y0, y1 = is_whole * factor * ys[_SUM + lane], factor * ys[_SECOND + _SUM + lane]
            u0, u1 = is_whole * row[lane] - first * y0, row[_SECOND_COLUMN + lane] - first * y1
            ys[_Y + lane], ys[_U + lane] = y0, u0
            ys[_SECOND + _Y + lane], ys[_SECOND + _U + lane] = y1, u1
            work[_REST + lane] += is_later * u0 * u0 + is_whole * u1 * u1
            work[_DOT + lane] += is_later * u0 * y0 + is_whole * u1 * y1


@njit
def _reflect_row(right, k, work):
    side = (k + 1) % 2
    ys = right[(k + 1) // 2, side * _SECOND : (side + 1) * _SECOND]
    for lane in range(_LANES):
        work[_ALPHA + lane] = ys[_U + lane]
    _reflect(work)
    for lane in range(_LANES):
        first = work[_FIRST + lane]
        ys[_U + lane] = first
        work[_DOT + lane] += first * ys[_Y + lane]


@njit
def _multiply(tiles, left, right, k, work):
    """Write x = factor·(A − wyᵀ)u and hand on the reflection w as v."""
    for c in range(k // 4, tiles.shape[1]):
        rows = left[c]
        rows[_X:_W] = 0.0
        for pair in range((k + 1) // 2, tiles.shape[0]):
            tile, ys = tiles[pair, c], right[pair]
            for lane in range(_LANES):
                u0, u1 = ys[_U + lane], ys[_SECOND + _U + lane]
                for h in range(4):
                    at = h * _LANES + lane
                    rows[_X + at] += tile[at] * u0 + tile[_SECOND_COLUMN + at] * u1
        for lane in range(_LANES):
            factor, dot = work[_FACTOR + lane], work[_DOT + lane]
            for h in range(4):
                at = h * _LANES + lane
                w = rows[_W + at]
                rows[_X + at] = factor * (rows[_X + at] - w * dot)
                rows[_V + at] = w


@njit
def _bidiagonalize(tiles, left, right, work, r, squares):
    """Write the rows (q, e) of squares on and above the diagonal of B; what is beyond row r becomes 0."""
    left[:] = 0.0
    right[:] = 0.0
    squares[:] = 0.0
    for k in range(r):
        _reflect_column(tiles, left, right, k, work)
        for lane in range(_LANES):
            squares[k, lane] = work[_SQUARE + lane]
        if k < r - 1:
            _update(tiles, left, right, k, work)
            _reflect_row(right, k, work)
            for lane in range(_LANES):
                squares[k, _LANES + lane] = work[_SQUARE + lane]
            _multiply(tiles, left, right, k, work)


@njit
def _sweep(pairs, state, size, out):
    """Shift by one qd sweep over pairs of rows (q, e, q, e), and sum 1/λ and 1/λ² over what comes out.

    The columns of the inverse of B' have squared norms N and products with all earlier columns whose squares add to G:
    Σ 1/λ = Σ N and Σ 1/λ² = Σ (N² + 2G).
    """
    first = pairs[0]
    for lane in range(_LANES):
        state[_D + lane] = max(first[lane] - state[_SHIFT + lane], _TINY)
        state[_A + lane] = 1.0
    state[_B:_SHIFT] = 0.0
    for i in range((size + 1) // 2):
        row, below, new = pairs[i], pairs[i + 1], out[i]
        for lane in range(_LANES):
            shift, d, n_left = state[_SHIFT + lane], state[_D + lane], state[_SIZE + lane] - 2.0 * i
            e = row[_LANES + lane]
            q = d + e
            inverse = 1.0 / q
            t = row[2 * _LANES + lane] * inverse
            d = max(d * t - shift, _TINY)
            e *= t
            new[lane] = q
            new[_LANES + lane] = e
            norm, cross = state[_A + lane] * inverse, state[_B + lane] * inverse
            square = norm * norm
            a, b, both = e * norm + 1.0, e * (cross + square), square + 2.0 * cross
            full_1 = state[_FULL_1 + lane] + (norm if n_left > 0.0 else 0.0)
            full_2 = state[_FULL_2 + lane] + (both if n_left > 0.0 else 0.0)
            part_1 = state[_PART_1 + lane] + (norm if n_left > 1.0 else 0.0)
            part_2 = state[_PART_2 + lane] + (both if n_left > 1.0 else 0.0)
            # The second row, written out: with the state of one row alone the loop would mostly load and store.
            e = row[3 * _LANES + lane]
            q = d + e
            inverse = 1.0 / q
            t = below[lane] * inverse
            e *= t
            new[2 * _LANES + lane] = q
            new[3 * _LANES + lane] = e
            state[_D + lane] = max(d * t - shift, _TINY)
            norm, cross = a * inverse, b * inverse
            square = norm * norm
            both = square + 2.0 * cross
            state[_A + lane] = e * norm + 1.0
            state[_B + lane] = e * (cross + square)
            state[_FULL_1 + lane] = full_1 + (norm if n_left > 1.0 else 0.0)
            state[_FULL_2 + lane] = full_2 + (both if n_left > 1.0 else 0.0)
            state[_PART_1 + lane] = part_1 + (norm if n_left > 2.0 else 0.0)
            state[_PART_2 + lane] = part_2 + (both if n_left > 2.0 else 0.0)


@njit
def _judge(rows, state):
    """Find where the last q is a λ up to the tolerance, and the next shifts.

    In BBᵀ the last row has diagonal q and couples by √(qe): without the coupling no λ moves by more than qe over the
    gap from q to the other λ, and the least of those is at least one over their sum of 1/λ.
    """
    for lane in range(_LANES):
        n = int(state[_SIZE + lane])
        state[_Q + lane] = rows[n - 1, lane]
        state[_E + lane] = rows[n - 2, _LANES + lane]
    for lane in range(_LANES):
        q, e = state[_Q + lane], state[_E + lane]
        part_1, part_2 = state[_PART_1 + lane], state[_PART_2 + lane]
        full_1, full_2 = state[_FULL_1 + lane], state[_FULL_2 + lane]
        found = state[_FOUND + lane] + state[_SHIFT + lane]
        state[_FOUND + lane] = found
        negligible = _TOLERANCE * _TOLERANCE * found + state[_FLOOR + lane]
        error = _TOLERANCE * (found + q)
        gap = max(1.0 / part_1 - q, error)
        is_done = (q <= negligible) | (e <= negligible) | (q * e <= error * gap)
        state[_IS_DONE + lane] = 1.0 if is_done else 0.0
        n = state[_SIZE + lane] - (1.0 if is_done else 0.0)
        sum_1 = part_1 if is_done else full_1
        sum_2 = part_2 if is_done else full_2
        square = sum_1 * sum_1
        # The terms with _EPS keep the bound a bound in spite of rounding.
        spread = (n - 1.0) * max(n * sum_2 - square, 0.0) + 8.0 * n * n * _EPS * square
        shift = n / (sum_1 + math.sqrt(spread)) * (1.0 - 4.0 * n * _EPS)
        state[_SHIFT + lane] = shift if shift > 0.0 else 0.0


@njit
def _split(rows, lane, n, found, negligible, values):
    """Take out the rows of one lane that are coupled to no other; return how many rows remain."""
    for i in range(n - 2, -1, -1):
        if rows[i, _LANES + lane] <= negligible and (i == 0 or rows[i - 1, _LANES + lane] <= negligible):
            n -= 1
            values[lane, n] = found + (rows[i, lane] - _TINY)
            for j in range(i, n):
                rows[j, lane] = rows[j + 1, lane]
                rows[j, _LANES + lane] = rows[j + 1, _LANES + lane]
            rows[n, lane] = 0.0
    return n


@njit
def _deflate(rows, state, values):
    """Write the λ that were found and shorten their lanes; return the largest number of rows that remain.

    The e above a row that goes stays for the next sweep, which adds it to the q of its own row.
    """
    size = 0
    for lane in range(_LANES):
        n = int(state[_SIZE + lane])
        is_done, stall = state[_IS_DONE + lane] > 0.0, state[_STALL + lane] + 1.0
        if n > 0 and (is_done or stall > _PATIENCE):
            found = state[_FOUND + lane]
            negligible = _TOLERANCE * _TOLERANCE * found + state[_FLOOR + lane]
            while is_done:
                n -= 1
                values[lane, n] = found + (rows[n, lane] - _TINY)
                rows[n, lane] = 0.0
                stall = 0.0
                if n < 2 or rows[n - 1, _LANES + lane] > negligible:
                    break
                q, e = rows[n - 1, lane], rows[n - 2, _LANES + lane]
                is_done = q <= negligible or e <= negligible or q * e <= (_TOLERANCE * (found + q)) ** 2
            if stall > _PATIENCE:
                n = _split(rows, lane, n, found, negligible, values)
            if n == 1:
                n = 0
                values[lane, 0] = found + (rows[0, lane] - _TINY) + rows[0, _LANES + lane]
        state[_STALL + lane] = stall
        state[_SIZE + lane] = n
        size = max(size, n)
    return size


@njit
def _find_eigenvalues(pairs, spare, state, values):
    """Write the eigenvalues of BBᵀ of each lane to `values` (lanes, r) in no order."""
    r = values.shape[1]
    rows, other = pairs.reshape(2 * pairs.shape[0], 2 * _LANES), spare.reshape(2 * pairs.shape[0], 2 * _LANES)
    state[:] = 0.0
    state[_SIZE : _SIZE + _LANES] = r
    for i in range(r):
        for lane in range(_LANES):
            state[_FLOOR + lane] += _TOLERANCE * _TOLERANCE / r * (rows[i, lane] + rows[i, _LANES + lane])
    size = r
    # Equal values in rows that are not coupled take longest, up to 100 sweeps for all of them; NaN never ends.
    for _ in range(50 * r + 200):
        _sweep(pairs, state, size, spare)
        pairs, spare, rows, other = spare, pairs, other, rows
        _judge(rows, state)
        size = _deflate(rows, state, values)
        if size == 0:
            return
    for lane in range(_LANES):
        for i in range(int(state[_SIZE + lane])):
            values[lane, i] = state[_FOUND + lane] + rows[i, lane]


@njit
def singular_values(matrices: FloatArray, out: FloatArray) -> None:
    """Write the singular values of matrices of shape (n, r, r) to `out` of shape (n, r), in no order.

    Each is within a few rounding errors of the largest; so is their sum, the nuclear norm. The same matrix gives the
    same bits in any company.
    """
    n, r, _ = matrices.shape
    n_pairs, n_blocks = (r + 1) // 2, (r + 3) // 4
    tiles = _aligned(n_pairs * n_blocks, 8 * _LANES).reshape(n_pairs, n_blocks, 8 * _LANES)
    left, right = _aligned(n_blocks, 12 * _LANES), _aligned(n_pairs, 6 * _LANES)
    work, state = _aligned(1, 6 * _LANES)[0], _aligned(1, 15 * _LANES)[0]
    # One pair of zero rows more than a sweep looks at: a finished lane, of size 0, looks at the last.
    pairs, spare = _aligned(n_pairs + 2, 4 * _LANES), _aligned(n_pairs + 2, 4 * _LANES)
    squares = pairs.reshape(2 * pairs.shape[0], 2 * _LANES)
    values, units = np.empty((_LANES, r)), np.empty(_LANES)
    for start in range(0, n, _LANES):
        _load(matrices, start, tiles)
        _scale(tiles, units)
        _bidiagonalize(tiles, left, right, work, r, squares)
        _find_eigenvalues(pairs, spare, state, values)
        for lane in range(min(_LANES, n - start)):
            for k in range(r):
                out[start + lane, k] = units[lane] * math.sqrt(values[lane, k])
