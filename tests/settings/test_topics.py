"""Topic settings: valid definitions, and validation across settings."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.ignored import DYNAMIC_IN_KAFKA, READ_ONLY_IN_KAFKA, is_ignored
from catchment.settings.definitions.topics import BROKER_SYNONYMS, TOPIC_SETTINGS, validate_topic_settings
from catchment.settings.groups import GROUP_SETTINGS
from catchment.settings.setting import InvalidSetting, Setting, UnknownSetting


def test_every_default_passes_its_own_bounds() -> None:
    for definitions in (TOPIC_SETTINGS, BROKER_SETTINGS, GROUP_SETTINGS):
        for setting in definitions.values():
            text = setting.render(setting.default)
            assert text is None or setting.parse(text) == setting.default, setting.name


def test_every_setting_is_documented_in_sentences() -> None:
    for definitions in (TOPIC_SETTINGS, BROKER_SETTINGS, GROUP_SETTINGS):
        for setting in definitions.values():
            assert setting.documentation.endswith("."), setting.name
            assert setting.documentation[0].isupper(), setting.name


def test_every_synonym_is_defined_or_known_to_be_ignored() -> None:
    for topic_name, broker_names in BROKER_SYNONYMS.items():
        assert topic_name in TOPIC_SETTINGS
        for name in broker_names:
            assert name in BROKER_SETTINGS or is_ignored(name), name


def test_no_name_is_both_used_and_ignored() -> None:
    assert not set(BROKER_SETTINGS) & (READ_ONLY_IN_KAFKA | DYNAMIC_IN_KAFKA)
    assert not READ_ONLY_IN_KAFKA & DYNAMIC_IN_KAFKA


def test_valid_topic_settings_pass() -> None:
    validate_topic_settings({})
    validate_topic_settings(
        {"cleanup.policy": "compact,delete", "retention.ms": "-1", "catchment.retention.messages": "5"}
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", "1048575"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "shred"),
        ("message.timestamp.type", "createtime"),
        ("min.insync.replicas", "0"),
        ("catchment.retention.messages", "-2"),
        ("compression.gzip.level", "0"),
        ("follower.replication.throttled.replicas", "all"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_value_that_kafka_rejects_is_rejected(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting) as failure:
        validate_topic_settings({name: text})
    assert failure.value.name == name


def test_an_unknown_topic_setting_is_rejected() -> None:
    with pytest.raises(UnknownSetting, match=r"Did you mean retention\.bytes\?"):
        validate_topic_settings({"retention.byte": "1"})


def test_compaction_lags_must_not_cross_even_when_one_is_a_default() -> None:
    with pytest.raises(InvalidSetting, match=r"exceeds max\.compaction\.lag\.ms \(5\)"):
        validate_topic_settings({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidSetting, match=r"exceeds max\.compaction\.lag\.ms \(7\)"):
        validate_topic_settings({"min.compaction.lag.ms": "10"}, {"max.compaction.lag.ms": 7})


@given(
    st.sampled_from([*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]), st.text() | st.from_regex(r"[-+0-9.e,:]+")
)
def test_any_text_is_invalid_or_a_value_that_survives_rendering(setting: Setting, text: str) -> None:
    with contextlib.suppress(InvalidSetting):
        value = setting.parse(text)
        rendered = setting.render(value)
        assert rendered is not None
        assert setting.parse(rendered) == value
