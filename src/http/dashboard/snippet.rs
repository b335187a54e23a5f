//! Snippets that report to a check, in several languages.

/// Addresses at which a check can be pinged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PingAddress<'a> {
    /// Ping URL, without a suffix.
    pub(crate) url: &'a str,
    /// Mail address, if the server accepts mail.
    pub(crate) mail: Option<&'a str>,
}

/// A snippet, ready to be pasted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Snippet {
    /// Label of the tab.
    pub(crate) title: &'static str,
    /// Id of the tab on the page.
    pub(crate) id: &'static str,
    /// Instructions.
    pub(crate) about: &'static str,
    /// Code of the snippet.
    pub(crate) text: String,
}

/// All snippets, the most common first. Ping URLs consist of letters, digits and `:/._-?=%[]`, so
/// quotation marks are enough to quote them.
pub(crate) fn build_snippets(address: PingAddress<'_>) -> Vec<Snippet> {
    let url = address.url;
    let mut snippets = vec![
        Snippet {
            title: "curl",
            id: "curl",
            about: "At the end of a script. Waits up to 10 s, retries three times, prints nothing.",
            text: format!("curl -fsS -m 10 --retry 3 -o /dev/null {url}"),
        },
        Snippet {
            title: "Shell",
            id: "shell",
            about: "Around a command: reports its start, its exit status, and the last 100 kB of \
                    its output.",
            text: format!(
                "url={url}\ncurl -fsS -m 10 --retry 3 -o /dev/null \
                 \"$url/start\"\nout=$(/path/to/job 2>&1); status=$?\nprintf %s \"$out\" | tail \
                 -c 100000 |\n  curl -fsS -m 10 --retry 3 -o /dev/null --data-binary @- \
                 \"$url/$status\""
            ),
        },
        Snippet {
            title: "crontab",
            id: "crontab",
            about: "In crontab(5), after the five fields of the schedule: reports the exit status.",
            // In a crontab a percent sign ends the line.
            text: format!(
                "/path/to/job; curl -fsS -m 10 --retry 3 -o /dev/null {}/$?",
                url.replace('%', "\\%")
            ),
        },
        Snippet {
            title: "systemd",
            id: "systemd",
            about: "In the service that the timer starts (systemctl edit NAME.service): reports \
                    start and exit status.",
            text: format!(
                "[Service]\nExecStartPre=-/usr/bin/curl -fsS -m 10 --retry 3 -o /dev/null \
                 {url}/start\nExecStopPost=-/bin/sh -c 'case $$EXIT_STATUS in [0-9]*) \
                 s=$$EXIT_STATUS;; *) s=fail;; esac; exec curl -fsS -m 10 --retry 3 -o /dev/null \
                 \"{url}/$$s\"'",
                // In a unit a percent sign begins a specifier (systemd.unit(5)).
                url = url.replace('%', "%%")
            ),
        },
        Snippet {
            title: "Python",
            id: "python",
            about: "Uses only the standard library. A report that fails does not stop the job.",
            text: format!(
                "import urllib.request\n\ndef report(what=\"\", text=\"\"):\n    for attempt in \
                 range(4):\n        try:\n            urllib.request.urlopen(\"{url}\" + what, \
                 text.encode(), timeout=10).close()\n            return\n        except OSError \
                 as error:\n            print(\"report:\", error)\n\nreport(\"/start\")\ntry:\n    \
                 job()\n    report()\nexcept Exception as error:\n    report(\"/fail\", \
                 repr(error))\n    raise"
            ),
        },
        Snippet {
            title: "PowerShell",
            id: "powershell",
            about: "At the end of a script: reports the exit status of the last program.",
            text: format!(
                "Invoke-RestMethod -TimeoutSec 10 -MaximumRetryCount 3 -RetryIntervalSec 2 \
                 \"{url}/$LASTEXITCODE\" | Out-Null"
            ),
        },
    ];
    if let Some(mail) = address.mail {
        snippets.push(Snippet {
            title: "Mail",
            id: "mail",
            about: "For programs that report by mail. The keywords of the check identify success \
                    and failure.",
            text: mail.to_owned(),
        });
    }
    snippets
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const URL: &str = "http://127.0.0.1:1/ping/6f3a1c1e-0000-4000-8000-000000000001";

    #[test]
    fn each_snippet_names_the_check_and_has_a_timeout() {
        let all = build_snippets(PingAddress {
            url: URL,
            mail: Some("6f3a1c1e-0000-4000-8000-000000000001@ping.example.org"),
        });
        assert_eq!(all.len(), 7);
        for snippet in &all {
            assert!(
                snippet
                    .text
                    .contains("6f3a1c1e-0000-4000-8000-000000000001"),
                "{}",
                snippet.title
            );
            let is_bounded = ["-m 10", "timeout=10", "-TimeoutSec 10", "@"]
                .iter()
                .any(|mark| snippet.text.contains(mark));
            assert!(is_bounded, "{}", snippet.title);
            assert!(
                !snippet.text.contains("  \n") && !snippet.text.ends_with('\n'),
                "{}",
                snippet.title
            );
        }
        let without = build_snippets(PingAddress {
            url: URL,
            mail: None,
        });
        assert!(without.iter().all(|snippet| snippet.id != "mail"));
        let percent = build_snippets(PingAddress {
            url: "http://h/a%20b/ping/k/s",
            mail: None,
        });
        for (id, text) in [
            ("systemd", "/a%%20b/"),
            ("crontab", "/a\\%20b/"),
            ("curl", "/a%20b/"),
        ] {
            assert!(
                percent
                    .iter()
                    .find(|snippet| snippet.id == id)
                    .unwrap()
                    .text
                    .contains(text),
                "{id}"
            );
        }
    }

    /// The shell checks the syntax without running the snippet.
    #[test]
    fn shells_can_parse_their_snippets() {
        for snippet in build_snippets(PingAddress {
            url: URL,
            mail: None,
        }) {
            if matches!(snippet.id, "curl" | "shell" | "crontab") {
                let read = Command::new("sh")
                    .args(["-n", "-c", &snippet.text])
                    .output()
                    .unwrap();
                assert!(
                    read.status.success(),
                    "{}: {}",
                    snippet.id,
                    String::from_utf8_lossy(&read.stderr)
                );
            }
        }
    }
}
