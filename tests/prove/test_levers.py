"""Levers: what can be switched, how, and why the rest cannot; and whether a switch took effect."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envsnap.collectors.caches import tuned_hash
from envsnap.explain import Side
from envsnap.explain.candidates import gather
from envsnap.explain.effective import effective
from envsnap.explain.explanation import Suspect
from envsnap.explain.story import Facts
from envsnap.host import LiveHost
from envsnap.prove import trees
from envsnap.prove.effect import without_effect
from envsnap.prove.levers import Sides, levers
from envsnap.prove.set_by_file import fill
from envsnap.prove.switches import Commands, Content, Manual, Setting, Switch, options_of, state, without_option
from envsnap.reading import Json
from tests.collectors.git_repo import Repo, isolate, section, wrapped_git
from tests.explain import pairs


def suspects(fast: Side, slow: Side) -> list[Suspect]:
    changes = effective(Facts(fast), Facts(slow)).changes
    return [Suspect(c.id, c.title, c.changes, 0.1, c.prior, c.mechanism) for c in gather(changes)]


def made(
    tmp_path: Path, fast: Side, slow: Side, wheels: str = "", by_hand: bool = False
) -> tuple[dict[str, Switch], dict[str, Manual]]:
    switches, manual = levers(suspects(fast, slow), Sides(fast, slow, tmp_path, wheels, by_hand))
    return {s.id: s for s in switches}, {m.id: m for m in manual}


def sides(fast: Mapping[str, Json], slow: Mapping[str, Json]) -> tuple[Side, Side]:
    return pairs.side(fast, label="fast", speed=1.0), pairs.side(slow, label="slow", speed=2.0)


def test_a_variable_is_set_as_the_workers_had_it_not_as_the_shell_did(tmp_path: Path) -> None:
    both = {"worker[main].env[PATH]": "/bin"}
    fast = {**both, "env[NCCL_PROTO]": "Simple", "worker[main].env[NCCL_PROTO]": "LL"}
    slow = {**both, "env[NCCL_PROTO]": "Simple2"}
    switches, _ = made(tmp_path, *sides(fast, slow))
    switch = switches["env:NCCL_PROTO"]
    assert (switch.fast.environment, switch.slow.environment) == ({"NCCL_PROTO": "LL"}, {"NCCL_PROTO": None})
    base = Commands(("bench",), ("serve", "--tp", "2"))
    assert state(base, [switch], frozenset({switch.id}), tmp_path).environment == {"NCCL_PROTO": "LL"}
    assert state(base, [switch], frozenset(), tmp_path).environment == {"NCCL_PROTO": None}


def test_a_secret_value_is_left_to_a_person(tmp_path: Path) -> None:
    hashed = [f"<redacted k=00000000 h={digit * 16}>" for digit in "12"]
    values: list[dict[str, Json]] = [{"worker[main].env[SGLANG_API_KEY]": text} for text in hashed]
    switches, manual = made(tmp_path, *sides(*values))
    assert not switches
    assert "secret" in manual["env:SGLANG_API_KEY"].reason


def test_an_option_is_taken_from_the_side_that_typed_it(tmp_path: Path) -> None:
    fast, slow = sides(
        {"server[0].argument[attention_backend]": "fa3", "server[0].argument[disable_overlap_schedule]": False},
        {"server[0].argument[attention_backend]": "triton", "server[0].argument[disable_overlap_schedule]": True},
    )
    fast = replace(fast, runs=(replace(fast.runs[0], server=("serve", "--attention-backend", "fa3", "--port", "1")),))
    command = ("serve", "--attention-backend=triton", "--port", "1", "--disable-overlap-schedule")
    slow = replace(slow, runs=(replace(slow.runs[0], server=command),))
    switches, _ = made(tmp_path, fast, slow)
    every = frozenset(switches)
    base = Commands(("bench",), command)
    reverted = state(base, switches.values(), every, tmp_path).commands.server
    assert reverted == ("serve", "--port", "1", "--attention-backend", "fa3")
    kept = state(base, switches.values(), frozenset(), tmp_path).commands.server
    assert options_of(kept) == options_of(command)


def test_what_the_engine_chose_by_itself_is_spelled_as_usual(tmp_path: Path) -> None:
    fast, slow = ({"server[0].argument[cuda_graph_max_bs]": n, "server[0].argument[tp_size]": 2} for n in (64, 8))
    switches, _ = made(tmp_path, *sides(fast, slow))
    (switch,) = switches.values()
    assert switch.fast.options == {"cuda_graph_max_bs": ("--cuda-graph-max-bs", "64")}


def test_a_field_of_what_the_engine_works_out_is_no_option(tmp_path: Path) -> None:
    """A prefill in other pieces comes with other graph sizes, which nobody typed."""
    sizes = {"chunked_prefill_size": (2048, 64), "cuda_graph_config.prefill.max_bs": (2048, 64)}
    fast, slow = ({f"server[0].argument[{n}]": pair[side] for n, pair in sizes.items()} for side in (0, 1))
    switches, manual = made(tmp_path, *sides(fast, slow))
    assert list(switches) == ["argument:chunked_prefill_size"]
    assert "no option sets it" in manual["argument:cuda_graph_config.prefill.max_bs"].reason
    typed = {"worker[main].argv": ["serve", "--compilation-config.mode", "3"], "worker[main].env[PATH]": "/bin"}
    other = {**typed, "worker[main].argv": ["serve", "--compilation-config.mode", "0"]}
    switches, _ = made(tmp_path, *sides(
        {**typed, "server[0].argument[compilation_config.mode]": 3},
        {**other, "server[0].argument[compilation_config.mode]": 0},
    ))  # fmt: skip
    (switch,) = switches.values()
    assert switch.fast.options == {"compilation_config.mode": ("--compilation-config.mode", "3")}


def test_options_of_a_command_line() -> None:
    argv = ["serve", "--bs", "1", "2", "--shift", "-3", "--flag", "-q", "--name=x", "--last"]
    assert options_of(argv) == {
        "bs": ("--bs", "1", "2"),
        "shift": ("--shift", "-3"),
        "flag": ("--flag",),
        "name": ("--name=x",),
        "last": ("--last",),
    }
    assert without_option(argv, "bs") == ["serve", "--shift", "-3", "--flag", "-q", "--name=x", "--last"]
    assert without_option(argv, "no_such") == argv


def test_what_nobody_can_set_is_not_said_to_take_root(tmp_path: Path) -> None:
    values: list[dict[str, Json]] = [{"cpu.model": model} for model in ("EPYC 9654", "Xeon 8480")]
    switches, manual = made(tmp_path, *sides(*values))
    assert not switches
    assert [m.reason for m in manual.values()] == ["there is no way to set it for one run alone"]


def test_what_takes_root_is_listed_with_its_advice(tmp_path: Path) -> None:
    values: list[dict[str, Json]] = [{"gpu[0].power_limit_watts": watts} for watts in (600.0, 300.0)]
    switches, manual = made(tmp_path, *sides(*values))
    assert not switches
    (left,) = manual.values()
    assert "root" in left.reason


def test_cpus_by_taskset_and_only_those_that_are_there(tmp_path: Path) -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    switches, _ = made(tmp_path, *sides({"inherited.cpus": every}, {"inherited.cpus": cpu}))
    (switch,) = switches.values()
    server = state(Commands(("bench",), ("serve",)), [switch], frozenset(), tmp_path).commands.server
    assert server == ("taskset", "-c", cpu, "serve")
    switches, manual = made(tmp_path, *sides({"inherited.cpus": "4000"}, {"inherited.cpus": cpu}))
    assert not switches
    assert "not all there" in next(iter(manual.values())).reason


def test_a_cold_cache_is_an_empty_folder(tmp_path: Path) -> None:
    switches, _ = made(tmp_path, *sides({"cache[triton].warm": True}, {"cache[triton].warm": False}))
    (switch,) = switches.values()
    base = Commands(("bench",))
    cold = state(base, [switch], frozenset(), tmp_path).environment["TRITON_CACHE_DIR"]
    assert cold is not None
    assert cold.startswith(f"{tmp_path}/")
    assert state(base, [switch], frozenset({switch.id}), tmp_path).environment == {}


def test_nccls_own_file_stands_in_the_folder_of_the_search(tmp_path: Path) -> None:
    fast, slow = ({"nccl.conf[user].set[NCCL_PROTO]": value} for value in ("LL", "Simple"))
    switches, _ = made(tmp_path, *sides(fast, slow))
    (switch,) = switches.values()
    path = switch.slow.environment["NCCL_CONF_FILE"]
    assert path is not None
    assert Path(path).read_text() == "NCCL_PROTO=Simple\n"


def _repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Repo, Side, Side]:
    """A commit apart, and the slow side dirty besides."""
    isolate(tmp_path, monkeypatch)
    repo = Repo.new(tmp_path / "engine")
    found = []
    for text in ("fast = True\n", "slow = True\n"):
        (repo.root / "code.py").write_text(text)
        repo.git("add", "-A")
        repo.git("commit", "-q", "-m", text)
        if text.startswith("slow"):
            (repo.root / "code.py").write_text(f"{text}dirty = True\n")
            (repo.root / "new.py").write_text("untracked = True\n")
        found.append(section(repo.root))
    one, two = sides({"worker[main].env[PATH]": "/bin"}, {"worker[main].env[PATH]": "/bin"})
    fast, slow = (
        replace(side, snapshot=replace(side.snapshot, sections={**side.snapshot.sections, "git": git}))
        for side, git in zip((one, two), found)
    )
    return repo, fast, slow


def test_both_sides_code_is_unpacked_with_its_local_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, fast, slow = _repository(tmp_path, monkeypatch)
    folder = tmp_path / "search"
    folder.mkdir()
    switches, _ = made(folder, fast, slow)
    (switch,) = switches.values()
    one, two = Path(switch.fast.paths[0]), Path(switch.slow.paths[0])
    assert (one / "code.py").read_text() == "fast = True\n"
    assert not (one / "new.py").exists()
    assert (two / "code.py").read_text() == "slow = True\ndirty = True\n"
    assert (two / "new.py").read_text() == "untracked = True\n"
    assert (repo.root / "code.py").read_text() == "slow = True\ndirty = True\n"
    monkeypatch.setenv("PYTHONPATH", "/mine")
    made_ = state(Commands(("bench",)), [switch], frozenset(), tmp_path)
    assert made_.environment["PYTHONPATH"] == f"{two}:/mine"


def _without_commit(side: Side, commit: str) -> Side:
    """The side with another commit, that nobody has."""
    git = side.snapshot.sections["git"]
    (head,) = (path for path in git.values if path.endswith(".head"))
    git = replace(git, values={**git.values, head: commit})
    return replace(side, snapshot=replace(side.snapshot, sections={**side.snapshot.sections, "git": git}))


def test_a_commit_that_is_gone_is_left_to_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, fast, slow = _repository(tmp_path, monkeypatch)
    switches, manual = made(tmp_path, _without_commit(fast, "0" * 40), slow)
    assert not switches
    reason = next(iter(manual.values())).reason
    assert "0000000000 is not in" in reason
    assert f"git -C {repo.root} fetch origin {'0' * 40}" in reason


def test_of_a_commit_that_is_gone_on_both_sides_the_recorded_patch_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(tmp_path, monkeypatch)
    repo = Repo.new(tmp_path / "engine")
    repo.commit({"code.py": "slow = True\n"})
    ends = []
    for text in ("slow = True\n", "slow = True\ndirty = True\n"):
        repo.write({"code.py": text})
        ends.append(section(repo.root))
    both = [
        _without_commit(replace(side, snapshot=replace(side.snapshot, sections={**side.snapshot.sections, "git": git})),
                        "0" * 40)
        for side, git in zip(sides({"worker[main].env[A]": "1"}, {"worker[main].env[A]": "1"}), ends)
    ]  # fmt: skip
    folder = tmp_path / "search"
    folder.mkdir()
    switches, _ = made(folder, both[0], both[1])
    (switch,) = switches.values()
    assert (Path(switch.fast.paths[0]) / "code.py").read_text() == "slow = True\n"
    assert (Path(switch.slow.paths[0]) / "code.py").read_text() == "slow = True\ndirty = True\n"
    head = repo.git("rev-parse", "HEAD")[:10]
    assert switch.partly == (
        f"what was not committed stands on {head} instead, since commit 0000000000 is gone"
    )  # fmt: skip


def test_a_full_disk_ends_it_rather_than_the_repository_being_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, fast, slow = _repository(tmp_path, monkeypatch)
    full = 'echo "fatal: unable to write file: No space left on device" >&2; exit 128'
    wrapped_git(tmp_path, monkeypatch, f'case "$*" in *checkout-index*) {full};; esac')
    folder = tmp_path / "search"
    folder.mkdir()
    with pytest.raises(OSError, match="No space left on device"):
        made(folder, fast, slow)
    assert list(folder.iterdir()) == [], "nothing half is left"


def test_a_package_needs_its_wheels(tmp_path: Path) -> None:
    values: list[dict[str, Json]] = [{"package[torch].version": version} for version in ("2.9.0", "2.9.1")]
    switches, manual = made(tmp_path, *sides(*values))
    assert not switches
    assert "--wheels" in next(iter(manual.values())).reason
    assert "could not be installed" in trees.install("torch", "2.9.0", str(tmp_path), tmp_path / "o", "false", True)


def test_whether_a_variable_arrived() -> None:
    switch = Switch("env:X", "variable X", 0.5, Setting({"X": "1"}), Setting({"X": None}), roles=frozenset({"rank0"}))
    both = {"worker[rank0].env[PATH]": "/bin", "worker[main].env[PATH]": "/bin", "worker[main].env[X]": "1"}
    during = pairs.snapshot(both, "during")
    assert without_effect(switch, switch.fast, during) == "rank0 does not have X"
    assert without_effect(switch, switch.slow, during) == ""
    during = pairs.snapshot({**both, "worker[rank0].env[X]": "2"}, "during")
    assert without_effect(switch, switch.fast, during) == "rank0 has X=2 instead of 1"
    assert without_effect(switch, switch.slow, during) == "rank0 has X=2, which was to be unset"
    assert without_effect(switch, switch.fast, None) == ""


def test_the_shell_that_a_search_is_started_in_need_not_have_what_is_set_below_it() -> None:
    roles = frozenset({"shell", "resource_tracker", "main"})
    switch = Switch("env:X", "variable X", 0.5, Setting({"X": "1"}), Setting({"X": None}), roles=roles)
    shell = {"worker[shell].env[PATH]": "/bin", "worker[resource_tracker].env[PATH]": "/bin"}
    during = pairs.snapshot({**shell, "worker[main].env[X]": "1"}, "during")
    assert without_effect(switch, switch.fast, during) == ""
    assert without_effect(switch, switch.slow, during) == "main has X=1, which was to be unset"
    exported = pairs.snapshot({**shell, "worker[shell].env[X]": "1", "worker[main].env[PATH]": "/bin"}, "during")
    assert without_effect(switch, switch.slow, exported) == ""
    assert without_effect(switch, switch.fast, exported) == "main does not have X"


def test_whether_the_engine_resolved_an_option_as_wanted() -> None:
    setting = Setting(options={"backend": ("--backend", "fa3")}, resolved={"backend": "fa3"})
    switch = Switch("argument:backend", "server argument backend", 0.5, setting, Setting())
    during = pairs.snapshot({"server[0].argument[backend]": "triton", "worker[main].env[A]": "1"}, "during")
    assert "resolved --backend to triton instead of fa3" in without_effect(switch, setting, during)
    typed = Setting(options={"backend": ("--backend", "fa3")})
    during = pairs.snapshot({"worker[main].argv": ["serve", "--backend", "triton"]}, "during")
    assert without_effect(switch, typed, during) == "no worker was started with --backend fa3"
    gone = Setting(options={"backend": None})
    assert "was to be left out" in without_effect(switch, gone, during)


def numactl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is found on the path, and does nothing but run the command."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "numactl").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (tools / "numactl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")


def test_a_memory_policy_by_numactl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles = ("main", "scheduler_TP0")
    fast, slow = ({f"worker[{r}].numa_policy": policy for r in roles} for policy in ("bind:0", "default"))
    monkeypatch.setenv("PATH", str(tmp_path))
    _, manual = made(tmp_path, *sides(fast, slow))
    assert "no numactl" in manual["numa_binding"].reason
    numactl(tmp_path, monkeypatch)
    switches, _ = made(tmp_path, *sides(fast, slow))
    (switch,) = switches.values()
    server = state(Commands(("bench",), ("serve",)), [switch], frozenset({switch.id}), tmp_path).commands.server
    assert server == ("numactl", "--membind=0", "serve")
    assert state(Commands(("bench",), ("serve",)), [switch], frozenset(), tmp_path).commands.server == ("serve",)
    during = pairs.snapshot({"worker[main].numa_policy": "bind:0", "worker[scheduler_TP0].numa_policy": "default"})
    assert without_effect(switch, switch.fast, during) == (
        "scheduler_TP0 has the memory policy default instead of bind:0"
    )  # fmt: skip
    _, manual = made(tmp_path, *sides({**fast, "worker[scheduler_TP0].numa_policy": "bind:63"}, slow))
    assert "the engine binds them itself" in manual["numa_binding"].reason
    lost = {f"worker[{r}].numa_policy": "bind:63" for r in roles}
    _, manual = made(tmp_path, *sides(lost, slow))
    assert "no memory node 63" in manual["numa_binding"].reason


def test_a_drafts_revision_by_its_option_where_both_are_at_hand(tmp_path: Path) -> None:
    name = "acme/eagle"
    values: list[dict[str, Json]] = []
    for commit in ("a" * 40, "b" * 40):
        place = tmp_path / "models--acme--eagle" / "snapshots" / commit
        place.mkdir(parents=True)
        values.append({f"model[{name}].revision": commit, f"model[{name}].path": str(place)})
    command = ("sglang", "serve", "--model-path", "acme/base", "--speculative-draft-model-path", name)
    fast, slow = (replace(side, runs=(replace(side.runs[0], server=command),)) for side in sides(values[0], values[1]))
    switches, _ = made(tmp_path, fast, slow)
    (switch,) = switches.values()
    assert switch.fast.options == {
        "speculative_draft_model_revision": ("--speculative-draft-model-revision", "a" * 40)
    }  # fmt: skip
    (tmp_path / "models--acme--eagle" / "snapshots" / ("a" * 40)).rmdir()
    switches, manual = made(tmp_path, fast, slow)
    assert not switches
    assert "revision aaaaaaaaaa of acme/eagle is not in the cache" in next(iter(manual.values())).reason


def test_a_model_that_an_option_names_is_set_by_that_option_alone(tmp_path: Path) -> None:
    argument = "server[0].argument[speculative_draft_model_path]"
    values: list[dict[str, Json]] = []
    for name in ("one", "two"):
        (place := tmp_path / name).mkdir()
        values.append({argument: str(place), f"model[{name}].path": str(place), f"model[{name}].config": {"a": name}})
    fast, slow = sides(*values)
    typed = [str(side.snapshot.values[argument]) for side in (fast, slow)]
    fast, slow = (
        replace(side, runs=(replace(side.runs[0], server=("sglang", "serve", "--speculative-draft-model-path", t)),))
        for side, t in zip((fast, slow), typed)
    )
    switches, manual = made(tmp_path, fast, slow)
    assert not manual
    (switch,) = switches.values()
    assert not switch.partly
    ends = [end.options["speculative_draft_model_path"] for end in (switch.fast, switch.slow)]
    assert ends == [("--speculative-draft-model-path", place) for place in typed]


def test_a_tokenizer_has_no_revision_of_its_own(tmp_path: Path) -> None:
    """SGLang takes the model's for both: to set it would set more than differs."""
    values: list[dict[str, Json]] = []
    for commit in ("a" * 40, "b" * 40):
        (place := tmp_path / "snapshots" / commit).mkdir(parents=True)
        values.append({"model[acme/tok].revision": commit, "model[acme/tok].path": str(place)})
    command = ("sglang", "serve", "--model-path", "acme/base", "--tokenizer-path", "acme/tok")
    fast, slow = (replace(side, runs=(replace(side.runs[0], server=command),)) for side in sides(values[0], values[1]))
    switches, manual = made(tmp_path, fast, slow)
    assert not switches
    assert "no option of the server's command names a revision" in next(iter(manual.values())).reason


