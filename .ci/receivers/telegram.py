"""Telegram's bot API, simulated by `telegram-test-api`."""
import pathlib

from place import call, free_port, wait_until

TOKEN = "123456789:AbC-dEf_GhI"


class Telegram:
    def __init__(self, workspace, modules):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        workspace.start("node", pathlib.Path(__file__).with_name("telegram.js"), port, env={"NODE_PATH": str(modules)})
        wait_until("telegram-test-api", self.is_ready)
        self.settings = [f"api={self.url}", f"token={TOKEN}", "chat=42"]

    def history(self):
        return call(f"{self.url}/getUpdatesHistory", {"token": TOKEN})["result"]

    def is_ready(self):
        self.history()
        return True

    def messages(self):
        return [update["message"] for update in self.history() if "message" in update]

    def is_down(self):
        message = wait_until("a message in Telegram", self.messages)[0]
        assert str(message["chat_id"]) == "42" and message["parse_mode"] == "HTML", message
        assert "nightly-backup failed with exit status 3" in message["text"] and "no &lt;space&gt; left" in message["text"], message

    def is_up(self):
        wait_until("a second message in Telegram", lambda: len(self.messages()) >= 2)
        assert ["is up again" in message["text"] for message in self.messages()] == [False, True], self.messages()
