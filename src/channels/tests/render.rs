//! Every dialect stays within every limit, for any text in names, descriptions and output.

use proptest::prelude::*;

use super::sample::{alert_now, attempt, backup, down, failed, of_check, ping, summary};
use crate::channels::alert::{Alert, AlertFacts, CheckFacts};
use crate::channels::render::{
    Dialect, LengthLimit, LengthUnit, TextSections, render_output, render_styled_text, render_text,
    truncate_line,
};
use crate::domain::check::CheckSettings;
use crate::domain::flip::FlipCause;
use crate::domain::ping::PingKind;
use crate::domain::text::{Description, Name, Tags};

/// Untrusted text that attackers may try.
pub(super) const HOSTILE: [&str; 16] = [
    "a\r\nBcc: x@example.org",
    "<!channel> <@U1> &lt;",
    "@everyone @here @all @**all** ops@example.org",
    "\"'`\\",
    "$(reboot) `reboot` ; reboot",
    "\0\u{1}\u{7f}\u{85}",
    "\u{202e}txt.exe\u{2066}",
    "🦀🦀🦀 𝔘𝔫𝔦 ž",
    r#"</pre></b><a href="http://evil">x</a>"#,
    "**bold** _x_ [a](http://evil) ![b](c)",
    "```\n# heading\n````",
    "*b* ~s~ <http://evil|x>",
    "$NAME $TAG1 $BODY $CODE",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "{\"a\": \"b\\u0000\"}",
    "   ",
];

/// Check with this text as name, description, tags and output.
pub(super) fn named(text: &str) -> CheckFacts {
    let mut check = backup();
    let settings = CheckSettings {
        name: Name::parse(&text.chars().take(100).collect::<String>()).unwrap(),
        tags: Tags::from_stored(text),
        desc: Description::from_stored(text),
        ..(*check.settings).clone()
    };
    check.settings = settings.into();
    check.project = text.into();
    check.other_down_names = vec![text.into()];
    check.last_ping = Some(ping(
        PingKind::Fail,
        "2026-11-20T01:34:05Z",
        Some(3),
        text.as_bytes(),
    ));
    check
}

fn alerts(text: &str) -> [Alert; 2] {
    let at = "2026-11-20T01:34:05Z";
    let digest = AlertFacts::Digest {
        down: vec![summary(text, at, FlipCause::Fail); 9],
        up: vec![summary(text, at, FlipCause::MissedPing)],
        warned: vec![],
    };
    [
        of_check(named(text), down(at, FlipCause::Fail)),
        alert_now(digest),
    ]
}

proptest! {
    #[test]
    fn every_text_is_within_its_limit(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(&HOSTILE[..]).prop_map(String::from),
                any::<String>()
            ],
            1..12
        ),
        most in 0_usize..3_000,
        doubtful: bool,
        plain: bool,
        title: bool,
    ) {
        let attempt = crate::channels::SendAttempt {
            may_be_duplicate: doubtful,
            plain,
            ..attempt()
        };
        let show = TextSections { title, ..TextSections::ALL };
        for alert in alerts(&parts.concat()) {
            for dialect in Dialect::ALL {
                for unit in [LengthUnit::Bytes, LengthUnit::Chars, LengthUnit::Utf16] {
                    let limit = LengthLimit(most, unit);
                    let rendered = render_styled_text(&alert, &attempt, dialect, show, limit);
                    prop_assert!(
                        limit.fits(&rendered.text),
                        "{dialect:?} {limit:?}: {}",
                        rendered.text
                    );
                    if most > 300 && (title || !alert.summary.is_empty() || plain) {
                        prop_assert!(!rendered.text.is_empty());
                    }
                    let units = rendered.text.encode_utf16().count();
                    prop_assert!(
                        rendered
                            .styles
                            .iter()
                            .all(|style| style.start + style.length <= units)
                    );
                }
                let limit = LengthLimit(most, LengthUnit::Utf16);
                let written = render_text(&alert, &attempt, dialect, TextSections::ALL, limit);
                prop_assert!(
                    !written
                        .chars()
                        .any(|c| c.is_control() && !matches!(c, '\n' | '\t')),
                    "{written:?}"
                );
                if matches!(dialect, Dialect::Telegram | Dialect::Html | Dialect::Pushover) {
                    prop_assert!(is_well_formed(&written), "{written}");
                }
            }
            let limit = LengthLimit(most.max(4), LengthUnit::Bytes);
            prop_assert!(limit.fits(&truncate_line(&alert.title, limit)));
        }
    }
}