def test_a_directory_takes_no_revision(tmp_path: Path) -> None:
    """An engine that is given a directory loads what is in it, whatever revision is asked for."""
    (place := tmp_path / "eagle").mkdir()
    ends = [sides({"model[eagle].revision": c * 40, "model[eagle].path": str(place)}, {})[0] for c in "ab"]
    command = ("sglang", "serve", "--model-path", str(place))
    fast, slow = (replace(side, runs=(replace(side.runs[0], server=command),)) for side in ends)
    switches, manual = made(tmp_path, fast, slow)
    assert not switches
    assert "eagle is a directory, for which the engine takes no revision" in next(iter(manual.values())).reason


def test_a_sitecustomize_in_a_folder_of_its_own_while_its_content_is_still_there(tmp_path: Path) -> None:
    ends: list[dict[str, Json]] = []
    for name in ("one", "two"):
        file = tmp_path / name / "sitecustomize.py"
        file.parent.mkdir()
        file.write_text(f"import os\nos.environ['CUSTOM'] = '{name}'\n")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        ends.append({"python.sitecustomize[0].path": str(file), "python.sitecustomize[0].sha256": digest})
    folder = tmp_path / "search"
    folder.mkdir()
    switches, _ = made(folder, *sides(ends[0], ends[1]))
    (switch,) = switches.values()
    for reverted, wanted in ((frozenset({switch.id}), "one"), (frozenset[str](), "two")):
        environment = state(Commands(("bench",)), [switch], reverted, tmp_path).environment
        out = subprocess.run(
            [sys.executable, "-c", "import os; print(os.environ['CUSTOM'])"], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(environment["PYTHONPATH"])},
        )  # fmt: skip
        assert out.stdout.strip() == wanted
    (tmp_path / "one" / "sitecustomize.py").write_text("replaced = True\n")
    switches, manual = made(folder, *sides(ends[0], ends[1]))
    assert not switches
    assert "has not the content any more that fast had" in next(iter(manual.values())).reason


