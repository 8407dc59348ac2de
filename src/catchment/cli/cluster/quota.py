"""`catchment quota`: list, set and remove what users, clients and addresses may use."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64, i8

from catchment.cli.failure import CommandError
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    DryRun,
    TimeoutSeconds,
    read_client_settings,
)
from catchment.cli.output import print_json, print_note, print_table
from catchment.cli.requests import Requests, open_requests, refused

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_EXACT: Final = i8(0)
_DEFAULT: Final = i8(1)
_KINDS: Final = ("user", "client-id", "ip")
_KEYS: Final = {
    "producer_byte_rate": "produce B/s",
    "consumer_byte_rate": "consume B/s",
    "request_percentage": "request %",
    "controller_mutation_rate": "mutations/s",
    "connection_creation_rate": "connections/s",
}
_NO_VALUE: Final = f64(0.0)

Entity = dict[str, str | None]
"""By entity type, a name; None is the default."""

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="For this user.")]
UserDefault = Annotated[bool, typer.Option("--user-default", help="For users without a quota of their own.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="For clients with this id.")]
ClientIdDefault = Annotated[bool, typer.Option("--client-id-default", help="For client ids without their own.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="For connections from this address.")]
IpDefault = Annotated[bool, typer.Option("--ip-default", help="For addresses without a quota of their own.")]


@app.command("list")
def list_quotas(
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """List quotas: all of them, or those of an entity."""
    entity = _entity(user, user_default, client_id, client_id_default, ip, ip_default)
    settings = read_client_settings(client_config, client_settings)
    with open_requests(bootstrap_servers, settings, timeout_s) as requests:
        found = _describe(requests, entity, strict=False)
    if as_json:
        print_json([{"entity": entity, "quotas": quotas} for entity, quotas in found])
        return
    rows = [
        [*(_shown(entity, kind) for kind in _KINDS), *(_rate(quotas.get(key)) for key in _KEYS)]
        for entity, quotas in found
    ]
    print_table([*_KINDS, *(f"{title}:" for title in _KEYS.values())], rows)


@app.command("set")
def set_quotas(
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    produce_rate: Annotated[float | None, typer.Option(metavar="BYTES", help="Bytes a second to produce.")] = None,
    consume_rate: Annotated[float | None, typer.Option(metavar="BYTES", help="Bytes a second to fetch.")] = None,
    request_percent: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Share of the broker's time; 100 is one core.")
    ] = None,
    controller_mutation_rate: Annotated[
        float | None, typer.Option(metavar="COUNT", help="Partitions a second to create or delete.")
    ] = None,
    connection_rate: Annotated[
        float | None, typer.Option(metavar="COUNT", help="Connections a second; for addresses only.")
    ] = None,
    dry_run: DryRun = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Set quotas of one entity; its other quotas do not change."""
    entity = _required(_entity(user, user_default, client_id, client_id_default, ip, ip_default))
    values = (produce_rate, consume_rate, request_percent, controller_mutation_rate, connection_rate)
    operations = [
        OpData(key=key, value=f64(float(value)), remove=False)
        for key, value in zip(_KEYS, values, strict=True)
        if value is not None
    ]
    if not operations:
        raise typer.BadParameter("nothing to set: give a rate, such as --produce-rate")
    settings = read_client_settings(client_config, client_settings)
    with open_requests(bootstrap_servers, settings, timeout_s) as requests:
        _alter(requests, entity, operations, dry_run=dry_run)
    result = "valid" if dry_run else "set"
    if as_json:
        given = {operation.key: float(operation.value) for operation in operations}
        print_json([{"entity": entity, "quotas": given, "result": result}])
    else:
        print_note(f"{result} for {_named(entity)}")


@app.command("remove")
def remove_quotas(
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    produce_rate: Annotated[bool, typer.Option("--produce-rate", help="Remove the quota to produce.")] = False,
    consume_rate: Annotated[bool, typer.Option("--consume-rate", help="Remove the quota to fetch.")] = False,
    request_percent: Annotated[bool, typer.Option("--request-percent", help="Remove the quota of time.")] = False,
    controller_mutation_rate: Annotated[
        bool, typer.Option("--controller-mutation-rate", help="Remove the quota to create and delete.")
    ] = False,
    connection_rate: Annotated[bool, typer.Option("--connection-rate", help="Remove the quota to connect.")] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of one entity: those that are named, or all that it has."""
    entity = _required(_entity(user, user_default, client_id, client_id_default, ip, ip_default))
    flags = (produce_rate, consume_rate, request_percent, controller_mutation_rate, connection_rate)
    settings = read_client_settings(client_config, client_settings)
    with open_requests(bootstrap_servers, settings, timeout_s) as requests:
        set_keys = [key for _, quotas in _describe(requests, entity, strict=True) for key in quotas]
        named_keys = [key for key, is_named in zip(_KEYS, flags, strict=True) if is_named]
        keys = [key for key in named_keys or set_keys if key in set_keys]
        if not keys:
            raise CommandError(f"{_named(entity)} has no such quota", "`catchment quota list` shows what is set.")
        operations = [OpData(key=key, value=_NO_VALUE, remove=True) for key in keys]
        _alter(requests, entity, operations, dry_run=False)
    if as_json:
        print_json([{"entity": entity, "quotas": keys, "result": "removed"}])
    else:
        print_note(f"removed {', '.join(keys)} of {_named(entity)}")


def _entity(
    user: str | None,
    user_default: bool,
    client_id: str | None,
    client_id_default: bool,
    ip: str | None,
    ip_default: bool,
) -> Entity:
    entity: Entity = {}
    for kind, name, is_default in (
        ("user", user, user_default),
        ("client-id", client_id, client_id_default),
        ("ip", ip, ip_default),
    ):
        if name is not None and is_default:
            raise typer.BadParameter(f"--{kind} and --{kind}-default exclude each other")
        if name is not None or is_default:
            entity[kind] = name
    return entity


def _required(entity: Entity) -> Entity:
    if not entity:
        raise typer.BadParameter("say whose quota: --user, --client-id, both, or --ip, or a default of them")
    return entity


def _describe(requests: Requests, entity: Entity, *, strict: bool) -> list[tuple[Entity, dict[str, float]]]:
    components = tuple(
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in entity.items()
    )
    answer = requests.ask(DescribeClientQuotasRequest(components=components, strict=strict))
    if answer.error_code is not ErrorCode.none:
        raise refused("cannot list quotas", answer.error_code, answer.error_message)
    found = [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: float(value.value) for value in entry.values},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda each: [(kind not in each[0], each[0].get(kind) or "") for kind in _KINDS])


def _alter(requests: Requests, entity: Entity, operations: list[OpData], *, dry_run: bool) -> None:
    parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items())
    entry = EntryData(entity=parts, ops=tuple(operations))
    answer: Any = requests.ask(AlterClientQuotasRequest(entries=(entry,), validate_only=dry_run), to="controller")
    for altered in answer.entries:
        if altered.error_code is not ErrorCode.none:
            raise refused(f"cannot alter the quotas of {_named(entity)}", altered.error_code, altered.error_message)


def _rate(quota: float | None) -> str:
    return "" if quota is None else f"{quota:.15g}"


def _shown(entity: Entity, kind: str) -> str:
    return "" if kind not in entity else entity[kind] or "<default>"


def _named(entity: Entity) -> str:
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity.items())
