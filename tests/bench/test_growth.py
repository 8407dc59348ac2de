"""Growth: a size that costs more than a smaller one."""

from __future__ import annotations

import pytest

from catchment.bench.growth.report import Growth


@pytest.mark.parametrize(
    ("costs", "ratio", "is_flat"),
    [
        ([10.0, 11.0, 12.0], 1.2, True),
        ([10.0, 5.0, 6.0], 1.2, True),
        ([10.0, 15.0, 5.0], 1.5, False),
        ([10.0, 8.0, 4.0], 0.8, True),
        ([10.0, 13.0], 1.3, True),
        ([10.0, 13.1], 1.31, False),
    ],
)
def test_each_size_is_compared_with_the_best_of_the_smaller_ones(
    costs: list[float], ratio: float, is_flat: bool
) -> None:
    growth = Growth("rows", "ns", dict(enumerate(costs)), bar=1.3)
    assert growth.ratio == pytest.approx(ratio)
    assert growth.is_flat is is_flat
