"""The reference page of all settings, rendered from their definitions.

`python -m catchment.settings.reference > docs/reference/settings.md` writes it; a test fails where the page differs.
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

From weakest to strongest:

1. the default;
2. the file given with `catchment broker --config FILE`, in the format of Kafka's `server.properties`;
3. `--set name=value` on the command line;
4. what was set at run time for all brokers (`kafka-configs --entity-type brokers --entity-default --alter`);
5. what was set at run time for this broker (`--entity-name 1`);
6. for topic settings, what the topic itself sets.

Broker settings marked **cluster-wide** may change while the broker runs and take effect at once. The others are read at the
start; a change at run time is refused.

Of settings with several units (`log.retention.ms`, `.minutes`, `.hours`) the finest that is given wins.

## Names that Catchment does not have

A `server.properties` written for Kafka starts a Catchment broker as it is:

- A setting of Kafka that Catchment does not act on, such as `num.io.threads`, is ignored with one line in the log.
- A name that neither has is ignored with a warning, and the nearest name that exists is suggested.
- After `--set`, such a name is an error: what is typed by hand and means nothing is a mistake.
- Listeners that `controller.listener.names` names are left out, because there is no controller quorum to serve.
- `process.roles=controller` alone is refused: Catchment has no process of that kind.

## What each choice of durability risks

| `acks` | `catchment.sync.acks` | a record is acknowledged when | it may be lost by |
|---|---|---|---|
| all | true (default) | all replicas in sync have it; a lone replica has forced it to the device | the loss of every replica's device |
| all | false | all replicas in sync have it in memory | loss of power at all of them at once |
| 1 | either | the leader has it in memory | loss of power at the leader, or its failure before a follower has copied the record |
| 0 | either | never: the producer does not wait | anything |

`flush.messages` and `flush.ms` force the log to the device by count and by age besides, with Kafka's meaning.
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
            "Of single groups, whether they exist yet or not: `kafka-configs --group NAME --alter --add-config …`.\n",
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
