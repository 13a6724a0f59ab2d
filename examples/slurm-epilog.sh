#!/usr/bin/env bash
# Slurm Epilog: record the node after a job, and say what the job changed or left behind. slurm.conf:
# Epilog=/etc/slurm/slurm-epilog.sh, with slurm-prolog.sh before the job.
#
# An Epilog that fails drains the node: here, when something the built-in rules object to is left (processes on a GPU,
# a policy violated) that the next job would trip over.
#
# ENVSNAP_DISABLE=1 makes it a no-op.
# Tested: run as it is after slurm-prolog.sh (clean, policy violated, no record of the start, disabled); not under slurmd.
set -u
export PATH=${ENVSNAP_BIN:-/opt/envsnap/bin}:/usr/local/bin:/usr/bin:/bin
[ "${ENVSNAP_DISABLE:-}" = 1 ] && exit 0

policy=${ENVSNAP_POLICY:-/etc/envsnap/node.toml}
folder=${ENVSNAP_SPOOL:-/var/spool/envsnap}/${SLURM_JOB_ID:?}
umask 077
mkdir -p "$folder" || exit 0

envsnap capture --quiet --deadline 8 --moment after --note "job $SLURM_JOB_ID" -o "$folder/after.json.gz" >/dev/null
if [ -f "$folder/before.json.gz" ]; then
  envsnap diff "$folder/before.json.gz" "$folder/after.json.gz" >"$folder/changed.txt"
fi

# What ends by itself gets some seconds to do so.
arguments=(--deadline 8 --wait 20 --allow-unknown -o "$folder/check-after.txt")
[ -f "$policy" ] && arguments+=(--policy "$policy")
envsnap check "${arguments[@]}"
if [ $? = 1 ]; then
  grep -h '^FAIL' "$folder/check-after.txt" >&2
  exit 1
fi
exit 0
