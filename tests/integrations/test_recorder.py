from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.recording import QUICK, ROOT, environment, records, run, wait_for

WORKERS = """
import ctypes, multiprocessing, os, sys, time

def work():
    os.environ["SET_IN_WORKER"] = "1"
    ctypes.CDLL(None).setenv(b"NCCL_PROTO", b"Simple", 1)
    os.environ["HF_TOKEN"] = "hf_abcdefghijklmnopqrstuvwxyz012345"
    time.sleep(0.6)

if __name__ == "__main__":
    for method in sys.argv[1:]:
        process = multiprocessing.get_context(method).Process(target=work)
        process.start()
        process.join()
        print(method, process.exitcode)
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "workers.py").write_text(WORKERS)
    return str(tmp_path / "app" / "workers.py")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "records"


def by_parent(found: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The launcher's record and the others."""
    pids = {r["process"]["pid"] for r in found}
    launcher = [r for r in found if r["process"]["ppid"] not in pids]
    assert len(launcher) == 1
    return launcher[0], [r for r in found if r is not launcher[0]]


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_each_worker_records_itself_however_it_was_started(app: str, directory: Path, method: str) -> None:
    done = run(app, environment(ENVSNAP_RECORD=str(directory), FROM_SHELL="1", **QUICK), method)
    assert (done.stdout, done.stderr) == (f"{method} 0\n", "")
    found = records(directory)
    worker = [r for r in found if "SET_IN_WORKER" in r["environment"]["values"]]
    assert len(worker) == 1
    assert len(found) == 2  # the launcher and the worker; no helper of multiprocessing's
    record = worker[0]
    assert record["format"] == "envsnap.worker_record"
    assert record["version"] == 1
    assert record["failed"] == {}
    assert (record["moment"], record["ready_by"]) == ("exit", "settle")
    assert record["environment"]["values"]["FROM_SHELL"] == "1"
    assert record["environment"]["differs"] == {"NCCL_PROTO": {"libc": "Simple"}}
    assert record["python"]["start_method"] == method
    assert record["affinity"] == sorted(os.sched_getaffinity(0))
    assert app in record["code"]["files"]
    assert record["cpu_seconds"] > 0


def test_no_secret_is_in_a_record_and_its_hash_is_the_same_in_all(app: str, directory: Path) -> None:
    typed = "--api-key=sk-abcdefghijklmnop42"
    done = run(app, environment(ENVSNAP_RECORD=str(directory), **QUICK), "spawn", "spawn", typed)
    assert typed in done.stderr  # the launcher does not know it, and says so
    found = [r["environment"]["values"].get("HF_TOKEN") for r in records(directory)]
    hashes = [value for value in found if value]
    assert len(hashes) == 2
    assert len(set(hashes)) == 1
    assert hashes[0].startswith("<redacted ")
    assert all("abcdefghijklmnop" not in file.read_text() for file in directory.iterdir())


def test_records_are_for_the_owner_alone(app: str, directory: Path) -> None:
    run(app, environment(ENVSNAP_RECORD=str(directory), **QUICK), "spawn")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}


def test_the_file_is_named_after_title_and_process_and_renamed_with_them(directory: Path) -> None:
    pytest.importorskip("setproctitle")
    code = (
        "import setproctitle, time; time.sleep(0.5); setproctitle.setproctitle('sglang::scheduler_TP1'); time.sleep(.5)"
    )
    run(code, environment(ENVSNAP_RECORD=str(directory), **QUICK))
    files = [file for file in directory.iterdir() if file.suffix == ".json"]
    record = json.loads(files[0].read_text())
    process = record["process"]
    assert [file.name for file in files] == [f"scheduler_TP1-{process['pid']}-{process['start_ticks']}.json"]
    assert process["title"] == "sglang::scheduler_TP1"


def test_a_process_that_ends_soon_leaves_no_record_unless_it_is_a_worker(app: str, directory: Path) -> None:
    env = environment(ENVSNAP_RECORD=str(directory), ENVSNAP_RECORD_SETTLE_SECONDS="60")
    run("pass", env)
    assert not directory.exists()
    run(app, env, "spawn")
    assert [(r["moment"], r["ready_at"]) for r in records(directory)] == [("exit", None)]