def test_tuning_results_are_copied_for_a_trial_while_they_are_still_there(tmp_path: Path) -> None:
    ends: list[dict[str, Json]] = []
    for name in ("one", "two"):
        place = tmp_path / name
        place.mkdir()
        (place / "kernel.autotune.json").write_text(f'"{name}"')
        ends.append({"cache[triton].path": str(place), "cache[triton].warm": True,
                     "cache[triton].tuned_sha256": tuned_hash(LiveHost(), "triton", str(place))})  # fmt: skip
    switches, _ = made(tmp_path, *sides(ends[0], ends[1]))
    (switch,) = switches.values()
    made_ = state(Commands(("bench",)), [switch], frozenset({switch.id}), tmp_path / "empty")
    folder = made_.environment["TRITON_CACHE_DIR"]
    assert folder is not None
    assert made_.folders == {folder: Content({"": str(tmp_path / "one")})}
    Path(folder).mkdir(parents=True)
    fill(Path(folder), made_.folders[folder])
    assert (Path(folder) / "kernel.autotune.json").read_text() == '"one"'
    (tmp_path / "one" / "kernel.autotune.json").write_text('"tuned anew"')
    switches, manual = made(tmp_path, *sides(ends[0], ends[1]))
    assert not switches
    assert "are not there any more" in next(iter(manual.values())).reason


