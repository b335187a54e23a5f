//! Dialects of receivers: bold text, blocks, links and escapes.

use super::{RenderedText, chat_escaping};

/// Placed after an `@` that could be a mention: it is invisible and ends the name.
pub(super) const WORD_JOINER: char = '\u{2060}';

/// Markup language of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// No marks.
    Plain,
    /// HTML of Telegram: b, i, code, pre, a.
    Telegram,
    /// HTML of Pushover: b, i, a; line ends as in plain text.
    Pushover,
    /// HTML of mails and Matrix.
    Html,
    /// CommonMark as in Gotify, GitHub, Trello and Teams.
    Markdown,
    /// Markdown of Discord.
    Discord,
    /// Markdown of Mattermost.
    Mattermost,
    /// Markdown of Rocket.Chat.
    RocketChat,
    /// Markdown of Zulip.
    Zulip,
    /// Text that Slack does not parse for marks, as in fields outside `mrkdwn_in`; blocks use
    /// Slack's mrkdwn.
    Slack,
    /// Plain text with separate ranges.
    Signal,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 11] = [
        Self::Plain,
        Self::Telegram,
        Self::Pushover,
        Self::Html,
        Self::Markdown,
        Self::Discord,
        Self::Mattermost,
        Self::RocketChat,
        Self::Zulip,
        Self::Slack,
        Self::Signal,
    ];

    /// Escapes a text so that it is shown unchanged. URLs stay intact if the receiver turns them
    /// into links.
    pub fn escape(self, text: &str) -> String {
        match self {
            Self::Plain | Self::Signal => text.to_owned(),
            Self::Telegram | Self::Pushover | Self::Html => self.escape_html(text),
            Self::Markdown => chat_escaping::escape_markdown(text),
            Self::Discord => chat_escaping::escape_discord(text),
            Self::Mattermost => chat_escaping::escape_mattermost(text),
            Self::RocketChat => chat_escaping::escape_rocket_chat(text),
            Self::Zulip => chat_escaping::escape_zulip(text),
            Self::Slack => chat_escaping::escape_slack(text),
        }
    }

    fn escape_html(self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len() + text.len() / 8);
        for c in text.chars() {
            match c {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                '\n' if self == Self::Html => escaped.push_str("<br>\n"),
                c => escaped.push(c),
            }
        }
        escaped
    }
}

/// Styled range of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StyledRange {
    /// Start in UTF-16 code units.
    pub start: usize,
    /// Length in UTF-16 code units.
    pub length: usize,
    /// Name of the style in Signal.
    pub name: &'static str,
}

/// Text that is being written.
pub(super) struct DialectWriter {
    dialect: Dialect,
    out: String,
    styles: Vec<StyledRange>,
    /// Line ends to write before the next text.
    pending_line_ends: usize,
}

