"""State is frozen once it exists: what a changed pipeline may continue, what starts from scratch beside it, what is refused.

`decide` compares a pipeline with the one that made its checkpoints; `keep` writes down what the next one is compared with.
"""

from catchment.pipelines.planning.comparing import Decision, Plan, compare
from catchment.pipelines.planning.deciding import Refused, decide, examine, keep, kept_versions, kept_with_checkpoints
from catchment.pipelines.planning.signature import Current, Kept, Operator, Part, Signature
from catchment.pipelines.planning.signing import signatures

__all__ = [
    "Current",
    "Decision",
    "Kept",
    "Operator",
    "Part",
    "Plan",
    "Refused",
    "Signature",
    "compare",
    "decide",
    "examine",
    "keep",
    "kept_versions",
    "kept_with_checkpoints",
    "signatures",
]
