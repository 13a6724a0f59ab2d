"""NCCL itself reports trouble: ranks that do not answer, other versions, or sockets where RDMA is.

From its RAS service, which runs beside every job, and from its log (--nccl-log, of NCCL_DEBUG=INFO). Fix: the log says
why it did not choose RDMA (`NET/IB`): a plug-in that is not on LD_LIBRARY_PATH, a container without /dev/infiniband.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules import AFTER
from envsnap.fold import listed

CODE = "nccl_job"
SEVERITY = ERROR
NEEDS = ("nccl.rank[].version",)
USES = ("nccl.ras.missing_ranks_count", "nccl.ras.errors_count", "nccl.ras.version", "nccl.rank[].network",
        "rdma.verbs_files_count", "nccl.rank[].all_direct_p2p", "gpu_pair[].p2p_read")  # fmt: skip
WHEN = AFTER
ABSENCE_IS_JUDGED = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    versions = facts.all("nccl.rank[].version")
    if not versions and facts.value("nccl.ras.version") is None:
        raise NotApplicable("neither NCCL's log (--nccl-log) nor its service was found")
    for path, words in (("nccl.ras.missing_ranks_count", "do not answer"),
                        ("nccl.ras.errors_count", "have an error")):  # fmt: skip
        if facts.value(path):
            yield Problem(f"{facts.value(path)} ranks of the job {words}", (path,), "ncclras")
    if len(set(versions.values())) > 1:
        yield Problem(f"ranks loaded NCCL {' and '.join(sorted(map(str, set(versions.values()))))}", tuple(versions))
    sockets = [(rank, path) for (rank,), path, network in facts.each("nccl.rank[].network") if network == "Socket"]
    if sockets and facts.value("rdma.verbs_files_count"):
        yield Problem(f"rank {listed([rank for rank, _ in sockets])} uses TCP sockets, and RDMA is here",
                      tuple(path for _, path in sockets),
                      severity=ERROR if facts.wanted.nodes > 1 else WARNING)  # fmt: skip
