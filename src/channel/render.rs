//! An alert in the dialect of a receiver, never longer than it takes.

mod chat;
pub mod clean;
mod dialect;
mod url;

pub use chat::without_mentions;
use clean::one_line;
use dialect::Writer;
pub use dialect::{Dialect, Style};

use crate::channel::alert::{Alert, Attempt};
use crate::channel::words;
use crate::domain::alert::Event;

/// Characters of the job's output that messages show; mails show all that is kept.
pub const OUTPUT_CHARS: usize = 1_000;
/// Fewer characters of it say nothing.
const SHORTEST_OUTPUT: usize = 40;
/// Characters of the plainest form of an alert.
const PLAINEST_CHARS: usize = 200;

/// What lengths are counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Unicode code points.
    Chars,
    /// Units of UTF-16.
    Utf16,
}

/// How long something may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit(pub usize, pub Unit);

impl Limit {
    /// Whether a text keeps to it.
    pub fn fits(self, text: &str) -> bool {
        let length = match self.1 {
            Unit::Bytes => text.len(),
            Unit::Chars => text.chars().count(),
            Unit::Utf16 => text.encode_utf16().count(),
        };
        length <= self.0
    }
}

/// What of an alert a text shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Show {
    /// The title, where the receiver has no field of its own for it.
    pub title: bool,
    /// The facts, likewise.
    pub facts: bool,
    /// The link, likewise.
    pub link: bool,
    /// Characters of the job's output at most.
    pub output: usize,
}

impl Show {
    /// All of it.
    pub const ALL: Self = Self { title: true, facts: true, link: true, output: OUTPUT_CHARS };
    /// All but the title.
    pub const BELOW_TITLE: Self = Self { title: false, ..Self::ALL };
}

/// A text with the ranges that stand out in it, for receivers that take those beside the text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// What stands out, in units of UTF-16; empty in dialects with marks of their own.
    pub styles: Vec<Style>,
}

/// The title with its sign, cut to what fits, without marks of any dialect.
pub fn title(alert: &Alert, limit: Limit) -> String {
    cut(&format!("{} {}", alert.severity.emoji(), one_line(&alert.title)), limit)
}

/// A text on one line, cut to what fits.
pub fn cut(text: &str, limit: Limit) -> String {
    let text = one_line(text);
    if limit.fits(&text) {
        return text;
    }
    let ends: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
    let shortened = |chars: usize| ends.get(chars).and_then(|end| text.get(..*end)).map(|text| format!("{}…", text.trim_end()));
    let fitting = most(ends.len(), |chars| shortened(chars).is_some_and(|text| limit.fits(&text)));
    fitting.and_then(shortened).unwrap_or_default()
}

/// A text on one line as a dialect shows it unchanged, cut so that what is written fits.
pub fn cut_escaped(text: &str, dialect: Dialect, limit: Limit) -> String {
    let written = |chars| dialect.escaped(&cut(text, Limit(chars, Unit::Chars)));
    let chars = text.chars().count();
    most(chars + 1, |chars| limit.fits(&written(chars))).map(written).unwrap_or_default()
}

/// Title and reason in one short line, of a test what it is of: what is sent when the receiver refused everything else.
pub fn plainest(alert: &Alert) -> String {
    if alert.event == Event::Test {
        return cut(&alert.short, Limit(PLAINEST_CHARS, Unit::Chars));
    }
    let reason = if alert.reason == alert.title { String::new() } else { format!(": {}", alert.reason) };
    cut(&format!("{}{reason}", alert.title), Limit(PLAINEST_CHARS, Unit::Chars))
}

/// The text of an alert: [`text_styled`] without the ranges.
pub fn text(alert: &Alert, attempt: &Attempt, dialect: Dialect, show: Show, limit: Limit) -> String {
    text_styled(alert, attempt, dialect, show, limit).text
}

/// The text of an alert. What does not fit goes, in this order: other checks, the beginning of the output, the description, facts from
/// the last, checks of a list from the last, the link, the end of the lead. Where that leaves room, what went before comes back.
pub fn text_styled(alert: &Alert, attempt: &Attempt, dialect: Dialect, show: Show, limit: Limit) -> Rendered {
    if attempt.plain {
        let mut writer = Writer::new(dialect);
        writer.text(&plainest(alert));
        let rendered = writer.end();
        return if limit.fits(&rendered.text) { rendered } else { Rendered::default() };
    }
    let full = Plan::full(alert, show);
    let draw = |plan: Plan| plan.draw(alert, attempt, dialect, show);
    let fits = |plan: Plan| limit.fits(&draw(plan).text);
    if fits(full) {
        return draw(full);
    }
    let mut plan = full;
    for (place, part) in Part::DROPPED.into_iter().enumerate() {
        let Some(amount) = most(full.get(part), |amount| fits(plan.with(part, amount))) else {
            plan = plan.with(part, 0);
            continue;
        };
        plan = plan.with(part, amount);
        // What went before it may have room again, where a long description is gone.
        for earlier in Part::DROPPED.into_iter().take(place).rev() {
            let least = if earlier == Part::Output { SHORTEST_OUTPUT.min(full.get(earlier)) } else { 1 };
            let amount = most(full.get(earlier) + 1, |amount| fits(plan.with(earlier, amount)));
            plan = plan.with(earlier, amount.filter(|amount| *amount >= least).unwrap_or_default());
        }
        return draw(plan);
    }
    Rendered::default()
}

