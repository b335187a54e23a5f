//! Rendering of an alert in the dialect of a receiver, within its length limit.

mod chat_escaping;
mod dialect;
pub mod sanitize;
mod url;

pub use chat_escaping::disarm_mentions;
use dialect::DialectWriter;
pub use dialect::{Dialect, StyledRange};
use sanitize::to_one_line;

use crate::channels::alert::{Alert, SendAttempt};
use crate::channels::alert_text;
use crate::domain::alert::AlertEvent;

/// Characters of the job's output in messages; mails show all that is stored.
pub const MAX_OUTPUT_CHARS: usize = 1_000;
/// Fewer characters of it are useless.
const MIN_OUTPUT_CHARS: usize = 40;
/// Maximum number of characters of the plainest form of an alert.
const MAX_PLAIN_SUMMARY_CHARS: usize = 200;

/// Unit of lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LengthUnit {
    /// Bytes of UTF-8.
    Bytes,
    /// Unicode code points.
    Chars,
    /// UTF-16 code units.
    Utf16,
}

/// Maximum length of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LengthLimit(pub usize, pub LengthUnit);

impl LengthLimit {
    /// True if a text is within the limit.
    pub fn fits(self, text: &str) -> bool {
        let length = match self.1 {
            LengthUnit::Bytes => text.len(),
            LengthUnit::Chars => text.chars().count(),
            LengthUnit::Utf16 => text.encode_utf16().count(),
        };
        length <= self.0
    }
}

/// Sections of an alert that a text includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextSections {
    /// Title, if the receiver has no field for it.
    pub title: bool,
    /// Facts, if the receiver has no fields for them.
    pub facts: bool,
    /// Link, if the receiver has no field for it.
    pub link: bool,
    /// Maximum number of characters of the job's output.
    pub output: usize,
}

impl TextSections {
    /// All sections.
    pub const ALL: Self = Self {
        title: true,
        facts: true,
        link: true,
        output: MAX_OUTPUT_CHARS,
    };
    /// All sections but the title.
    pub const BELOW_TITLE: Self = Self {
        title: false,
        ..Self::ALL
    };
}

/// Text with styled ranges, for receivers that take those separately.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderedText {
    /// Text without styles.
    pub text: String,
    /// Styled ranges in UTF-16 code units; empty in dialects with marks of their own.
    pub styles: Vec<StyledRange>,
}

/// Title with its emoji, cut to the limit, without marks of any dialect.
pub fn render_title(alert: &Alert, limit: LengthLimit) -> String {
    truncate_line(
        &format!("{} {}", alert.severity.emoji(), to_one_line(&alert.title)),
        limit,
    )
}

/// Text on one line, cut to the limit.
pub fn truncate_line(text: &str, limit: LengthLimit) -> String {
    let text = to_one_line(text);
    if limit.fits(&text) {
        return text;
    }
    let ends: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
    let shortened = |chars: usize| {
        ends.get(chars)
            .and_then(|end| text.get(..*end))
            .map(|text| format!("{}…", text.trim_end()))
    };
    let fitting = largest_fitting(ends.len(), |chars| {
        shortened(chars).is_some_and(|text| limit.fits(&text))
    });
    fitting.and_then(shortened).unwrap_or_default()
}

/// Text on one line, escaped for a dialect, cut so that the escaped text is within the limit.
pub fn truncate_escaped(text: &str, dialect: Dialect, limit: LengthLimit) -> String {
    let written =
        |chars| dialect.escape(&truncate_line(text, LengthLimit(chars, LengthUnit::Chars)));
    let chars = text.chars().count();
    largest_fitting(chars + 1, |chars| limit.fits(&written(chars)))
        .map(written)
        .unwrap_or_default()
}

/// Title and reason in one short line; for a test, what it tests. It is sent if the receiver has
/// refused everything else.
pub fn plain_summary(alert: &Alert) -> String {
    if alert.event == AlertEvent::Test {
        return truncate_line(
            &alert.one_line,
            LengthLimit(MAX_PLAIN_SUMMARY_CHARS, LengthUnit::Chars),
        );
    }
    let reason = if alert.reason == alert.title {
        String::new()
    } else {
        format!(": {}", alert.reason)
    };
    truncate_line(
        &format!("{}{reason}", alert.title),
        LengthLimit(MAX_PLAIN_SUMMARY_CHARS, LengthUnit::Chars),
    )
}

