"""Lets clients use a cluster of three machines while machines, networks, disks and clocks fail, and checks that nothing is lost.

Three members of etcd and three servers run in network namespaces. `run` starts this script in namespaces of its own, so that nothing
remains when it ends. Clients send pings with unique bodies, some of which fail their check; they read numbers of pings and receive alerts.
After the faults, all machines are replaced one after the other under load, as for an upgrade. Then the history is checked: see history.py,
which first proves itself with made-up histories.

With --earlier, they run an earlier release until then, and one of them runs it once more, as a follower of the later one.

With --figures, nothing fails: a cluster is measured with `wrk` and the databases on disk, see figures.py.

The clocks of machines are changed if the binary is linked dynamically and libfaketime is installed.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import figures
import history
from clients import Clients, Connection, Receiver
from faults import Nemesis
from machines import Cluster, wait_until

# Maximum time without an acknowledged ping once no fault is left: a machine takes over within 5.5 seconds.
HEALED_WITHIN = 60
# Maximum time for the alerts that wait: a receiver that failed is tried again after some minutes.
ALERTED_WITHIN = 400
# Pings a second, at most as many as fit into memory for an hour.
RATE, MOST_PINGS = 500, 1_500_000
# Maximum time without an acknowledged ping while machines are replaced.
HAND_OVER = 2.0
# Sentences in the log of a server that no fault may cause.
FORBIDDEN = ["panicked", "another history", "RUST_BACKTRACE"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.realpath)
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=pathlib.Path, help="directory for the logs")
    parser.add_argument("--earlier", type=os.path.realpath, metavar="BINARY",
                        help="an earlier release, which the machines run until they are replaced")
    parser.add_argument("--figures", nargs="*", metavar="PART", help="measure instead, all or some parts")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="empty directory, which `run` removes")
    options = parser.parse_args()
    os.system("mount -t tmpfs tmpfs /run && mkdir /run/netns")
    is_measured = options.figures is not None
    cluster = Cluster(options.earlier or options.binary, options.work, limits_disks=not is_measured)
    faults = []
    try:
        if is_measured:
            figures.measure(cluster, options.figures)
        else:
            faults = attack(options, cluster)
    except BaseException:
        show_logs(options.work)
        raise
    finally:
        cluster.kill()
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            for log in options.work.glob("m*/*.log"):
                shutil.copy(log, options.keep / f"{log.parent.name}-{log.name}")
    if faults:
        print("\n".join(faults[:40]), f"{len(faults)} differences, seed {options.seed}", sep="\n")
        sys.exit(1)


def show_logs(work):
    for log in sorted(work.glob("m*/overdue.log")):
        print(f"--- {log}", *log.read_text(errors="replace").splitlines()[-15:], sep="\n", file=sys.stderr)


def attack(options, cluster):
    began = time.monotonic()
    print(f"   seed {options.seed}, {options.seconds:g} seconds", flush=True)

    def report(text):
        print(f"   {time.monotonic() - began:7.1f} s: {text}", flush=True)

    if not cluster.faketime:
        print("   clocks are not changed: this requires libfaketime and a binary that is linked dynamically")
    cluster.start()
    receiver = Receiver(options.seed)
    checks, key = create_checks(cluster, receiver)
    clients = Clients(cluster.machines, checks, key, min(RATE, MOST_PINGS / options.seconds), options.seed)
    clients.start()
    time.sleep(2)
    nemesis = Nemesis(cluster, random.Random(options.seed), report)
    attacked = time.monotonic()
    nemesis.run(options.seconds)
    healed = time.monotonic()
    report("no faults")
    for machine in cluster.machines:
        wait_until(lambda: is_healthy(machine), HEALED_WITHIN, f"{machine.namespace} reaches a leader")
    wait_until(lambda: clients.acknowledged_since(healed) > 100, HEALED_WITHIN, "pings are acknowledged")
    report("replacing all machines")
    cluster.binary = options.binary
    faults = replace_machines(cluster, clients)
    if options.earlier:
        # Until now a follower had the later release.
        report("replacing one machine by the earlier release")
        cluster.binary = options.earlier
        faults += replace_machine(cluster, clients, cluster.machines[0])
        cluster.binary = options.binary
        faults += replace_machine(cluster, clients, cluster.machines[0])
    report("waiting for the last alerts")
    clients.stop_flapping()
    receiver.fails = False
    deliveries = wait_until(lambda: read_deliveries(cluster, checks), ALERTED_WITHIN, "all alerts are delivered")
    clients.stop()
    cluster.wait_until_equal(HEALED_WITHIN)
    faults += [f"{name} ended with status {status}" for name, status in cluster.stop().items() if status != 0]
    report("reading the databases")
    with ThreadPoolExecutor() as threads:
        contents = list(threads.map(cluster.contents, cluster.machines))
    if len({digest for _, _, digest in contents}) != 1:
        faults.append("the databases of the machines differ")
    logs, flips, _ = contents[0]
    faults += history.differences(clients.pings, clients.reads, receiver.alerts, logs, flips, deliveries, clocks_are_steady=not cluster.faketime)
    for machine in cluster.machines:
        log = (machine.directory / "overdue.log").read_text(errors="replace")
        faults += [f"{machine.overdue.name} logged: {line}" for line in log.splitlines() if any(word in line for word in FORBIDDEN)]
    summarise(clients, receiver, flips, clients.longest_silence(attacked, healed))
    return faults


def create_checks(cluster, receiver):
    """Creates a project with a webhook. Returns the UUIDs of its checks by slug, and a key."""
    words = lambda *words: cluster.command(cluster.machines[0], *words).strip()
    words("project", "create", "main", "--ping-log-limit", "1000000")
    settings = [f"down-url={receiver.url}", f"up-url={receiver.url}", "body=$EVENT_JSON"]
    words("channel", "create", "--project", "main", "--kind", "webhook", "--name", "hook", *(word for one in settings for word in ("--set", one)))
    checks = {}
    for slug in ("one", "two", "three", "flap-1", "flap-2", "flap-3"):
        # The shortest possible times for the checks that are pinged all the time.
        times = ["--timeout", "1d"] if slug.startswith("flap") else ["--timeout", "1m", "--grace", "1m"]
        checks[slug] = words("check", "create", "--project", "main", "--name", slug, "--slug", slug, "--channels", "*", *times)
    return checks, words("key", "create", "--project", "main", "--access", "read-only")


def is_healthy(machine):
    status, _ = Connection([machine], 0).request(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    return status == 200


def read_deliveries(cluster, checks):
    """Deliveries of each check, in order; None if some wait."""
    try:
        rows = json.loads(cluster.command(cluster.machines[0], "deliveries", "--json", "--limit", "50000"))
    except RuntimeError:
        return None
    if any(row["outcome"] == "waiting" for row in rows):
        return None
    deliveries = {slug: [] for slug in checks}
    for row in sorted(rows, key=lambda row: row["number"]):
        deliveries[row["check"]["name"]].append(history.Delivery(row["number"], row["event"], row["outcome"]))
    return deliveries


def replace_machines(cluster, clients):
    """Stops and starts the followers, then the leader, each once the others work."""
    leader = wait_until(cluster.leader, HEALED_WITHIN, "a machine leads")
    order = [*(other for other in cluster.machines if other is not leader), leader]
    return [fault for machine in order for fault in replace_machine(cluster, clients, machine)]


def replace_machine(cluster, clients, machine):
    """Stops and starts a machine. Returns what went wrong."""
    faults = []
    began = time.monotonic()
    status = machine.overdue.stop()
    if status != 0:
        faults.append(f"{machine.overdue.name} was stopped, and ended with status {status}")
    time.sleep(1)
    silence = clients.longest_silence(began, time.monotonic())
    if silence > HAND_OVER:
        faults.append(f"pings waited {silence:.1f} s when {machine.namespace} was stopped")
    machine.overdue.start()
    wait_until(lambda: is_healthy(machine), HEALED_WITHIN, f"{machine.namespace} reaches a leader")
    cluster.wait_until_near(HEALED_WITHIN)
    return faults


def summarise(clients, receiver, flips, silence):
    pings = clients.pings
    acknowledged, refused = sum(ping.is_acknowledged() for ping in pings), sum(ping.is_refused() for ping in pings)
    repeats = len(receiver.alerts) - len({alert.number for alert in receiver.alerts})
    print(f"   {len(pings)} pings: {acknowledged} acknowledged, {refused} refused, {len(pings) - acknowledged - refused} unknown; "
          f"longest time without an acknowledged one {silence:.1f} s")
    print(f"   {len(clients.reads)} reads, {sum(map(len, flips.values()))} flips, {len(receiver.alerts)} alerts, {repeats} of them repeats")


if __name__ == "__main__":
    main()