/// True if all tags are our own and closed in order, and every `&` begins an entity.
fn is_well_formed(html: &str) -> bool {
    let mut open = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(['<', '>', '&']) {
        let mark = &rest[at..];
        if let Some(after) = ["&amp;", "&lt;", "&gt;", "&quot;"]
            .iter()
            .find_map(|entity| mark.strip_prefix(entity))
        {
            rest = after;
            continue;
        }
        let Some((tag, after)) = mark.strip_prefix('<').and_then(|mark| mark.split_once('>'))
        else {
            return false;
        };
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        match (name, tag.starts_with('/')) {
            ("br", false) => {}
            ("b" | "i" | "a" | "pre", false) => open.push(name),
            (_, true) if open.pop() == Some(name) => {}
            _ => return false,
        }
        rest = after;
    }
    open.is_empty()
}

#[test]
fn the_least_important_parts_are_dropped_first() {
    let shown = |most| {
        render_text(
            &failed(),
            &attempt(),
            Dialect::Plain,
            TextSections::ALL,
            LengthLimit(most, LengthUnit::Chars),
        )
    };
    let length = shown(10_000).chars().count();
    let texts: Vec<_> = (0..length).map(shown).collect();
    // Longest text without a part, for each part in the order in which they are dropped; the output
    // is cut from its beginning.
    let gone = |part: &&str| {
        texts
            .iter()
            .rposition(|text| !text.contains(*part))
            .unwrap()
    };
    let parts = [
        "Also down",
        "copying",
        "left on device",
        "mount /backup",
        "Pings:",
        "Project:",
        "cloaked",
        "after it started",
        "It reported",
    ];
    let order: Vec<_> = parts.iter().map(gone).collect();
    assert!(
        order[0] == length - 1 && order.is_sorted_by(|longer, shorter| longer > shorter),
        "{order:?}"
    );
    let less = shown(100);
    assert!(
        less.starts_with("🔴 Nightly backup failed with exit status 3\nIt reported")
            && less.ends_with('…'),
        "{less}"
    );
    let less = shown(20);
    assert_eq!(less, "🔴 Nightly backup fa…");
    assert_eq!(shown(0), "");
}

#[test]
fn names_have_no_effect_in_any_dialect() {
    let shown = |dialect: Dialect, text: &str| dialect.escape(text);
    for (dialect, name, written) in [
        (Dialect::Telegram, "<b>&\"", "&lt;b&gt;&amp;&quot;"),
        (
            Dialect::Slack,
            "*x* _y_ ~z~ `a` ```b",
            "*x* _y_ ~z~ `a` ```b",
        ),
        (
            Dialect::Slack,
            "<!channel> @here a@b",
            "&lt;!channel&gt; @\u{2060}here a@b",
        ),
        (
            Dialect::Markdown,
            "@all **x** [a](b) <c> `d` a_b",
            "@\u{2060}all \\*\\*x\\*\\* \\[a\\](b) \\<c\\> \\`d\\` a\\_b",
        ),
        (Dialect::Markdown, "1. a - b 3.5", "1\\. a - b 3.5"),
        (Dialect::Plain, "<b>@all", "<b>@all"),
        (Dialect::Html, "a\nb", "a<br>\nb"),
    ] {
        assert_eq!(shown(dialect, name), written, "{dialect:?}");
    }
    // A block ends only at its own fence.
    let alert = of_check(
        named("x\n````\n# y\n"),
        down("2026-11-20T01:34:05Z", FlipCause::Fail),
    );
    let written = render_text(
        &alert,
        &attempt(),
        Dialect::Markdown,
        TextSections::ALL,
        LengthLimit(9_000, LengthUnit::Bytes),
    );
    assert!(
        written.contains("\n`````\nx\n````\n# y\n`````"),
        "{written}"
    );
    let written = render_text(
        &alert,
        &attempt(),
        Dialect::Slack,
        TextSections::ALL,
        LengthLimit(9_000, LengthUnit::Bytes),
    );
    let (_, block) = written.split_once("The last lines it sent:").unwrap();
    assert_eq!(block.matches("```").count(), 2, "{written}");
    for dialect in [Dialect::Discord, Dialect::RocketChat] {
        let written = render_text(
            &alert,
            &attempt(),
            dialect,
            TextSections::ALL,
            LengthLimit(9_000, LengthUnit::Bytes),
        );
        let (_, block) = written
            .split_once("The last lines it sent:\n```\n")
            .unwrap();
        let (block, after) = block.split_once("\n```").unwrap();
        assert_eq!(
            (
                block.replace('\u{2060}', "").as_str(),
                after.contains("```")
            ),
            ("x\n````\n# y", false),
            "{written}"
        );
    }
    // Text copied from a block is exactly what was sent.
    let alert = of_check(
        named("ssh root@host <!channel>"),
        down("2026-11-20T01:34:05Z", FlipCause::Fail),
    );
    for dialect in Dialect::ALL {
        let written = render_text(
            &alert,
            &attempt(),
            dialect,
            TextSections::ALL,
            LengthLimit(9_000, LengthUnit::Bytes),
        );
        let (_, block) = written.split_once("The last lines it sent:").unwrap();
        assert!(block.contains("ssh root@host"), "{dialect:?} {written}");
    }
}

