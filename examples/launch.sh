#!/usr/bin/env bash
# Start an inference server for a benchmark: check the machine, record it, start the server, and see whether the workers
# have what was asked for. Stop, with a reason, where one of these fails.
#
#   launch.sh [SERVER COMMAND…]          BENCHMARK='python3 -m sglang.bench_serving …' launch.sh …
#
# ENVSNAP_DISABLE=1 leaves the server and the benchmark alone.
# Tested: run as it is, with a toy server in the place of SGLang (clean, port taken, server dead, server
# never ready, interrupted, envsnap disabled).
set -euo pipefail

[ $# -gt 0 ] || set -- python3 -m sglang.launch_server --model-path "${MODEL:?name the model}" --tp 2 --port 30000
ready=${READY_URL:-http://127.0.0.1:30000/health}
folder=${ENVSNAP_FOLDER:-$PWD/.envsnap}
mkdir -p "$folder/records"

# 1. Is this machine fit? The command is read for what it wants: GPUs, model, port. Warnings do not stop it.
envsnap check --wait "${WAIT_SECONDS:-60}" --for "$(printf '%q ' "$@")"

# 2. What the machine is like, for the day on which the numbers are other ones.
envsnap capture --quiet --moment before --note "launch.sh: $*" -o "$folder/before.json.gz"

# 3. Each worker writes there what can be seen only from within. SGLang and vLLM load the recorder by themselves.
[ "${ENVSNAP_DISABLE:-}" = 1 ] || export ENVSNAP_RECORD="$folder/records"
"$@" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT

give_up=$((SECONDS + ${READY_SECONDS:-900}))
until curl --silent --fail --output /dev/null --max-time 5 "$ready"; do
  kill -0 "$server" 2>/dev/null || { echo "launch.sh: the server ended before it was ready" >&2; exit 1; }
  [ "$SECONDS" -lt "$give_up" ] || { echo "launch.sh: the server was not ready in time" >&2; exit 1; }
  sleep "${POLL_SECONDS:-2}"
done

# 4. Did the variables arrive, is the backend the one asked for, are the ranks alike? What cannot be seen here does not
#    stop it: reading workers takes their user, and often root.
envsnap check --after --pid "$server" --allow-unknown

# 5. The benchmark, or the server until somebody ends it.
if [ -n "${BENCHMARK:-}" ]; then
  bash -c "$BENCHMARK"
else
  wait "$server"
fi
