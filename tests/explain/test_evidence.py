"""What speaks for and against: terms, setting, control pair, size, load; bounds and releases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from envsnap.change import Change
from envsnap.explain.candidates import Candidate, gather
from envsnap.explain.consequences import related
from envsnap.explain.effective import effective
from envsnap.explain.evidence import Weighed, weigh
from envsnap.explain.explanation import Evidence
from envsnap.explain.kinds import class_of
from envsnap.explain.limits import bound_of
from envsnap.explain.past import Memory
from envsnap.explain.releases import Step, step_of
from envsnap.explain.setting import setting_of
from envsnap.explain.story import Facts, View
from envsnap.explain.symptom import Symptom
from envsnap.explain.tell import told
from envsnap.explain.weights import CLASSES, WEIGHTS
from envsnap.reading import Json
from tests.explain.pairs import side
from tests.explain.test_candidates import change

STEP = Symptom(0.45, {"accept_length": 0.02, "step_time": 0.43}, figures={"accept_length": (1.8, 1.76),
               "step_time": (0.019, 0.029)}, gap=0.45)  # fmt: skip
ACCEPT = Symptom(0.45, {"accept_length": 0.43, "step_time": 0.02}, figures={"accept_length": (2.8, 1.8),
                 "step_time": (0.019, 0.019)}, gap=0.45)  # fmt: skip
PREFILL = Symptom(0.0, {"step_time": 0.0, "prefill": 0.9}, figures={"prefill": (0.1, 0.25)}, gap=0.9)
EIGHT = {"server[0].argument[tp_size]": 8, "server[0].argument[speculative_algorithm]": "EAGLE3"}
ONE = {"server[0].argument[tp_size]": 1, "server[0].argument[chunked_prefill_size]": 8192}


def weights_of(
    what: Change, symptom: Symptom = STEP, fast: Mapping[str, Json] = EIGHT, slow: Mapping[str, Json] | None = None
) -> list[float]:
    [candidate] = gather([what])
    view = View(Facts(side(fast)), Facts(side(fast if slow is None else slow)), [what], symptom)
    return [e.weight for e in weigh(candidate, view, Memory((), (), (), None), WEIGHTS).evidence]


def bound(pairs: Mapping[str, tuple[Json, Json]], symptom: Symptom = STEP, **load: tuple[float, float]) -> Any:
    changes = [change(path, *pair) for path, pair in pairs.items()]
    [candidate] = gather(changes)
    held: list[dict[str, Json]] = [{f"during.gpu[0].{n}": pair[i] for n, pair in load.items()} for i in (0, 1)]
    return bound_of(candidate, View(Facts(side(held[0])), Facts(side(held[1])), changes, symptom))


TEMPLATE = change("model[target].chat_template_sha256")
NCCL = change("env[NCCL_UNHEARD_OF]")
PROMPTS = change("server[0].argument[radix_unheard_of]", 1, 2)


def test_the_term_that_moved_decides() -> None:
    """A template acts on acceptance, NCCL on the step."""
    sizes = WEIGHTS.mechanism
    assert weights_of(TEMPLATE, STEP) == [sizes.unlikely]
    assert weights_of(TEMPLATE, ACCEPT) == [sizes.fits_closely]
    unknown = WEIGHTS.harms.unknown
    assert weights_of(NCCL, STEP) == [unknown, sizes.fits]
    assert weights_of(NCCL, ACCEPT) == [unknown, sizes.cannot]


def test_prefill_alone() -> None:
    sizes, unknown = WEIGHTS.mechanism, WEIGHTS.harms.unknown
    assert weights_of(PROMPTS, PREFILL) == [unknown, sizes.fits_closely]
    assert weights_of(NCCL, PREFILL) == [unknown, sizes.unlikely]
    assert weights_of(PROMPTS, STEP) == [unknown, sizes.cannot]
    kernels = change("package[flash-attn].version", "2.1", "2.2")
    assert sizes.fits_closely not in weights_of(kernels, PREFILL)


def test_where_every_draft_is_refused_whatever_computes_may_be_wrong() -> None:
    refused = Symptom(1.0, {"accept_length": 1.0, "step_time": 0.0}, figures={"accept_length": (2.8, 1.0)}, gap=1.0)
    assert weights_of(NCCL, refused) == [WEIGHTS.harms.unknown]
    assert weights_of(change("cpu.governor", "a", "b"), refused) == [WEIGHTS.mechanism.cannot]


def test_one_rank_exchanges_nothing() -> None:
    assert WEIGHTS.mechanism.alone in weights_of(NCCL, STEP, ONE)
    assert WEIGHTS.mechanism.alone not in weights_of(change("repo[sglang].head"), STEP, ONE)


def test_what_acts_on_speculation_needs_some() -> None:
    spec = change("env[SGLANG_SPEC_UNHEARD_OF]")
    assert WEIGHTS.mechanism.alone in weights_of(spec, STEP, ONE)
    assert WEIGHTS.mechanism.alone not in weights_of(spec, STEP, ONE, EIGHT)


def test_a_measured_acceptance_says_that_there_is_speculation() -> None:
    steps = change("server[0].argument[speculative_num_steps]", 2, 7)
    sides = (side(ONE, 2, stream_tokens_per_second=90.0, accept_length=2.1),
             side(ONE, 2, stream_tokens_per_second=60.0, accept_length=2.0))  # fmt: skip
    view = View(Facts(sides[0]), Facts(sides[1]), [steps], STEP)
    said = [e.text for e in weigh(gather([steps])[0], view, Memory((), (), (), None), WEIGHTS).evidence]
    assert view.setting.speculative
    assert "Nothing is speculated." not in said
    plain = (side(ONE, 2, stream_tokens_per_second=90.0), side(ONE, 2, stream_tokens_per_second=60.0))
    assert View(Facts(plain[0]), Facts(plain[1]), [steps], STEP).setting.speculative is False


def test_what_is_the_slow_value_under_conditions_costs_little() -> None:
    harms = WEIGHTS.harms
    backend = change("server[0].argument[attention_backend]", "triton", "fa3")
    assert harms.fast_depends in weights_of(backend)
    assert harms.fast in weights_of(change("server[0].argument[disable_cuda_graph]", True, False))
    named = change("env[VLLM_USE_SOMETHING_NEW]", "0", "1")
    assert harms.fast_guessed in weights_of(named)
    assert harms.fast_guessed >= -0.7
    assert harms.fast_depends >= -1.0


def test_what_was_set_on_purpose_and_is_gone_is_not_held_against_it() -> None:
    found = weights_of(change("env[NCCL_PROTO]", "Simple", None))
    assert WEIGHTS.harms.gone in found
    assert min(found) >= 0
    assert WEIGHTS.harms.fast in weights_of(change("env[NCCL_P2P_DISABLE]", "1", None))


def test_a_bundle_is_as_large_as_its_largest_member() -> None:
    link = {"pci[gpu0].link_width_lanes": (16, 16), "pci[gpu0].target_link_speed_gts": (32.0, 31.5)}
    hardly = [change(path, *pair) for path, pair in link.items() if pair[0] != pair[1]]
    much = change("gpu[0].pcie_width_lanes", 16, 1)

    def said(changes: list[Change]) -> list[str]:
        [candidate] = gather(changes)
        candidate = replace(candidate, telling=tuple(hardly))
        view = View(Facts(side(EIGHT)), Facts(side(EIGHT)), changes, STEP)
        return [e.text for e in weigh(candidate, view, Memory((), (), (), None), WEIGHTS).evidence]

    slight = "It differs by less than anybody would notice."
    assert slight in said(hardly)
    assert slight not in said([*hardly, much])


@pytest.mark.parametrize(
    ("argv", "speculates"),
    [
        (["llama-server", "--draft-max", "16"], True),
        (["engine", "--spec-decode", "eagle"], True),
        (["engine", "--num-speculative-tokens=3"], True),
        (["engine", "--num-speculative-tokens", "0"], False),
        (["engine", "--disable-spec-decode"], False),
        (["engine", "--special-tokens", "x"], False),
        (["engine", "--speculative-algorithm", "NONE", "--speculative-num-steps", "3"], False),
    ],
)
def test_a_typed_option_of_speculation_counts(argv: list[str], speculates: bool) -> None:
    assert setting_of(side({"worker[main].argv": argv}).snapshot).speculative is speculates


@pytest.mark.parametrize(
    ("path", "slowdown", "weight"),
    [
        ("server[0].argument[speculative_num_steps]", 0.08, WEIGHTS.mechanism.control_cannot),
        ("server[0].argument[speculative_num_steps]", 0.0, WEIGHTS.mechanism.control_fits),
        ("gpu[0].ecc_mode", 0.08, WEIGHTS.mechanism.control_too),
        ("env[NCCL_UNHEARD_OF]", 0.08, WEIGHTS.mechanism.control_fits),
    ],
)
def test_a_suspect_has_to_explain_the_control_pair(path: str, slowdown: float, weight: float) -> None:
    symptom = Symptom(STEP.slowdown, STEP.terms, figures=STEP.figures, control=Symptom(slowdown), gap=STEP.gap)
    assert weight in weights_of(change(path, 2, 3), symptom)
    assert weight not in weights_of(change(path, 2, 3), STEP)


def test_who_waits_for_whom_under_load() -> None:
    def load(power: float, use: float) -> dict[str, Json]:
        return {**EIGHT, "during.gpu[0].power_median_watts": power, "during.gpu[0].utilization_median_percent": use,
                "during.gpu[0].sm_clock_median_mhz": 1980.0}  # fmt: skip

    sizes, fast = WEIGHTS.mechanism, load(500.0, 98.0)
    ranks, host, kernels = load(350.0, 98.0), load(350.0, 60.0), load(495.0, 98.0)
    launch, ecc = change("cpu.governor", "a", "b"), change("gpu[0].ecc_unheard_of", 1, 2)
    assert sizes.shows in weights_of(NCCL, STEP, fast, ranks)
    assert sizes.shows_other in weights_of(launch, STEP, fast, ranks)
    assert sizes.shows in weights_of(launch, STEP, fast, host)
    assert sizes.shows_host in weights_of(NCCL, STEP, fast, host)
    assert sizes.shows_other in weights_of(NCCL, STEP, fast, kernels)
    assert ecc is not None
    one = {"server[0].argument[tp_size]": 1, "server[0].argument[nnodes]": 1}
    assert sizes.shows_other not in weights_of(launch, STEP, {**fast, **one}, {**ranks, **one}), "it waits for nobody"


def test_a_bound_caps_what_a_suspect_explains() -> None:
    clock = "during.gpu[0].sm_clock_median_mhz"
    [candidate] = gather([change(clock, 2000.0, 1940.0)])
    view = View(Facts(side(EIGHT)), Facts(side(EIGHT)), candidate.changes, STEP)
    found = weigh(candidate, view, Memory((), (), (), None), WEIGHTS)
    assert found.bound is not None
    assert found.bound.ratio == pytest.approx(2000 / 1940)
    small = min(e.weight for e in found.evidence)
    assert small == pytest.approx(WEIGHTS.bounds.too_small * (1 - math.log(2000 / 1940) / 0.45))
    [same] = gather([change(clock, 2000.0, 2000.0 / math.exp(0.45))])
    assert WEIGHTS.bounds.same_size in [e.weight for e in weigh(same, view, Memory((), (), (), None), WEIGHTS).evidence]


def test_a_power_limit_that_did_not_act_is_impossible() -> None:
    limit = {"gpu[0].power_limit_watts": (700.0, 500.0)}
    acted = bound(limit, sm_clock_median_mhz=(1980.0, 1320.0))
    assert acted.ratio == pytest.approx(1.5)
    idle = bound(limit, sm_clock_median_mhz=(1980.0, 1980.0))
    assert (idle.ratio, idle.measured) == (1.0, True)
    assert bound(limit) is None


def test_bounds_of_links_and_cpus() -> None:
    link = bound(
        {"gpu[0].pcie_width_lanes": (16, 8)}, pcie_speed_median_gts=(32.0, 16.0), pcie_width_median_lanes=(16, 8)
    )
    assert (link.ratio, link.measured) == (4.0, True)
    assert bound({"gpu[0].pcie_width_lanes": (16, 4)}).ratio == 4.0
    assert bound({"inherited.cpus_count": (64, 16)}).ratio == 4.0
    assert bound({"inherited.cpus_count": (16, 64)}).ratio == 1.0


def test_acceptance_bounds_what_acts_on_it_alone() -> None:
    found = bound({"server[0].dp[0].argument_source[x]": ("a", "b")}, ACCEPT)
    assert found is None
    ratio = bound({"record[a].env[SGLANG_SIMULATE_ACC_LEN]": ("1", "2")}, ACCEPT)
    assert ratio is None  # it acts on whether the measurement is one, too


@pytest.mark.parametrize(
    ("path", "before", "after", "step"),
    [
        ("package[torch].version", "2.8.0", "3.0", Step.MAJOR),
        ("package[torch].version", "2.8.0", "2.9.1", Step.MINOR),
        ("package[torch].version", "2.8.0", "2.8.1", Step.FIX),
        ("package[torch].version", "2.8.0+cu128", "2.8.0+cu130", Step.BUILD),
        ("package[torch].version", "2.8", "2.8.1", Step.FIX),
        ("package[sglang].version", "0.5.4", "0.5.5", Step.EARLY),
        ("package[sglang].version", "0.5.4.post1", "0.5.4.post2", Step.BUILD),
        ("package[sglang].version", "0.5.9", "0.6.0", Step.MINOR),
        ("package[torch].record_sha256", "1", "2", None),
        ("package[torch].version", None, "2", None),
        ("kernel.release", "6.8.0-79-generic", "6.8.0-84-generic", Step.BUILD),
    ],
)
def test_how_far_a_version_moved(path: str, before: Json, after: Json, step: Step | None) -> None:
    assert step_of([change(path, before, after)]) is step


def bound_by_table(*changes: Change) -> float | None:
    view = View(Facts(side(EIGHT)), Facts(side(EIGHT)), changes, STEP)
    [candidate] = gather(changes)
    found = weigh(candidate, view, Memory((), (), (), None), WEIGHTS).bound
    return found.ratio if found else None


def test_how_much_a_setting_can_make_is_known_of_its_name_also_where_none_of_its_values_is_slow() -> None:
    def lost(name: str) -> Change:
        return change(f"worker[scheduler_TP0].env[{name}]", "8", None)

    assert bound_by_table(lost("NCCL_MIN_NCHANNELS")) == 1.3
    assert bound_by_table(change("server[0].argument[triton_attention_num_kv_splits]", 8, 16)) == 1.2
    assert bound_by_table(lost("NCCL_MIN_NCHANNELS"), lost("NCCL_TOPO_FILE")) == pytest.approx(1.3 * 3)
    assert bound_by_table(lost("NCCL_MIN_NCHANNELS"), lost("NCCL_UNHEARD_OF")) is None
    assert bound_by_table(lost("SGLANG_UNHEARD_OF")) is None


def test_a_release_of_kernels_can_make_more_of_one_operator_than_of_a_served_token() -> None:
    def largest(values: dict[str, Json], path: str) -> float:
        what = change(path, "3.4.0", "3.5.0")
        view = View(Facts(side(values)), Facts(side(values)), [what], STEP)
        [candidate] = gather([what])
        found = weigh(candidate, view, Memory((), (), (), None), WEIGHTS).bound
        assert found is not None
        return found.ratio

    alone = {"os.libc": "glibc"}
    assert largest(alone, "package[triton].version") == 12.0
    assert largest(EIGHT, "package[triton].version") == pytest.approx(4.8)
    assert largest(EIGHT, "package[requests].version") == largest(alone, "package[requests].version") == 3.0


def test_the_first_number_of_a_driver_is_its_branch() -> None:
    path = "nvml.driver_version"
    assert step_of([change(path, "570.86.15", "580.65.06")], driver=True) is Step.MAJOR
    assert step_of([change(path, "580.65.06", "580.159.04")], driver=True) is Step.FIX


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("env[NCCL_PROTO]", "communication"),
        ("server[0].argument[disable_cuda_graph]", "engine_path"),
        ("env[SGLANG_UNHEARD_OF]", "engine"),
        ("repo[sglang].head", "code"),
        ("package[triton].version", "library"),
        ("package[nvidia-nccl-cu12].version", "communication"),
        ("nvml.driver_version", "driver"),
        ("gpu[0].power_limit_watts", "power"),
        ("pci[gpu0].link_width_lanes", "pcie"),
        ("during.gpu[0].sm_clock_median_mhz", "clocks"),
        ("during.gpu[0].foreign_processes", "neighbour"),
        ("cpu.governor", "host"),
        ("os.timezone", "cosmetic"),
        ("model[target].config", "workload"),
    ],
)
def test_classes(path: str, name: str) -> None:
    [candidate] = gather([change(path)])
    assert class_of(candidate) == name


def test_law_every_weight_says_where_it_comes_from() -> None:
    assert all(weight.source.split(":")[0] in ("reports", "papers", "board", "judgement", "reference")
               for weight in CLASSES.values())  # fmt: skip


def test_a_story_outweighs_the_table() -> None:
    """What several readings say together counts for more than which value is usually the faster one."""
    what = change("env[NCCL_NET_GDR_LEVEL]", "LOC", "SYS")
    several = {**EIGHT, "server[0].argument[nnodes]": 2}
    assert WEIGHTS.harms.fast in weights_of(what, STEP, several)
    [candidate] = gather([what])
    told: Candidate = replace(candidate, evidence=(Evidence("no switch in common", 3.0),))
    view = View(Facts(side(several)), Facts(side(several)), [what], STEP)
    found = [e.weight for e in weigh(told, view, Memory((), (), (), None), WEIGHTS).evidence]
    assert WEIGHTS.harms.fast not in found


def test_what_a_story_says_of_a_release_counts_for_more_than_how_small_it_is() -> None:
    driver = change("nvml.driver_version", "580.65.06", "580.95.05")
    assert WEIGHTS.releases.fix in weights_of(driver)
    [candidate] = gather([driver])
    told = replace(candidate, evidence=(Evidence("a compatibility package stands in for it", 3.0),))
    view = View(Facts(side(EIGHT)), Facts(side(EIGHT)), [driver], STEP)
    found = [e.weight for e in weigh(told, view, Memory((), (), (), None), WEIGHTS).evidence]
    assert WEIGHTS.releases.fix not in found


def test_several_settings_that_are_gone_at_once_say_more_than_one() -> None:
    def lost(*names: str) -> list[float]:
        changes = [change(f"worker[scheduler_TP0].env[{n}]", "1", None) for n in names]
        [candidate] = gather(changes)
        view = View(Facts(side(EIGHT)), Facts(side(EIGHT)), changes, STEP)
        return [e.weight for e in weigh(candidate, view, Memory((), (), (), None), WEIGHTS).evidence]

    assert WEIGHTS.harms.gone in lost("NCCL_ALGO")
    assert WEIGHTS.harms.gone_together in lost("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS")
    assert WEIGHTS.harms.gone_together not in lost("NCCL_ALGO", "NCCL_PROTO")
    assert WEIGHTS.harms.gone_together not in lost("NCCL_ALGO", "NCCL_IB_HCA")


def related_to(*changes: Change, values: dict[str, Json] | None = None) -> tuple[list[Weighed], list[Weighed]]:
    """What is weighed of some changes, before and after it was seen what follows from what."""
    view = View(Facts(side(values or EIGHT)), Facts(side(values or EIGHT)), changes, STEP)
    weighed = [weigh(c, view, Memory((), (), (), None), WEIGHTS) for c in gather(changes)]
    return weighed, related(weighed, WEIGHTS)


WAIT = change("during.worker[scheduler_TP0].run_delay_median_percent", 0.1, 30.0)
ISOLATED = change("kernel.parameter[isolcpus]", None, ["0-3"])
IDLE = change("worker[scheduler_TP0].scheduling_policy", "other", "idle")


def test_a_cause_and_what_follows_from_it_are_one_suspect() -> None:
    before, after = related_to(ISOLATED, WAIT)
    assert [w.candidate.id for w in after] == ["boot:isolcpus"]
    assert {c.path for c in after[0].candidate.changes} == {ISOLATED.path, WAIT.path}
    own = next(w for w in before if w.candidate.id == "boot:isolcpus")
    assert after[0].odds == pytest.approx(own.odds + WEIGHTS.consequences.cause)


@pytest.mark.parametrize(
    ("cause", "consequence"),
    [
        (change("request[prompts]", "a", "b"), change("during.server.cached_prompt_percent", 90.0, 5.0)),
        (change("worker[scheduler_TP0].env[SGLANG_SAMPLING_BACKEND]", "flashinfer", None),
         change("server[0].argument[sampling_backend]", "flashinfer", "pytorch")),
    ],
)  # fmt: skip
def test_what_follows_passes_its_weight_to_what_brings_it_about(cause: Change, consequence: Change) -> None:
    before, [joined] = related_to(consequence, cause)
    assert {c.path for c in joined.candidate.changes} == {cause.path, consequence.path}
    assert joined.candidate.id == next(w for w in before if w.candidate.changes == (cause,)).candidate.id
    assert joined.odds >= max(w.odds for w in before)


NVLS = change("worker[scheduler_TP0].env[NCCL_NVLS_ENABLE]", "1", "0")
FLAG = change("server[0].argument[enable_nccl_nvls]", True, False)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ((NVLS, FLAG), "env:NCCL_NVLS_ENABLE"),
        ((NVLS, FLAG, change("env[NCCL_NVLS_ENABLE]", "1", "0")), "env:NCCL_NVLS_ENABLE"),
        ((NVLS, FLAG, change("worker[main].argv", None, True, leaf="[--enable_nccl_nvls]")),
         "argument:enable_nccl_nvls"),
        ((change("env[VLLM_ALL2ALL_BACKEND]", "pplx", None),
          change("server[0].argument[parallel_config.all2all_backend]", "pplx", "naive")), "env:VLLM_ALL2ALL_BACKEND"),
    ],
)  # fmt: skip
def test_one_setting_by_two_names_is_one_suspect_called_by_what_was_typed(
    changes: tuple[Change, ...], cause: str
) -> None:
    _, [joined] = related_to(*changes)
    assert joined.candidate.id == cause
    assert {c.path for c in joined.candidate.changes} == {c.path for c in changes}


def test_a_bundle_that_a_story_made_brings_about_what_its_first_part_does() -> None:
    nodes = {f"numa[{n}].cpus": f"{24 * n}-{24 * n + 23}" for n in range(4)}
    fast = {**EIGHT, "numa[0].cpus": "0-47", "numa[1].cpus": "48-95", "gpu[0].cpu_affinity": "0-47"}
    slow = {**EIGHT, **nodes, "gpu[0].cpu_affinity": "0-23", "worker[scheduler_TP0].cpus": "0-23"}
    one, two = Facts(side(fast)), Facts(side(slow))
    view = View(one, two, (*effective(one, two).changes, WAIT), STEP)
    weighed = [weigh(c, view, Memory((), (), (), None), WEIGHTS) for c in told(view, ()).candidates]
    [joined] = related(weighed, WEIGHTS)
    assert joined.candidate.title.startswith("NUMA layout: 4 nodes, not 2")
    assert WAIT.path in {c.path for c in joined.candidate.changes}


def test_a_thread_option_of_more_than_a_quota_explains_that_workers_wait() -> None:
    values = {**EIGHT, "cgroup.cpu_quota_cpus": 8.0}
    asked = change("server[0].argument[threads]", 8, 32)
    view = View(Facts(side(values)), Facts(side(values)), (asked, WAIT), STEP)
    weighed = [weigh(c, view, Memory((), (), (), None), WEIGHTS) for c in told(view, ()).candidates]
    assert [w.candidate.id for w in related(weighed, WEIGHTS)] == ["argument:threads"]


def test_of_several_causes_none_is_joined_with_what_follows() -> None:
    before, after = ({w.candidate.id: w.odds for w in found} for found in related_to(ISOLATED, IDLE, WAIT))
    assert after["boot:isolcpus"] == pytest.approx(before["boot:isolcpus"] + WEIGHTS.consequences.cause)
    assert after["load:cpu"] == pytest.approx(before["load:cpu"] + WEIGHTS.consequences.consequence)


def test_what_follows_from_nothing_that_changed_stays_a_suspect() -> None:
    before, after = related_to(WAIT)
    assert before == after


def test_how_much_such_a_value_makes_bounds_it() -> None:
    """Mitigations cost some per cent: of a slowdown of a half they explain little, launch blocking explains it."""
    mitigations = change("kernel.parameter[mitigations]", ["off"], None)
    assert any(w < -1 for w in weights_of(mitigations, STEP))
    assert all(w > 0 for w in weights_of(change("env[CUDA_LAUNCH_BLOCKING]", None, "1"), STEP))
    little = Symptom(0.05, {"accept_length": 0.0, "step_time": 0.05}, gap=0.05)
    assert WEIGHTS.bounds.too_large in weights_of(change("env[CUDA_LAUNCH_BLOCKING]", None, "1"), little)
    assert all(w > -1 for w in weights_of(mitigations, little))
