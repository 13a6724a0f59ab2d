#!/usr/bin/env bash
# make_kit.sh OUTDIR [WHEELDIR] : build OUTDIR/kit.tar.xz (SGLang 0.5.16, Python 3.12, sm_90, tiny models), and
# OUTDIR/wheels with what envsnap needs, on a machine with PyPI.
# SGLang's wheels are downloaded to WHEELDIR (default: a temporary folder); an existing one is reused.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: make_kit.sh OUTDIR [WHEELDIR]" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
limit=$((58 * 1024 * 1024))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$1" "${2:-$work/wheels}"
out=$(cd "$1" && pwd)
wheels=$(cd "${2:-$work/wheels}" && pwd)

echo "== download"
platforms=()
for tag in manylinux1 manylinux2014 manylinux_2_{17,24,27,28,31,34,35,39}; do
  platforms+=(--platform "${tag}_x86_64")
done
download() {  # REQUIREMENTS FOLDER
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version 3.12 --implementation cp "${platforms[@]}" -r "$1" -d "$2"
}
download "$here/requirements.txt" "$wheels"
rm -rf "$out/wheels"
download "$here/requirements-envsnap.txt" "$out/wheels"

echo "== unpack"
mkdir -p "$work/kit/site"
python3 "$here/unpack_wheels.py" "$wheels" "$work/kit/site"
cp "$here"/stubs/*.py "$work/kit/site/"
if command -v strip >/dev/null; then  # binutils; saves about 90 MB unpacked
  find "$work/kit/site" -name '*.so*' -type f -exec strip --strip-unneeded {} +
fi

# The logits gatherer would build torch symmetric memory with NVLink multicast: leave it on NCCL.
gather=$work/kit/site/sglang/srt/distributed/device_communicators/triton_symm_mem_ag.py
sed -i 's/self\._state = self\._UNINIT if enabled else None/self._state = None/' "$gather"
if grep -q '_UNINIT if enabled' "$gather" || ! grep -q '^        self\._state = None$' "$gather"; then
  echo "make_kit: triton_symm_mem_ag.py is not as expected, not patched" >&2
  exit 1
fi

python3 "$here/../../cpu/make_models.py" "$work/kit/models" >/dev/null

echo "== pack"
# One fixed time for every file: run-time compiled kernels stay valid when the kit is rebuilt.
tar -C "$work/kit" --sort=name --owner=0 --group=0 --numeric-owner --mtime=2026-01-01T00:00:00Z -cf - . |
  xz -9 -T0 >"$out/kit.tar.xz"
(cd "$out" && sha256sum kit.tar.xz >kit.sha256)
cp "$here"/{install.sh,save_jitcache.sh} "$out/"

size=$(stat -c %s "$out/kit.tar.xz")
echo "kit.tar.xz: $size bytes ($((size / 1048576)) MiB), unpacked $(du -sm "$work/kit" | cut -f1) MB"
[ "$size" -le "$limit" ] || { echo "make_kit: larger than $limit bytes" >&2; exit 1; }
