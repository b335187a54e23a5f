"""What clients saw of a cluster, compared with what its databases contain.

The state of a check is a list of pings with unique bodies that only grows, so a sorted pass over each list decides if the history is
linearizable. Every function returns sentences, one for each difference.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

NEVER = float("inf")


class Ping(NamedTuple):
    """A ping of a client. Times are monotonic; `answered` is NEVER and `status` None without an answer."""

    check: str
    body: str
    kind: str  # success or fail
    sent: float
    answered: float
    status: int | None

    def is_acknowledged(self):
        return self.status in (200, 201)

    def is_refused(self):
        return self.status is not None and 400 <= self.status < 500


class Read(NamedTuple):
    """An answer to a request for the number of pings of a check."""

    check: str
    sent: float
    answered: float
    count: int


class Alert(NamedTuple):
    """A request of a webhook. `number` is that of its delivery, `at` the second of its flip."""

    number: int
    check: str
    event: str  # down or up
    at: int
    is_marked: bool  # as a possible repeat


class Delivery(NamedTuple):
    """A row in the list of deliveries of a server."""

    number: int
    event: str
    result: str


class Entry(NamedTuple):
    """A ping in a database. `at` is in microseconds."""

    n: int
    at: int
    kind: str
    body: str


class Flip(NamedTuple):
    """A flip in a database. `at` is in microseconds."""

    at: int
    before: str
    to: str


def differences(pings, reads, alerts, logs, flips, deliveries, clocks_are_steady=True):
    """Compares all of it. `logs`, `flips`, `deliveries`: those of each check, in order."""
    found = check_pings(pings, logs)
    if clocks_are_steady:
        found += [f"{check}: the times of its pings fall" for check, log in logs.items()
                  if any(entry.at > later.at for entry, later in zip(log, log[1:]))]
    for check, log in logs.items():
        found += check_order([ping for ping in pings if ping.check == check], log)
        found += check_reads([read for read in reads if read.check == check], pings, log)
        found += check_flips(check, log, flips[check])
        found += check_alerts(check, flips[check], deliveries[check], [alert for alert in alerts if alert.check == check])
    return found


def check_pings(pings, logs):
    """Acknowledged pings are listed once, refused ones never, others at most once."""
    found = []
    sent = {ping.body: ping for ping in pings}
    if len(sent) != len(pings):
        found.append("a client sent the same body twice")
    listed = Counter()
    for check, log in logs.items():
        if [entry.n for entry in log] != list(range(1, len(log) + 1)):
            found.append(f"{check}: the numbers of its pings have gaps")
        for entry in log:
            ping = sent.get(entry.body)
            if ping is None or (ping.check, ping.kind) != (check, entry.kind):
                found.append(f"{check}: ping {entry.n}, {entry.body}, was never sent like this")
            listed[entry.body] += 1
    for ping in pings:
        times = listed[ping.body]
        if times > 1:
            found.append(f"{ping.body} is listed {times} times")
        if ping.is_acknowledged() and times == 0:
            found.append(f"{ping.body} was acknowledged, and is lost")
        if ping.is_refused() and times > 0:
            found.append(f"{ping.body} was refused with status {ping.status}, and is listed")
    return found


def check_order(pings, log):
    """A ping that was acknowledged before another one was sent is listed before it."""
    found = []
    sent = {ping.body: ping for ping in pings}
    first = None  # of the later entries, the one that was acknowledged first
    for entry in reversed(log):
        ping = sent.get(entry.body)
        if ping is None:
            continue
        if first is not None and first.answered < ping.sent:
            found.append(f"{first.body} was acknowledged before {ping.body} was sent, and is listed after it")
        if ping.is_acknowledged() and (first is None or ping.answered < first.answered):
            first = ping
    return found


def check_reads(reads, pings, log):
    """A number of pings includes what was acknowledged before, no ping that was sent later, and does not fall."""
    found = []
    sent = {ping.body: ping for ping in pings}
    places = {entry.body: entry.n for entry in log}
    newest = [0.0]  # latest time at which one of the first n pings was sent
    for entry in log:
        newest.append(max(newest[-1], sent[entry.body].sent if entry.body in sent else 0.0))
    # The least number that a read may see, from which time on.
    least = [(ping.answered, places[ping.body]) for ping in pings if ping.is_acknowledged() and ping.body in places]
    least += [(read.answered, read.count) for read in reads]
    least.sort()
    position, required = 0, 0
    for read in sorted(reads, key=lambda read: read.sent):
        while position < len(least) and least[position][0] < read.sent:
            required, position = max(required, least[position][1]), position + 1
        if read.count < required:
            found.append(f"{read.check}: a read sees {read.count} pings after {required} were acknowledged or seen")
        if read.count >= len(newest) or newest[read.count] > read.answered:
            found.append(f"{read.check}: a read sees {read.count} pings, one of which was sent later, or never")
    return found


def check_flips(check, log, flips):
    """Flips follow from the pings alone: no check may miss a deadline."""
    expected, status = [], "new"
    for entry in log:
        to = {"success": "up", "fail": "down"}[entry.kind]
        if to != status:
            expected.append(Flip(entry.at, status, to))
            status = to
    missing, needless = set(expected) - set(flips), set(flips) - set(expected)
    return [f"{check}: no {flip}" for flip in missing] + [f"{check}: a needless {flip}" for flip in needless]


def check_alerts(check, flips, deliveries, alerts):
    """Each flip has a delivery. Each delivery that is said to be delivered was received; nothing else was. Repeats are marked."""
    found = []
    flips = [flip for flip in flips if (flip.before, flip.to) != ("new", "up")]
    if [flip.to for flip in flips] != [delivery.event for delivery in deliveries]:
        return [f"{check}: {len(flips)} flips and {len(deliveries)} deliveries do not match"]
    expected = {delivery.number: Alert(delivery.number, check, flip.to, flip.at // 1_000_000, False) for delivery, flip in zip(deliveries, flips)}
    unmarked = Counter()
    for alert in alerts:
        if alert._replace(is_marked=False) != expected.get(alert.number):
            found.append(f"{check}: an alert without a flip: {alert}")
        unmarked[alert.number] += not alert.is_marked
    found += [f"{check}: alert {number} came {times} times without a mark" for number, times in unmarked.items() if times > 1]
    for delivery in deliveries:
        if delivery.result not in ("delivered", "superseded"):
            found.append(f"{check}: alert {delivery.number} is {delivery.result}")
        if delivery.result == "delivered" and delivery.number not in unmarked:
            found.append(f"{check}: alert {delivery.number} was not received")
    return found


def self_test():
    """Finds nothing in a good history, and the fault in each bad one."""
    second = 1_000_000
    pings = [
        Ping("a", "1", "success", 1, 2, 201), Ping("a", "2", "fail", 3, 5, 200), Ping("a", "3", "success", 4, NEVER, None),
        Ping("a", "4", "success", 6, 7, 400), Ping("a", "5", "success", 6, NEVER, 503), Ping("a", "6", "success", 8, 9, 200),
    ]
    reads = [Read("a", 2.5, 2.6, 1), Read("a", 5.5, 5.6, 2), Read("a", 5.7, 5.8, 3), Read("a", 9.5, 9.6, 4)]
    log = [Entry(1, 10 * second, "success", "1"), Entry(2, 11 * second, "fail", "2"), Entry(3, 12 * second, "success", "3"),
           Entry(4, 13 * second, "success", "6")]
    flips = [Flip(10 * second, "new", "up"), Flip(11 * second, "up", "down"), Flip(12 * second, "down", "up")]
    alerts = [Alert(7, "a", "down", 11, False), Alert(7, "a", "down", 11, True), Alert(8, "a", "up", 12, True)]
    deliveries = [Delivery(7, "down", "delivered"), Delivery(8, "up", "superseded")]
    good = {"pings": pings, "reads": reads, "alerts": alerts, "logs": {"a": log}, "flips": {"a": flips}, "deliveries": {"a": deliveries}}
    assert differences(**good) == [], differences(**good)
    assert differences(**{**good, "alerts": alerts[:2]}) == []

    def renumber(entries):
        return {"a": [entry._replace(n=n) for n, entry in enumerate(entries, 1)]}

    bad = {
        "1 was acknowledged, and is lost": {"logs": renumber(log[1:])},
        "have gaps": {"logs": {"a": [log[0], *log[2:]]}},
        "6 is listed 2 times": {"logs": renumber([*log, log[3]])},
        "4 was refused with status 400, and is listed": {"logs": renumber([*log, Entry(5, 14 * second, "success", "4")])},
        "7, was never sent": {"logs": renumber([*log, Entry(5, 14 * second, "success", "7")])},
        "2, was never sent": {"logs": renumber([log[0], log[1]._replace(kind="success"), *log[2:]])},
        "times of its pings fall": {"logs": renumber([log[0]._replace(at=20 * second), *log[1:]])},
        "2 was acknowledged before 6 was sent, and is listed after it": {"logs": renumber([log[0], log[2], log[3], log[1]])},
        "2 was acknowledged before 5 was sent, and is listed after it":
            {"logs": renumber([log[0], Entry(0, 10 * second, "success", "5"), *log[1:]])},
        "a read sees 0 pings after 1": {"reads": [Read("a", 2.5, 2.6, 0)]},
        "a read sees 1 pings after 2": {"reads": [Read("a", 5.1, 5.2, 1)]},
        "a read sees 2 pings after 3": {"reads": [Read("a", 5.3, 5.4, 3), Read("a", 5.5, 5.6, 2)]},
        "a read sees 4 pings, one of which was sent later": {"reads": [Read("a", 5.5, 5.6, 4)]},
        "a read sees 5 pings": {"reads": [Read("a", 9.5, 9.6, 5)]},
        "no Flip(at=11000000": {"flips": {"a": [flips[0], flips[2]]}},
        "a needless Flip(at=13000000": {"flips": {"a": [*flips, Flip(13 * second, "up", "down")]}},
        "2 flips and 1 deliveries": {"deliveries": {"a": deliveries[:1]}},
        "2 flips and 3 deliveries": {"deliveries": {"a": [*deliveries, Delivery(9, "down", "delivered")]}},
        "2 flips and 2 deliveries": {"deliveries": {"a": deliveries[::-1]}},
        "alert 7 was not received": {"alerts": alerts[2:]},
        "alert 8 is waiting": {"deliveries": {"a": [deliveries[0], Delivery(8, "up", "waiting")]}},
        "an alert without a flip: Alert(number=9": {"alerts": [*alerts, Alert(9, "a", "down", 13, False)]},
        "an alert without a flip: Alert(number=8": {"alerts": [*alerts, Alert(8, "a", "up", 13, True)]},
        "alert 7 came 2 times without a mark": {"alerts": [alerts[0], *alerts]},
        "same body twice": {"pings": [*pings, pings[0]]},
    }
    for fault, change in bad.items():
        found = differences(**{**good, **change})
        assert any(fault in one for one in found), (fault, found)
    print(f"   the checker finds each of {len(bad)} faults in made-up histories")


if __name__ == "__main__":
    self_test()
