"""The one module that touches the machine. Python 3.8 or later, standard library alone.

It stands apart from the rest of envsnap, imports nothing of it, and can be sent to another machine and served
over a pipe (`serve_streams`). nvidia-ml-py is used where that machine has it, or where it came along.

A request is a list `[operation, *arguments]` of JSON values. Its answer is one of

    ["ok", value]               value is JSON; bytes that are not UTF-8 come as lone surrogates
    ["missing", why, detail]    cannot be had, for a reason outside envsnap; `why` as in `reading.Why`
    ["error", message]          went wrong in a way that nobody foresaw

Nothing here writes, opens a shell, follows a device file or a FIFO, or reads without a bound.
"""

import base64
import glob
import hashlib
import json
import os
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import zlib

READ_LIMIT = 4 << 20
RUN_LIMIT = 64 << 20
RUN_MEMORY = 512 << 20
LIST_LIMIT = 100_000
BATCH_WORKERS = 8


class Missing(Exception):
    """Something that cannot be had, for a reason outside envsnap."""

    def __init__(self, why, detail=""):
        super().__init__(detail)
        self.why = why
        self.detail = detail


def _text(data):
    return data.decode("utf-8", "surrogateescape")


def _bytes_name(path):
    """A path as the kernel wants it; lone surrogates are bytes that were not UTF-8. A NUL can name nothing."""
    if not isinstance(path, str) or "\0" in path:
        raise Missing("absent", "not a path: %r" % (path,))
    return os.fsencode(path)


def _open(path, flags=0):
    """Open for reading without ever blocking on a FIFO or touching a device."""
    name = _bytes_name(path)
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | flags)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise Missing("not_supported", "not a regular file: %s" % path)
    return fd


