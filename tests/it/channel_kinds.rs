//! The list of kinds in the chapter on alerts, which is generated from their tables.

use std::fmt::Write as _;

use overdue::channels;
use overdue::domain::channel::{ChannelClass, ChannelKind, Requirement, SettingField};

/// Heading of the list in the chapter. The list ends at the references.
const HEADING: &str = "## The kinds\n";
const REFERENCES: &str = "\n[limits]: ";

fn row(field: &SettingField, out: &mut String) {
    let need = match field.requirement {
        Requirement::Required | Requirement::RequiredToDeliver => "required".into(),
        Requirement::Optional => "optional".into(),
        Requirement::Default(value) => format!("`{value}` if left out"),
        Requirement::Derived {
            description: words, ..
        } => format!("{words}, if left out"),
    };
    let secret = if field.is_secret() { "; a secret" } else { "" };
    let placeholder = field.placeholder().replace('|', "\\|");
    writeln!(
        out,
        "| `{}={placeholder}` | {need} | {}{secret} |",
        field.key, field.help
    )
    .unwrap();
}

fn table<'a>(fields: impl IntoIterator<Item = &'a SettingField>, out: &mut String) {
    out.push_str("| setting | need | what it is |\n| --- | --- | --- |\n");
    fields.into_iter().for_each(|field| row(field, out));
}

fn list() -> String {
    let mut out = String::new();
    out.push_str("\n### Settings of many kinds\n\nEvery kind but a group has these:\n\n");
    let shared = |class: &'static str| {
        ChannelKind::COMMON_FIELDS
            .into_iter()
            .filter(move |(label, _)| *label == class)
            .flat_map(|(_, fields)| fields)
    };
    table(shared("(any)"), &mut out);
    out.push_str("\nKinds that keep incidents have a shorter `send`:\n\n");
    table(shared("(incidents)"), &mut out);
    out.push_str("\nKinds that people read have these as well:\n\n");
    table(shared("(people)"), &mut out);
    out.push_str("\nKinds that have a URL have this as well:\n\n");
    table(shared("(url)"), &mut out);
    for kind in channels::all_kinds() {
        let class = match kind.class {
            ChannelClass::People => "for people",
            ChannelClass::Machine => "for programs: events are sent one by one",
            ChannelClass::Incident => "keeps incidents: each check has one, which opens and closes",
            ChannelClass::Group => "stands for other channels",
        };
        let aliases: String = kind
            .aliases
            .iter()
            .map(|alias| format!(", also `{alias}`"))
            .collect();
        writeln!(
            out,
            "\n### {}\n\nKind `{}`{aliases}; {class}.\n\n{}\n",
            kind.title,
            kind.name,
            instructions(kind)
        )
        .unwrap();
        table(kind.fields, &mut out);
        writeln!(out, "\n```sh\n{}\n```", kind.example_command()).unwrap();
    }
    out
}

/// Steps as a numbered list, and other advice.
fn instructions(kind: &ChannelKind) -> String {
    let steps = (1..).zip(kind.steps);
    let steps: Vec<_> = steps
        .map(|(number, step)| wrapped(&format!("{number}. {step}")).replace('\n', "\n   "))
        .collect();
    let guide = Some(wrapped(kind.guide)).filter(|_| !kind.guide.is_empty());
    let steps = Some(steps.join("\n")).filter(|steps| !steps.is_empty());
    steps
        .into_iter()
        .chain(guide)
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Lines of at most 140 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let bare = word.trim_end_matches(['.', ',', ':', ';', ')']);
        let rest = word.get(bare.len()..).unwrap_or_default();
        let word = match bare {
            url if url.contains("://") => format!("<{url}>{rest}"),
            // Markdown would treat these characters as markup.
            name if name.contains(['_', '*', '<', '[']) => format!("`{name}`{rest}"),
            _ => word.to_owned(),
        };
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&word),
            Some(line) if line.len() + word.len() < 140 => line.extend([" ", &word]),
            _ => lines.push(word),
        }
    }
    lines.join("\n")
}

/// `UPDATE_DOCS=1 cargo test --test it kinds_of_channel` writes the list again.
#[test]
fn kinds_of_channel_are_listed_as_in_their_tables() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs/alerts.md");
    let chapter = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = chapter.split_once(HEADING).unwrap();
    let (_, references) = rest.split_once(REFERENCES).unwrap();
    let expected = format!("{before}{HEADING}{}{REFERENCES}{references}", list());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            chapter == expected,
            "src/docs/alerts.md is stale: UPDATE_DOCS=1 cargo test --test it kinds_of_channel \
             writes it anew"
        );
    }
}