def test_envsnap_itself_is_not_recorded(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("envsnap", "other"):
        (tmp_path / "bin" / name).write_text("import threading; print(threading.active_count())")
        env = environment(ENVSNAP_RECORD=str(directory))
        done = subprocess.run(
            [sys.executable, tmp_path / "bin" / name], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout == ("1\n" if name == "envsnap" else "2\n")


def test_a_refresh_without_news_renews_the_time_and_one_with_news_the_content(directory: Path) -> None:
    code = "import os, sys, time\nfor line in sys.stdin:\n    os.environ['NEWS'] = line.strip()\n    print(flush=True)"
    env = environment(ENVSNAP_RECORD=str(directory), **QUICK)
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    try:
        file = wait_for(lambda: next(directory.glob("*.json"), None) if directory.exists() else None)
        # The first record loads what it is made with, which is news to the second.
        wait_for(lambda: json.loads(file.read_text())["moment"] == "serving")
        inode, before = file.stat().st_ino, file.stat().st_mtime_ns
        wait_for(lambda: file.stat().st_mtime_ns > before)
        assert file.stat().st_ino == inode
        process.stdin.write(b"here\n")
        process.stdin.flush()
        process.stdout.readline()
        wait_for(lambda: json.loads(file.read_text())["environment"]["values"].get("NEWS") == "here")
        assert json.loads(file.read_text())["moment"] == "serving"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert json.loads(file.read_text())["moment"] == "serving"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_a_plain_fork_has_no_record_and_no_thread(directory: Path) -> None:
    code = """
import os, threading, time
time.sleep(0.4)
pid = os.fork()
if pid == 0:
    time.sleep(0.5)
    os._exit(10 + threading.active_count())
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = run(code, environment(ENVSNAP_RECORD=str(directory), **QUICK))
    assert done.stdout == "11\n"
    assert len(records(directory)) == 1


def test_forking_while_the_record_is_written_never_hangs(directory: Path) -> None:
    code = """
import os
for number in range(150):
    os.environ["TURN"] = str(number)
    pid = os.fork()
    if pid == 0:
        import json, hashlib, multiprocessing.util  # what the thread may have been importing
        os._exit(0)
    os.waitpid(pid, 0)
print("done")
"""
    fast = {"ENVSNAP_RECORD_SETTLE_SECONDS": "0.05", "ENVSNAP_RECORD_INTERVAL_SECONDS": "0.05"}
    done = run(code, environment(ENVSNAP_RECORD=str(directory), PYTHONWARNINGS="ignore", **fast), timeout=240)
    assert (done.stdout, done.returncode) == ("done\n", 0)


def test_where_nothing_may_be_written_the_process_does_not_notice(app: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for place in ("file", "open", "file/below"):
        done = run(app, environment(ENVSNAP_RECORD=str(tmp_path / place), **QUICK), "spawn", "fork")
        assert (done.stdout, done.stderr, done.returncode) == ("spawn 0\nfork 0\n", "", 0)
    assert list((tmp_path / "open").iterdir()) == []


@pytest.mark.parametrize("value", ["nonsense", "", "-5"])
def test_nonsense_in_the_settings_falls_back(directory: Path, value: str) -> None:
    env = environment(ENVSNAP_RECORD=str(directory), ENVSNAP_RECORD_SETTLE_SECONDS=value, ENVSNAP_RECORD_CODE=":::")
    done = run("print('fine')", env)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_a_part_that_fails_costs_itself_and_is_named(directory: Path) -> None:
    code = """
import sys, time, types
class Broken(types.ModuleType):
    def __getattr__(self, name):
        raise RuntimeError("no torch for you")
sys.modules["torch"] = Broken("torch")
time.sleep(0.5)
"""
    done = run(code, environment(ENVSNAP_RECORD=str(directory), **QUICK))
    assert done.stderr == ""
    record = records(directory)[0]
    assert record["failed"] == {"torch": "RuntimeError: no torch for you"}
    assert "torch" not in record
    assert record["environment"]["values"]["ENVSNAP_RECORD"] == str(directory)


def test_without_the_rules_of_redaction_values_are_withheld(app: str, directory: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(ROOT / "envsnap", alone / "envsnap")
    (alone / "envsnap" / "redact.py").write_text("raise ImportError('too old')")
    env = environment(ENVSNAP_RECORD=str(directory), SECRET="s3cr3t", **QUICK) | {"PYTHONPATH": str(alone)}
    done = run("import time; from envsnap.integrations import recorder; recorder.start(True); time.sleep(0.6)", env)
    assert done.stderr == ""
    record = records(directory)[0]
    assert set(record["environment"]["values"].values()) == {"<withheld>"}
    assert record["python"]["version"].startswith("3.")
    assert "s3cr3t" not in json.dumps(record)


def test_the_interpreters_own_settings(directory: Path) -> None:
    code = "import gc, time; gc.disable(); gc.set_threshold(12345, 6, 7); gc.freeze(); time.sleep(0.5)"
    run(code, environment(ENVSNAP_RECORD=str(directory), PYTHONOPTIMIZE="1", **QUICK))
    python = records(directory)[0]["python"]
    assert python["gc_enabled"] is False
    assert python["gc_thresholds"][0] == 12345
    assert python["gc_frozen"] > 0
    assert python["flags"]["optimize"] == 1
    assert python["start_method"] is None
