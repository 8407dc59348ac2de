"""A setting is defined only if something reads it: one that is described but does nothing would be a lie."""

from pathlib import Path

from catchment.ports.broker_setting_definitions import BROKER_SETTINGS
from catchment.ports.topic_settings import BROKER_SYNONYMS

SOURCE = Path(__file__).parents[2] / "src" / "catchment"
DEFINITIONS = ("setting_definitions.py", "topic_settings.py")
# Defined ahead of the parts that will read them. This set may only shrink.
NOT_YET_READ = {
    "log.cleaner.backoff.ms",
    "log.cleaner.enable",
}


def test_every_broker_setting_is_read_somewhere() -> None:
    code = "".join(
        path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if not path.name.endswith(DEFINITIONS)
    )
    topic_defaults = {name for names in BROKER_SYNONYMS.values() for name in names}
    unread = {name for name in BROKER_SETTINGS if name not in topic_defaults and f'"{name}"' not in code}
    assert unread <= NOT_YET_READ