def test_one_of_sglangs_caches_is_put_apart_and_the_others_stay(tmp_path: Path) -> None:
    """SGLANG_CACHE_DIR moves them all, and a trial is to differ in one."""
    root, old = tmp_path / "sglang", tmp_path / "old"
    tuned = "flashinfer/autotune/0.6/sm90/rank.json"
    for file in (root / tuned, root / "flashinfer/kernels/k.so", root / "triton/k.cubin", old / "0.6/sm90/rank.json"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.parts[len(tmp_path.parts)])
    kept: dict[str, Json] = {"cache[sglang].path": str(root), "cache[sglang/triton].warm": True}
    name = "sglang/flashinfer_autotune"
    then, now = (
        {**kept, f"cache[{name}].path": str(place),
         f"cache[{name}].tuned_sha256": tuned_hash(LiveHost(), name, str(place))}
        for place in (old, root / "flashinfer/autotune")
    )  # fmt: skip
    switches, _ = made(tmp_path, *sides(then, {**now, "cache[sglang/triton].warm": False}))
    every = frozenset(switches)

    def trial(reverted: frozenset[str], folder: str) -> Path:
        made_ = state(Commands(("bench",)), list(switches.values()), reverted, tmp_path / folder)
        place = Path(str(made_.environment["SGLANG_CACHE_DIR"]))
        place.mkdir(parents=True)
        fill(place, made_.folders[str(place)])
        return place

    fast, slow = trial(every, "fast"), trial(frozenset(), "slow")
    assert (fast / tuned).read_text() == "old"
    assert (slow / tuned).read_text() == "sglang"
    assert (fast / "triton/k.cubin").exists(), "it was warm on the fast side"
    assert not (slow / "triton").exists()
    assert (fast / "flashinfer/kernels").resolve() == root / "flashinfer/kernels"
    (fast / tuned).write_text("tuned in a trial")
    assert (root / tuned).read_text() == "sglang", "the user's own stay as they are"


