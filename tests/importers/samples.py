"""A sample of every kind of dump, and how the tests read one."""

from __future__ import annotations

import re
from pathlib import Path

from envsnap.importers._assembly import Imported, imported
from envsnap.importers._text import text_of
from envsnap.reading import Json
from envsnap.redact import Redactor

DATA = Path(__file__).parents[1] / "data"
OWN = Path(__file__).parent / "data"


REDACTOR = Redactor()
"""One for all, so that what stands for a secret compares."""


def part(text: str, begin: str, end: str) -> str:
    """From the line that matches `begin` to the one that matches `end`."""
    lines = text.split("\n")
    first = next(n for n, line in enumerate(lines) if re.match(begin, line))
    last = next(n for n in range(first + 1, len(lines)) if re.match(end, lines[n]))
    return "\n".join(lines[first : last + 1]) + "\n"


FAST = (DATA / "reports/fast.md").read_text()
SLOW = (DATA / "reports/slow.md").read_text()

SAMPLES: dict[str, str] = {
    "benchmark": (DATA / "benchmarks/sglang_serving.jsonl").read_text(),
    "dmesg": (OWN / "dmesg.txt").read_text(),
    "docker_inspect": (OWN / "docker_inspect.json").read_text(),
    "env": (OWN / "env.txt").read_text(),
    "lscpu": (OWN / "lscpu.txt").read_text(),
    "lspci": (OWN / "lspci.txt").read_text(),
    "nccl_log": (DATA / "h200x2/nccl.rank0.log").read_text(),
    "nvidia_bug_report": (OWN / "nvidia_bug_report.log").read_text(),
    "nvidia_smi": part(FAST, r"Mon Nov ", r"\|  No running") + "+" + "-" * 89 + "+\n",
    "nvidia_smi_q": (DATA / "h200x2/smi.txt").read_text(),
    "nvidia_smi_topo": (DATA / "h200x2/topo.txt").read_text(),
    "nvidia_smi_xml": (DATA / "h200x2/smi.xml").read_text(),
    "pip_freeze": (OWN / "pip_freeze.txt").read_text(),
    "pip_list": (OWN / "pip_list.txt").read_text(),
    "server_info": (DATA / "sglang_0.5.16_server_info_tp2.json").read_text() + "\n",
    "serving_table": part(FAST, r"=+ Serving", r"={50}"),
    "sglang_check_env": part(FAST, r"Python: ", r"ulimit"),
    "sglang_log": (DATA / "sglang_0.5.16_tp2.log").read_text(),
    "srt_slurm": (OWN / "srt_slurm.json").read_text(),
    "torch_collect_env": (DATA / "h200x2/collect_env.txt").read_text(),
    "vllm_collect_env": (OWN / "vllm_collect_env.txt").read_text(),
    "vllm_log": (OWN / "vllm.log").read_text(),
}


def read(*texts: str | bytes) -> Imported:
    """What the texts say together."""
    data = [text.encode() if isinstance(text, str) else text for text in texts]
    return imported([text_of(one, f"dump{number}") for number, one in enumerate(data)], REDACTOR)


def values(*texts: str | bytes) -> dict[str, Json]:
    """The readings in them."""
    return read(*texts).snapshot.values
