//! What stands above the content of a page: what was done on the way to it, and what whoever looks at it should know.

/// Something that was done. The URL names one of these; no text of a URL is ever shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    /// Its name in URLs (`?m=`).
    pub(crate) code: &'static str,
    /// What the page says.
    pub(crate) text: &'static str,
}

/// All of them.
const NOTICES: &[Notice] = &[
    Notice { code: "saved", text: "Saved." },
    Notice { code: "key-revoked", text: "Key revoked. It stopped working at once." },
    Notice { code: "ping-key-made", text: "Ping key made. Move your jobs to it, then revoke the old one." },
    Notice { code: "project-deleted", text: "Project deleted, with its checks." },
    Notice { code: "invited", text: "Invite link made. It is shown once and is good for 7 days." },
    Notice { code: "signed-out", text: "Signed out there." },
    Notice { code: "user-deleted", text: "User deleted." },
    Notice { code: "password", text: "Password changed. All other sessions are signed out." },
    Notice { code: "chosen", text: "Password changed. Sign in with it and with your second factor." },
    Notice { code: "totp-on", text: "The second factor is on. All other sessions are signed out." },
    Notice { code: "totp-off", text: "The second factor is off. The password alone signs in." },
    Notice { code: "totp-codes", text: "New recovery codes made. The old ones are good no more." },
    Notice { code: "made", text: "Check added. Nothing can be overdue before its first ping." },
    Notice { code: "made-alone", text: "Check added, but it depends on nothing: too much would have been above it." },
    Notice { code: "copied-check", text: "Duplicated; the copy has a ping URL of its own." },
    Notice { code: "deleted", text: "Deleted, with its log." },
    Notice { code: "paused", text: "Paused. Nobody will be told about this check." },
    Notice { code: "resumed", text: "Resumed. It waits for its next ping." },
    Notice { code: "pinged", text: "Ping logged." },
    Notice { code: "integration-made", text: "Integration added. A test shows whether it arrives." },
    Notice { code: "integration-enabled", text: "Enabled. It is told again from now on." },
    Notice { code: "integration-deleted", text: "Integration deleted. It is told nothing more." },
];

impl Notice {
    /// The notice of this name.
    pub(super) fn of(code: &str) -> Option<Self> {
        NOTICES.iter().find(|notice| notice.code == code).copied()
    }
}

/// A sentence, and where it leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    /// How it looks: nothing, `late` or `down`.
    pub(crate) tone: &'static str,
    pub(crate) text: String,
    /// Words and URL of a link.
    pub(crate) link: Option<(&'static str, String)>,
}

impl Note {
    /// Something worth knowing.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { tone: "", text: text.into(), link: None }
    }

    /// Something to be seen to.
    pub(crate) fn late(text: impl Into<String>) -> Self {
        Self { tone: "late", ..Self::plain(text) }
    }

    /// Something that does not work.
    pub(crate) fn down(text: impl Into<String>) -> Self {
        Self { tone: "down", ..Self::plain(text) }
    }

    pub(crate) fn with_link(self, words: &'static str, url: String) -> Self {
        Self { link: Some((words, url)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        for notice in NOTICES {
            assert_eq!(Notice::of(notice.code), Some(*notice), "{}", notice.code);
        }
        assert_eq!(Notice::of("<b>"), None);
    }
}
