"""What each kind of channel sends for each event, as the snapshots in src/channels/tests hold it, which `cargo test` compares with the code."""
import json
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

SNAPSHOTS = pathlib.Path(__file__).resolve().parents[2] / "src/channels/tests/snapshots"


@dataclass
class Sent:
    method: str
    url: str
    headers: dict
    body: bytes

    @property
    def path(self):
        return urllib.parse.urlsplit(self.url).path

    def header(self, name):
        return next((value for own, value in self.headers.items() if own.lower() == name.lower()), None)

    def members(self):
        """The members of its body, JSON or a form; of a form all are text."""
        if self.header("content-type").startswith("application/x-www-form-urlencoded"):
            # The snapshot has a field in a line, or in several if its value has.
            return dict(re.findall(r"^([A-Za-z_]+)=((?:.|\n(?![A-Za-z_]+=))*)", self.body.decode(), re.MULTILINE))
        return json.loads(self.body)


def requests(kind):
    """The name of each event, with each request that is sent for it."""
    for section in re.split(r"^=== ", (SNAPSHOTS / f"{kind}.txt").read_text(), flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        for part in re.split(r"^(?=(?:GET|POST|PUT) https?://)", text, flags=re.MULTILINE)[1:]:
            first, *lines = part.rstrip("\n").split("\n")
            method, url = first.split(" ", 1)
            headers = {}
            while lines and re.match(r"^[A-Za-z-]+: ", lines[0]):
                key, value = lines.pop(0).split(": ", 1)
                headers[key] = value
            yield name, Sent(method, url, headers, "\n".join(lines).encode())


def of_event(kind, event):
    return next(request for name, request in requests(kind) if name == event)


def replay(request, url):
    """Sends it to another place; the status of the answer."""
    made = urllib.request.Request(url, data=request.body, method=request.method, headers=request.headers)
    try:
        with urllib.request.urlopen(made, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
