"""Pipelines on Spark: from topics through stages into stores, a lake and alerts. The guide is docs/guide/pipelines.md."""

from catchment.pipelines.python_form import Pipeline, check, env, lake, mail, store, topic, webhook

__all__ = ["Pipeline", "check", "env", "lake", "mail", "store", "topic", "webhook"]
