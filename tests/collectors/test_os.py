from __future__ import annotations

import os
import platform
import socket

from envsnap.collectors.os import parse_os_release
from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost, missing

UNAME = {"system": "Linux", "node": "gpu7", "release": "6.8.0", "version": "#1", "machine": "aarch64"}
UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\n# a comment=1\nID=ubuntu\n'


def ubuntu() -> FakeHost:
    files = {"/usr/lib/os-release": UBUNTU, "/proc/1/comm": "systemd\n", "/etc/machine-id": "3d12\n"}
    links = {"/etc/os-release": "../usr/lib/os-release", "/etc/localtime": "../usr/share/zoneinfo/America/New_York"}
    return FakeHost(files, links, {("uname",): UNAME, ("confstr",): "glibc 2.39"})


def test_a_distribution() -> None:
    read = section("os", ubuntu())
    assert read.errors == {}
    assert read.values == {
        "os.distribution": "ubuntu",
        "os.distribution_version": "24.04",
        "os.distribution_title": "Ubuntu 24.04.3 LTS",
        "os.libc": "glibc",
        "os.libc_version": "2.39",
        "os.architecture": "aarch64",
        "os.init": "systemd",
        "os.timezone": "America/New_York",
        "os.hostname": "gpu7",
        "os.machine_id": "3d12",
    }


def test_os_release_where_etc_has_none() -> None:
    host = ubuntu()
    del host.links["/etc/os-release"]
    assert section("os", host).values["os.distribution"] == "ubuntu"


def test_a_rolling_distribution_has_no_version() -> None:
    host = ubuntu()
    host.files["/usr/lib/os-release"] = "ID=arch\n"
    read = section("os", host)
    assert read.values["os.distribution"] == "arch"
    assert read.unavailable["os.distribution_version"].why is Why.ABSENT


def test_musl_is_asked_through_its_loader() -> None:
    host = ubuntu()
    loader = "/lib/ld-musl-x86_64.so.1"
    host.files[loader] = ""
    host.replies[("confstr",)] = missing("not_supported", "no such name")
    host.replies[("run",)] = {
        "code": 1,
        "out": "",
        "err": "musl libc (x86_64)\nVersion 1.2.5\nDynamic Program Loader\n",
    }
    values = section("os", host).values
    assert (values["os.libc"], values["os.libc_version"]) == ("musl", "1.2.5")


def test_neither_glibc_nor_musl() -> None:
    host = ubuntu()
    host.replies[("confstr",)] = missing("not_supported", "no such name")
    assert isinstance(section("os", host).reading("os.libc"), Unavailable)


def test_a_time_zone_that_is_copied_and_not_linked() -> None:
    host = ubuntu()
    del host.links["/etc/localtime"]
    host.files |= {"/etc/localtime": "TZif", "/etc/timezone": "Europe/Berlin\n"}
    assert section("os", host).values["os.timezone"] == "Europe/Berlin"


def test_quotes_in_os_release() -> None:
    text = 'A=\'x y\'\nB="say \\"hi\\""\nC=\nD=plain\nnonsense\n'
    assert parse_os_release(text) == {"A": "x y", "B": 'say "hi"', "C": "", "D": "plain"}


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("os").values == {}


def test_this_machine() -> None:
    read = section("os", LiveHost())
    assert read.errors == {}
    assert read.values["os.architecture"] == os.uname().machine
    assert read.values["os.hostname"] == socket.gethostname()
    if read.values["os.libc"] == "glibc":
        assert read.values["os.libc_version"] == platform.libc_ver()[1]