impl DialectWriter {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            out: String::new(),
            styles: Vec::new(),
            pending_line_ends: 0,
        }
    }

    pub(super) fn finish(self) -> RenderedText {
        RenderedText {
            text: self.out,
            styles: self.styles,
        }
    }

    pub(super) fn line_end(&mut self) {
        self.pending_line_ends = self.pending_line_ends.max(1);
    }

    /// Begins a new paragraph after an empty line.
    pub(super) fn blank_line(&mut self) {
        self.pending_line_ends = 2;
    }

    fn write_pending_line_ends(&mut self) {
        let due = std::mem::take(&mut self.pending_line_ends);
        if self.out.is_empty() {
            return;
        }
        match (self.dialect, due) {
            (_, 0) => {}
            (Dialect::Html, due) => {
                self.out
                    .push_str(if due == 1 { "<br>\n" } else { "<br><br>\n" });
            }
            (Dialect::Markdown, 1) => self.out.push_str("  \n"),
            (_, due) => self.out.extend(std::iter::repeat_n('\n', due)),
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.write_pending_line_ends();
            self.out.push_str(&self.dialect.escape(text));
        }
    }

    pub(super) fn bold(&mut self, text: &str) {
        self.write_emphasis(text, "BOLD", ("<b>", "</b>"), "**");
    }

    pub(super) fn italic(&mut self, text: &str) {
        self.write_emphasis(text, "ITALIC", ("<i>", "</i>"), "_");
    }

    fn write_emphasis(
        &mut self,
        text: &str,
        name: &'static str,
        html: (&str, &str),
        markdown: &str,
    ) {
        if text.is_empty() {
            return;
        }
        self.write_pending_line_ends();
        let (open, close) = match self.dialect {
            Dialect::Telegram | Dialect::Pushover | Dialect::Html => html,
            // Underscores are no mark there.
            Dialect::Zulip if markdown == "_" => ("*", "*"),
            Dialect::Markdown
            | Dialect::Discord
            | Dialect::Mattermost
            | Dialect::RocketChat
            | Dialect::Zulip => (markdown, markdown),
            Dialect::Plain | Dialect::Slack | Dialect::Signal => ("", ""),
        };
        let start = self.length();
        self.out.push_str(open);
        self.out.push_str(&self.dialect.escape(text));
        self.out.push_str(close);
        self.add_style(start, name);
    }

    /// Writes lines that are shown unchanged.
    pub(super) fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.line_end();
        match self.dialect {
            Dialect::Telegram | Dialect::Html => {
                // A block begins on a new line anyway.
                self.pending_line_ends = 0;
                // Long log lines would overflow the page on a phone.
                let wraps = if self.dialect == Dialect::Html {
                    r#" style="white-space: pre-wrap; overflow-wrap: anywhere""#
                } else {
                    ""
                };
                self.out.push_str(&format!("\n<pre{wraps}>"));
                let escaped = Dialect::Telegram.escape(text);
                self.out.push_str(&escaped);
                self.out.push_str("</pre>");
            }
            // A block contains no mentions, so text copied from it is exactly what was sent.
            Dialect::Markdown | Dialect::Mattermost | Dialect::Zulip => {
                let fence = "`".repeat(longest_backtick_run(text).max(2) + 1);
                self.pending_line_ends = 0;
                self.out.push_str(&format!("\n{fence}\n{text}\n{fence}"));
            }
            Dialect::Discord | Dialect::RocketChat => {
                self.pending_line_ends = 0;
                self.out.push_str(&format!(
                    "\n```\n{}\n```",
                    chat_escaping::escape_code_block(text)
                ));
            }
            Dialect::Slack => {
                self.write_pending_line_ends();
                let text = chat_escaping::escape_code_block(text)
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;");
                self.out.push_str(&format!("```\n{text}\n```"));
            }
            Dialect::Plain | Dialect::Pushover | Dialect::Signal => {
                self.write_pending_line_ends();
                let start = self.length();
                self.out.push_str(&self.dialect.escape(text));
                self.add_style(start, "MONOSPACE");
            }
        }
    }

    /// Writes a link; the URL is one of this server.
    pub(super) fn link(&mut self, url: &str, text: &str) {
        self.write_pending_line_ends();
        let text = match self.dialect {
            Dialect::Telegram | Dialect::Pushover | Dialect::Html => {
                format!("<a href=\"{}\">{text}</a>", Dialect::Html.escape(url))
            }
            Dialect::Markdown
            | Dialect::Discord
            | Dialect::Mattermost
            | Dialect::RocketChat
            | Dialect::Zulip => format!("[{text}]({url})"),
            Dialect::Slack => format!("<{}|{text}>", self.dialect.escape(url)),
            Dialect::Plain | Dialect::Signal => url.to_owned(),
        };
        self.out.push_str(&text);
    }

    fn length(&self) -> usize {
        if self.dialect == Dialect::Signal {
            self.out.encode_utf16().count()
        } else {
            0
        }
    }

    fn add_style(&mut self, start: usize, name: &'static str) {
        if self.dialect == Dialect::Signal {
            let length = self.length() - start;
            self.styles.push(StyledRange {
                start,
                length,
                name,
            });
        }
    }
}

/// Length of the longest run of backticks.
pub(super) fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default()
}
