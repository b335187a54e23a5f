"""Name resolution by the static binary in an otherwise empty root: misbehaving name servers, and missing modules of the C library.

    unshare --net --mount python names.py BINARY       as root, in a network namespace
"""
import pathlib
import subprocess
import sys
import threading
import time
import urllib.request

import dnslib
import dnslib.server

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from place import Server, Workspace, free_port, wait_until  # noqa: E402
from proxies import RecordingServer  # noqa: E402

# A public address, assigned to this machine in the namespace.
PUBLIC = "93.184.216.34"


class Names(dnslib.server.BaseResolver):
    """A name server with an answer for each name."""

    def __init__(self):
        self.queries = []

    def resolve(self, request, handler):
        name, kind = str(request.q.qname).rstrip("."), dnslib.QTYPE[request.q.qtype]
        before = self.queries.count((name, kind))
        self.queries.append((name, kind))
        reply = request.reply()

        def add(owner, answer, ttl=0):
            kind_of = {"A": dnslib.A, "CNAME": dnslib.CNAME}
            what = "A" if answer[0].isdigit() else "CNAME"
            if what == "CNAME" or kind == "A":
                reply.add_answer(dnslib.RR(owner, getattr(dnslib.QTYPE, what), ttl=ttl, rdata=kind_of[what](answer)))

        match name:
            case "public.test":
                add(name, PUBLIC)
            case "rebind.test":
                # Public at first; loopback from the second query on.
                add(name, PUBLIC if before == 0 else "127.0.0.1")
            case "inside.test":
                add(name, "127.0.0.1")
            case "chain.test":
                for link in range(6):
                    add(f"{'l%d.' % link if link else ''}chain.test", f"l{link + 1}.chain.test")
                add("l6.chain.test", PUBLIC)
            case "into.test":
                add(name, "further.test")
                add("further.test", "127.0.0.1")
            case "circle.test":
                add(name, "other.test")
                add("other.test", name)
            case "trouble.test":
                reply.header.rcode = dnslib.RCODE.SERVFAIL
            case "shaky.test":
                if before == 0:
                    reply.header.rcode = dnslib.RCODE.SERVFAIL
                else:
                    add(name, PUBLIC)
            case "slow.test":
                time.sleep(1)
                add(name, PUBLIC)
            case _:
                reply.header.rcode = dnslib.RCODE.NXDOMAIN
        return reply


class ChrootServer(Server):
    """A server whose file system contains only the given files."""

    def __init__(self, binary, workspace, root):
        super().__init__(binary, workspace)
        self.root = root
        self.data = pathlib.Path("/data")
        (root / "data").mkdir(mode=0o700, exist_ok=True)
        self.binary = "chroot"

    def run(self, *words, fails=False):
        done = subprocess.run(["chroot", self.root, "/overdue", *words, "--data", "/data"], capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) != fails and done.returncode >= 0, f"{words}: {done.returncode} {done.stdout}{done.stderr}"
        return (done.stderr if fails else done.stdout).strip()

    def serve(self):
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.process = self.workspace.start("chroot", self.root, "/overdue", "serve", "--data", "/data", "--listen", f"127.0.0.1:{port}", "--time-zone", "UTC")
        wait_until("overdue", lambda: urllib.request.urlopen(f"{self.base}/healthz", timeout=60))
        self.api_key = self.run("key", "create", "--project", "default", "--access", "read-write")
        return self


def main(binary):
    for words in (["ip", "link", "set", "lo", "up"], ["ip", "address", "add", f"{PUBLIC}/32", "dev", "lo"]):
        subprocess.run(words, check=True)
    with Workspace("names") as workspace:
        root = workspace.home / "root"
        (root / "etc").mkdir(parents=True)
        (root / "overdue").write_bytes(pathlib.Path(binary).read_bytes())
        (root / "overdue").chmod(0o755)
        # From Fedora and Arch. None of these modules exists here.
        (root / "etc/nsswitch.conf").write_text("hosts: files mdns4_minimal [NOTFOUND=return] myhostname resolve dns\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:5\n")
        names = Names()
        for tcp in (False, True):
            dnslib.server.DNSServer(names, port=53, address="127.0.0.1", tcp=tcp, logger=dnslib.server.DNSLogger(logf=lambda _: None)).start_thread()
        receiver = RecordingServer(("0.0.0.0", 0))
        port = receiver.server_port
        overdue = ChrootServer(binary, workspace, root).serve()

        def create_channel(name):
            settings = {"down-url": f"http://{name}:{port}/{name}", "body": "x"}
            overdue.api("POST", "/api/overdue/v1/channels", {"name": name, "kind": "webhook", "settings": settings})

        def expect_delivery(name):
            overdue.test_channel(name)
            assert receiver.requests[-1][1] == f"/{name}", receiver.requests

        def expect_failure(name, expected):
            before = len(receiver.requests)
            error = overdue.test_channel(name, fails=True)
            assert expected in error and len(receiver.requests) == before, f"{name}: {error}"

        hosts = ["public", "rebind", "inside", "chain", "into", "circle", "trouble", "shaky", "slow", "unknown"]
        for host in hosts:
            create_channel(f"{host}.test")
        for host in ("public", "chain", "shaky", "slow", "rebind"):
            expect_delivery(f"{host}.test")
        # An answer is cached for at least 5 seconds.
        time.sleep(6)
        for host in ("rebind", "inside", "into"):
            expect_failure(f"{host}.test", "--outbound-allow")
        for host, expected in (("trouble", "trouble.test"), ("circle", "circle.test"), ("unknown", "no address is known for unknown.test")):
            expect_failure(f"{host}.test", expected)
        assert ("rebind.test", "A") in names.queries[1:] and names.queries.count(("rebind.test", "A")) >= 2, names.queries
        # The server still runs, and no module of nsswitch.conf was loaded.
        maps = pathlib.Path(f"/proc/{overdue.process.pid}/maps").read_text()
        assert overdue.process.poll() is None and "libnss" not in maps, maps
    print("names: TTL 0 rebinding refused, CNAME chains and circles, SERVFAIL, a slow server; no module of nsswitch.conf was loaded")


if __name__ == "__main__":
    main(sys.argv[1])