def test_a_package_of_another_version_counts_once_it_is_imported_from_its_folder(tmp_path: Path) -> None:
    """A wheel made here, of a package that is nowhere else."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "2.0"):
        with zipfile.ZipFile(wheels / f"kernelish-{version}-py3-none-any.whl", "w") as wheel:
            info = f"kernelish-{version}.dist-info"
            wheel.writestr("kernelish/__init__.py", f"VERSION = '{version}'\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: kernelish\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    values: list[dict[str, Json]] = [{"package[kernelish].version": version} for version in ("1.0", "2.0")]
    switches, _ = made(tmp_path, *sides(*values), wheels=str(wheels))
    (switch,) = switches.values()
    environment = state(Commands(("bench",)), [switch], frozenset({switch.id}), tmp_path).environment
    out = subprocess.run(
        [sys.executable, "-c", "import kernelish; print(kernelish.VERSION)"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(environment["PYTHONPATH"])},
    )  # fmt: skip
    assert out.stdout.strip() == "1.0"
    held = {"worker[main].env[PYTHONPATH]": str(environment["PYTHONPATH"])}
    origin = "record[main].package_origin[kernelish]"
    during = pairs.snapshot({**held, origin: f"{switch.fast.paths[0]}/kernelish/__init__.py"})
    assert without_effect(switch, switch.fast, during) == ""
    during = pairs.snapshot({**held, origin: "/usr/lib/kernelish/__init__.py"})
    assert without_effect(switch, switch.fast, during) == "main imported /usr/lib/kernelish/__init__.py"


def test_what_can_be_switched_in_part_alone_says_so(tmp_path: Path) -> None:
    change = {"worker[main].env[NCCL_PROTO]": "LL", "nccl.conf[system].set[NCCL_PROTO]": "LL"}
    switches, _ = made(tmp_path, *sides(change, dict.fromkeys(change, "Simple")))
    (switch,) = switches.values()
    assert switch.fast.environment == {"NCCL_PROTO": "LL"}
    assert "/etc/nccl.conf is read whatever" in switch.partly
