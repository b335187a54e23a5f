"""Faults of machines, networks, disks and clocks, drawn from a seed.

Each fault is a function that begins it and returns a list of functions which end it. The member of etcd or the server that leads is chosen
half of the time.
"""

import signal
import threading
import time


class Nemesis:
    def __init__(self, cluster, dice, report):
        self.cluster, self.dice, self.report = cluster, dice, report
        self.machines = cluster.machines
        self.kinds = {
            "kill overdue": self.kill_overdue, "kill etcd": self.kill_etcd, "pause overdue": self.pause_overdue, "pause etcd": self.pause_etcd,
            "kill two members of etcd": self.kill_majority, "kill everything": self.kill_everything, "stop overdue": self.stop_overdue,
            "unplug": self.unplug, "isolate": self.isolate, "cut overdue from etcd": self.cut_from_etcd, "cut overdue from overdue": self.cut_from_peer,
            "cut members of etcd in one direction": self.cut_members, "full disk": self.full_disk, "slow etcd": self.slow_etcd, "slow network": self.slow_network,
            "lose a database": self.lose_database,
        }
        if cluster.faketime:
            self.kinds["clock"] = self.change_clock
        self.order = []

    def run(self, seconds):
        """Begins and ends faults for this time. Each kind occurs before one occurs again; some overlap."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ends = self.begin()
            if self.dice.random() < 0.25:
                time.sleep(self.dice.uniform(0, 2))
                ends += self.begin()
            time.sleep(self.dice.uniform(0.5, 7))
            for heal in ends:
                heal()
            time.sleep(self.dice.uniform(0.5, 4))

    def begin(self):
        if not self.order:
            self.order = sorted(self.kinds)
            self.dice.shuffle(self.order)
        kind = self.order.pop()
        ends, target = self.kinds[kind]()
        self.report(f"{kind}: {target}")
        return ends

    def choose(self, leader):
        """A machine: half of the time the one that leads. Both numbers are drawn, so that the seed decides all else."""
        prefers_leader, other = self.dice.random() < 0.5, self.dice.choice(self.machines)
        return (prefers_leader and leader()) or other

    def server(self):
        return self.choose(self.cluster.leader)

    def member(self):
        return self.choose(self.cluster.etcd_leader)

    def others(self, machine):
        return [other for other in self.machines if other is not machine]

    def kill_overdue(self):
        machine = self.server()
        machine.overdue.stop(signal.SIGKILL)
        return [machine.overdue.start], machine.namespace

    def kill_etcd(self):
        machine = self.member()
        machine.etcd.stop(signal.SIGKILL)
        return [machine.etcd.start], machine.namespace

    def kill_majority(self):
        killed = self.dice.sample(self.machines, 2)
        for machine in killed:
            machine.etcd.stop(signal.SIGKILL)
        return [machine.etcd.start for machine in killed], " ".join(machine.namespace for machine in killed)

    def kill_everything(self):
        processes = [process for machine in self.machines for process in (machine.overdue, machine.etcd)]
        for process in processes:
            process.stop(signal.SIGKILL)
        return [process.start for process in processes], "all machines"

    def stop_overdue(self):
        machine = self.server()
        machine.overdue.stop()
        return [machine.overdue.start], machine.namespace

    def pause(self, process):
        process.signal(signal.SIGSTOP)
        return [lambda: process.signal(signal.SIGCONT)], process.name

    def pause_overdue(self):
        return self.pause(self.server().overdue)

    def pause_etcd(self):
        return self.pause(self.member().etcd)

    def unplug(self):
        machine = self.choose(self.dice.choice([self.cluster.leader, self.cluster.etcd_leader]))
        return [machine.unplug()], machine.namespace

    def isolate(self):
        """Clients reach the machine, it reaches no other one."""
        machine = self.server()
        return [machine.lose(plane, other) for plane in range(3) for other in self.others(machine)], machine.namespace

    def cut_from_etcd(self):
        machine = self.server()
        ends = [machine.lose(1, other) for other in self.others(machine)]
        if includes_own := self.dice.random() < 0.7:
            ends.append(machine.lose_own_etcd())
        return ends, machine.namespace + (" from all members" if includes_own else " from the other members")

    def cut_from_peer(self):
        machine, other = self.server(), self.dice.choice([0, 1])
        other = self.others(machine)[other]
        return [machine.lose(0, other), other.lose(0, machine)], f"{machine.namespace} {other.namespace}"

    def cut_members(self):
        machine = self.member()
        lost = self.dice.sample(self.others(machine), self.dice.choice([1, 2]))
        return [machine.lose(2, other) for other in lost], f"{machine.namespace} to " + " ".join(other.namespace for other in lost)

    def full_disk(self):
        machine = self.server()
        return [machine.fill_disk()], machine.namespace

    def slow_etcd(self):
        """One member or all run for a few milliseconds at a time, as with a disk that hangs again and again."""
        slowed = [self.member()] if self.dice.random() < 0.5 else self.machines
        stopped, pause = threading.Event(), self.dice.choice([0.03, 0.1, 0.4])

        def slow():
            while not stopped.is_set():
                for number, duration in ((signal.SIGSTOP, pause), (signal.SIGCONT, 0.01)):
                    for machine in slowed:
                        machine.etcd.signal(number)
                    time.sleep(duration)

        thread = threading.Thread(target=slow, daemon=True)
        thread.start()

        def heal():
            stopped.set()
            thread.join()
        return [heal], f"{' '.join(machine.namespace for machine in slowed)}, {pause * 1000:.0f} ms at a time"

    def slow_network(self):
        machine, rate = self.server(), self.dice.choice(["300kbit", "2mbit"])
        return [machine.slow_down(rate)], f"{machine.namespace}, {rate}"

    def lose_database(self):
        machine = self.choose(self.cluster.leader)
        machine.overdue.stop(signal.SIGKILL)
        machine.wipe()
        return [machine.overdue.start], machine.namespace

    def change_clock(self):
        machine, seconds = self.server(), self.dice.choice([-1, 1]) * self.dice.randint(2, 50)
        machine.set_clock(seconds)
        return [lambda: machine.set_clock(0)], f"{machine.namespace}, {seconds:+d} s"
