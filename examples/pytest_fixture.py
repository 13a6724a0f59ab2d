"""pytest: benchmarks that refuse to run on a machine that would mislead.

Copy `fit_machine` into a conftest.py. The machine is checked once a session, when the first benchmark asks for it:
against the built-in rules, envsnap.toml where there is one, and the good snapshot that ENVSNAP_BASELINE names.
ENVSNAP_DISABLE=1 leaves the benchmarks alone.

Tested: pytest is run on this file (clean, policy violated, envsnap disabled).
"""

import json
import os
import subprocess
import sys
import time

import pytest


@pytest.fixture(scope="session")
def fit_machine() -> None:
    """Fail the benchmark, with the reasons, where the machine is not fit."""
    if os.environ.get("ENVSNAP_DISABLE") == "1":
        return
    command = [sys.executable, "-m", "envsnap", "check", "--format", "json", "--allow-unknown"]
    if baseline := os.environ.get("ENVSNAP_BASELINE"):
        command += ["--baseline", baseline, "--rules"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(done.stdout)
    if done.returncode == 1:
        reasons = [f"{f['title']}  {f['advice']}".strip() for f in document["findings"] if f["status"] == "fail"]
        pytest.fail("This machine is not fit to be measured:\n" + "\n".join(reasons), pytrace=False)
    if done.returncode != 0:
        pytest.fail(f"Whether this machine is fit is not known: {document.get('error', done.stderr)}", pytrace=False)


def test_a_benchmark(fit_machine: None) -> None:
    """Stands for a benchmark: a million additions take less than ten seconds."""
    start = time.perf_counter()
    assert sum(range(1_000_000)) == 499_999_500_000
    assert time.perf_counter() - start < 10
