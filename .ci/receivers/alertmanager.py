"""Prometheus' Alertmanager: alerts fire, are there again after its restart, and end."""
import pathlib
import shutil
import subprocess

from place import call, free_port, until
import sent

PROGRAM = "prometheus-alertmanager"
SHARED = pathlib.Path("/usr/share")
# Without it Debian's does not start.
NEEDED = "prometheus/alertmanager/default.tmpl"
# It is given another /usr/share, in which it is.
APART = ["unshare", "--map-root-user", "--mount"]


class Alertmanager:
    def __init__(self, place, unpacked):
        self.place, self.port = place, free_port()
        elsewhere = [*APART, "sh", "-c", f'mount --bind "$0" {SHARED} && exec "$@"', unpacked / "usr/share"]
        self.way = [] if (SHARED / NEEDED).exists() else elsewhere
        (place.home / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        # What it knew is gone: what is kept on disk are silences.
        self.process = self.place.start(*self.way, PROGRAM, "--config.file=alertmanager.yml", f"--storage.path={self.place.home}/alertmanager",
                                        f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address=")
        until("Alertmanager", lambda: call(f"{self.url}/api/v2/status"))

    def alerts(self):
        return call(f"{self.url}/api/v2/alerts")

    def is_down(self):
        found = until("an alert", self.alerts)
        assert [alert["labels"]["check"] for alert in found] == ["nightly-backup"], found

    def restart(self):
        self.place.end(self.process)
        self.start()
        assert self.alerts() == []

    def is_down_again(self):
        # What is down is sent every minute.
        until("the alert after the restart", self.alerts, 180)

    def is_up(self):
        until("the end of the alert", lambda: self.alerts() == [] or None)

    def takes_what_is_sent(self):
        """Every request of the snapshots; it validates them by the description of its API."""
        count = 0
        for name, request in sent.requests("alertmanager"):
            answer = sent.replay(request, f"{self.url}/api/v2/alerts")
            assert answer == 200, f"Alertmanager answers {answer} to {name}: {request.body.decode()}"
            count += 1
        assert count >= 4, count


def is_there(unpacked):
    if shutil.which(PROGRAM) is None:
        return False
    elsewhere = (unpacked / "usr/share" / NEEDED).exists() and subprocess.run([*APART, "true"], capture_output=True).returncode == 0
    return (SHARED / NEEDED).exists() or elsewhere
