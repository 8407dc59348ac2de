"""`catchment cluster info` shows what a cluster says about itself."""

import json

from tests.cli.conftest import Run


def test_the_cluster_its_brokers_and_its_features_are_shown(run: Run, topic: str, bootstrap_servers: str) -> None:
    # A group makes the broker keep a topic of its own.
    run("consume", topic, "--group", "some", "--idle-timeout", 0.1)

    info = json.loads(run("cluster", "info", "--json").stdout)

    host, _, port = bootstrap_servers.rpartition(":")
    assert len(info["cluster_id"]) == 22
    assert info["brokers"] == [{"id": 1, "host": host, "port": int(port), "rack": None}]
    assert info["controller"] == 1
    assert (info["topics"], info["partitions"]) == (1, 3)
    assert info["internal_topics"] == 1
    levels = {one["feature"]: one["level"] for one in info["features"]}
    assert levels["transaction.version"] == 2
    assert all(one["supported_min"] <= one["level"] <= one["supported_max"] for one in info["features"])


def test_the_table_has_the_same_values(run: Run) -> None:
    lines = run("cluster", "info").stdout.splitlines()

    assert lines[0].startswith("cluster ")
    assert lines[3] == "broker\thost\tport\track\trole"
    assert lines[4].endswith("\tcontroller")
    assert any(line.startswith("metadata.version\t") for line in lines)


def test_a_cluster_that_does_not_exist_is_named(run: Run) -> None:
    result = run("cluster", "info", "-b", "127.0.0.1:1")

    assert result.exit_code == 1
    assert "cannot reach 127.0.0.1:1" in result.stderr
