"""Requests of each kind of channel for each event, from the snapshots in src/channels/tests, which `cargo test` compares with the code."""
import json
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

SNAPSHOTS = pathlib.Path(__file__).resolve().parents[2] / "src/channels/tests/snapshots"


@dataclass
class SentRequest:
    method: str
    url: str
    headers: dict
    body: bytes

    @property
    def path(self):
        return urllib.parse.urlsplit(self.url).path

    def header(self, name):
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), None)

    def members(self):
        """Returns the members of the body, JSON or a form. All values of a form are text."""
        if self.header("content-type").startswith("application/x-www-form-urlencoded"):
            # A snapshot has one field per line, or several lines if the value has several.
            return dict(re.findall(r"^([A-Za-z_]+)=((?:.|\n(?![A-Za-z_]+=))*)", self.body.decode(), re.MULTILINE))
        return json.loads(self.body)


def requests(kind):
    """Yields the name of each event with each of its requests."""
    for section in re.split(r"^=== ", (SNAPSHOTS / f"{kind}.txt").read_text(), flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        for part in re.split(r"^(?=(?:GET|POST|PUT) https?://)", text, flags=re.MULTILINE)[1:]:
            first, *lines = part.rstrip("\n").split("\n")
            method, url = first.split(" ", 1)
            headers = {}
            while lines and re.match(r"^[A-Za-z-]+: ", lines[0]):
                key, value = lines.pop(0).split(": ", 1)
                headers[key] = value
            yield name, SentRequest(method, url, headers, "\n".join(lines).encode())


def of_event(kind, event):
    return next(request for name, request in requests(kind) if name == event)


def replay(request, url):
    """Sends the request to another URL. Returns the status of the answer."""
    copy = urllib.request.Request(url, data=request.body, method=request.method, headers=request.headers)
    try:
        with urllib.request.urlopen(copy, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
