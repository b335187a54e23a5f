//! The mail of a summary, as text and as HTML.

use std::time::Duration;

use askama::Template;

use super::contents::{CheckLines, SummaryContents};
use crate::channels::render::{LengthLimit, LengthUnit, truncate_line};
use crate::channels::send_step::unsubscribe_headers;
use crate::domain::formatting::format_count;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::summary::SummarySettings;
use crate::outbound::OutgoingMail;

/// Maximum time of sending.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Colour of the headline without and with downtimes.
const CALM_COLOR: &str = "2da44e";
const PROBLEM_COLOR: &str = "d0342c";

/// Links in the mail.
#[derive(Default)]
pub(super) struct SummaryLinks {
    /// Page with the settings.
    pub(super) account: Option<String>,
    /// Link that ends the subscription.
    pub(super) unsubscribe: Option<String>,
}

/// List of checks with a title.
struct SummarySection<'a> {
    title: &'static str,
    list: &'a CheckLines,
}

#[derive(Template)]
#[template(
    path = "summary.txt",
    config = "src/notifier/summary/askama.toml",
    whitespace = "preserve"
)]
struct SummaryText<'a> {
    headline: &'a str,
    contents: &'a SummaryContents,
    sections: &'a [SummarySection<'a>],
    paused: &'a str,
    account_url: Option<&'a str>,
    unsubscribe_url: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "summary.html", config = "src/notifier/summary/askama.toml")]
struct SummaryHtml<'a> {
    headline: &'a str,
    color: &'static str,
    contents: &'a SummaryContents,
    sections: &'a [SummarySection<'a>],
    paused: &'a str,
    account_url: Option<&'a str>,
    unsubscribe_url: Option<&'a str>,
}

/// Renders the mail. `id` is the local part of its `Message-ID`. `None` if a template fails.
pub(super) fn render(
    settings: &SummarySettings,
    contents: &SummaryContents,
    links: &SummaryLinks,
    id: String,
    date: Timestamp,
) -> Option<OutgoingMail> {
    let headline = headline(contents);
    let sections: Vec<_> = [
        ("Down now", &contents.down_now),
        ("Were down", &contents.outages),
        ("Slower than before", &contents.slower),
    ]
    .into_iter()
    .filter(|(_, list)| !list.lines.is_empty())
    .map(|(title, list)| SummarySection { title, list })
    .collect();
    let verb = if contents.paused == 1 { "is" } else { "are" };
    let paused = format!("{} {verb} paused.", format_count(contents.paused, "check"));
    let account_url = links.account.as_deref();
    let unsubscribe_url = links.unsubscribe.as_deref();
    let text = SummaryText {
        headline: &headline,
        contents,
        sections: &sections,
        paused: &paused,
        account_url,
        unsubscribe_url,
    };
    let has_problem = contents.outage_count > 0 || !contents.down_now.lines.is_empty();
    let html = SummaryHtml {
        headline: &headline,
        color: if has_problem {
            PROBLEM_COLOR
        } else {
            CALM_COLOR
        },
        contents,
        sections: &sections,
        paused: &paused,
        account_url,
        unsubscribe_url,
    };
    let subject = format!("{headline} ({})", contents.period);
    Some(OutgoingMail {
        to: vec![settings.address.as_str().into()],
        subject: truncate_line(&subject, LengthLimit(200, LengthUnit::Chars)),
        text: text.render().ok()?,
        html: Some(html.render().ok()?),
        id,
        in_reply_to: None,
        date,
        headers: headers(settings, links),
        attachment: None,
        timeout: SEND_TIMEOUT,
    })
}

/// First line and subject: what a reader needs to know.
fn headline(contents: &SummaryContents) -> String {
    let noun = contents.noun;
    match contents.outage_count {
        0 if contents.down_now.lines.is_empty() => format!("Nothing was down last {noun}"),
        0 => format!("Nothing was down last {noun}, but something is now"),
        1 => format!("1 check was down last {noun}"),
        count => format!("{count} checks were down last {noun}"),
    }
}

fn headers(settings: &SummarySettings, links: &SummaryLinks) -> Vec<(String, String)> {
    let mut headers = vec![
        ("Auto-Submitted", "auto-generated".to_owned()),
        ("X-Auto-Response-Suppress", "All".to_owned()),
        ("X-Overdue-Summary", settings.interval.name().to_owned()),
        ("List-Id", "<summary.overdue>".to_owned()),
    ];
    headers.extend(unsubscribe_headers(links.unsubscribe.as_deref()));
    headers
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