/// Text of an alert: [`render_styled_text`] without the ranges.
pub fn render_text(
    alert: &Alert,
    attempt: &SendAttempt,
    dialect: Dialect,
    show: TextSections,
    limit: LengthLimit,
) -> String {
    render_styled_text(alert, attempt, dialect, show, limit).text
}

/// Text of an alert. Parts that do not fit are dropped in this order: other checks, the beginning
/// of the output, the description, facts from the last, checks of a list from the last, the link,
/// the end of the lead. If space remains afterwards, earlier parts return.
pub fn render_styled_text(
    alert: &Alert,
    attempt: &SendAttempt,
    dialect: Dialect,
    show: TextSections,
    limit: LengthLimit,
) -> RenderedText {
    if attempt.plain {
        let mut writer = DialectWriter::new(dialect);
        writer.text(&plain_summary(alert));
        let rendered = writer.finish();
        return if limit.fits(&rendered.text) {
            rendered
        } else {
            RenderedText::default()
        };
    }
    let full = TextLayout::with_everything(alert, show);
    let render = |layout: TextLayout| layout.render(alert, attempt, dialect, show);
    let fits = |layout: TextLayout| limit.fits(&render(layout).text);
    if fits(full) {
        return render(full);
    }
    let mut layout = full;
    for (index, part) in TextPart::DROP_ORDER.into_iter().enumerate() {
        let Some(amount) = largest_fitting(full.amount_of(part), |amount| {
            fits(layout.with_amount(part, amount))
        }) else {
            layout = layout.with_amount(part, 0);
            continue;
        };
        layout = layout.with_amount(part, amount);
        // Earlier parts may fit again if a long description was dropped.
        for earlier in TextPart::DROP_ORDER.into_iter().take(index).rev() {
            let min = if earlier == TextPart::Output {
                MIN_OUTPUT_CHARS.min(full.amount_of(earlier))
            } else {
                1
            };
            let amount = largest_fitting(full.amount_of(earlier) + 1, |amount| {
                fits(layout.with_amount(earlier, amount))
            });
            layout = layout.with_amount(
                earlier,
                amount.filter(|amount| *amount >= min).unwrap_or_default(),
            );
        }
        return render(layout);
    }
    RenderedText::default()
}

/// Block of the job's output, with as much of its end as fits, and its label. `None`: there is no
/// output, or no space.
pub fn render_output(
    alert: &Alert,
    dialect: Dialect,
    limit: LengthLimit,
) -> Option<(&'static str, String)> {
    let output = alert.output.as_ref()?;
    let render = |chars| {
        let mut writer = DialectWriter::new(dialect);
        writer.block(&last_chars(&output.text, chars));
        writer.finish().text
    };
    let full = output.text.chars().count().min(MAX_OUTPUT_CHARS);
    let chars =
        largest_fitting(full + 1, |chars| limit.fits(&render(chars))).filter(|chars| *chars > 0)?;
    Some((output.label, render(chars)))
}

