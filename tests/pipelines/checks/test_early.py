"""What would fail once a pipeline runs is reported before Spark starts, with all else that is wrong and with its line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import ArrowInvalid, fs
from tests.pipelines.emergency import PYTHON, YAML, write_emergency

from catchment.client.errors import SettingsError
from catchment.pipelines.declaration.addresses import check_lake_address
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.errors import Mistakes

_STORE = "sqlite:///city.db"


def _mistakes(file: Path, *, is_to_run: bool = False) -> list[str]:
    with pytest.raises(Mistakes) as raised:
        load(file, is_to_run=is_to_run)
    return [str(one).replace(str(file), file.name) for one in raised.value.found]


def _changed(folder: Path, *changes: tuple[str, str], is_to_run: bool = False) -> list[str]:
    text = YAML
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    return _mistakes(write_emergency(folder, text=text), is_to_run=is_to_run)


def test_mistakes_of_every_kind_are_reported_in_one_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    found = _changed(
        tmp_path,
        ("parallelism: 4", "parallelism: 0"),
        ("schema: crews.ddl", "schema: crew.ddl"),
        ("from: reports", "from: reprts"),
        ("mode: update", "mood: update"),
        (_STORE, "mysql://host/city"),
        ("lake: lake/reports", "lake: foo://lake"),
        is_to_run=True,
    )
    assert [one.split(": ")[0] for one in found] == [f"city.yaml:{line}" for line in (3, 7, 10, 17, 24, 25, 32)]
    assert "crew.ddl cannot be read: No such file" in found[1]
    assert found[2].endswith("nothing is named reprts; there is board, crews, reports")
    assert "no store is known by an address that starts with 'mysql'" in found[4]
    assert "no lake is known by an address that starts with 'foo'" in found[5]
    assert found[6].endswith("the environment variable HOOK is not set")


def test_an_unknown_name_is_reported_though_its_own_declaration_is_wrong(tmp_path: Path) -> None:
    found = _changed(
        tmp_path,
        ("    from: reports\n", "    from: reprts\n    dedup: id\n"),
        ("from: clean, lake: lake/reports", "from: claen, every: 5, lake: lake/reports"),
    )
    assert [one.split(": ", 1)[0] for one in found] == [f"city.yaml:{line}" for line in (10, 11, 26, 26)]
    assert "nothing is named reprts" in found[0]
    assert any("nothing is named claen" in one for one in found[2:])


def test_what_is_right_in_a_sink_is_reported_with_its_own_line_though_one_before_it_is_wrong(tmp_path: Path) -> None:
    found = _changed(tmp_path, ("table: board,", "tabel: board,"), ("lake: lake/reports", "lake: foo://lake"))
    assert [one.split(": ")[0] for one in found] == ["city.yaml:24", "city.yaml:24", "city.yaml:25"]


@pytest.mark.parametrize(
    "section",
    [
        "sources: [{topic: a}]",
        "stages: nothing",
        "stages: [{sql: SELECT 1 FROM a}]",
        "sinks: {from: clean}",
        "alerts: 1",
    ],
)
def test_a_section_of_the_wrong_shape_is_a_mistake_and_no_failure(tmp_path: Path, section: str) -> None:
    file = write_emergency(tmp_path, text=f"pipeline: city\n{section}\n")
    assert any(one.startswith("city.yaml:2: ") for one in _mistakes(file))


def test_names_are_not_called_unknown_where_their_section_has_the_wrong_shape(tmp_path: Path) -> None:
    text = "pipeline: city\nsources: [reports]\nsinks: [{from: reports, lake: lake/reports}]\n"
    assert [one.split(": ")[0] for one in _mistakes(write_emergency(tmp_path, text=text))] == ["city.yaml:2"]


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (("schema: reports.ddl", "schema: id strin"), 5, "'strin' is not a type that is known here"),
        (("event_time: at", "event_time: ta"), 5, "no column ta; it has id, district, kind, at"),
        (("event_time: at", "event_time: kind"), 5, "kind is a string. Declare it as timestamp"),
        (
            ("key: district}\nstages", "key: distric}\nstages"),
            7,
            "no column distric; did you mean district? It has district, crew",
        ),
        (("dedupe: id", "dedupe: [id, day]"), 11, "no column day; it has"),
        (("reports.clean, key: district", "reports.clean, key: street"), 15, "no column street"),
        (('{webhook: "${HOOK}"}', "{webhook: ftp://host/}"), 32, "Write it as https://host/path"),
        (('{webhook: "${HOOK}"}', '{webhook: "http://[::1/x"}'), 32, "Write it as https://host/path"),
        (('{webhook: "${HOOK}"}', "{webhook: http://host:abc/x}"), 32, "Write it as https://host/path"),
        (('{webhook: "${HOOK}"}', "{mail: duty@example.org}"), 32, "Set smtp"),
        (("version: 1", "version: 1\nsmtp: host"), 3, "smtp: the SMTP server is no address"),
        (("version: 1", "version: 1\nsmtp: smtp://host:abc"), 3, "smtp: the SMTP server is no address"),
    ],
)
def test_what_a_run_would_stumble_over_is_reported_with_its_line(
    tmp_path: Path, change: tuple[str, str], line: int, said: str
) -> None:
    [found] = _changed(tmp_path, change)
    assert found.startswith(f"city.yaml:{line}: ")
    assert said in found


def test_in_python_the_line_is_that_of_the_call(tmp_path: Path) -> None:
    text = PYTHON.replace("sqlite:///city.db", "mysql://u:secret@host/city").replace("lake/reports", "foo://x")
    text = text.replace('webhook(env("HOOK"))', 'mail("duty@example.org")').replace("webhook\n", "webhook, mail\n", 1)
    found = _mistakes(write_emergency(tmp_path, suffix=".py", text=text.replace('event_time="at"', 'event_time="ta"')))
    assert [one.split(": ")[0] for one in found] == [f"city.py:{line}" for line in (5, 21, 22, 24)]
    assert "secret" not in "".join(found)


def test_an_address_is_judged_with_its_variables_put_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_emergency(tmp_path, text=YAML.replace(_STORE, "${CITY_STORE}"))
    monkeypatch.delenv("CITY_STORE", raising=False)
    load(file)
    monkeypatch.setenv("CITY_STORE", "mysql://host")
    assert "starts with 'mysql'" in _mistakes(file)[0]


def test_a_schema_of_another_format_is_left_to_the_run(tmp_path: Path) -> None:
    (tmp_path / "reports.avsc").write_text('{"type": "record", "name": "r", "fields": []}')
    load(
        write_emergency(
            tmp_path, text=YAML.replace("format: json, schema: reports.ddl", "format: avro, schema: reports.avsc")
        )
    )
    assert (
        "reports.proto cannot be read"
        in _changed(tmp_path, ("format: json, schema: reports.ddl", "format: protobuf, schema: reports.proto"))[0]
    )


@pytest.mark.parametrize("scheme", ["foo", "http", "az"])
def test_a_lake_that_is_refused_is_one_that_arrow_does_not_reach(scheme: str) -> None:
    with pytest.raises(SettingsError):
        check_lake_address(f"{scheme}://bucket/lake")
    with pytest.raises(ArrowInvalid, match="Unrecognized filesystem"):
        fs.FileSystem.from_uri(f"{scheme}://bucket/lake")


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (
            ("kind IN (", "kid IN ("),
            13,
            "source reports has no column kid; did you mean kind? It has id, district, kind, at",
        ),
        (("expect: district IS NOT NULL", "expect: 1 + 1"), 14, "1 + 1: this is a value, not a condition"),
        (
            ("partition_by: date(at)", "partition_by: date(att)"),
            25,
            "date(att): stage clean has no column att; did you mean at?",
        ),
        (
            ("partition_by: date(at)", "partition_by: distict"),
            25,
            "stage clean has no column distict; did you mean district?",
        ),
        (
            ("from: board\n    when: count > 40 AND crew < 3", "from: clean\n    when: kinds = 'fire'"),
            29,
            "no column kinds; did",
        ),
        (
            (
                "from: board\n    when: count > 40 AND crew < 3\n    key: district",
                "from: clean\n    when: kind IS NULL\n    key: [at, dist]",
            ),
            30,
            "no column dist",
        ),
        (
            ("from: board, store", "from: clean, key: it, store"),
            24,
            "stage clean has no column it; it has id, district, kind, at",
        ),
        (("version: 1", "version: 1\nretention: 0 days"), 3, "retention: 0 ms would keep nothing"),
    ],
)
def test_columns_of_a_given_schema_are_known_without_spark(
    tmp_path: Path, change: tuple[str, str], line: int, said: str
) -> None:
    [found] = _changed(tmp_path, change)
    assert found.startswith(f"city.yaml:{line}: ")
    assert said in found


@pytest.mark.parametrize(
    "condition",
    [
        "exists(split(kind, ','), part -> part = 'fire')",
        "at > current_date - INTERVAL 1 DAY",
        "timestampdiff(HOUR, at, current_timestamp()) < 3",
        "extract(DAY FROM at) > 3",
        "current_user = kind",
        "KIND = 'fire' AND NOT `district` LIKE 'x%'",
        "kind RLIKE 'f.*' OR id BETWEEN 'a' AND 'b'",
        "CASE WHEN kind = 'x' THEN true END",
        "from_json(kind, 'deep int').deep > 3",
    ],
)
def test_what_only_spark_can_judge_is_left_to_it(tmp_path: Path, condition: str) -> None:
    text = YAML.replace("expect: district IS NOT NULL", f'expect: "{condition}"')
    assert load(write_emergency(tmp_path, text=text)).specification.stages["clean"].checks[1].expect == condition


def test_neither_java_nor_arrow_is_loaded_to_check_a_file(tmp_path: Path) -> None:
    file = write_emergency(tmp_path)
    program = (
        "import sys; from pathlib import Path; from catchment.pipelines.declaration.loading import load\n"
        f"load(Path({str(file)!r}))\n"
        "from pyspark import SparkContext\n"
        "print('pyarrow' in sys.modules, SparkContext._gateway)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "None"]