def op_read(path, limit=READ_LIMIT, partial=False):
    """Text of a file. Larger than `limit` bytes: missing, or with `partial` its beginning."""
    fd = _open(path)
    try:
        data = _read_upto(fd, limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        if not partial:
            raise Missing("too_large", "%s has more than %d bytes" % (path, limit))
        data = data[:limit]
    return _text(data)


def _read_upto(fd, size):
    # NOTE: little is asked for until much has come: to answer a sysctl, the kernel zeroes a buffer of the size asked
    # for, at its end once more, and 1 MiB takes it 0.1 ms.
    chunks, ask = [], 1 << 12
    while size > 0:
        chunk = os.read(fd, min(size, ask))
        if not chunk:
            break
        chunks.append(chunk)
        size -= len(chunk)
        if len(chunk) > 1 << 10:
            ask = 1 << 20
    return b"".join(chunks)


def op_read_own(path, limit=READ_LIMIT):
    """Text of a file with what vouches for it: {"text", "uid", "mode", "mtime_ns"}, all from one open.

    No symbolic link in the file's place is followed, so that what was checked is what is read.
    """
    fd = _open(path, os.O_NOFOLLOW)
    try:
        s = os.fstat(fd)
        data = _read_upto(fd, limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise Missing("too_large", "%s has more than %d bytes" % (path, limit))
    return {"text": _text(data), "uid": s.st_uid, "mode": stat.S_IMODE(s.st_mode), "mtime_ns": s.st_mtime_ns}


def op_bytes(path, offset, size):
    """Up to `size` bytes from `offset`, as base64. A negative offset counts from the end."""
    fd = _open(path)
    try:
        if offset < 0:
            offset = max(0, os.fstat(fd).st_size + offset)
        return base64.b64encode(os.pread(fd, min(size, READ_LIMIT), offset)).decode("ascii")
    finally:
        os.close(fd)


def op_find(path, pattern, limit=1 << 30):
    """The first match of a bytes pattern (written in ASCII) in a file of any size, its first group if it has one."""
    fd = _open(path)
    try:
        compiled = re.compile(pattern.encode("ascii"))
        overlap = b""
        done = 0
        while done < limit:
            chunk = os.read(fd, 4 << 20)
            if not chunk:
                return None
            done += len(chunk)
            match = compiled.search(overlap + chunk)
            if match:
                return _text(match.group(1) if compiled.groups else match.group())
            overlap = chunk[-256:]
        return None
    finally:
        os.close(fd)


def op_hash(path, limit=256 << 20):
    """SHA-256 of a file, in hex."""
    fd = _open(path)
    try:
        if os.fstat(fd).st_size > limit:
            raise Missing("too_large", "%s has more than %d bytes" % (path, limit))
        digest = hashlib.sha256()
        done = 0
        while done <= limit:
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                return digest.hexdigest()
            done += len(chunk)
            digest.update(chunk)
        raise Missing("too_large", "%s has more than %d bytes" % (path, limit))
    finally:
        os.close(fd)


def op_blob_hash(path, limit=64 << 20, algorithm="sha1"):
    """Git's own name of a file's content (its blob's SHA-1 or SHA-256), its size and its count of lines."""
    fd = _open(path)
    try:
        size = os.fstat(fd).st_size
        if size > limit:
            raise Missing("too_large", "%s has more than %d bytes" % (path, limit))
        digest = hashlib.new(algorithm, b"blob %d\0" % size)
        lines = done = 0
        while done < size:
            chunk = os.read(fd, min(1 << 20, size - done))
            if not chunk:
                break
            done += len(chunk)
            lines += chunk.count(b"\n")
            digest.update(chunk)
        return {"hash": digest.hexdigest(), "size": done, "lines": lines}
    finally:
        os.close(fd)


def op_list(path, limit=LIST_LIMIT):
    """The names in a directory, sorted."""
    names = []
    with os.scandir(_bytes_name(path)) as entries:
        for entry in entries:
            names.append(_text(entry.name))
            if len(names) > limit:
                raise Missing("too_large", "%s has more than %d entries" % (path, limit))
    return sorted(names)


def op_glob(pattern, limit=LIST_LIMIT):
    """The paths that match a shell pattern, sorted."""
    found = []
    for path in glob.iglob(pattern):
        found.append(path)
        if len(found) > limit:
            raise Missing("too_large", "more than %d paths match %s" % (limit, pattern))
    return sorted(found)


def op_read_matching(pattern, limit=1 << 16, count=20_000):
    """Every file that matches a shell pattern: path -> answer as to `read`."""
    # What follows the last wildcard is tried rather than looked for, which halves the cost: sysfs has one directory
    # per CPU and the same few files in each.
    parts = pattern.split("/")
    last = max((i for i, part in enumerate(parts) if glob.has_magic(part)), default=0)
    tail = "".join("/" + part for part in parts[last + 1 :])
    found = {}
    for path in op_glob("/".join(parts[: last + 1]), count):
        reply = answer(["read", path + tail, limit])
        if reply[:2] != ["missing", "absent"]:
            found[path + tail] = reply
    return found


_TYPES = [
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "dir"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
]


def op_stat(path, follow=True):
    """Type, size, times and owner of a path."""
    s = os.stat(_bytes_name(path), follow_symlinks=follow)
    kind = next((name for test, name in _TYPES if test(s.st_mode)), "other")
    return {
        "type": kind,
        "size": s.st_size,
        "mtime_ns": s.st_mtime_ns,
        "ctime_ns": s.st_ctime_ns,
        "mode": stat.S_IMODE(s.st_mode),
        "uid": s.st_uid,
        "gid": s.st_gid,
        "inode": s.st_ino,
        "device": s.st_dev,
        "rdev": s.st_rdev,
    }


def op_lstats(directory, names, limit=LIST_LIMIT):
    """[mode, size, mtime_ns, ctime_ns, inode] of each name below a directory, None where there is none.

    Links are not followed. One call for the thousands of files of a source tree.
    """
    if len(names) > limit:
        raise Missing("too_large", "more than %d names below %s" % (limit, directory))
    found = []
    fd = os.open(_bytes_name(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            try:
                s = os.stat(_bytes_name(name), dir_fd=fd, follow_symlinks=False)
                found.append([s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino])
            except OSError:
                found.append(None)
        return found
    finally:
        os.close(fd)


def op_link(path):
    """Where a symbolic link points."""
    return _text(os.readlink(_bytes_name(path)))


def op_realpath(path):
    """The path with every symbolic link resolved."""
    return _text(os.path.realpath(_bytes_name(path)))


def op_statvfs(path):
    """Size and free space of the file system that holds a path."""
    s = os.statvfs(_bytes_name(path))
    return {
        "size_bytes": s.f_frsize * s.f_blocks,
        "available_bytes": s.f_frsize * s.f_bavail,
        "files": s.f_files,
        "files_available": s.f_favail,
    }


def op_usage(path, limit=20_000, seconds=1.0, wanted=""):
    """What a directory tree holds: files, bytes, newest change (ns). Bounded; says so where it stopped early.

    With `wanted`, a regular expression, also the paths of up to 1000 files whose names it matches.
    """
    files = size = newest = 0
    complete = True
    matches = re.compile(wanted).search if wanted else None
    matching = []
    stop = time.monotonic() + seconds
    pending = [_bytes_name(path)]
    os.stat(pending[0])
    while pending and complete:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if files >= limit or time.monotonic() > stop:
                        complete = False
                        break
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                        continue
                    s = entry.stat(follow_symlinks=False)
                    files += 1
                    size += s.st_size
                    newest = max(newest, s.st_mtime_ns)
                    if matches and len(matching) < 1000 and matches(_text(entry.name)):
                        matching.append(_text(entry.path))
        except OSError:
            complete = False
    found = {"files": files, "bytes": size, "newest_ns": newest, "complete": complete}
    if wanted:
        found["matching"] = sorted(matching)
    return found


_running = set()  # type: set  # process groups that `run` has started and that may still be there


def op_run(argv, env=None, cwd=None, timeout=5.0, limit=RUN_LIMIT, stdin=""):
    """Run a program without a shell. `env` adds to the environment; None as a value removes.

    Its process group is killed at the timeout or past `limit` bytes of output. It gets RUN_MEMORY bytes of memory:
    a file that leads it to /dev/zero must not cost the machine all of its own.
    """
    full = dict(os.environ)
    for name, value in (env or {}).items():
        if value is None:
            full.pop(name, None)
        else:
            full[name] = value
    try:
        child = subprocess.Popen(
            argv,
            env=full,
            cwd=cwd,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Missing("absent", "no such program or directory: %s" % (error.filename or argv[0]))
    try:
        resource.prlimit(child.pid, resource.RLIMIT_DATA, (RUN_MEMORY, RUN_MEMORY))
    except (OSError, ValueError):  # it has ended, or may have less already
        pass
    _running.add(child.pid)
    try:
        return _talk(child, argv, stdin.encode("utf-8", "surrogateescape"), timeout, limit)
    finally:
        _running.discard(child.pid)
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                try:
                    stream.close()
                except OSError:
                    pass


def _talk(child, argv, stdin, timeout, limit):
    stop = time.monotonic() + timeout
    out, err = [], []
    sinks = {child.stdout: out, child.stderr: err}
    writing = [child.stdin] if child.stdin else []
    for stream in list(sinks) + writing:
        os.set_blocking(stream.fileno(), False)
    size = 0
    while sinks or writing:
        left = stop - time.monotonic()
        if left <= 0:
            _kill(child)
            raise Missing("timeout", "%s did not finish within %g s" % (argv[0], timeout))
        readable, writable, _ = select.select(list(sinks), writing, [], left)
        for stream in writable:
            try:
                stdin = stdin[os.write(stream.fileno(), stdin[:65536]) :]
            except OSError:
                stdin = b""
            if not stdin:
                stream.close()
                writing = []
        for stream in readable:
            chunk = os.read(stream.fileno(), 1 << 18)
            if not chunk:
                del sinks[stream]
                continue
            sinks[stream].append(chunk)
            size += len(chunk)
            if size > limit:
                _kill(child)
                raise Missing("too_large", "%s printed more than %d bytes" % (argv[0], limit))
    try:
        code = child.wait(max(0.1, stop - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(child)
        raise Missing("timeout", "%s did not exit within %g s" % (argv[0], timeout))
    return {"code": code, "out": _text(b"".join(out)), "err": _text(b"".join(err))}


def _kill(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    # NOTE: never wait without a bound: a child in an uninterruptible sleep does not die.
    for _ in range(20):
        if child.poll() is not None:
            return
        time.sleep(0.005)


def op_environ():
    """The environment of this process as it stands."""
    return {_text(os.fsencode(k)): _text(os.fsencode(v)) for k, v in os.environ.items()}


_serving = []  # type: list  # not empty behind a pipe
_FLAGS_OF_START = {
    "dont_write_bytecode": "PYTHONDONTWRITEBYTECODE",
    "no_user_site": "PYTHONNOUSERSITE",
    "safe_path": "PYTHONSAFEPATH",
    "isolated": "",
    "ignore_environment": "",
}
"""Flags that `remote_program` starts Python with, and the variables that would set them (none: no variable does)."""


def op_self():
    """This process: ids, directory, limits, interpreter."""
    flags = {
        name: int(getattr(sys.flags, name))
        for name in dir(sys.flags)
        if not name.startswith("_") and isinstance(getattr(sys.flags, name), (int, bool))
    }
    if _serving:  # how it was started here says nothing of how Python starts there
        for name in flags:
            if name in _FLAGS_OF_START:
                flags[name] = int(bool(os.environ.get(_FLAGS_OF_START[name])))
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "uid": os.getuid(),
        "euid": os.geteuid(),
        "gid": os.getgid(),
        "cwd": os.getcwd(),
        "argv": list(sys.argv),
        "hostname": socket.gethostname(),
        "time": time.time(),
        "executable": sys.executable,
        "version": sys.version,
        "version_info": list(sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "path": list(sys.path),
        "flags": flags,
        "machine": os.uname().machine,
        "modules": {
            name: getattr(sys.modules.get(name), "__file__", None) for name in ("sitecustomize", "usercustomize")
        },
    }


def op_cost():
    """What this process has used so far: seconds of CPU, with the programs it ran, and bytes of memory at most."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "cpu_seconds": round(sum(u.ru_utime + u.ru_stime for u in usage), 4),
        "peak_rss_bytes": usage[0].ru_maxrss * 1024,
    }


def op_uname():
    """What uname(2) says."""
    u = os.uname()
    return {"system": u.sysname, "node": u.nodename, "release": u.release, "version": u.version, "machine": u.machine}


def op_limits():
    """This process's resource limits, name -> [soft, hard], -1 for unlimited."""
    return {
        name[7:].lower(): list(resource.getrlimit(getattr(resource, name)))
        for name in sorted(dir(resource))
        if name.startswith("RLIMIT_")
    }


def op_confstr(name):
    """A configuration string of the C library, such as CS_GNU_LIBC_VERSION, which musl does not know."""
    try:
        return os.confstr(name)
    except ValueError:
        raise Missing("not_supported", "this C library has no %s" % name)


def op_links(path, pattern="", limit=16_384):
    """The symbolic links in a directory whose target matches a pattern: name -> target."""
    wanted = re.compile(pattern)
    found = {}
    name = _bytes_name(path)
    for count, entry in enumerate(os.listdir(name)):
        if count >= limit:
            raise Missing("too_large", "%s has more than %d entries" % (path, limit))
        try:
            target = _text(os.readlink(os.path.join(name, entry)))
        except OSError:
            continue
        if wanted.search(target):
            found[_text(entry)] = target
    return found


def op_processes(limit=65_536, command_limit=1 << 16):
    """Every process: [text of its stat, text of its cmdline (its beginning; empty for kernel threads)]."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        if len(found) >= limit:
            raise Missing("too_large", "more than %d processes" % limit)
        try:
            stat_text = op_read("/proc/%s/stat" % name, 8192)
            # The seventh field after the name holds the flags; PF_KTHREAD is among them.
            kernel = int(stat_text.rpartition(")")[2].split()[6]) & 0x00200000
            command = "" if kernel else op_read("/proc/%s/cmdline" % name, command_limit, True)
            found.append([stat_text, command])
        except (OSError, ValueError, IndexError, Missing):
            continue  # it ended meanwhile
    return found


def op_holders(prefix, limit=4096, seconds=0.5):
    """Which other processes hold files whose path starts with `prefix`.

    {"holders": [{"pid", "comm", "files"}], "looked": processes looked into, "denied": those that may not be,
    "complete": False where `limit` holders or `seconds` ended the search}. This process does not count.
    """
    stop = time.monotonic() + seconds
    skip = _kernel_threads()
    skip.add(str(os.getpid()))
    holders = []
    looked = denied = 0
    complete = True
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or pid in skip:
            continue
        if time.monotonic() > stop or len(holders) >= limit:
            complete = False
            break
        try:
            files = _open_files("/proc/%s/fd" % pid, prefix)
            looked += 1
            if files:
                comm = op_read("/proc/%s/comm" % pid, 64, True).strip()
                holders.append({"pid": int(pid), "comm": comm, "files": sorted(files)})
        except PermissionError:
            denied += 1
        except (OSError, Missing):
            continue  # it ended meanwhile
    return {"holders": holders, "looked": looked, "denied": denied, "complete": complete}


def _open_files(directory, prefix):
    """The paths with a prefix among the open files of a process. Relative look-ups save the kernel the walk."""
    found = set()
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(fd):
            try:
                target = os.readlink(name, dir_fd=fd)
            except FileNotFoundError:
                continue  # closed meanwhile
            if target.startswith(prefix):
                found.add(target)
    finally:
        os.close(fd)
    return found


def _kernel_threads():
    """PIDs, as text, of the kernel's own threads (the children of kthreadd): they hold no files, and are many."""
    try:
        if op_read("/proc/2/comm", 64).strip() == "kthreadd":
            return set(op_read("/proc/2/task/2/children").split())
    except (OSError, Missing):
        pass
    return set()


def op_affinity(pid):
    """The CPUs that a process (0: this one) may run on."""
    return sorted(os.sched_getaffinity(pid))


def op_scheduler(pid):
    """Scheduling policy, priority and nice value of a process."""
    return {
        "policy": os.sched_getscheduler(pid),
        "priority": os.sched_getparam(pid).sched_priority,
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
    }


def op_busiest(seconds=0.05, count=5):
    """How many processes there are, and which used most CPU over `seconds`: [command name, nanoseconds of CPU].

    This process and its children are left out. Processes that others may not see (hidepid) are not among them.
    """
    before, started = _cpu_times(), time.monotonic_ns()
    time.sleep(min(seconds, 1.0))
    after = _cpu_times()
    elapsed = time.monotonic_ns() - started
    used = sorted(((ns - before[pid], pid) for pid, ns in after.items() if pid in before), reverse=True)
    busiest = []
    for ns, pid in used[: 4 * count]:
        if ns <= 0 or len(busiest) == count or pid == os.getpid():
            continue
        try:
            name, _, rest = op_read("/proc/%d/stat" % pid).partition("(")[2].rpartition(")")
        except (OSError, Missing):
            continue
        if int(rest.split()[1]) != os.getpid():
            busiest.append([name, ns])
    return {"processes": len(after), "elapsed_ns": elapsed, "busiest": busiest}


def _cpu_times():
    """CPU time of every process by its clock, in nanoseconds: finer and twenty times cheaper than /proc/PID/stat."""
    times = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                # NOTE: Linux numbers the CPU clock of a process as (~pid << 3) | 2; no permission is asked.
                times[int(name)] = time.clock_gettime_ns((~int(name) << 3) | 2)
            except OSError:
                continue
    return times


def op_ipv4_address(interface):
    """The first IPv4 address of a network interface."""
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        try:
            found = fcntl.ioctl(anything.fileno(), 0x8915, struct.pack("256s", os.fsencode(interface)[:15]))
        except OSError:
            raise Missing("absent", "%s has no IPv4 address" % interface)
    return socket.inet_ntoa(found[20:24])


def op_memory(pid, ranges):
    """Bytes of another process's memory: [[address, size], ...] -> base64 or None where nothing is mapped.

    A range that runs into an unmapped page comes back short. Needs what ptrace needs; nothing is stopped.
    """
    total = sum(size for _, size in ranges)
    if total > RUN_LIMIT:
        raise Missing("too_large", "%d bytes of process memory asked for" % total)
    fd = os.open("/proc/%d/mem" % pid, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = []
        for address, size in ranges:
            try:
                found.append(base64.b64encode(_pread_upto(fd, address, size)).decode("ascii"))
            except (OSError, OverflowError, ValueError):
                found.append(None)
        return found
    finally:
        os.close(fd)


def _pread_upto(fd, address, size):
    """pread that stops at the first unmapped page instead of failing."""
    done = []
    while size > 0:
        try:
            chunk = os.pread(fd, size, address)
        except OSError:
            if done:
                break
            first_page = 4096 - address % 4096
            if size <= first_page:
                raise
            size = first_page
            continue
        if not chunk:
            break
        done.append(chunk)
        address += len(chunk)
        size -= len(chunk)
    return b"".join(done)


def op_http(url, headers=None, timeout=5.0, limit=READ_LIMIT, key_file="", body=""):
    """GET an http address, or POST a `body` to it: {"status", "body"}. Redirects are not followed, proxies not used.

    `key_file` holds a bearer token, which is read here so that it is in no request and in no recording.
    """
    import http.client
    import ssl
    import urllib.parse

    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Missing("absent", "not an http address: %s" % error)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Missing("absent", "not an http address")
    headers = dict(headers or {})
    if key_file:
        # NOTE: one word: what cannot stand in a header would be quoted in the error.
        words = op_read(key_file, 8192).split()
        headers["Authorization"] = "Bearer " + (words[0] if words else "")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, port, timeout=timeout)
    place = "%s:%s" % (parts.hostname, connection.port)
    lines, late = [], []
    watch = threading.Timer(timeout, _hang_up, (lines, late))
    watch.daemon = True
    watch.start()
    try:
        connection.connect()
        # NOTE: kept here, since a connection gives its socket away once it knows that it will be closed.
        lines.append(connection.sock)
        target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        connection.request("POST" if body else "GET", target, body.encode("utf-8") or None, headers)
        response = connection.getresponse()
        chunks, size = [], 0
        while True:
            chunk = response.read1(1 << 16)
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise Missing("too_large", "the answer has more than %d bytes" % limit)
        if late:
            raise Missing("timeout", "no full answer from %s within %g s" % (place, timeout))
        return {"status": response.status, "body": _text(b"".join(chunks))}
    except (http.client.HTTPException, ssl.SSLError, OSError) as error:
        if late or isinstance(error, socket.timeout):
            raise Missing("timeout", "no full answer from %s within %g s" % (place, timeout))
        if isinstance(error, ConnectionRefusedError):
            raise Missing("absent", "nothing listens at %s" % place)
        if isinstance(error, socket.gaierror):
            raise Missing("absent", "no host has the name %s" % parts.hostname)
        if isinstance(error, ssl.SSLError):
            raise Missing("not_supported", "TLS with %s: %s" % (place, error.reason or error))
        if isinstance(error, http.client.HTTPException):
            raise Missing("not_supported", "not an HTTP answer from %s: %s" % (place, type(error).__name__))
        raise Missing("absent", "no connection to %s: %s" % (place, error.strerror or error))
    finally:
        watch.cancel()
        connection.close()


def _hang_up(lines, late):
    """End a conversation that takes too long: a socket's own timeout begins anew with every byte."""
    late.append(True)
    for line in lines:
        try:
            # NOTE: the plain socket's method, also under TLS: the other would wait for the peer.
            socket.socket.shutdown(line, socket.SHUT_RDWR)
        except OSError:
            pass


def op_dialogue(port, lines, timeout=3.0, limit=READ_LIMIT, address="127.0.0.1"):
    """Talk to a line protocol at a local port: one line of answer to each line sent, to the last one all that comes."""
    stop = time.monotonic() + timeout
    with socket.create_connection((address, port), timeout) as connection, connection.makefile("rb") as answers:
        said = []
        for number, line in enumerate(lines):
            connection.sendall(line.encode("ascii") + b"\n")
            last = number == len(lines) - 1
            chunks, size = [], 0
            while time.monotonic() < stop:
                chunk = answers.readline(limit - size + 1)
                size += len(chunk)
                chunks.append(chunk)
                if not chunk or not last or size > limit:
                    break
            else:
                raise Missing("timeout", "port %d did not answer within %g s" % (port, timeout))
            if size > limit:
                raise Missing("too_large", "port %d answered with more than %d bytes" % (port, limit))
            said.append(_text(b"".join(chunks)))
    return said


def op_kernel_log(pattern, limit=2000, seconds=0.5):
    """The records of the kernel's log whose message matches: {"first": number of the oldest record, "lines": [...]}.

    Record 0 is the first of this boot. The log is read as it stands, and at most for so many seconds.
    """
    wanted = re.compile(pattern)
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    stop = time.monotonic() + seconds
    first, lines = None, []
    try:
        if not stat.S_ISCHR(os.fstat(fd).st_mode):
            raise Missing("not_supported", "/dev/kmsg is no device")
        while len(lines) < limit:
            if time.monotonic() > stop:
                raise Missing("timeout", "the kernel's log was not read to its end within %g s" % seconds)
            try:
                record = _text(os.read(fd, 8192))
            except BlockingIOError:
                break
            except BrokenPipeError:  # the record was overwritten meanwhile; the next read goes on after it
                continue
            head, _, message = record.partition(";")
            if first is None:
                first = int(head.split(",")[1])
            message = message.split("\n", 1)[0]
            if wanted.search(message):
                lines.append(message)
    finally:
        os.close(fd)
    return {"first": first or 0, "lines": lines}


def op_clock():
    """What the kernel knows of its clock's agreement with the world: {"synchronised", "error_us"} (adjtimex(2))."""
    import ctypes

    # struct timex: modes (0 reads), offset, frequency, maximum error, estimated error, status, …; 208 bytes in all.
    words = (ctypes.c_long * 64)()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(words))
    if state < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    return {"synchronised": state != 5, "error_us": int(words[3])}


def op_listening(port, address="127.0.0.1"):
    """Whether something accepts connections at a local port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((address, port)) == 0


def op_within(seconds, requests):
    """Answers of up to 64 requests that may hang (a dead network mount), asked side by side.

    One without an answer after `seconds` is missing; its thread is left behind, since nothing can wake it.
    """
    if len(requests) > 64:
        raise Missing("too_large", "%d requests at once" % len(requests))
    answers = [["missing", "timeout", "no answer within %g s" % seconds]] * len(requests)

    def work(index):
        answers[index] = answer(requests[index])

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(requests))]
    stop = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, stop - time.monotonic()))
    return list(answers)


_PCI_EXPRESS, _PCI_EXPRESS_SIZE = 0x10, 0x3C
_PCI_ACS, _PCI_ACS_SIZE = 0x0D, 8


def op_pci_config(device):
    """PCI Express and ACS capabilities from a device's configuration space: {"express": hex, "acs": hex or None}.

    Reads those few words alone: each costs an access to the device, which in a virtual machine is slow. A device
    that sleeps is not woken.
    """
    try:
        if op_read(device + "/power/runtime_status", 64).strip() == "suspended":
            raise Missing("off", "the device is suspended, and is not woken for this")
    except FileNotFoundError:
        pass
    fd = _open(device + "/config")
    try:
        has_list = _config(fd, 0x06, 1)[0] & 0x10
        pointer = _config(fd, 0x34, 1)[0] & 0xFC if has_list else 0
        express = _capability(fd, pointer, _PCI_EXPRESS)
        if express is None:
            raise Missing("not_supported", "no PCI Express capability")
        acs = _extended_capability(fd, _PCI_ACS)
        return {
            "express": _config(fd, express, _PCI_EXPRESS_SIZE).hex(),
            "acs": None if acs is None else _config(fd, acs, _PCI_ACS_SIZE).hex(),
        }
    finally:
        os.close(fd)


def _config(fd, offset, size):
    data = os.pread(fd, size, offset)
    if len(data) < size:
        # NOTE: sysfs lets everyone read the first 64 bytes, and simply ends there for those who are not root.
        raise Missing("denied", "configuration space from byte %d on is for root" % (offset + len(data)))
    return data


def _capability(fd, pointer, wanted):
    """Where a capability of the first 256 bytes begins, or None."""
    for _ in range(48):  # as many as fit: a list that loops ends
        if not pointer:
            return None
        kind, following = _config(fd, pointer, 2)
        if kind == wanted:
            return pointer
        pointer = following & 0xFC
    return None


def _extended_capability(fd, wanted):
    """Where a capability beyond the first 256 bytes begins, or None, also where there is no such space."""
    offset = 0x100
    for _ in range(480):
        header = int.from_bytes(os.pread(fd, 4, offset), "little")
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == wanted:
            return offset
        offset = header >> 20 & 0xFFC
        if offset < 0x100:
            return None
    return None


_sent = {}  # type: dict  # modules that came along with this one, name -> source
_nvml_lock = threading.Lock()
_nvml = {}  # type: dict
_nvml_handles = {}  # type: dict


def _load_nvml():
    """The official nvidia-ml-py, initialised once; its `pynvml` module or a reason."""
    with _nvml_lock:
        if not _nvml:
            _nvml["answer"] = _start_nvml()
    answer = _nvml["answer"]
    if isinstance(answer, Exception):
        raise answer
    return answer


def _start_nvml():
    import ctypes

    try:
        # Importing pynvml takes ten times as long as finding out that there is no driver.
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return Missing("absent", "no NVIDIA driver library: %s" % error)
    try:
        pynvml = _import_pynvml()
    except ImportError:
        return Missing("absent", "nvidia-ml-py is not installed; pip install nvidia-ml-py")
    # NOTE: three other distributions hold a module of that name. `pynvml` before 12 is a package whose star import
    # drops the private name; nvidia-ml-py3 and nvidia-ml-py before 12.535 know no clock *event* reasons.
    # `pynvml` from 12 on only brings nvidia-ml-py along, and is fine.
    if not hasattr(pynvml, "_nvmlGetFunctionPointer") or not hasattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons"):
        return Missing(
            "not_supported",
            "the module pynvml is not that of nvidia-ml-py 12.535 or later; "
            "pip uninstall -y pynvml nvidia-ml-py3 nvidia-ml-py && pip install nvidia-ml-py",
        )
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _nvml_missing(pynvml, error)
    return pynvml


def _import_pynvml():
    """The module that was sent along, which is known to fit, else the one that is installed."""
    source = _sent.get("pynvml")
    if source is None:
        import pynvml

        return pynvml
    module = sys.modules["pynvml"] = type(sys)("pynvml")  # NOTE: it looks itself up there
    exec(compile(source, "pynvml, sent along", "exec"), module.__dict__)
    return module


def _nvml_missing(pynvml, error):
    """NVML errors that mean 'cannot be had here'; any other is an error."""
    code = getattr(error, "value", None)
    why = {
        getattr(pynvml, "NVML_ERROR_" + name, object()): reason
        for name, reason in (
            ("LIBRARY_NOT_FOUND", "absent"),
            ("DRIVER_NOT_LOADED", "absent"),
            ("NOT_FOUND", "absent"),
            ("NO_DATA", "absent"),
            ("GPU_NOT_FOUND", "absent"),
            ("NOT_SUPPORTED", "not_supported"),
            ("FUNCTION_NOT_FOUND", "not_supported"),
            ("ARGUMENT_VERSION_MISMATCH", "not_supported"),
            ("LIB_RM_VERSION_MISMATCH", "not_supported"),
            ("VGPU_ECC_NOT_SUPPORTED", "not_supported"),
            ("DEPRECATED", "not_supported"),
            ("INVALID_ARGUMENT", "not_supported"),
            ("NO_PERMISSION", "denied"),
            ("OPERATING_SYSTEM", "denied"),
            ("GPU_IS_LOST", "gone"),
            ("RESET_REQUIRED", "gone"),
            ("TIMEOUT", "timeout"),
        )
    }.get(code)
    text = "NVML: %s" % error
    return Missing(why, text) if why else RuntimeError(text)


def op_nvml(function, *arguments):
    """Call an NVML getter by name.

    An argument "gpu:N" stands for that GPU's handle, "struct:NAME" for a fresh structure that the getter fills
    in and that is then the answer. nvmlDeviceGetFieldValues answers with one answer (as of a request) per field.
    """
    pynvml = _load_nvml()
    if not isinstance(function, str) or not re.match(r"nvml(Device|System|Unit)(Get|Is|Validate|Query)\w*\Z", function):
        raise Missing("not_supported", "%s is not a getter" % (function,))
    call = getattr(pynvml, function, None)
    if call is None:
        raise Missing("not_supported", "this nvidia-ml-py has no %s" % function)
    try:
        filled, passed = _nvml_arguments(pynvml, arguments)
        answer = call(*passed, *_fresh_outputs(call, len(passed)))
        if filled is not None:
            if answer:  # some getters hand the return code through unchecked
                raise pynvml.NVMLError(answer)
            answer = filled
    except pynvml.NVMLError as error:
        raise _nvml_missing(pynvml, error)
    except getattr(pynvml, "NVMLLibraryMismatchError", ()):  # pynvml's words for a function that is not there
        raise Missing("not_supported", "NVML: Function Not Found")
    if function == "nvmlDeviceGetFieldValues":
        return [_field_answer(pynvml, field) for field in answer]
    return _plain(answer)


def _nvml_arguments(pynvml, arguments):
    """The structure to be filled, if any, and the arguments as the getter takes them."""
    import ctypes

    filled = None
    passed = []
    for argument in arguments:
        if isinstance(argument, str) and argument.startswith("gpu:"):
            passed.append(_nvml_handle(pynvml, int(argument[4:])))
        elif isinstance(argument, str) and argument.startswith("struct:"):
            kind = getattr(pynvml, argument[7:], None)
            if not (isinstance(kind, type) and issubclass(kind, ctypes.Structure)):
                raise Missing("not_supported", "this nvidia-ml-py has no %s" % argument[7:])
            filled = kind()
            passed.append(ctypes.byref(filled))
        else:
            passed.append(argument)
    return filled, passed


def _nvml_handle(pynvml, index):
    """A GPU's handle, looked up once: the look-up wakes the GPU, and can take seconds to find that it does not."""
    known = _nvml_handles.get(index)
    if isinstance(known, tuple):
        error, until = known
        if time.monotonic() < until:
            raise error
        known = None
    if known is None:
        try:
            known = _nvml_handles[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError as error:
            _nvml_handles[index] = (error, time.monotonic() + 10.0)
            raise
    return known


def _fresh_outputs(call, given):
    """Output arguments for a getter that would otherwise share one default among all threads.

    NOTE: `def nvmlDeviceGetModuleId(handle, moduleId=c_uint())` and its like write into that one default, so two
    GPUs asked at once may get each other's number.
    """
    import ctypes

    function = getattr(call, "__wrapped__", call)
    defaults = function.__defaults__ or ()
    most = function.__code__.co_argcount
    if not most - len(defaults) <= given <= most:
        raise Missing("not_supported", "%s of this nvidia-ml-py takes other arguments" % function.__name__)
    rest = defaults[len(defaults) - (most - given) :]
    if not all(isinstance(default, (ctypes._SimpleCData, ctypes.Structure)) for default in rest):
        return []
    return [type(default)() for default in rest]


def _field_answer(pynvml, field):
    """A field's number as an answer of its own: of many fields some are always missing."""
    import ctypes

    if field.nvmlReturn != 0:
        problem = _nvml_missing(pynvml, pynvml.NVMLError(field.nvmlReturn))
        if isinstance(problem, Missing):
            return ["missing", problem.why, problem.detail]
        return ["error", str(problem)]
    if field.valueType == 5:  # signed int, which older bindings have no name for
        return ["ok", ctypes.c_int(field.value.uiVal).value]
    name = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 6: "usVal"}.get(field.valueType)
    if name is None or not hasattr(field.value, name):
        return ["missing", "not_supported", "NVML: value type %d" % field.valueType]
    return ["ok", getattr(field.value, name)]


def _plain(value, depth=0):
    """Structures of ctypes, pynvml's own objects and named tuples as plain JSON."""
    if depth > 8:
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return _text(value)
    if hasattr(value, "_asdict"):
        return {k: _plain(v, depth + 1) for k, v in value._asdict().items()}
    if isinstance(value, dict):
        return {str(k): _plain(v, depth + 1) for k, v in value.items()}
    if hasattr(value, "_fields_"):
        return {field[0]: _plain(getattr(value, field[0]), depth + 1) for field in value._fields_}
    if hasattr(value, "value"):
        return _plain(value.value, depth + 1)
    try:
        return [_plain(v, depth + 1) for v in value]
    except TypeError:
        # NOTE: pynvml's process lists hold objects that are neither structures nor sequences.
        return {k: _plain(v, depth + 1) for k, v in vars(value).items()} if hasattr(value, "__dict__") else None


OPERATIONS = {name[3:]: function for name, function in list(globals().items()) if name.startswith("op_")}


def answer(request):
    """Answer one request; never raises."""
    try:
        operation = OPERATIONS.get(request[0])
        if operation is None:
            return ["missing", "not_supported", "no operation %r" % (request[0],)]
        return ["ok", operation(*request[1:])]
    except Missing as missing:
        return ["missing", missing.why, missing.detail]
    except OSError as error:
        return _os_answer(error)
    except Exception as error:
        return ["error", "%s: %s" % (type(error).__name__, error)]


def _os_answer(error):
    name = error.filename if isinstance(error.filename, str) else _text(error.filename or b"")
    detail = "%s%s" % (error.strerror or error, ": " + name if name else "")
    # ENXIO and ENODEV: a device or sysfs attribute without hardware behind it. EINVAL and EOPNOTSUPP: sysfs's
    # way to say that an attribute does not apply (the speed of an interface that is down).
    why = {
        "ENOENT": "absent",
        "ENOTDIR": "absent",
        "ENXIO": "absent",
        "ENODEV": "absent",
        "ELOOP": "absent",
        "ENAMETOOLONG": "absent",
        "EISDIR": "absent",
        "ECONNREFUSED": "absent",
        "EACCES": "denied",
        "EPERM": "denied",
        "ESRCH": "gone",
        "EINVAL": "not_supported",
        "EOPNOTSUPP": "not_supported",
        "ENOSYS": "not_supported",
        "ETIMEDOUT": "timeout",
    }
    import errno

    code = errno.errorcode.get(error.errno or 0, "")
    if isinstance(error, socket.timeout):
        return ["missing", "timeout", detail]
    if code in why:
        return ["missing", why[code], detail]
    return ["error", detail]


def answer_all(requests):
    """Answer a batch, in order."""
    return [answer(request) for request in requests]


def serve(source, deliver):
    """Serve batches until the source ends: a line in is JSON, [id, [request, ...]].

    A line out, given to `deliver` one at a time, is the id, a blank, and base64 of the deflated JSON of
    [answer, ...]. Batches run side by side, so that one that hangs does not hold the others.
    """
    lock = threading.Lock()

    def work(number, requests):
        data = zlib.compress(json.dumps(answer_all(requests)).encode("ascii"), 1)
        line = b"%d %s\n" % (number, base64.b64encode(data))
        with lock:
            deliver(line)

    for line in source:
        number, requests = json.loads(line)
        threading.Thread(target=work, args=(number, requests), daemon=True).start()


def serve_streams(seconds):
    """Serve over this process's standard streams, then end with all that it has started: nothing stays behind.

    It ends with its standard input, or when nobody takes its answers, and in any case after so many seconds.
    """
    _serving.append(True)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # NOTE: by the kernel: a driver that hangs may hold Python's own lock, and then no thread could end this.
    signal.alarm(int(seconds) + 5)
    watch = threading.Timer(seconds, _leave)
    watch.daemon = True
    watch.start()
    # What a library or a driver prints must not come between the answers.
    sink = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)

    def deliver(line):
        try:
            sink.write(line)
            sink.flush()
        except OSError:
            _leave()

    try:
        serve(sys.stdin.buffer, deliver)
    finally:
        _leave()


def _leave():
    for group in list(_running):
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
    os._exit(0)
