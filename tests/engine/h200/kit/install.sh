#!/usr/bin/env bash
# install.sh KITDIR DEST : unpack the kit on the GPU machine.
# KITDIR/jitcache.tar.gz (see save_jitcache.sh) is unpacked too, if it is there.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: install.sh KITDIR DEST" >&2; exit 2; }
kit=$(cd "$1" && pwd)
mkdir -p "$2"
dest=$(cd "$2" && pwd)
case $dest in *[[:space:]]*) echo "install: DEST must have no spaces" >&2; exit 2 ;; esac

(cd "$kit" && sha256sum --quiet -c kit.sha256)
if command -v xz >/dev/null; then
  xz -dc -T0 "$kit/kit.tar.xz" | tar -C "$dest" -xf -
else
  python3 -c 'import sys, tarfile
tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2], filter="fully_trusted")' "$kit/kit.tar.xz" "$dest"
fi

mkdir -p "$dest"/cache/{tvm-ffi,triton}
if [ -f "$kit/jitcache.tar.gz" ]; then
  tar -C "$dest" -xzf "$kit/jitcache.tar.gz" cache
  tar -C "$HOME" -xzf "$kit/jitcache.tar.gz" .cache/flashinfer
fi

# Beside the servers' folder: what they import is the engine's own.
python3 -m pip install -q --no-index --no-deps --upgrade --target "$dest/envsnap" "$kit"/wheels/*.whl

# Servers write no byte code: each of their processes would compile anew whatever it imports.
python3 -m compileall -qq -j 0 "$dest/site" || true  # some packages carry files that no Python can read

echo "unpacked to $dest ($(du -sm "$dest" | cut -f1) MB)"
