"""The plugin in another project, and the examples of its documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "testing.md"

FOREIGN_TESTS = """
import pytest

names = []

@pytest.mark.parametrize("number", [1, 2])
def test_topics_are_new_and_named_after_the_test(catchment_broker, catchment_topic, number):
    names.append(catchment_topic)
    assert catchment_topic.startswith("test_topics_are_new_and_named_after_the_test-")
    assert len(set(names)) == len(names)

def test_faults_are_switched_on(catchment_faults):
    catchment_faults.answer("Produce", "NOT_LEADER_OR_FOLLOWER")

def test_faults_end_with_the_test(catchment_faults):
    assert catchment_faults.answers_left("Produce") == 0

def test_topics_have_the_requested_partitions_and_settings(catchment_broker, catchment_topic_factory):
    from confluent_kafka.admin import AdminClient

    topic = catchment_topic_factory(partitions=7, settings={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": catchment_broker.bootstrap_servers})
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 7

def test_settings_come_from_the_fixture(catchment_broker_factory, catchment_settings):
    assert catchment_settings == {"num.partitions": 5}
    assert catchment_broker_factory().is_running
"""
FOREIGN_CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def catchment_settings():
    return {"num.partitions": 5}
"""


def run_pytest(directory: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "-W", "error", *options]
    finished = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def code_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:asyncio\n")
    return tmp_path


def test_the_fixtures_work_in_another_project(project: Path) -> None:
    (project / "conftest.py").write_text(FOREIGN_CONFTEST)
    (project / "test_foreign.py").write_text(FOREIGN_TESTS)
    assert "6 passed" in run_pytest(project)


def test_the_documented_test_file_passes(project: Path) -> None:
    (project / "test_documented.py").write_text(code_blocks()[1])
    assert "2 passed" in run_pytest(project)


def test_the_documented_script_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", code_blocks()[0]]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (finished.stdout.strip(), finished.returncode) == ("b'two coffees'", 0), finished.stderr


def test_every_fixture_is_documented(project: Path) -> None:
    (project / "test_nothing.py").write_text("")
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--fixtures", "-q"], cwd=project, capture_output=True, text=True, check=False
    )
    fixtures = set(re.findall(r"^(catchment_\w+)", listed.stdout, re.MULTILINE))
    assert len(fixtures) >= 5
    assert [name for name in sorted(fixtures) if f"| `{name}` |" not in GUIDE.read_text()] == []


def test_a_run_that_uses_no_fixture_loads_nothing_of_the_broker(project: Path) -> None:
    (project / "test_light.py").write_text(
        "import sys\n\ndef test_light():\n    assert not {'kio.schema', 'uvloop', 'catchment.testing.embedded'} & set(sys.modules)\n"
    )
    assert "1 passed" in run_pytest(project)