/// The block of the job's output, as much of its end as fits, with what stands above it; `None`: there is no output, or no room.
pub fn output(alert: &Alert, dialect: Dialect, limit: Limit) -> Option<(&'static str, String)> {
    let output = alert.output.as_ref()?;
    let draw = |chars| {
        let mut writer = Writer::new(dialect);
        writer.block(&tail(&output.text, chars));
        writer.end().text
    };
    let full = output.text.chars().count().min(OUTPUT_CHARS);
    let chars = most(full + 1, |chars| limit.fits(&draw(chars))).filter(|chars| *chars > 0)?;
    Some((output.label, draw(chars)))
}

/// The greatest number below `end` that holds, where all smaller ones hold too; `None`: not even 0 does.
fn most(end: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (0, end);
    if end == 0 || !holds(0) {
        return None;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// A part of a text of which more or less can be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Others,
    Output,
    Description,
    Facts,
    Lists,
    Link,
    Lead,
    Mark,
    Title,
}

impl Part {
    /// In the order in which they go.
    const DROPPED: [Self; 9] =
        [Self::Others, Self::Output, Self::Description, Self::Facts, Self::Lists, Self::Link, Self::Lead, Self::Mark, Self::Title];
}

/// How much of each part is shown: characters, items, or one for all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan([usize; Part::DROPPED.len()]);

impl Plan {
    fn full(alert: &Alert, show: Show) -> Self {
        let chars = |text: &str| text.chars().count();
        let mut plan = Self([0; Part::DROPPED.len()]);
        for (part, amount) in [
            (Part::Others, usize::from(!alert.others.is_empty())),
            (Part::Output, alert.output.as_ref().map_or(0, |output| chars(&output.text).min(show.output))),
            (Part::Description, usize::from(!alert.description.is_empty())),
            (Part::Facts, if show.facts { alert.facts.len() } else { 0 }),
            (Part::Lists, alert.lists.iter().map(|list| list.items.len()).sum()),
            (Part::Link, usize::from(show.link && alert.link.is_some())),
            (Part::Lead, chars(&alert.lead)),
            (Part::Mark, 1),
            (Part::Title, if show.title { chars(&alert.title) } else { 0 }),
        ] {
            plan = plan.with(part, amount);
        }
        plan
    }

    fn get(self, part: Part) -> usize {
        self.0.get(part as usize).copied().unwrap_or_default()
    }

    fn with(mut self, part: Part, amount: usize) -> Self {
        if let Some(own) = self.0.get_mut(part as usize) {
            *own = amount;
        }
        self
    }

    fn draw(self, alert: &Alert, attempt: &Attempt, dialect: Dialect, show: Show) -> Rendered {
        let mut writer = Writer::new(dialect);
        if self.get(Part::Title) > 0 {
            let title = head(&alert.title, self.get(Part::Title));
            writer.bold(&format!("{} {title}", alert.severity.emoji()));
            writer.line_end();
        }
        writer.text(&head(&alert.lead, self.get(Part::Lead)));
        if let Some(mark) = words::repeat_mark(attempt).filter(|_| self.get(Part::Mark) > 0) {
            writer.gap();
            writer.italic(mark);
        }
        if self.get(Part::Description) > 0 {
            writer.gap();
            writer.text(&alert.description);
        }
        for (place, fact) in alert.facts.iter().take(self.get(Part::Facts)).enumerate() {
            match place {
                0 => writer.gap(),
                _ => writer.line_end(),
            }
            writer.bold(&format!("{}:", fact.label));
            writer.text(&format!(" {}", fact.value));
        }
        self.draw_lists(alert, &mut writer);
        if self.get(Part::Others) > 0 {
            writer.gap();
            writer.text(&alert.others);
        }
        if let Some(output) = alert.output.as_ref().filter(|_| self.get(Part::Output) > 0) {
            writer.gap();
            writer.text(output.label);
            writer.block(&tail(&output.text, self.get(Part::Output)));
        }
        if let Some(link) = alert.link.as_ref().filter(|_| show.link && self.get(Part::Link) > 0) {
            writer.gap();
            writer.link(link, alert.link_text());
        }
        writer.end()
    }

    fn draw_lists(self, alert: &Alert, writer: &mut Writer) {
        let mut room = self.get(Part::Lists);
        let all: usize = alert.lists.iter().map(|list| list.items.len()).sum();
        let hidden = all.saturating_sub(room);
        if all > 0 && room == 0 {
            writer.gap();
            writer.text(&crate::domain::words::count(all, "check"));
        }
        for list in alert.lists.iter() {
            let shown = list.items.len().min(room);
            room -= shown;
            if shown == 0 {
                continue;
            }
            writer.gap();
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

/// The first so many characters.
fn head(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) if chars > 0 => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        Some(_) => String::new(),
        None => text.to_owned(),
    }
}

/// The last so many characters.
fn tail(text: &str, chars: usize) -> String {
    let cut = text.chars().count().saturating_sub(chars);
    let start = text.char_indices().nth(cut).map_or(0, |(at, _)| at);
    let tail = text.get(start..).unwrap_or(text);
    if cut > 0 { format!("…{tail}") } else { tail.to_owned() }
}
