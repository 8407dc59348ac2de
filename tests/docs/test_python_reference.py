"""The Python reference has every public name."""

import importlib
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "python"
SHOWN = {name for page in PAGES.glob("*.md") for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)}


@pytest.mark.parametrize(
    "package", ["catchment", "catchment.spark", "catchment.pipelines", "catchment.pipelines.testing"]
)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    public: list[str] = importlib.import_module(package).__all__
    assert public
    assert [name for name in public if f"{package}.{name}" not in SHOWN] == []
