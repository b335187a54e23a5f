"""Measures a cluster whose machines, members of etcd and clients share this machine. The databases are on its disk."""

import os
import re
import signal
import statistics
import subprocess
import threading
import time

from clients import Connection, post
from machines import HTTP_PORT, run, wait_until

CONNECTIONS = 256
# Pings that a machine misses, and that a machine which joins copies.
MISSED, JOINED = 500_000, 1_100_000
# Name of a measurement, and the limit that it should keep.
GOALS = {
    "pings a second through the leader": "at least 20,000", "pings a second through a follower": "at least 20,000", "p99": "at most 25 ms",
    "failover": "at most 7 s", "hand-over": "at most 0.5 s", "behind": "at most 0.5 s", "catching up": "at least 200,000 pings/s",
    "joining": "at most 30 s", "idle": "less than 1 % of a core",
}


def report(name, text):
    print(f"   {name}: {text} (load {os.getloadavg()[0]:.1f}; goal: {GOALS.get(name, 'none')})", flush=True)


def measure(cluster, only):
    cluster.start()
    command = lambda *words: cluster.command(cluster.machines[0], *words).strip()
    command("project", "create", "main", "--ping-log-limit", "2000000")
    uuid = command("check", "create", "--project", "main", "--name", "job", "--slug", "job", "--timeout", "1d")
    path = f"/ping/{uuid}"
    time.sleep(5)
    parts = {"idle": idle, "throughput": throughput, "failover": failover, "handover": hand_over, "behind": behind, "catch-up": catch_up, "join": join}
    for name, part in parts.items():
        if not only or name in only:
            part(cluster, path)


def followers(cluster):
    leader = wait_until(cluster.leader, 60, "a machine leads")
    return leader, [machine for machine in cluster.machines if machine is not leader]


