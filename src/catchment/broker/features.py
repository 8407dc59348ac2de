"""The features of Kafka that this broker has (KIP-584): what ApiVersions reports and UpdateFeatures checks against."""

from typing import Final, NamedTuple


class Feature(NamedTuple):
    lowest: int
    highest: int
    """The highest level that there is, and the one at which the cluster runs."""


FEATURES: Final[dict[str, Feature]] = {
    "group.version": Feature(0, 1),
    # 4.3-IV0 in Kafka's names. Eligible leader replicas and streams groups are features of their own, and not here.
    "metadata.version": Feature(7, 30),
    "share.version": Feature(0, 1),
    "transaction.version": Feature(0, 2),
}
