"""The reference page of all settings, rendered from their definitions.

`python -m catchment.settings.reference > docs/reference/settings.md` writes it. A test fails if the page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.topics import BROKER_SYNONYMS, TOPIC_SETTINGS
from catchment.settings.groups import BROKER_NAMES, GROUP_SETTINGS
from catchment.settings.setting import Setting

_INTRODUCTION: Final = """\
# Settings

Names, kinds, defaults and bounds are those of Apache Kafka 4.3 wherever Kafka has the setting; names that start with
`catchment.` are our own. This page is rendered from the definitions: `make docs` writes it.

## Where a value comes from

From lowest to highest precedence:

1. the default;
2. the file given with `catchment broker --config FILE`, in the format of Kafka's `server.properties`;
3. `--set name=value` on the command line;
4. dynamic settings for all brokers (`kafka-configs --entity-type brokers --entity-default --alter`);
5. dynamic settings for this broker (`--entity-name 1`);
6. for topic settings, the topic's own.

Broker settings marked **cluster-wide** may change while the broker runs and take effect at once. The others are read at
startup; a change at run time is rejected.

Of settings with several units (`log.retention.ms`, `.minutes`, `.hours`) the finest one given takes precedence.

## Names that Catchment does not have

A `server.properties` written for Kafka works unchanged:

- A setting of Kafka that Catchment does not use, such as `num.io.threads`, is ignored with one line in the log.
- An unknown name is ignored with a warning that suggests the most similar known name.
- With `--set`, an unknown name is an error.
- Listeners that `controller.listener.names` names are ignored, because there is no controller quorum.
- `process.roles=controller` alone is rejected: Catchment has no process that is only a controller.

## Durability: what each choice can lose

| `acks` | `catchment.sync.acks` | a record is acknowledged when | it may be lost by |
|---|---|---|---|
| all | true (default) | all in-sync replicas have it; a sole replica has synced it to the device | loss of the devices of all replicas |
| all | false | all in-sync replicas have it in memory | a power loss of all of them at once |
| 1 | either | the leader has it in memory | a power loss of the leader, or its failure before a follower has fetched the record |
| 0 | either | never: the producer does not wait | anything |

`flush.messages` and `flush.ms` also sync the log to the device, by count and by age, as in Kafka.
"""


def render() -> str:
    """The whole page."""
    return "\n".join(
        [
            _INTRODUCTION,
            "## Broker settings\n",
            *(_entry(setting, _broker_remarks(setting)) for setting in BROKER_SETTINGS.values()),
            "## Topic settings\n",
            *(_entry(setting, _topic_remarks(setting)) for setting in TOPIC_SETTINGS.values() if not setting.internal),
            "## Group settings\n",
            "For single groups, which need not exist yet: `kafka-configs --group NAME --alter --add-config …`.\n",
            *(_entry(setting, _group_remarks(setting)) for setting in GROUP_SETTINGS.values()),
        ]
    )


def _entry(setting: Setting, remarks: Iterator[str]) -> str:
    default = setting.render(setting.default)
    facts = [
        setting.kind.value,
        "no default" if default is None else f"default `{default}`" if default else "default empty",
    ]
    if setting.validator is not None:
        facts.append(f"valid: {setting.validator}")
    return f"### `{setting.name}`\n\n{setting.documentation}\n\n*{'; '.join([*facts, *remarks])}*\n"


def _broker_remarks(setting: Setting) -> Iterator[str]:
    yield setting.update_mode.value


def _topic_remarks(setting: Setting) -> Iterator[str]:
    synonyms = [name for name in BROKER_SYNONYMS.get(setting.name, ()) if name in BROKER_SETTINGS]
    if synonyms:
        yield f"the broker's default: {', '.join(f'`{name}`' for name in synonyms)}"


def _group_remarks(setting: Setting) -> Iterator[str]:
    names = BROKER_NAMES.get(setting.name)
    if names is not None:
        yield f"the broker's default: `{names.default}`; its bounds: `{names.lowest}` and `{names.highest}`"


if __name__ == "__main__":
    sys.stdout.write(render())
