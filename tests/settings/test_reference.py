"""Every setting is documented: the page is rendered from the definitions."""

from pathlib import Path

from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.topics import TOPIC_SETTINGS
from catchment.settings.reference import render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_is_rendered_from_the_definitions() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make docs`"


def test_every_setting_has_an_entry() -> None:
    page = render()
    for name in BROKER_SETTINGS:
        assert f"### `{name}`\n\n{BROKER_SETTINGS[name].documentation}\n" in page
    for name, setting in TOPIC_SETTINGS.items():
        assert (f"### `{name}`\n\n{setting.documentation}\n" in page) is not setting.internal
