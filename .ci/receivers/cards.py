"""Validation of the cards for Teams by Microsoft's renderer, the package `adaptivecards`, which no longer contains a schema."""
import json
import os
import pathlib
import subprocess

import sent

# Teams knows this block. The renderer does not and shows the fallback.
UNKNOWN_BLOCK = 'UnknownElementType: Unknown element type "CodeBlock"'


def findings(cards, modules):
    script = pathlib.Path(__file__).with_name("cards.js")
    done = subprocess.run(["node", script], input=json.dumps(cards), capture_output=True, text=True, timeout=60,
                          env={**os.environ, "NODE_PATH": str(modules)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(modules):
    cards = []
    for name, request in sent.requests("msteamsw"):
        message = request.members()
        assert message["type"] == "message" and len(message["attachments"]) == 1, name
        assert message["attachments"][0]["contentType"] == "application/vnd.microsoft.card.adaptive", name
        cards.append((name, message["attachments"][0]["content"]))
    for (name, card), found in zip(cards, findings([card for _, card in cards], modules), strict=True):
        errors = [finding for finding in found if not finding.startswith(UNKNOWN_BLOCK)]
        assert not errors, f"{name}: {errors}"
    assert len(cards) >= 6, len(cards)
    # The renderer has to report an error for each of these.
    block = {"type": "TextBlock", "text": "x", "size": "huge"}
    link = {"type": "Action.OpenUrl", "title": "x"}
    broken = [{"body": [block]}, {"body": [], "actions": [link]}, {"body": [{"type": "Nothing"}]}]
    assert all(findings([{"type": "AdaptiveCard", "version": "1.2", **card} for card in broken], modules))
    return f"Teams: {len(cards)} cards are valid"