def processor_seconds(process):
    # The process is the child of nothing else: nsenter executes it.
    fields = open(f"/proc/{process.child.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(cluster, _):
    seconds = 30
    leader, _ = followers(cluster)
    processes = [process for machine in cluster.machines for process in (machine.overdue, machine.etcd)]
    before = [processor_seconds(process) for process in processes]
    time.sleep(seconds)
    shares = [(processor_seconds(process) - one) / seconds for process, one in zip(processes, before)]
    text = ", ".join(f"{process.name}{' (leader)' if process is leader.overdue else ''} {share:.1%}" for process, share in zip(processes, shares))
    report("idle", text)


def load(machine, path, seconds):
    """Pings through a machine with wrk. Returns pings a second, the 99th percentile as text, and the number of pings."""
    done = run("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "--latency", f"http://{machine.address(0)}:{HTTP_PORT}{path}", timeout=seconds + 60)
    errors = re.findall("(Socket errors.*|Non-2xx.*)", done)
    if errors:
        print(f"   {errors}")
    rate, p99 = float(re.search(r"Requests/sec: *([\d.]+)", done)[1]), re.search(r"99% *(\S+)", done)[1]
    return rate, p99, int(re.search(r"(\d+) requests in", done)[1])


def throughput(cluster, path):
    leader, others = followers(cluster)
    results = {leader: [], others[0]: []}
    for machine in results:
        load(machine, path, 3)
    processes = {f"{process.name}{' (leader)' if machine is leader and process is machine.overdue else ''}": process
                 for machine in cluster.machines for process in (machine.overdue, machine.etcd)}
    used = {}
    for _ in range(5):
        for machine, measured in results.items():
            before = {name: processor_seconds(process) for name, process in processes.items()}
            measured.append(load(machine, path, 8))
            used[machine] = {name: processor_seconds(process) - before[name] for name, process in processes.items()}
    for machine in results:
        # Independent of what else runs on this machine.
        print(f"   processor time for a ping through {'the leader' if machine is leader else 'a follower'}: "
              + ", ".join(f"{name} {seconds / results[machine][-1][2] * 1e6:.1f} µs" for name, seconds in used[machine].items()))
    for machine, name in ((leader, "leader"), (others[0], "follower")):
        rates = sorted(rate for rate, _, _ in results[machine])
        report(f"pings a second through {'the' if machine is leader else 'a'} {name}",
               f"median {statistics.median(rates):,.0f}, {rates[0]:,.0f} to {rates[-1]:,.0f}; p99 {', '.join(p99 for _, p99, _ in results[machine])}")


def silences(cluster, path, number, count):
    """Ends the leader with a signal, again and again. Returns the times for which no ping was acknowledged, and the longest time of a ping."""
    measured, slowest, failed = [], 0.0, 0
    for _ in range(count):
        leader, others = followers(cluster)
        end, answers, lock = threading.Event(), [], threading.Lock()

        def send(machine):
            # As curl: each ping has a connection of its own.
            while not end.is_set():
                connection, sent = Connection([machine], 0), time.monotonic()
                status, _ = connection.request(post(path, ""))
                connection.close()
                with lock:
                    answers.append((sent, time.monotonic(), status))
                end.wait(0.01)

        threads = [threading.Thread(target=send, args=[machine]) for machine in others for _ in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        began = time.monotonic()
        leader.overdue.stop(number)
        wait_until(lambda: sum(status == 200 and sent > began + 0.2 for sent, _, status in answers[-200:]) > 50, 60, "pings are acknowledged again")
        end.set()
        for thread in threads:
            thread.join()
        times = sorted(answered for _, answered, status in answers if status == 200)
        measured.append(max(later - one for one, later in zip(times, times[1:])))
        slowest = max(slowest, *(answered - sent for sent, answered, status in answers if status == 200))
        failed += sum(status != 200 for _, _, status in answers)
        leader.overdue.start()
        time.sleep(2)
        cluster.wait_until_near(60)
    return f"median {statistics.median(measured):.2f} s, maximum {max(measured):.2f} s of {count}; slowest ping {slowest:.2f} s, {failed} not acknowledged"


def failover(cluster, path):
    report("failover", silences(cluster, path, signal.SIGKILL, 15))


def hand_over(cluster, path):
    report("hand-over", silences(cluster, path, signal.SIGTERM, 20))


def last_place(cluster):
    """Place of the last record in etcd."""
    command = ["etcdctl", "--endpoints", f"http://10.77.1.{cluster.machines[0].number}:2379", "get", "nemesis/log/", "--prefix", "--keys-only",
               "--sort-by=KEY", "--order=DESCEND", "--limit=1"]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"}).stdout.strip()
    return int(found.rsplit("/", 1)[1], 16)


def places(cluster):
    return {node["name"]: node["place"] for node in (cluster.status() or {"nodes": []})["nodes"]}


def behind(cluster, path):
    """Compares the place that a follower announces with the places in etcd before."""
    leader, others = followers(cluster)
    for name, rate in (("behind", None), ("behind, at full load", CONNECTIONS)):
        stopped, heads, lags, seen = threading.Event(), [], [], {}
        loader = threading.Thread(target=load, args=[leader, path, 15]) if rate else threading.Thread(target=trickle, args=[leader, path, 15])
        loader.start()
        end = time.monotonic() + 14
        while time.monotonic() < end:
            heads.append((time.monotonic(), last_place(cluster)))
            for name_of, place in places(cluster).items():
                if name_of != leader.namespace and seen.get(name_of) != place:
                    now = time.monotonic()
                    if name_of in seen:
                        # Time at which the first record that it lacks was seen.
                        missed = next((time for time, head in heads if head > place), now)
                        lags.append(now - missed)
                    seen[name_of] = place
        loader.join()
        report(name, f"median {statistics.median(lags):.2f} s, maximum {max(lags):.2f} s of {len(lags)} announcements")


def trickle(machine, path, seconds):
    connection, end = Connection([machine], 0), time.monotonic() + seconds
    while time.monotonic() < end:
        connection.request(post(path, ""))
        time.sleep(0.005)


def send_pings(cluster, path, count):
    leader, _ = followers(cluster)
    sent = 0
    while sent < count:
        sent += load(leader, path, 10)[2]
    return sent


def catch_up(cluster, path):
    leader, others = followers(cluster)
    others[0].overdue.stop()
    before = last_place(cluster)
    sent = send_pings(cluster, path, MISSED)
    last = last_place(cluster)
    log = others[0].directory / "overdue.log"
    began, length = time.monotonic(), log.stat().st_size
    others[0].overdue.start()
    wait_until(lambda: places(cluster)[others[0].namespace] >= last, 120, "the machine has caught up")
    took = time.monotonic() - began
    # The machine reads the log in parts. It says when it has read all of them.
    line = r"applied missed records in ([\d.]+) s .*first=(\d+) last=(\d+)"
    seconds, first, end = (float(number) for number in re.search(line, log.read_text()[length:]).groups())
    rate = (end - first + 1) / seconds * sent / (last - before)
    report("catching up", f"{rate:,.0f} pings/s; {end - first + 1:,.0f} records in {seconds:.2f} s; it announced the end {took:.1f} s after its start")


def join(cluster, path):
    leader, others = followers(cluster)
    count = lambda: int(re.search(r'"n_pings": ?(\d+)', cluster.command(leader, "check", "list", "--json"))[1])
    while (missing := JOINED - count()) > 0:
        send_pings(cluster, path, missing)
    others[0].overdue.stop()
    others[0].wipe()
    run(cluster.binary, "cluster", "forget", others[0].namespace, "--cluster", cluster.url)
    last = last_place(cluster)
    began = time.monotonic()
    others[0].overdue.start()
    wait_until(lambda: places(cluster).get(others[0].namespace, 0) >= last, 300, "the machine has joined")
    size = sum(file.stat().st_size for file in others[0].data.iterdir() if file.is_file())
    report("joining", f"{time.monotonic() - began:.1f} s with {count():,} pings, {size >> 20} MiB")
