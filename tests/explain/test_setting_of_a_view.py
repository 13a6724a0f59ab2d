"""What a side's own figures say of the setting that it was measured in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envsnap.explain import Side
from envsnap.explain.story import Facts, View
from envsnap.explain.symptom import Symptom
from tests.explain.pairs import run, snapshot


@pytest.mark.parametrize(
    ("request_", "batch", "wanted"),
    [({"max_concurrency": 8}, 1.0, 8), ({}, 1.0, 1), ({}, 1.4, None), ({}, None, None), ({}, 0.0, None)],
)
def test_how_many_requests_were_under_way(request_: dict[str, Any], batch: float | None, wanted: int | None) -> None:
    values = {"worker[scheduler].env[PATH]": "/bin"}
    if batch is not None:
        values["during.server.decode_batch_mean_count"] = batch  # type: ignore[assignment]
    side = Facts(Side(snapshot(values), (replace(run(values), request=request_),)))
    assert View(side, side, [], Symptom()).setting.concurrency == wanted
