//! Messages above the content of a page: results of actions, and warnings for the viewer.

/// Result of an action. The URL contains only its code; text from a URL is never shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlashMessage {
    /// Code in URLs (`?m=`).
    pub(crate) code: &'static str,
    /// Text on the page.
    pub(crate) text: &'static str,
}

/// All results.
const FLASH_MESSAGES: &[FlashMessage] = &[
    FlashMessage {
        code: "saved",
        text: "Saved.",
    },
    FlashMessage {
        code: "key-revoked",
        text: "Key revoked. It stopped working at once.",
    },
    FlashMessage {
        code: "ping-key-made",
        text: "Ping key created. Move your jobs to it, then revoke the old one.",
    },
    FlashMessage {
        code: "project-deleted",
        text: "Project deleted with its checks.",
    },
    FlashMessage {
        code: "invited",
        text: "Invite link created. It is shown only once and works for 7 days.",
    },
    FlashMessage {
        code: "signed-out",
        text: "Sessions ended.",
    },
    FlashMessage {
        code: "user-deleted",
        text: "User deleted.",
    },
    FlashMessage {
        code: "password",
        text: "Password changed. All other sessions are signed out.",
    },
    FlashMessage {
        code: "chosen",
        text: "Password changed. Sign in with the new password and your second factor.",
    },
    FlashMessage {
        code: "totp-on",
        text: "The second factor is on. All other sessions are signed out.",
    },
    FlashMessage {
        code: "totp-off",
        text: "The second factor is off. Your password alone signs you in.",
    },
    FlashMessage {
        code: "totp-codes",
        text: "New recovery codes created. The old codes no longer work.",
    },
    FlashMessage {
        code: "passkey-added",
        text: "Passkey added. You can sign in with it.",
    },
    FlashMessage {
        code: "passkey-removed",
        text: "Passkey removed. It no longer signs you in.",
    },
    FlashMessage {
        code: "connected",
        text: "Account connected. You can sign in at the provider.",
    },
    FlashMessage {
        code: "disconnected",
        text: "Account disconnected. The provider no longer signs you in.",
    },
    FlashMessage {
        code: "summary-on",
        text: "Saved. The next summary comes when the period is over.",
    },
    FlashMessage {
        code: "summary-off",
        text: "You get no summaries by mail.",
    },
    FlashMessage {
        code: "summary-sent",
        text: "The last summary will be sent within a minute.",
    },
    FlashMessage {
        code: "made",
        text: "Check added. It cannot be overdue before its first ping.",
    },
    FlashMessage {
        code: "made-alone",
        text: "Check added without dependencies: they would have exceeded a limit.",
    },
    FlashMessage {
        code: "copied-check",
        text: "Check duplicated. The copy has its own ping URL.",
    },
    FlashMessage {
        code: "deleted",
        text: "Check deleted with its log.",
    },
    FlashMessage {
        code: "window-made",
        text: "Maintenance window created.",
    },
    FlashMessage {
        code: "window-deleted",
        text: "Maintenance window ended. Checks that went down in it and are still down alert now.",
    },
    FlashMessage {
        code: "status-page-made",
        text: "Status page created. Everybody who knows its address can see it.",
    },
    FlashMessage {
        code: "status-page-deleted",
        text: "Status page deleted. Its address no longer works.",
    },
    FlashMessage {
        code: "backup-started",
        text: "A backup is being made. The list shows it once it is complete and verified.",
    },
    FlashMessage {
        code: "delivery-retried",
        text: "Queued again. The list shows the result.",
    },
    FlashMessage {
        code: "undone",
        text: "Undone.",
    },
    FlashMessage {
        code: "not-undone",
        text: "Not undone: the check has changed since.",
    },
    FlashMessage {
        code: "paused",
        text: "Paused. No alerts are sent about this check.",
    },
    FlashMessage {
        code: "resumed",
        text: "Resumed. The check waits for its next ping.",
    },
    FlashMessage {
        code: "pinged",
        text: "Ping logged.",
    },
    FlashMessage {
        code: "integration-made",
        text: "Channel added. Send a test to verify it.",
    },
    FlashMessage {
        code: "integration-enabled",
        text: "Channel enabled. It receives alerts again.",
    },
    FlashMessage {
        code: "integration-deleted",
        text: "Channel deleted. It receives no more alerts.",
    },
];

impl FlashMessage {
    /// Message with this code.
    pub(super) fn from_code(code: &str) -> Option<Self> {
        FLASH_MESSAGES
            .iter()
            .find(|flash| flash.code == code)
            .copied()
    }
}

/// A sentence with an optional link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Banner {
    /// Style: empty, `late` or `down`.
    pub(crate) style: &'static str,
    pub(crate) text: String,
    /// Label and URL of a link.
    pub(crate) link: Option<(&'static str, String)>,
    /// URL that undoes the action.
    pub(crate) undo: Option<String>,
}

impl Banner {
    /// Information.
    pub(crate) fn info(text: impl Into<String>) -> Self {
        Self {
            style: "",
            text: text.into(),
            link: None,
            undo: None,
        }
    }

    /// Something that needs attention.
    pub(crate) fn warning(text: impl Into<String>) -> Self {
        Self {
            style: "late",
            ..Self::info(text)
        }
    }

    /// Something that does not work.
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self {
            style: "down",
            ..Self::info(text)
        }
    }

    pub(crate) fn with_undo(self, undo: Option<String>) -> Self {
        Self { undo, ..self }
    }

    pub(crate) fn with_link(self, words: &'static str, url: String) -> Self {
        Self {
            link: Some((words, url)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_found_by_its_code() {
        for flash in FLASH_MESSAGES {
            assert_eq!(
                FlashMessage::from_code(flash.code),
                Some(*flash),
                "{}",
                flash.code
            );
        }
        assert_eq!(FlashMessage::from_code("<b>"), None);
    }
}
