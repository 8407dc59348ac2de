"""The topics of a pipeline are made before its queries start, and brokers that are away by then are waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pipelines.city import City

from catchment.client.errors import Unreachable
from catchment.pipelines import Stage, topic, webhook
from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.pipelines.driving.failures import FailureKind, classify
from catchment.pipelines.execution import topics
from catchment.pipelines.execution.alerting import alert_rule
from catchment.pipelines.execution.rows.boundaries import sink_options
from catchment.ports.network import free_port


def test_every_topic_that_is_made_has_room_for_a_record_that_has_grown(city: City) -> None:
    made = topics.wanted_topics(city.context(city.pipeline()).graph, 1)
    assert f"{city.name}.clean" in made
    assert {(one.config or {}).get("max.message.bytes") for one in made.values()} == {str(LARGEST_RECORD_BYTES)}


def test_topics_that_stages_read_take_times_ahead_of_the_clock(city: City) -> None:
    context = city.context(city.pipeline())
    made = topics.wanted_topics(context.graph, 1)
    bounds = {
        name.removeprefix(f"{city.name}."): (one.config or {}).get("message.timestamp.after.max.ms")
        for name, one in made.items()
    }
    assert {bounds[name] for name in ("clean", "quarantine", "late")} == {str(2**63 - 1)}
    assert sink_options(context, "clean")["risingTimestamps"] == "true"
    assert "risingTimestamps" not in sink_options(context, "outlet-board"), "no stage reads what a sink writes"


def test_quarantined_records_are_kept_for_ever_unless_the_file_says_otherwise(city: City) -> None:
    pipeline = city.pipeline()
    pipeline.alert(
        Stage("board"), "burst", when="count > 3", key=["district"], to=[topic("siren"), webhook("http://x/y")]
    )
    own = ("quarantine", "quarantine.replayed", "late", "alerts", "alerts.undelivered")

    def retention() -> dict[str, str | None]:
        made = topics.wanted_topics(city.context(pipeline).graph, 1)
        return {
            name.removeprefix(f"{city.name}."): (one.config or {}).get("retention.ms") for name, one in made.items()
        }

    others = {name: None for name in retention() if name not in own}
    assert {"clean", "siren"} <= set(others)
    assert retention() == others | dict.fromkeys(own, "-1")
    pipeline.declared.tree["retention"] = "30 days"
    assert retention() == others | dict.fromkeys(own, str(30 * 86_400_000))


def test_topics_of_sinks_and_alerts_have_the_partitions_and_keys_that_they_are_declared_with(city: City) -> None:
    pipeline = city.pipeline()
    targets = [
        topic("dispatch", key="district", partitions=5),
        topic("siren"),
        webhook("http://localhost/hook"),
    ]
    pipeline.alert(Stage("board"), "burst", when="count > 3", key=["district", "start"], to=targets)
    pipeline.sink(Stage("clean"), topic("copies", partitions=3))
    pipeline.sink(Stage("board"), topic("boards"))
    pipeline.sink(Stage("clean"), topic("boards", partitions=4))
    context = city.context(pipeline)

    made = topics.wanted_topics(context.graph, 2)

    wanted = {"dispatch": 5, "siren": 2, "copies": 3, "boards": 4, f"{city.name}.clean": 2}
    wanted |= {f"{city.name}.alerts": 2, f"{city.name}.alerts.undelivered": 2}
    assert {name: made[name].num_partitions for name in wanted} == wanted
    rule = alert_rule(context, context.graph.sinks["alert-burst"], "end")
    assert (rule.topics, rule.topic_keys) == (("dispatch", "siren"), {"dispatch": ("district",)})


def test_brokers_that_are_away_when_the_topics_are_made_are_no_mistake_of_the_pipeline(
    city: City, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_TIMEOUT_S", 0.5)
    context = replace(city.context(city.pipeline()), servers=f"127.0.0.1:{free_port()}")

    with pytest.raises(Unreachable, match=r"topic .* cannot be made: .*Timed out") as away:
        topics.make_topics(context, 1)

    assert classify(away.value, is_building=True).kind is FailureKind.BROKERS_AWAY
