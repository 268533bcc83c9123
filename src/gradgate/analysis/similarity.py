"""Compute how similar two representations of the same tokens are: RSA and linear CKA, in bounded memory.

``X`` and ``Y`` have a row for each token, shape ``(n, width)``; their widths may differ.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]
_BLOCK = 512  # rows of a similarity matrix that are in memory at a time


def rsa(x: Matrix, y: Matrix) -> float | None:
    """Return Pearson's correlation of the upper triangles of two matrices of cosine similarities, no diagonals.

    Memory is that of ``512 * n`` similarities, twice.

    Returns:
        From -1 to 1, 1 for equal representations; None where all similarities of one are equal.

    Source:
        He et al. 2021, section 2.2, https://arxiv.org/abs/2106.03164
    """
    units = [_unit_rows(matrix) for matrix in (x, y)]
    count = len(units[0]) * (len(units[0]) - 1) / 2
    # The sum of all similarities is the squared length of the sum of all unit vectors.
    means = [(np.square(unit.sum(0)).sum() - np.square(unit).sum()) / 2 / count for unit in units]
    xx = yy = xy = 0.0
    for begin in range(0, len(units[0]), _BLOCK):
        end = min(begin + _BLOCK, len(units[0]))
        above = np.arange(begin, len(units[0]))[None, :] > np.arange(begin, end)[:, None]
        a, b = ((unit[begin:end] @ unit[begin:].T - mean)[above] for unit, mean in zip(units, means, strict=True))
        xx, yy, xy = xx + float(a @ a), yy + float(b @ b), xy + float(a @ b)
    return _ratio(xy, xx, yy, count)


def linear_cka(x: Matrix, y: Matrix) -> float | None:
    """Return centred kernel alignment with linear kernels. By products of features, memory does not grow with ``n``.

    ``|Yᵀ X|² / (|Xᵀ X| |Yᵀ Y|)`` in Frobenius norms of centred matrices. Few tokens for the width bias it upwards:
    representations that have nothing in common reach about ``width / n``.

    Returns:
        From 0 to 1, 1 for representations that are equal up to rotation and scale; None where one is constant.

    Source:
        Kornblith et al. 2019, section 3 (linear HSIC), https://arxiv.org/abs/1905.00414
    """
    x, y = (np.asarray(matrix, np.float64) - np.mean(matrix, 0, dtype=np.float64) for matrix in (x, y))
    xx, yy, xy = (float(np.square(a.T @ b).sum()) for a, b in ((x, x), (y, y), (x, y)))
    scale = np.square(x).sum() * np.square(y).sum()
    return None if scale == 0 else xy / sqrt(xx * yy)


def _unit_rows(matrix: Matrix) -> NDArray[np.float64]:
    """Return rows of length 1; a row of zeros stays one, and is similar to none."""
    rows = np.asarray(matrix, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1.0, lengths)


def _ratio(xy: float, xx: float, yy: float, count: float) -> float | None:
    least = count * 1e-24  # what rounding leaves of equal similarities
    return None if xx <= least or yy <= least else xy / sqrt(xx * yy)