/// Greatest number below `end` for which `fits` is true, provided it is true for all smaller ones.
/// `None`: it is false for 0.
fn largest_fitting(end: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let mut low = 0;
    let mut high = end;
    if end == 0 || !fits(0) {
        return None;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

/// Part of a text that can be shortened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TextPart {
    OtherChecks,
    Output,
    Description,
    Facts,
    Lists,
    Link,
    Lead,
    DuplicateNote,
    Title,
}

impl TextPart {
    /// Order in which parts are dropped.
    const DROP_ORDER: [Self; 9] = [
        Self::OtherChecks,
        Self::Output,
        Self::Description,
        Self::Facts,
        Self::Lists,
        Self::Link,
        Self::Lead,
        Self::DuplicateNote,
        Self::Title,
    ];
}

/// Amount of each part: characters, items, or one for all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TextLayout([usize; TextPart::DROP_ORDER.len()]);

impl TextLayout {
    fn with_everything(alert: &Alert, show: TextSections) -> Self {
        let chars = |text: &str| text.chars().count();
        let mut layout = Self([0; TextPart::DROP_ORDER.len()]);
        for (part, amount) in [
            (
                TextPart::OtherChecks,
                usize::from(!alert.other_checks.is_empty()),
            ),
            (
                TextPart::Output,
                alert
                    .output
                    .as_ref()
                    .map_or(0, |output| chars(&output.text).min(show.output)),
            ),
            (
                TextPart::Description,
                usize::from(!alert.description.is_empty()),
            ),
            (
                TextPart::Facts,
                if show.facts { alert.facts.len() } else { 0 },
            ),
            (
                TextPart::Lists,
                alert.lists.iter().map(|list| list.items.len()).sum(),
            ),
            (
                TextPart::Link,
                usize::from(show.link && alert.link.is_some()),
            ),
            (TextPart::Lead, chars(&alert.summary)),
            (TextPart::DuplicateNote, 1),
            (
                TextPart::Title,
                if show.title { chars(&alert.title) } else { 0 },
            ),
        ] {
            layout = layout.with_amount(part, amount);
        }
        layout
    }

    fn amount_of(self, part: TextPart) -> usize {
        self.0.get(part as usize).copied().unwrap_or_default()
    }

    fn with_amount(mut self, part: TextPart, amount: usize) -> Self {
        if let Some(current) = self.0.get_mut(part as usize) {
            *current = amount;
        }
        self
    }

    fn render(
        self,
        alert: &Alert,
        attempt: &SendAttempt,
        dialect: Dialect,
        show: TextSections,
    ) -> RenderedText {
        let mut writer = DialectWriter::new(dialect);
        if self.amount_of(TextPart::Title) > 0 {
            let title = first_chars(&alert.title, self.amount_of(TextPart::Title));
            writer.bold(&format!("{} {title}", alert.severity.emoji()));
            writer.line_end();
        }
        writer.text(&first_chars(&alert.summary, self.amount_of(TextPart::Lead)));
        if let Some(mark) = alert_text::duplicate_note(attempt)
            .filter(|_| self.amount_of(TextPart::DuplicateNote) > 0)
        {
            writer.blank_line();
            writer.italic(mark);
        }
        if self.amount_of(TextPart::Description) > 0 {
            writer.blank_line();
            writer.text(&alert.description);
        }
        for (index, fact) in alert
            .facts
            .iter()
            .take(self.amount_of(TextPart::Facts))
            .enumerate()
        {
            match index {
                0 => writer.blank_line(),
                _ => writer.line_end(),
            }
            writer.bold(&format!("{}:", fact.label));
            writer.text(&format!(" {}", fact.value));
        }
        self.render_lists(alert, &mut writer);
        if self.amount_of(TextPart::OtherChecks) > 0 {
            writer.blank_line();
            writer.text(&alert.other_checks);
        }
        if let Some(output) = alert
            .output
            .as_ref()
            .filter(|_| self.amount_of(TextPart::Output) > 0)
        {
            writer.blank_line();
            writer.text(output.label);
            writer.block(&last_chars(&output.text, self.amount_of(TextPart::Output)));
        }
        if let Some(link) = alert
            .link
            .as_ref()
            .filter(|_| show.link && self.amount_of(TextPart::Link) > 0)
        {
            writer.blank_line();
            writer.link(link, alert.link_text());
        }
        writer.finish()
    }

    fn render_lists(self, alert: &Alert, writer: &mut DialectWriter) {
        let mut remaining = self.amount_of(TextPart::Lists);
        let all: usize = alert.lists.iter().map(|list| list.items.len()).sum();
        let hidden = all.saturating_sub(remaining);
        if all > 0 && remaining == 0 {
            writer.blank_line();
            writer.text(&crate::domain::formatting::format_count(all, "check"));
        }
        for list in alert.lists.iter() {
            let shown = list.items.len().min(remaining);
            remaining -= shown;
            if shown == 0 {
                continue;
            }
            writer.blank_line();
            writer.bold(list.heading);
            for item in list.items.iter().take(shown) {
                writer.line_end();
                writer.text(&format!("• {item}"));
            }
        }
        if hidden > 0 && hidden < all {
            writer.line_end();
            writer.text(&format!("and {hidden} more"));
        }
    }
}

/// First characters of a text.
fn first_chars(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) if chars > 0 => {
            format!("{}…", text.get(..end).unwrap_or_default().trim_end())
        }
        Some(_) => String::new(),
        None => text.to_owned(),
    }
}

/// Last characters of a text.
fn last_chars(text: &str, chars: usize) -> String {
    let cut = text.chars().count().saturating_sub(chars);
    let start = text
        .char_indices()
        .nth(cut)
        .map_or(text.len(), |(at, _)| at);
    let tail = text.get(start..).unwrap_or(text);
    if cut > 0 {
        format!("…{tail}")
    } else {
        tail.to_owned()
    }
}
