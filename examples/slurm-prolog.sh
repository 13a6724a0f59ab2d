#!/usr/bin/env bash
# Slurm Prolog: check the node before a job, and record it. slurm.conf: Prolog=/etc/slurm/slurm-prolog.sh
#
# A Prolog that fails drains the node and requeues the job, so only a real failure (exit code 1) does that: trouble of
# envsnap itself, and what could not be read, do not. It runs as root, without the user's environment and without PATH.
#
# ENVSNAP_DISABLE=1 makes it a no-op.
# Tested: run as it is, with SLURM_JOB_ID set (clean, policy violated, envsnap missing, envsnap disabled); not under slurmd.
set -u
export PATH=${ENVSNAP_BIN:-/opt/envsnap/bin}:/usr/local/bin:/usr/bin:/bin
[ "${ENVSNAP_DISABLE:-}" = 1 ] && exit 0

policy=${ENVSNAP_POLICY:-/etc/envsnap/node.toml}
folder=${ENVSNAP_SPOOL:-/var/spool/envsnap}/${SLURM_JOB_ID:?}
umask 077
mkdir -p "$folder" || exit 0

# With a deadline far below Slurm's PrologEpilogTimeout: a driver that hangs must not take the node with it.
arguments=(--deadline 8 --allow-unknown -o "$folder/check.txt")
[ -f "$policy" ] && arguments+=(--policy "$policy")
envsnap check "${arguments[@]}"
code=$?

envsnap capture --quiet --deadline 8 --moment before --note "job $SLURM_JOB_ID" -o "$folder/before.json.gz" >/dev/null

if [ "$code" = 1 ]; then
  grep -h '^FAIL' "$folder/check.txt" >&2
  exit 1
fi
exit 0
