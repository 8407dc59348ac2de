"""What counts as growth: a size that costs more than a smaller one does."""

from __future__ import annotations

import pytest

from catchment.bench.growth.report import Growth


@pytest.mark.parametrize(
    ("costs", "ratio"),
    [
        ([10.0, 11.0, 12.0], 1.2),
        ([10.0, 5.0, 6.0], 1.2),
        ([10.0, 15.0, 5.0], 1.5),
        ([10.0, 8.0, 4.0], 0.8),
    ],
)
def test_each_size_is_held_against_the_best_of_the_smaller_ones(costs: list[float], ratio: float) -> None:
    growth = Growth("rows", "ns", dict(enumerate(costs)), bar=1.3)
    assert growth.ratio == pytest.approx(ratio)
    assert growth.is_flat == (ratio <= 1.3)
