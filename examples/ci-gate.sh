#!/usr/bin/env bash
# Gate of a benchmark in CI: measure only on a machine that is as it was when the good numbers were made.
#
#   ci-gate.sh GOOD_FOLDER BENCHMARK…        PROBES=host_link,all_reduce ci-gate.sh …
#
# The first time GOOD_FOLDER is filled; keep it with the runner. Afterwards the machine's state and what the probes
# measure are held against it. Exit code: that of the benchmark, or 1 where the machine is another, 2 for trouble, 3
# where something could not be compared.
#
# ENVSNAP_DISABLE=1 runs the benchmark alone.
# Tested: run as it is with the CPU's probe (first time, same machine, other state, slower, disabled).
set -euo pipefail

good=${1:?usage: ci-gate.sh GOOD_FOLDER BENCHMARK…}
shift
[ $# -gt 0 ] || { echo "ci-gate.sh: no benchmark was given" >&2; exit 64; }
probes=${PROBES:-cpu,memory}

if [ "${ENVSNAP_DISABLE:-}" = 1 ]; then
  exec "$@"
elif [ -f "$good/state.json" ]; then
  envsnap check --baseline "$good/state.json" --format "${CHECK_FORMAT:-text}"
  envsnap probe --only "$probes" --baseline "$good/probe.json"
else
  mkdir -p "$good"
  envsnap probe --only "$probes" -o "$good/probe.json"
  # Only what is the machine's: a checkout changes with every job. It comes last, as the sign that the folder is whole.
  envsnap capture --quiet --only "${SECTIONS:-cpu,memory,kernel,gpu,nvidia_driver,pci,nccl,packages}" \
    -o "$good/state.json" >/dev/null
fi
exec "$@"