#[test]
fn ranges_are_counted_in_utf16() {
    let rendered = render_styled_text(
        &failed(),
        &attempt(),
        Dialect::Signal,
        TextSections::ALL,
        LengthLimit(5_000, LengthUnit::Bytes),
    );
    let units: Vec<_> = rendered.text.encode_utf16().collect();
    let styled: Vec<_> = rendered
        .styles
        .iter()
        .map(|style| {
            (
                style.name,
                String::from_utf16(&units[style.start..style.start + style.length]).unwrap(),
            )
        })
        .collect();
    assert_eq!(
        styled[0],
        ("BOLD", "🔴 Nightly backup failed with exit status 3".into())
    );
    assert!(styled.contains(&("BOLD", "Last ping:".into())));
    assert_eq!(
        styled.last().unwrap(),
        &(
            "MONOSPACE",
            "copying <a>\nerror: no space left on device".into()
        )
    );
}

#[test]
fn a_title_is_shown_where_there_is_no_space_for_the_note_of_a_duplicate() {
    let doubtful = crate::channels::SendAttempt {
        may_be_duplicate: true,
        ..attempt()
    };
    for most in [45, 60] {
        let limit = LengthLimit(most, LengthUnit::Chars);
        let show =
            |attempt| render_text(&failed(), attempt, Dialect::Plain, TextSections::ALL, limit);
        let shown = show(&doubtful);
        assert!(shown.contains("Nightly backup failed"), "{shown}");
        assert_eq!(shown, show(&attempt()));
    }
}

#[test]
fn a_block_of_output_has_as_much_of_its_end_as_fits() {
    let mut blocks = 0;
    for most in 0..60 {
        let limit = LengthLimit(most, LengthUnit::Chars);
        if let Some((_, block)) = render_output(&failed(), Dialect::Slack, limit) {
            assert!(block.contains("e\n```"), "{block}");
            blocks += 1;
        }
    }
    assert!((30..60).contains(&blocks), "{blocks}");
}

#[test]
fn checks_of_a_list_that_are_left_out_are_counted() {
    let at = "2026-11-20T01:34:05Z";
    let digest = alert_now(AlertFacts::Digest {
        down: vec![summary("backup", at, FlipCause::Fail); 9],
        up: vec![summary("sync", at, FlipCause::MissedPing); 9],
        warned: vec![],
    });
    let mut counts = std::collections::BTreeSet::new();
    for most in 100..2_000 {
        let limit = LengthLimit(most, LengthUnit::Chars);
        let all = TextSections::ALL;
        let text = render_text(&digest, &attempt(), Dialect::Plain, all, limit);
        let shown = text.matches("• ").count();
        let hidden = text.split_once("\nand ").map_or(0, |(_, hidden)| {
            hidden.split(' ').next().unwrap().parse::<usize>().unwrap()
        });
        assert_eq!(shown + hidden, if shown == 0 { 0 } else { 18 }, "{text}");
        counts.insert(shown);
    }
    assert!(counts.len() > 12 && counts.contains(&18), "{counts:?}");
}

#[test]
fn the_output_returns_after_a_long_description_is_dropped() {
    let mut check = backup();
    let settings = CheckSettings {
        desc: Description::from_stored(&"long ".repeat(2_000)),
        ..(*check.settings).clone()
    };
    check.settings = settings.into();
    let alert = of_check(check, down("2026-11-20T01:45:00Z", FlipCause::MissedPing));
    let shown = render_text(
        &alert,
        &attempt(),
        Dialect::Plain,
        TextSections::ALL,
        LengthLimit(1_000, LengthUnit::Chars),
    );
    assert!(
        !shown.contains("long")
            && shown.contains("\n10 files\nrc=0\n")
            && shown.contains("Also down"),
        "{shown}"
    );
}
