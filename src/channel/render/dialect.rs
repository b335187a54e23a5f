//! How each receiver writes bold text, blocks and links, and what has to be escaped for it.

use super::{RenderedText, chat_escaping};

/// Goes after an `@` that could name somebody: it shows nothing, and the name is no longer one.
pub(super) const WORD_JOINER: char = '\u{2060}';

/// The way a receiver writes text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// No marks at all.
    Plain,
    /// The HTML of Telegram: b, i, code, pre, a.
    Telegram,
    /// The HTML of Pushover: b, i, a; lines end as in plain text.
    Pushover,
    /// The HTML of mails and Matrix.
    Html,
    /// CommonMark, as Gotify, GitHub, Trello and Teams read it.
    Markdown,
    /// The Markdown of Discord.
    Discord,
    /// The Markdown of Mattermost.
    Mattermost,
    /// The Markdown of Rocket.Chat.
    RocketChat,
    /// The Markdown of Zulip.
    Zulip,
    /// Text that Slack does not read for marks, as where `mrkdwn_in` does not name it; blocks are in what it calls mrkdwn.
    Slack,
    /// Plain text with ranges beside it.
    Signal,
}

impl Dialect {
    /// Every dialect.
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

    /// A text without marks, as it is written so that it shows as it is. URLs stay what they are where links are made of them.
    pub fn escape(self, text: &str) -> String {
        match self {
            Self::Plain | Self::Signal => text.to_owned(),
            Self::Telegram | Self::Pushover | Self::Html => self.escaped_html(text),
            Self::Markdown => chat_escaping::markdown(text),
            Self::Discord => chat_escaping::escape_discord(text),
            Self::Mattermost => chat_escaping::escape_mattermost(text),
            Self::RocketChat => chat_escaping::escape_rocket_chat(text),
            Self::Zulip => chat_escaping::escape_zulip(text),
            Self::Slack => chat_escaping::slack(text),
        }
    }

    fn escaped_html(self, text: &str) -> String {
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

/// A range that stands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StyledRange {
    /// Where it begins, in units of UTF-16.
    pub start: usize,
    /// How long it is, in units of UTF-16.
    pub length: usize,
    /// The word that Signal has for it.
    pub name: &'static str,
}

/// A text under way.
pub(super) struct DialectWriter {
    dialect: Dialect,
    out: String,
    styles: Vec<StyledRange>,
    /// Line ends that are due before the next text.
    pending_line_ends: usize,
}

impl DialectWriter {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, out: String::new(), styles: Vec::new(), pending_line_ends: 0 }
    }

    pub(super) fn finish(self) -> RenderedText {
        RenderedText { text: self.out, styles: self.styles }
    }

    pub(super) fn line_end(&mut self) {
        self.pending_line_ends = self.pending_line_ends.max(1);
    }

    /// An empty line.
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
            (Dialect::Html, due) => self.out.push_str(if due == 1 { "<br>\n" } else { "<br><br>\n" }),
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
        self.write_marked(text, "BOLD", ("<b>", "</b>"), "**");
    }

    pub(super) fn italic(&mut self, text: &str) {
        self.write_marked(text, "ITALIC", ("<i>", "</i>"), "_");
    }

    fn write_marked(&mut self, text: &str, name: &'static str, html: (&str, &str), markdown: &str) {
        if text.is_empty() {
            return;
        }
        self.write_pending_line_ends();
        let (open, close) = match self.dialect {
            Dialect::Telegram | Dialect::Pushover | Dialect::Html => html,
            // Underscores are no mark there.
            Dialect::Zulip if markdown == "_" => ("*", "*"),
            Dialect::Markdown | Dialect::Discord | Dialect::Mattermost | Dialect::RocketChat | Dialect::Zulip => (markdown, markdown),
            Dialect::Plain | Dialect::Slack | Dialect::Signal => ("", ""),
        };
        let start = self.length();
        self.out.push_str(open);
        self.out.push_str(&self.dialect.escape(text));
        self.out.push_str(close);
        self.add_style(start, name);
    }

    /// Lines that are shown as they are.
    pub(super) fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.line_end();
        match self.dialect {
            Dialect::Telegram | Dialect::Html => {
                // A block begins a line by itself.
                self.pending_line_ends = 0;
                // Long lines of a log would run out of the page of a phone.
                let wraps = if self.dialect == Dialect::Html { " style=\"white-space: pre-wrap; overflow-wrap: anywhere\"" } else { "" };
                self.out.push_str(&format!("\n<pre{wraps}>"));
                let escaped = Dialect::Telegram.escape(text);
                self.out.push_str(&escaped);
                self.out.push_str("</pre>");
            }
            // Nobody is called from a block, so that what is copied from it is what was sent.
            Dialect::Markdown | Dialect::Mattermost | Dialect::Zulip => {
                let fence = "`".repeat(longest_backtick_run(text).max(2) + 1);
                self.pending_line_ends = 0;
                self.out.push_str(&format!("\n{fence}\n{text}\n{fence}"));
            }
            Dialect::Discord | Dialect::RocketChat => {
                self.pending_line_ends = 0;
                self.out.push_str(&format!("\n```\n{}\n```", chat_escaping::escape_code_block(text)));
            }
            Dialect::Slack => {
                self.write_pending_line_ends();
                let text = chat_escaping::escape_code_block(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
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

    /// A link; the URL is one of ours.
    pub(super) fn link(&mut self, url: &str, text: &str) {
        self.write_pending_line_ends();
        let text = match self.dialect {
            Dialect::Telegram | Dialect::Pushover | Dialect::Html => {
                format!("<a href=\"{}\">{text}</a>", Dialect::Html.escape(url))
            }
            Dialect::Markdown | Dialect::Discord | Dialect::Mattermost | Dialect::RocketChat | Dialect::Zulip => format!("[{text}]({url})"),
            Dialect::Slack => format!("<{}|{text}>", self.dialect.escape(url)),
            Dialect::Plain | Dialect::Signal => url.to_owned(),
        };
        self.out.push_str(&text);
    }

    fn length(&self) -> usize {
        if self.dialect == Dialect::Signal { self.out.encode_utf16().count() } else { 0 }
    }

    fn add_style(&mut self, start: usize, name: &'static str) {
        if self.dialect == Dialect::Signal {
            let length = self.length() - start;
            self.styles.push(StyledRange { start, length, name });
        }
    }
}

/// How many backquotes stand in a row at most.
pub(super) fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}
