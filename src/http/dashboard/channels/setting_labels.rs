//! Labels of the settings of channels in forms, by their key at the command line.

/// Group of settings that many kinds have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SettingGroup {
    /// Alerts that are sent.
    Which,
    /// Hours and days.
    When,
    /// Reminders and combined messages.
    HowMany,
    /// Connection to the receiver.
    Connection,
}

impl SettingGroup {
    /// Every group, in the order of the form.
    pub(super) const ALL: [Self; 4] = [Self::Which, Self::When, Self::HowMany, Self::Connection];

    /// Heading of the group.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Which => "Which alerts",
            Self::When => "When not",
            Self::HowMany => "How many messages",
            Self::Connection => "Connection",
        }
    }

    /// Group of a setting.
    pub(super) fn of(key: &str) -> Self {
        match key {
            "every" | "send" | "notices" => Self::Which,
            "quiet" | "quiet-days" | "tz" => Self::When,
            "tls-pin" => Self::Connection,
            _ => Self::HowMany,
        }
    }
}

/// Label of a setting. One without a label of its own is written as its key: `account` is
/// `Account`.
pub(super) fn setting_label(key: &str) -> String {
    let label = match key {
        "api" => "Kind of API",
        "body" => "Message when a check is down or up",
        "bot-email" => "Mail address of the bot",
        "channels" => "Channels of the group",
        "chat" => "Chat",
        "content-down" => "Template for down",
        "content-up" => "Template for up",
        "down-body" => "Message when a check is down",
        "down-command" => "Command when a check is down",
        "down-header.NAME" => "Headers when a check is down",
        "down-method" => "Method when a check is down",
        "down-url" => "URL when a check is down",
        "every" => "Alert about every check",
        "from" => "Sender",
        "group-after" => "Combine messages about more than this number of checks",
        "header.NAME" => "Headers",
        "integration" => "Integration",
        "key" => "Key",
        "label.NAME" => "Labels",
        "list" => "List",
        "markdown" => "Markdown",
        "method" => "Method",
        "most-a-day" => "Maximum number of messages a day",
        "notices" => "Notices about the server",
        "priority" => "Priority when a check is down",
        "priority-up" => "Priority when a check is up again",
        "quiet" => "Quiet hours",
        "quiet-days" => "Days with quiet hours",
        "repeat" => "Remind every",
        "repeat-most" => "Maximum number of reminders",
        "repo" => "Repository",
        "send" => "Events",
        "silent-up" => "No sound when a check is up again",
        "site" => "Server",
        "sound" => "Sound",
        "thread" => "Thread",
        "tls-pin" => "Certificate of the server",
        "to" => "Recipients",
        "tz" => "Time zone",
        "up-body" => "Message when a check is up again",
        "up-command" => "Command when a check is up again",
        "up-header.NAME" => "Headers when a check is up again",
        "up-method" => "Method when a check is up again",
        "up-url" => "URL when a check is up again",
        "url" => "URL",
        "urls" => "URLs",
        "user" => "User",
        "username" => "Name of the sender",
        key => return capitalize(&key.replace('-', " ")),
    };
    label.into()
}

/// Words of an option of a setting.
pub(super) fn option_label(key: &str, word: &str) -> String {
    match (key, word) {
        ("send", "down") => "a check is down".into(),
        ("send", "up") => "a check is up again".into(),
        ("send", "late") => "a check is late".into(),
        ("send", "limits") => "a run passes the limits of its check".into(),
        _ => word.to_owned(),
    }
}

/// Help of a switch, without the words of the command line.
pub(super) fn switch_help(help: &str) -> String {
    let help = help.strip_prefix("on: ").unwrap_or(help);
    capitalize(help.strip_suffix("; off if left out").unwrap_or(help))
}

/// Capitalizes the first letter.
pub(super) fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    first + letters.as_str()
}
