#!/bin/sh
# Entry point of a container: check what the container got (GPUs, /dev/shm, CPU quota, mounted model), then become the
# server: same process id, so that `docker stop` reaches it. Dockerfile:
#
#   COPY docker-entrypoint.sh /
#   ENTRYPOINT ["/docker-entrypoint.sh"]
#   CMD ["python3", "-m", "sglang.launch_server", "--model-path", "/model", "--tp", "2"]
#
# A failed check ends the container with exit code 1; --fail-open keeps trouble of envsnap itself from doing so.
# ENVSNAP_DISABLE=1 starts the server without a check.
# Tested: run as it is, with a toy command (clean, policy violated, envsnap disabled, no command); not in a container.
set -eu

[ $# -gt 0 ] || { echo "docker-entrypoint.sh: no command was given" >&2; exit 64; }

# A volume here keeps what the workers tell of themselves; capture it from outside with --records.
if [ -n "${ENVSNAP_RECORDS:-}" ] && [ "${ENVSNAP_DISABLE:-}" != 1 ]; then
  mkdir -p "$ENVSNAP_RECORDS"
  export ENVSNAP_RECORD="$ENVSNAP_RECORDS"
fi

exec envsnap check ${ENVSNAP_POLICY:+--policy "$ENVSNAP_POLICY"} --wait "${ENVSNAP_WAIT:-60}" --allow-unknown --fail-open -- "$@"
