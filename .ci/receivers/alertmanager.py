"""Prometheus' Alertmanager: alerts fire, are repeated after its restart, and end."""
import pathlib
import shutil
import subprocess

from place import call, free_port, wait_until
import sent

PROGRAM = "prometheus-alertmanager"
SHARE = pathlib.Path("/usr/share")
# A file without which Debian's package does not start.
REQUIRED_FILE = "prometheus/alertmanager/default.tmpl"
# Runs it with another /usr/share that contains the file.
NAMESPACE = ["unshare", "--map-root-user", "--mount"]


class Alertmanager:
    def __init__(self, workspace, unpacked):
        self.workspace, self.port = workspace, free_port()
        with_unpacked_files = [*NAMESPACE, "sh", "-c", f'mount --bind "$0" {SHARE} && exec "$@"', unpacked / "usr/share"]
        self.prefix = [] if (SHARE / REQUIRED_FILE).exists() else with_unpacked_files
        (workspace.home / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        # A start begins without alerts: only silences are stored on disk.
        self.process = self.workspace.start(*self.prefix, PROGRAM, "--config.file=alertmanager.yml", f"--storage.path={self.workspace.home}/alertmanager",
                                        f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address=")
        wait_until("Alertmanager", lambda: call(f"{self.url}/api/v2/status"))

    def alerts(self):
        return call(f"{self.url}/api/v2/alerts")

    def is_down(self):
        found = wait_until("an alert", self.alerts)
        assert [alert["labels"]["check"] for alert in found] == ["nightly-backup"], found

    def restart(self):
        self.workspace.end(self.process)
        self.start()
        assert self.alerts() == []

    def is_down_again(self):
        # Firing alerts are sent again every minute.
        wait_until("the alert after the restart", self.alerts, 180)

    def is_up(self):
        wait_until("the end of the alert", lambda: self.alerts() == [] or None)

    def accepts_snapshots(self):
        """Sends all requests of the snapshots, which Alertmanager validates by its API description."""
        count = 0
        for name, request in sent.requests("alertmanager"):
            answer = sent.replay(request, f"{self.url}/api/v2/alerts")
            assert answer == 200, f"Alertmanager answers {answer} to {name}: {request.body.decode()}"
            count += 1
        assert count >= 4, count


def is_available(unpacked):
    if shutil.which(PROGRAM) is None:
        return False
    with_unpacked_files = (unpacked / "usr/share" / REQUIRED_FILE).exists() and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
    return (SHARE / REQUIRED_FILE).exists() or with_unpacked_files
