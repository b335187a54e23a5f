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

/// Text of a snippet in which [`PLACEHOLDER`] stands for the ping URL.
struct SnippetTemplate {
    title: &'static str,
    id: &'static str,
    about: &'static str,
    text: &'static str,
    /// Writes a URL as the format requires.
    escape: fn(&str) -> String,
}

/// Stands for the ping URL in the files of `snippets/`.
const PLACEHOLDER: &str = "PING_URL";

/// All templates, the most common first. Ping URLs consist of letters, digits and `:/._-?=%[]`, so
/// quotation marks are enough to quote them.
static TEMPLATES: [SnippetTemplate; 16] = [
    SnippetTemplate {
        title: "curl",
        id: "curl",
        about: "At the end of a script. Waits up to 10 s, retries three times, prints nothing.",
        text: include_str!("snippets/curl.sh"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "overdue run",
        id: "run",
        about: "Around a command, with this program: reports start, exit status and output, and \
                retries until the server answers.",
        text: include_str!("snippets/run.sh"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "Shell",
        id: "shell",
        about: "Around a command: reports its start, its exit status, and the last 100 kB of its \
                output.",
        text: include_str!("snippets/shell.sh"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "crontab",
        id: "crontab",
        about: "In crontab(5), after the five fields of the schedule: reports the exit status.",
        text: include_str!("snippets/crontab.txt"),
        escape: escape_crontab,
    },
    SnippetTemplate {
        title: "systemd service",
        id: "systemd",
        about: "In the service that a timer starts (systemctl edit NAME.service): reports start \
                and exit status.",
        text: include_str!("snippets/systemd.conf"),
        escape: escape_unit,
    },
    SnippetTemplate {
        title: "systemd timer",
        id: "systemd-timer",
        about: "Service and timer of a new job. systemctl enable --now job.timer starts the timer.",
        text: include_str!("snippets/systemd-timer.conf"),
        escape: escape_unit,
    },
    SnippetTemplate {
        title: "Docker",
        id: "docker",
        about: "After a container that runs a job and ends: reports its exit status.",
        text: include_str!("snippets/docker.sh"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "Docker Compose",
        id: "compose",
        about: "A service that runs a job once, such as by docker compose run --rm job. Works in \
                images with BusyBox.",
        text: include_str!("snippets/compose.yaml"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "Kubernetes CronJob",
        id: "kubernetes",
        about: "Reports start and exit status. Works in images with BusyBox.",
        text: include_str!("snippets/kubernetes.yaml"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "GitHub Actions",
        id: "github-actions",
        about: "Add the URL above to the secrets of the repository, with the name CHECK_URL.",
        text: include_str!("snippets/github-actions.yaml"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "Python",
        id: "python",
        about: "Uses only the standard library. A report that fails does not stop the job.",
        text: include_str!("snippets/python.py"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "Node.js",
        id: "node",
        about: "In a module, without packages. A report that fails does not stop the job.",
        text: include_str!("snippets/node.mjs"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "Go",
        id: "go",
        about: "Uses only the standard library. A report that fails does not stop the job.",
        text: include_str!("snippets/go.go"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "PHP",
        id: "php",
        about: "Needs no extension. A report that fails does not stop the job.",
        text: include_str!("snippets/php.php"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "Ruby",
        id: "ruby",
        about: "Uses only the standard library. A report that fails does not stop the job.",
        text: include_str!("snippets/ruby.rb"),
        escape: str::to_owned,
    },
    SnippetTemplate {
        title: "PowerShell",
        id: "powershell",
        about: "At the end of a script: reports the exit status of the last program.",
        text: include_str!("snippets/powershell.ps1"),
        escape: str::to_owned,
    },
];

/// In a crontab a percent sign ends the line (crontab(5)).
fn escape_crontab(url: &str) -> String {
    url.replace('%', "\\%")
}

/// In a unit a percent sign begins a specifier (systemd.unit(5)).
fn escape_unit(url: &str) -> String {
    url.replace('%', "%%")
}

/// Returns all snippets, the most common first.
pub(crate) fn build_snippets(address: PingAddress<'_>) -> Vec<Snippet> {
    let mail = address.mail.map(|mail| Snippet {
        title: "Mail",
        id: "mail",
        about: "For programs that report by mail. The keywords of the check identify success and \
                failure.",
        text: mail.to_owned(),
    });
    let snippets = TEMPLATES.iter().map(|template| Snippet {
        title: template.title,
        id: template.id,
        about: template.about,
        text: template
            .text
            .trim_end()
            .replace(PLACEHOLDER, &(template.escape)(address.url)),
    });
    snippets.chain(mail).collect()
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
        assert_eq!(all.len(), TEMPLATES.len() + 1);
        for snippet in &all {
            // A workflow is in a repository, where the URL must not be.
            let is_secret = snippet.id == "github-actions";
            assert_eq!(
                snippet
                    .text
                    .contains("6f3a1c1e-0000-4000-8000-000000000001"),
                !is_secret,
                "{}",
                snippet.title
            );
            let timeouts = [
                "-m 10",
                "overdue run",
                "-T 10",
                "timeout=10",
                "timeout(10_000)",
                "10 * time.Second",
                "\"timeout\" => 10",
                "read_timeout: 10",
                "-TimeoutSec 10",
                "@",
            ];
            let is_bounded = timeouts.iter().any(|mark| snippet.text.contains(mark));
            assert!(is_bounded, "{}", snippet.title);
            assert!(!snippet.text.contains(PLACEHOLDER), "{}", snippet.title);
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
            ("systemd-timer", "/a%%20b/"),
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
            if matches!(snippet.id, "curl" | "run" | "shell" | "crontab" | "docker") {
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
