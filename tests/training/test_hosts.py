"""Four hosts with addresses of their own, as network namespaces: one is cut off, the others stop, the run resumes."""

import os
import shutil
import subprocess

import pytest

from tests.training.digits_run import without_seconds
from tests.training.groups import Groups
from tests.training.interrupted import CUT_OFF

pytestmark = pytest.mark.slow

HOSTS = 4
DIGITS = "tests.training.interrupted:train_digits"


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def must(*words: str) -> None:
    done = ip(*words)
    assert done.returncode == 0, (words, done.stderr)


@pytest.fixture(scope="module")
def hosts():
    """Namespaces on one bridge; they and the bridge are removed at the end."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`; install iproute2 to simulate hosts")
    tag = f"eq{os.getpid() % 100_000}"
    names = [f"{tag}h{host}" for host in range(HOSTS)]
    bridge, links = f"{tag}b", [f"{tag}v{host}" for host in range(HOSTS)]
    tried = ip("link", "add", bridge, "type", "bridge")
    if tried.returncode == 0:
        tried = ip("netns", "add", names[0])
    if tried.returncode != 0:
        ip("link", "delete", bridge)
        pytest.skip(f"this machine may not make network namespaces: {tried.stderr.strip()}")
    try:
        must("link", "set", bridge, "up")
        for host, (name, link) in enumerate(zip(names, links, strict=True)):
            if host:
                must("netns", "add", name)
            must("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            must("link", "set", link, "master", bridge, "up")
            for inside in (
                ("addr", "add", f"10.87.65.{host + 1}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                must("netns", "exec", name, "ip", *inside)
        environment = {"MASTER_ADDR": "10.87.65.1", "GLOO_SOCKET_IFNAME": "eth0", "EQUIPOISE_PROCESS_TIMEOUT": "15"}
        yield {"namespaces": names, "environment": environment}
    finally:
        for name in names:
            ip("netns", "delete", name)
        ip("link", "delete", bridge)


def test_when_a_host_is_cut_off_the_others_stop_and_the_run_resumes(hosts, tmp_path):
    options = {"batch_size": 64, "checkpoint_steps": 4}
    with Groups() as groups:
        alone = groups.answers(HOSTS, DIGITS, folder=str(tmp_path / "undisturbed"), **options)
        cut = groups.run(
            HOSTS, DIGITS, hosts=hosts, folder=str(tmp_path / "run"), ends={"3": 10}, number=CUT_OFF, **options
        )
        for rank, each in enumerate(cut):
            assert each["code"] == 1
            assert f"process {rank} of 4 lost another one, which ended or cannot be reached" in each["error"]
        must("netns", "exec", hosts["namespaces"][3], "ip", "link", "set", "eth0", "up")
        again = groups.run(HOSTS, DIGITS, hosts=hosts, folder=str(tmp_path / "run"), **options)
    assert [each["code"] for each in again] == [0] * HOSTS, [each["error"] for each in again]
    for each in again:
        assert each["answer"]["sha256"] == alone[0]["sha256"]
        assert without_seconds(each["answer"]["history"]) == without_seconds(alone[0]["history"])
