"""Pipelines on Spark: from topics through stages into stores, a lake and alerts. The guide is docs/guide/pipelines.md.

The public names are loaded when they are first used: `catchment pipeline status` and `catchment quarantine list` import modules
of this package, and need neither Spark nor what checks a pipeline's file.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catchment.pipelines.python_form import Pipeline, check, env, lake, mail, store, topic, webhook

__all__ = ["Pipeline", "check", "env", "lake", "mail", "store", "topic", "webhook"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in __all__:
            return getattr(import_module("catchment.pipelines.python_form"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
