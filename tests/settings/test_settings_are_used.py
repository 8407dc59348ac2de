"""A setting is defined only if some code reads it."""

from pathlib import Path

from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.topics import BROKER_SYNONYMS

SOURCE = Path(__file__).parents[2] / "src" / "catchment"
DEFINITIONS = SOURCE / "settings" / "definitions"
# Defined ahead of the parts that will read them. This set may only shrink.
NOT_YET_READ = {
    "log.cleaner.backoff.ms",
    "log.cleaner.enable",
}


def test_every_broker_setting_is_read_somewhere() -> None:
    code = "".join(
        path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if not path.is_relative_to(DEFINITIONS)
    )
    topic_defaults = {name for names in BROKER_SYNONYMS.values() for name in names}
    unread = {name for name in BROKER_SETTINGS if name not in topic_defaults and f'"{name}"' not in code}
    assert unread <= NOT_YET_READ
