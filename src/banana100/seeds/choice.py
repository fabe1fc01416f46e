"""Choosing seeds that differ: greedy max-min, also called farthest-point selection."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True)
class Choice:
    """What became of one candidate.

    Attributes:
        order: its place among the chosen, from 0; None if it was not chosen.
        distance: the distance that decided. For the first: to the centre of all candidates, the smallest of all. For
            each later one: to the nearest of those chosen before it, the largest of all. For one not chosen: to the
            nearest chosen.
    """

    order: int | None
    distance: float


def choose(features: ArrayLike, count: int) -> list[Choice]:
    """Choose `count` rows that cover the feature space, from the one nearest the centre outwards.

    Each feature is standardised over all rows; distances are Euclidean; ties go to the earlier row.

    Args:
        features: array of shape (candidates, features).
        count: how many to choose, at least 1.

    Returns:
        One `Choice` a row.

    Raises:
        ValueError: `count` is below 1 or above the number of rows.
    """
    points = StandardScaler().fit_transform(np.asarray(features, dtype=float))
    if not 1 <= count <= len(points):
        raise ValueError(f"cannot choose {count} of {len(points)} candidates")
    to_centre = np.round(np.linalg.norm(points, axis=1), 9)
    between = np.round(cdist(points, points), 9)
    chosen = [int(to_centre.argmin())]
    decisive = {chosen[0]: to_centre[chosen[0]]}
    while len(chosen) < count:
        to_chosen = between[:, chosen].min(axis=1)
        to_chosen[chosen] = -1
        farthest = int(to_chosen.argmax())
        decisive[farthest] = to_chosen[farthest]
        chosen.append(farthest)
    nearest = between[:, chosen].min(axis=1)
    order = {row: place for place, row in enumerate(chosen)}
    return [Choice(order.get(row), float(round(decisive.get(row, nearest[row]), 6))) for row in range(len(points))]
