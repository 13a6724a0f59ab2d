"""The entry points that engines load by themselves: `sglang.srt.plugins` and `vllm.general_plugins`.

Loaded in every process of an engine, whether or not a record is asked for: this module imports nothing more.
"""

from envsnap.integrations import asked_for


def sglang() -> None:
    """SGLang 0.5.12 and later call this in the launcher and first thing in each scheduler."""
    if asked_for():
        from envsnap.integrations import recorder, sglang

        if recorder.start(always=True):
            sglang.hook()


def vllm() -> None:
    """VLLM calls this in the API server, the engine core and each worker. It has no hook: a settle time must do."""
    if asked_for():
        from envsnap.integrations import recorder

        recorder.start(always=True)
