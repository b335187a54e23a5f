"""Three machines, each with a member of etcd and a server of overdue, in network namespaces of their own.

Each machine has three addresses on one link: 10.77.0.N for clients and the other servers, 10.77.1.N for clients of etcd, 10.77.2.N for the
other members of etcd. So each of these can be cut alone. The clients are at 10.77.0.254, the address of the bridge. The data of overdue are
on a tmpfs of limited size.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections import Counter

from history import Entry, Flip

CLIENTS = "10.77.0.254"
HTTP_PORT, PEER_PORT, ETCD_PORT, MEMBER_PORT = 8000, 8001, 2379, 2380
DATA_BYTES = 1 << 30
# Hardware address that no machine has: packages to it get lost without an error.
NOWHERE = "02:00:00:00:00:00"


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stderr or done.stdout}")
    return done.stdout


def wait_until(holds, seconds, event):
    end = time.monotonic() + seconds
    while not (result := holds()):
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds} s: {event}")
        time.sleep(0.1)
    return result


def is_dynamic(binary):
    """True if a program loads libraries: its ELF file has a segment with the name of a loader."""
    with open(binary, "rb") as file:
        head = file.read(64)
        first, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(first)
        segments = file.read(size * count)
    return any(struct.unpack_from("<I", segments, size * number)[0] == 3 for number in range(count))


class Process:
    """A process that is started again whenever it ends, as by a supervisor."""

    def __init__(self, name, command, log):
        self.name, self.command, self.log = name, command, open(log, "ab")
        self.wanted, self.child, self.lock = False, None, threading.Lock()
        self.ends = []
        threading.Thread(target=self.supervise, daemon=True).start()

    def supervise(self):
        while True:
            time.sleep(0.05)
            with self.lock:
                if self.child and self.child.poll() is not None:
                    if self.wanted:
                        self.ends.append(self.child.returncode)
                        self.log.write(f"--- ended with {self.child.returncode}\n".encode())
                    self.child = None
                    delay = time.monotonic() + 0.5
                if self.wanted and self.child is None and (not self.ends or time.monotonic() > delay):
                    self.spawn()

    def spawn(self):
        self.child = subprocess.Popen([str(word) for word in self.command()], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def start(self):
        with self.lock:
            self.wanted = True
            if self.child is None:
                self.spawn()

    def stop(self, number=signal.SIGTERM, seconds=30):
        """Stops it, and returns its exit status."""
        with self.lock:
            self.wanted = False
            child = self.child
        if child is None:
            return None
        child.send_signal(number)
        # It may be paused.
        child.send_signal(signal.SIGCONT)
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} does not stop") from None
        wait_until(lambda: self.child is None, 5, f"{self.name} has ended")
        return status

    def signal(self, number):
        with self.lock:
            if self.child and self.child.poll() is None:
                self.child.send_signal(number)


class Machine:
    def __init__(self, number, cluster):
        self.number, self.cluster = number, cluster
        self.namespace = f"m{number}"
        self.directory = cluster.work / self.namespace
        self.data, self.clock = self.directory / "data", self.directory / "clock"
        self.data.mkdir(parents=True)
        self.set_clock(0)
        self.active = Counter()  # faults by what they change
        if cluster.limits_disks:
            run("mount", "-t", "tmpfs", "-o", f"size={DATA_BYTES},mode=700", "tmpfs", self.data)
        self.connect()
        self.etcd = Process(f"etcd {number}", self.etcd_command, self.directory / "etcd.log")
        self.overdue = Process(f"overdue {number}", self.overdue_command, self.directory / "overdue.log")

    def connect(self):
        name = self.namespace
        run("ip", "netns", "add", name)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", name, "master", "bridge", "up")
        for plane in range(3):
            self.ip("addr", "add", f"10.77.{plane}.{self.number}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")
        self.ip("link", "set", "lo", "up")

    def ip(self, *words):
        run("ip", "-n", self.namespace, *words)

    def address(self, plane):
        return f"10.77.{plane}.{self.number}"

    def inside(self, *words):
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *words]

    def etcd_command(self):
        client, member = f"http://{self.address(1)}:{ETCD_PORT}", f"http://{self.address(2)}:{MEMBER_PORT}"
        members = ",".join(f"m{n}=http://10.77.2.{n}:{MEMBER_PORT}" for n in self.cluster.numbers)
        return self.inside(
            "etcd", "--name", self.namespace, "--data-dir", self.directory / "etcd", "--snapshot-count", "1000", "--logger", "zap", "--log-level", "warn",
            "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", member, "--initial-advertise-peer-urls", member,
            "--initial-cluster", members, "--initial-cluster-state", "new")

    def overdue_command(self):
        clock = []
        if self.cluster.faketime:
            clock = ["env", f"LD_PRELOAD={self.cluster.faketime}", f"FAKETIME_TIMESTAMP_FILE={self.clock}", "FAKETIME_CACHE_DURATION=1",
                     "FAKETIME_DONT_FAKE_MONOTONIC=1"]
        return self.inside(
            *clock, self.cluster.binary, "serve", "--data", self.data, "--listen", f"{self.address(0)}:{HTTP_PORT}", "--api-rate", "0", "--auth", "none",
            "--outbound-allow", "10.77.0.0/16", "--connections-per-address", "4000", "--cluster", self.cluster.url, "--cluster-node", self.namespace,
            "--cluster-listen", f"{self.address(0)}:{PEER_PORT}", "--cluster-secret-file", self.cluster.secret)

    def set_clock(self, seconds):
        """Sets the clock ahead or back; 0 sets it right."""
        new = self.clock.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.rename(self.clock)

    def share(self, key, begin, end):
        """Begins a fault unless it has begun. Returns a function that ends it for the last one who began it."""
        self.active[key] += 1
        if self.active[key] == 1:
            begin()

        def release():
            self.active[key] -= 1
            if self.active[key] == 0:
                end()
        return release

    def lose(self, plane, other):
        """Loses what is sent to another machine on a plane, silently. Returns a function that ends this."""
        neighbour = (f"10.77.{plane}.{other.number}", "dev", "eth0")
        return self.share(neighbour, lambda: self.ip("neigh", "replace", *neighbour, "lladdr", NOWHERE, "nud", "permanent"),
                          lambda: self.ip("neigh", "del", *neighbour))

    def lose_own_etcd(self):
        """Cuts the server from the member of etcd on the same machine. Returns a function that ends this."""
        rules = [("pref", "100", "lookup", "local"), ("pref", "50", "iif", "lo", "to", f"{self.address(1)}/32", "blackhole")]
        usual = ("pref", "0", "lookup", "local")

        def begin():
            for rule in rules:
                self.ip("rule", "add", *rule)
            self.ip("rule", "del", *usual)

        def end():
            self.ip("rule", "add", *usual)
            for rule in rules:
                self.ip("rule", "del", *rule)
        return self.share("own etcd", begin, end)

    def slow_down(self, rate):
        """Limits the rate at which this machine sends. Returns a function that ends this."""
        command = ("tc", "-n", self.namespace, "qdisc")
        limit = ("root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
        return self.share("rate", lambda: run(*command, "add", "dev", "eth0", *limit), lambda: run(*command, "del", "dev", "eth0", "root"))

    def unplug(self):
        """Takes this machine off the network. Returns a function that ends this."""
        return self.share("link", lambda: run("ip", "link", "set", self.namespace, "down"), lambda: run("ip", "link", "set", self.namespace, "up"))

    def fill_disk(self):
        """Shrinks the file system of the database to what it contains. Returns a function that ends this."""
        def begin():
            for _ in range(100):
                usage = os.statvfs(self.data)
                used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
                try:
                    return run("mount", "-o", f"remount,size={used}", self.data)
                except RuntimeError:
                    continue  # it has grown in the meantime
        return self.share("disk", begin, lambda: run("mount", "-o", f"remount,size={DATA_BYTES}", self.data))

    def wipe(self):
        for path in self.data.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


class Cluster:
    numbers = (1, 2, 3)

    def __init__(self, binary, work, limits_disks):
        self.binary, self.work, self.limits_disks = binary, work, limits_disks
        # A library that changes the clock of a program. It has no effect on a static one.
        library = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
        self.faketime = library if is_dynamic(binary) else None
        self.secret = work / "secret"
        self.secret.write_text("a secret of the test machines\n")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "addr", "add", f"{CLIENTS}/24", "dev", "bridge")
        # To reach etcd.
        run("ip", "addr", "add", "10.77.1.254/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        run("ip", "link", "set", "lo", "up")
        self.url = "etcd://" + ",".join(f"10.77.1.{n}:{ETCD_PORT}" for n in self.numbers) + "/nemesis"
        self.machines = [Machine(number, self) for number in self.numbers]

    def start(self):
        for machine in self.machines:
            machine.etcd.start()

        def initialise():
            done = subprocess.run([self.binary, "cluster", "init", "--cluster", self.url, "--data", self.machines[0].data], capture_output=True)
            return done.returncode == 0
        wait_until(initialise, 60, "etcd works")
        for machine in self.machines:
            machine.overdue.start()
        wait_until(lambda: self.machines[0] is self.leader(), 60, "the first machine leads")

    def status(self):
        """Status of the cluster; None if etcd does not answer."""
        try:
            return json.loads(run(self.binary, "cluster", "status", "--json", "--cluster", self.url, timeout=5))
        except (RuntimeError, subprocess.TimeoutExpired):
            return None

    def leader(self):
        """Machine that leads; None if none is known."""
        leading = [node["name"] for node in (self.status() or {"nodes": []})["nodes"] if node["role"] == "leader"]
        return next((machine for machine in self.machines if machine.namespace in leading), None)

    def etcd_leader(self):
        """Machine whose member of etcd leads; None if none is known."""
        endpoints = ",".join(f"http://10.77.1.{n}:{ETCD_PORT}" for n in self.numbers)
        command = ["etcdctl", "--endpoints", endpoints, "--command-timeout=1s", "endpoint", "status", "-w", "json"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"})
        for status in json.loads(done.stdout or "[]"):
            if status["Status"]["header"]["member_id"] == status["Status"].get("leader"):
                return self.machines[int(status["Endpoint"].split(":")[1].rsplit(".", 1)[1]) - 1]
        return None

    def command(self, machine, *words):
        return run(self.binary, *words, "--data", machine.data, timeout=30)

    def wait_until_equal(self, seconds):
        """Waits until all machines have applied the same record and have synced it."""
        def are_equal():
            nodes = (self.status() or {"nodes": []})["nodes"]
            places = {place for node in nodes for place in (node["place"], node["synced"])}
            return len(nodes) == len(self.machines) and len(places) == 1
        wait_until(are_equal, seconds, "all machines have the same records")

    def wait_until_near(self, seconds):
        """Waits until all machines follow closely."""
        def are_near():
            places = [node["place"] for node in (self.status() or {"nodes": []})["nodes"]]
            return len(places) == len(self.machines) and max(places) - min(places) < 5_000
        wait_until(are_near, seconds, "all machines follow")

    def stop(self):
        return {machine.overdue.name: machine.overdue.stop() for machine in self.machines}

    def kill(self):
        for machine in self.machines:
            for process in (machine.overdue, machine.etcd):
                process.stop(signal.SIGKILL)

    def contents(self, machine):
        """Logs and flips of each check of a stopped machine, and a digest of its checks, flips and pings."""
        copy = self.work / f"copy{machine.number}"
        shutil.copytree(machine.data, copy, ignore=lambda _, names: [name for name in names if name.endswith(".sock")])
        self.command_on(copy, "verify")
        self.command_on(copy, "cluster", "leave")
        export = copy / "export.jsonl"
        self.command_on(copy, "export", "--format", "jsonl", "--logs=all", export)
        names, logs, flips, digest = {}, {}, {}, hashlib.sha256()
        for line in open(export, encoding="utf-8"):
            row = json.loads(line)
            kind, values = next(iter(row.items()))
            if kind in ("check", "flip", "ping"):
                digest.update(line.encode())
            if kind == "check":
                names[values["id"]] = name = values["check"]["slug"]
                logs[name], flips[name] = [], []
            elif kind == "flip":
                flips[names[values["check"]]].append(Flip(values["at"], values["from"], values["to"]))
            elif kind == "ping":
                body = base64.b64decode(values["body"] or "").decode()
                logs[names[values["check"]]].append(Entry(values["n"], values["at"], values["kind"], body))
        for log in logs.values():
            log.sort()
        shutil.rmtree(copy)
        return logs, flips, digest.hexdigest()

    def command_on(self, data, *words):
        return run(self.binary, *words, "--data", data)
