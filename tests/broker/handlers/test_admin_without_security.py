"""The security APIs report that security is disabled, at every version; `tests/compat` compares each response with Kafka's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32
from tests.broker.handlers.wire import Wire
from tests.compat import admin_requests
from tests.compat.admin_requests import Case


def codes(answer: object) -> Counter[ErrorCode]:
    """Every error code in an answer, however deep."""
    if isinstance(answer, ErrorCode):
        return Counter([answer])
    if isinstance(answer, tuple):
        return sum(map(codes, answer), Counter[ErrorCode]())
    fields = getattr(answer, "__dataclass_fields__", ())
    return sum((codes(getattr(answer, name)) for name in fields), Counter[ErrorCode]())


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        (admin_requests.acls, {ErrorCode.security_disabled}),
        (admin_requests.authentication, {ErrorCode.illegal_sasl_state}),
    ],
)
def test_security_apis_report_that_security_is_disabled(
    wire: Wire, cases: Callable[[], Iterator[Case]], expected: set[ErrorCode]
) -> None:
    assert set(sum((codes(wire.ask(*case)) for case in cases()), Counter[ErrorCode]())) == expected


def test_delegation_tokens_are_not_allowed_on_a_plaintext_listener(wire: Wire) -> None:
    for request, version in admin_requests.delegation_tokens():
        if not type(request).__name__.startswith("Describe"):
            # kio cannot read the time -1 in these responses.
            continue
        answer = wire.ask(request, version)
        assert answer.error_code is ErrorCode.delegation_token_request_not_allowed
        assert answer.tokens == ()


def test_no_user_has_a_scram_password_and_none_can_be_given(wire: Wire) -> None:
    all_users, no_users, two, twice, _ = [
        wire.ask(*case) for case in admin_requests.scram_credentials() if hasattr(case.request, "users")
    ]
    assert all_users.results == no_users.results == ()
    assert [result.error_code for result in two.results] == [ErrorCode.resource_not_found] * 2
    assert {result.user: result.error_code for result in twice.results} == {
        "a": ErrorCode.duplicate_resource,
        "b": ErrorCode.resource_not_found,
    }
    request = AlterUserScramCredentialsRequest(
        deletions=(ScramCredentialDeletion(name="a", mechanism=i8(1)),),
        upsertions=(
            ScramCredentialUpsertion(
                name="b", mechanism=i8(1), iterations=i32(4096), salt=b"salt", salted_password=b"x"
            ),
        ),
    )
    removed, given = wire.ask(request, 0).results
    assert (removed.user, removed.error_code) == ("a", ErrorCode.resource_not_found)
    assert (given.user, given.error_code) == ("b", ErrorCode.security_disabled)
    assert "SASL" in given.error_message
