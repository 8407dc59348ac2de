"""Pipelines on Spark: from topics through stages into stores, a lake and alerts. The guide is docs/guide/pipelines.md.

The public names are loaded when they are first used: `catchment pipeline status` and `catchment quarantine list` import modules
of this package, and need neither Spark nor what checks a pipeline's file.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catchment.pipelines.declaration.parts import (
        AlertTarget,
        Check,
        FunctionStage,
        InputTopic,
        Lake,
        Mail,
        OutputTopic,
        Source,
        Stage,
        StageTopic,
        Store,
        Table,
        Webhook,
        check,
        env,
        lake,
        mail,
        store,
        topic,
        webhook,
    )
    from catchment.pipelines.declaration.pipeline import Pipeline
    from catchment.pipelines.errors import Mistake, Mistakes

__all__ = [
    "AlertTarget",
    "Check",
    "FunctionStage",
    "InputTopic",
    "Lake",
    "Mail",
    "Mistake",
    "Mistakes",
    "OutputTopic",
    "Pipeline",
    "Source",
    "Stage",
    "StageTopic",
    "Store",
    "Table",
    "Webhook",
    "check",
    "env",
    "lake",
    "mail",
    "store",
    "topic",
    "webhook",
]

if not TYPE_CHECKING:
    _MODULES = {
        "Pipeline": "declaration.pipeline",
        "Mistake": "errors",
        "Mistakes": "errors",
    }

    def __getattr__(name: str) -> object:
        if name in __all__:
            return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'declaration.parts')}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
