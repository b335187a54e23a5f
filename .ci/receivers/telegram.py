"""Telegram's bot API, as `telegram-test-api` plays it."""
import pathlib

from place import call, free_port, until

TOKEN = "123456789:AbC-dEf_GhI"


class Telegram:
    def __init__(self, place, modules):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        place.start("node", pathlib.Path(__file__).with_name("telegram.js"), port, env={"NODE_PATH": str(modules)})
        until("telegram-test-api", self.messages_or_empty)
        self.settings = [f"api={self.url}", f"token={TOKEN}", "chat=42"]

    def history(self):
        return call(f"{self.url}/getUpdatesHistory", {"token": TOKEN})["result"]

    def messages_or_empty(self):
        self.history()
        return True

    def messages(self):
        return [update["message"] for update in self.history() if "message" in update]

    def is_down(self):
        message = until("a message in Telegram", self.messages)[0]
        assert str(message["chat_id"]) == "42" and message["parse_mode"] == "HTML", message
        assert "nightly-backup failed with exit status 3" in message["text"] and "no &lt;space&gt; left" in message["text"], message

    def is_up(self):
        until("a second message in Telegram", lambda: len(self.messages()) >= 2)
        assert ["is up again" in message["text"] for message in self.messages()] == [False, True], self.messages()
