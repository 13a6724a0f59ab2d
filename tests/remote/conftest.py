"""Real transports: an sshd of the test's own, a container made of namespaces. Skipped where they cannot be had."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.server import free_port

ROOT = Path(__file__).parents[2]
SSHD_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile {folder}/pid
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
"""


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="session")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The prefix that leads through ssh to this machine."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if not sshd or not shutil.which("ssh"):
        pytest.skip("no sshd here: apt-get install openssh-server openssh-client")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port()
    (folder / "config").write_text(SSHD_CONFIG.format(port=port, folder=folder))
    made = None
    if os.getuid() == 0 and not os.path.exists("/run/sshd"):
        made = Path("/run/sshd")
        made.mkdir(mode=0o755)
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "config"], stdout=log, stderr=log)
    try:
        key, _, host = (folder / "host.pub").read_text().partition(" ")
        (folder / "known").write_text(f"[127.0.0.1]:{port} {key} {host}")
        options = [
            *("-F", "none", "-i", f"{folder}/user", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
            *("-o", f"UserKnownHostsFile={folder}/known", "-p", str(port)),
        ]
        prefix = ["ssh", *options, f"{pwd.getpwuid(os.getuid()).pw_name}@127.0.0.1"]
        for _ in range(100):
            if server.poll() is not None:
                pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()[-200:]}")
            if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        else:
            pytest.skip(f"nobody can log in over ssh here: {(folder / 'log').read_text()[-300:]}")
        yield prefix
    finally:
        end(server)
        if made:
            made.rmdir()


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The prefix that leads into a container: its own users, mounts, processes and host name, and no envsnap in it."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("a container here would have no Python: there is no /usr/bin/python3")
    hidden = {str(ROOT), sys.prefix, str(Path.home())} - {"/", "/usr"}
    script = "; ".join(
        [
            "set -e",
            *(f"mount -t tmpfs none {shlex.quote(path)}" for path in sorted(hidden)),
            "echo ready",
            "exec sleep 3600",
        ]
    )
    namespaces = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--uts", "--ipc"]
    try:
        process = subprocess.Popen(
            ["unshare", *namespaces, "--kill-child", "sh", "-c", script],
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        pytest.skip("no unshare here")
    assert process.stdout
    assert process.stderr
    with process.stdout, process.stderr:
        try:
            if process.stdout.readline() != b"ready\n":
                pytest.skip(f"no namespaces here: {process.stderr.read(300).decode()}")
            inner = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
            ways = ["--user", "--mount", "--pid", "--uts", "--ipc", "--preserve-credentials"]
            yield ["nsenter", "-t", inner, *ways, "--wd=/", "env", "PATH=/usr/bin:/bin", "HOME=/root"]
        finally:
            process.kill()  # it ignores a plain end while its child runs, and takes that along
            process.wait()
