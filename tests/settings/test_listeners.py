"""Listeners: which are bound, advertised and rejected."""

import pytest

from catchment.settings.broker import BrokerSettings
from catchment.settings.listeners import Listener, SecurityProtocol, parse_metrics_address
from catchment.settings.setting import InvalidSetting

PLAIN = SecurityProtocol.PLAINTEXT


def test_the_default_listener_is_for_this_machine_only() -> None:
    settings = BrokerSettings()
    assert settings.listeners == (Listener("PLAINTEXT", PLAIN, "127.0.0.1", 9092),)
    assert settings.advertised_listeners == settings.listeners
    assert settings.inter_broker_listener_name == "PLAINTEXT"


def test_listeners_may_have_names_of_their_own() -> None:
    settings = BrokerSettings(
        {
            "listeners": "inside://:9092, OUTSIDE://[::1]:9093",
            "advertised.listeners": "INSIDE://broker-1:9092,OUTSIDE://example.org:29093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,outside:plaintext",
            "inter.broker.listener.name": "outside",
        }
    )
    assert settings.listeners == (Listener("INSIDE", PLAIN, "", 9092), Listener("OUTSIDE", PLAIN, "::1", 9093))
    assert [str(listener) for listener in settings.listeners] == ["INSIDE://:9092", "OUTSIDE://[::1]:9093"]
    assert settings.advertised_listeners[1] == Listener("OUTSIDE", PLAIN, "example.org", 29093)
    assert settings.inter_broker_listener_name == "OUTSIDE"


def test_a_kafka_file_with_a_controller_listener_starts() -> None:
    settings = BrokerSettings(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        }
    )
    assert [listener.name for listener in settings.listeners] == ["PLAINTEXT"]
    assert [listener.name for listener in settings.advertised_listeners] == ["PLAINTEXT"]


def test_port_zero_may_repeat_and_two_address_families_may_share_a_port() -> None:
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    assert len(BrokerSettings({"listeners": "A://127.0.0.1:0,B://127.0.0.1:0", **protocols}).listeners) == 2
    assert len(BrokerSettings({"listeners": "A://127.0.0.1:9092,B://[::1]:9092", **protocols}).listeners) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"listeners": "PLAINTEXT//nowhere"}, "name://host:port"),
        ({"listeners": "PLAINTEXT://h:65536"}, "name://host:port"),
        ({"listeners": ""}, "at least one listener"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "different name"),
        (
            {"listeners": "A://h:1,B://h:1", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
            "different port",
        ),
        ({"listeners": "INSIDE://:1"}, "add INSIDE:PLAINTEXT"),
        ({"listeners": "SSL://:1"}, "SSL is not served yet"),
        ({"listeners": "SASL_PLAINTEXT://:1"}, "SASL_PLAINTEXT is not served yet"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, r"set advertised\.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "Clients cannot connect to 0.0.0.0"),
        (
            {"advertised.listeners": "X://h:1", "listener.security.protocol.map": "X:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
            "X is not among listeners",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "listener:protocol"),
        ({"listener.security.protocol.map": "PLAINTEXT:TELNET"}, "'TELNET' is not a security protocol"),
        ({"listener.security.protocol.map": "A:SSL,a:SSL"}, "more than once"),
        ({"inter.broker.listener.name": "OTHER"}, "one of the advertised listeners: PLAINTEXT"),
    ],
)
def test_listeners_that_cannot_work_are_rejected_with_a_remedy(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        BrokerSettings(given)


def test_one_listener_too_many_is_rejected() -> None:
    names = [f"L{number}" for number in range(65)]
    protocols = ",".join(f"{name}:PLAINTEXT" for name in names)

    def settings(count: int) -> BrokerSettings:
        listeners = ",".join(f"{name}://127.0.0.1:0" for name in names[:count])
        return BrokerSettings({"listeners": listeners, "listener.security.protocol.map": protocols})

    assert len(settings(64).listeners) == 64
    with pytest.raises(InvalidSetting, match="At most 64"):
        settings(65)


@pytest.mark.parametrize("address", ["", "9308", ":9308", "host:", "host:port", "host:65536"])
def test_an_invalid_metrics_address_is_rejected(address: str) -> None:
    with pytest.raises(InvalidSetting, match="Write host:port"):
        parse_metrics_address(address)


def test_metrics_addresses_are_parsed() -> None:
    assert parse_metrics_address("127.0.0.1:9308") == ("127.0.0.1", 9308)
    assert parse_metrics_address("[::1]:0") == ("::1", 0)
