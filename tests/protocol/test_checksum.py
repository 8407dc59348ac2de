"""CRC-32C has the published check value, and the same value as in the package."""

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from catchment.protocol.checksum import crc32c


def test_the_check_value_of_the_catalogue() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=1000))
def test_any_buffer_has_the_same_value_as_in_the_package(data: bytes) -> None:
    assert crc32c(memoryview(bytearray(data))) == package.crc32c(data)
