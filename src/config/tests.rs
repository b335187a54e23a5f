use super::*;
use crate::channels;
use crate::domain::declared::DeclaredConfig;

/// Returns the problems of a file of this name.
fn render_errors(name: &str, text: &str) -> String {
    let mut document = ConfigDocument::empty();
    let mut problems = document.add_file(name, text.into());
    if problems.is_empty() {
        problems = read_config(&document).err().unwrap_or_default();
    }
    document.render_problems(&problems)
}

fn wanted(text: &str) -> DeclaredConfig {
    let mut document = ConfigDocument::empty();
    let problems = document.add_file("a.toml", text.into());
    assert_eq!(document.render_problems(&problems), "");
    read_config(&document)
        .map_err(|problems| document.render_problems(&problems))
        .unwrap()
}

#[test]
fn tags_of_windows_have_the_limits_of_those_of_checks() {
    let text = "version = 1\n[project.p.window.w]\nfrom = \"2026-11-20T10:00:00Z\"\nfor = \
                \"2h\"\ntags = [\"LONG\"]\n";
    let rendered = render_errors("a.toml", &text.replace("LONG", &"x".repeat(501)));
    assert!(
        rendered.contains("a.toml:5:8: project.p.window.w.tags: ")
            && rendered.contains("at most 500"),
        "{rendered}"
    );
}

#[test]
fn every_problem_is_reported_with_its_location() {
    let text = r#"version = 1
sourc = "homelab"
[project.Home]
ping-log-limit = -1
[project.Home.check.backup]
schedule = "30 25 * * *"
grace = "15x"
tags = ["a b"]
alert = { after = 200, parent = ["x"] }
[project.Home.check.UPPER]
[project.Home.channel.phone]
kind = "telegram"
chat = "123456"
tokn = "x"
[project."My House".window.w]
from = "2026-11-20"
for = "2h"
[user.ann]
owner = "yes"
"#;
    let rendered = render_errors("home.toml", text);
    let expected = [
        "home.toml:2:1: sourc: unknown key; did you mean source?\n  sourc = \"homelab\"\n  ^",
        "home.toml:4:18: project.Home.ping-log-limit: give a whole number from 0 to 4294967295",
        "home.toml:6:12: project.Home.check.backup.schedule: ",
        "  schedule = \"30 25 * * *\"\n             ^",
        "home.toml:7:9: project.Home.check.backup.grace: give a whole number and its unit",
        r#"home.toml:8:8: project.Home.check.backup.tags: "a b" is empty or contains a space"#,
        "home.toml:9:19: project.Home.check.backup.alert.after: give a whole number from 1 to 100",
        "home.toml:9:24: project.Home.check.backup.alert.parent: unknown key; did you mean \
         parents?",
        "project.Home.check.UPPER: the key of a check is its slug: use only a to z",
        r#"home.toml:14:8: project.Home.channel.phone.tokn: there is no setting "tokn""#,
        r#"project."My House".window.w.from: give a time with its UTC offset"#,
        "home.toml:19:9: user.ann.owner: it is text; give true or false",
    ];
    for part in expected {
        assert!(rendered.contains(part), "{part:?} is not in:\n{rendered}");
    }
    assert_eq!(
        rendered
            .lines()
            .filter(|line| line.starts_with("home.toml:"))
            .count(),
        11,
        "{rendered}"
    );
}

#[test]
fn parse_errors_are_reported_with_their_location() {
    let toml = render_errors("a.toml", "version = 1\n[project.Home\n");
    assert!(
        toml.starts_with("a.toml:2:14: ")
            && toml.ends_with("\n  [project.Home\n               ^\n"),
        "{toml}"
    );
    let json = render_errors("a.json", "{\n  \"version\": 1,\n  \"project\": {]\n}");
    assert!(
        json.starts_with("a.json:3:15: ") && json.contains("\n  \"project\": {]\n")
            || json.starts_with("a.json:3:1"),
        "{json}"
    );
    let pointer = render_errors(
        "standard input",
        r#"{"version": 1, "project": {"a/b": {"check": {"x": {"every": "1y"}}}}}"#,
    );
    assert!(
        pointer.starts_with("standard input: /project/a~1b/check/x/every: give a whole number"),
        "{pointer}"
    );
    assert!(
        render_errors("a.toml", "").starts_with("a.toml"),
        "{}",
        render_errors("a.toml", "")
    );
    assert!(render_errors("a.toml", "version = 2").contains("version 2 is not supported"));
    // A long line is shown around the location, with control characters replaced by blanks.
    let long = render_errors(
        "a.toml",
        &format!("version = 1\nx = {{ {} = 1 }} # \u{7}", "y".repeat(500)),
    );
    assert!(
        long.lines().all(|line| line.chars().count() < 200) && !long.contains('\u{7}'),
        "{long}"
    );
}

#[test]
fn several_files_are_one_document() {
    let mut document = ConfigDocument::empty();
    let one =
        "version = 1\nsource = \"a\"\n[project.Home.check.one]\n[project.Home]\ncheck-limit = 5\n";
    assert!(document.add_file("one.toml", one.into()).is_empty());
    let two =
        r#"{"version": 1, "source": "a", "project": {"Home": {"check": {"two": {}}}, "Away": {}}}"#;
    assert!(document.add_file("two.json", two.into()).is_empty());
    let wanted = read_config(&document).unwrap();
    let home = wanted
        .projects
        .iter()
        .find(|project| project.name.as_str() == "Home")
        .unwrap();
    assert_eq!(
        (wanted.projects.len(), home.checks.len(), home.check_limit),
        (2, 2, Some(Some(5)))
    );
    let problems = document.add_file(
        "three.toml",
        "version = 1\nsource = \"b\"\n[project.Home.check.one]\n".into(),
    );
    let rendered = document.render_problems(&problems);
    assert!(
        rendered.contains("one.toml:3:21: project.Home.check.one: it is defined twice"),
        "{rendered}"
    );
    assert!(
        rendered.contains(
            "three.toml:3:21: project.Home.check.one: it is defined here for the second time"
        ),
        "{rendered}"
    );
    assert!(rendered.contains("three.toml:2:1: source: "), "{rendered}");
}

#[test]
fn defaults_apply_unless_overridden() {
    let wanted = wanted(
        r#"version = 1
[defaults.check]
every = "5m"
tz = "Europe/Riga"
grace = 120
channels = ["phone"]
[project.p.check.a]
[project.p.check.b]
schedule = "0 3 * * *"
channels = []
name = ""
"#,
    );
    let checks = &wanted.projects[0].checks;
    let edit = |place: usize| &checks[place].edit;
    assert_eq!(
        (
            edit(0).timeout.unwrap().get(),
            edit(0).grace.unwrap().get(),
            edit(0).schedule.is_none()
        ),
        (300, 120, true)
    );
    assert_eq!(
        (edit(1).timeout, edit(1).tz.as_ref().unwrap().name()),
        (None, "Europe/Riga")
    );
    assert_eq!(
        (
            edit(0).channels.as_ref().unwrap().to_text().as_str(),
            edit(1).channels.as_ref().unwrap().to_text().as_str()
        ),
        ("phone", "")
    );
    // The slug is the name, unless the file gives another one.
    assert_eq!(
        (
            edit(0).name.as_ref().unwrap().as_str(),
            edit(1).name.as_ref().unwrap().as_str()
        ),
        ("a", "")
    );
    let twice = render_errors(
        "a.toml",
        "version = 1\n[defaults.check]\ngrace = 1\n[project.p.check.a]\n[project.p.check.b]\n",
    );
    assert_eq!(twice.matches("defaults.check.grace").count(), 1, "{twice}");
    let both = render_errors(
        "a.toml",
        "version = 1\n[project.p.check.a]\nevery = 60\nschedule = \"0 3 * * *\"\n",
    );
    assert!(both.contains("either every or schedule"), "{both}");
}

#[test]
fn secrets_are_resolved_and_files_of_channels_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, "abcdefghijklmnopqrstuv\r\n").unwrap();
    let text = format!(
        r#"version = 1
[project.p]
ping-key = {{ file = "{0}" }}
[project.p.channel.a]
kind = "telegram"
chat = "1"
token = {{ env = "TOKEN" }}
[project.p.channel.b]
kind = "telegram"
chat = "1"
token = {{ file = "{0}" }}
[project.p.channel.c]
kind = "telegram"
chat = "1"
token = {{ credential = "key" }}
[project.p.channel.d]
kind = "telegram"
chat = "1"
token = {{ env = "NOTHING" }}
"#,
        file.display()
    );
    let mut document = ConfigDocument::empty();
    assert!(document.add_file("a.toml", text).is_empty());
    let here = directory.path().to_str().unwrap().to_owned();
    let variable = |name: &str| match name {
        "TOKEN" => Some("12345:x".to_owned()),
        "CREDENTIALS_DIRECTORY" => Some(here.clone()),
        _ => None,
    };
    let problems = SecretResolver {
        read_variable: &variable,
    }
    .resolve(&mut document);
    let rendered = document.render_problems(&problems);
    assert!(
        rendered.starts_with(
            "a.toml:19:9: project.p.channel.d.token: the environment variable NOTHING is not set"
        ),
        "{rendered}"
    );
    let json = document.root.to_json();
    let channel = |name: &str| json["project"]["p"]["channel"][name]["token"].clone();
    assert_eq!(json["project"]["p"]["ping-key"], "abcdefghijklmnopqrstuv");
    assert_eq!(
        (channel("a"), channel("c")),
        ("12345:x".into(), "abcdefghijklmnopqrstuv".into())
    );
    assert_eq!(channel("b"), serde_json::json!({ "file": file }));
}

#[test]
fn the_schema_knows_every_kind_and_field() {
    let schema = json_schema();
    let of = |pointer: &str| {
        schema
            .pointer(pointer)
            .unwrap_or_else(|| panic!("no {pointer}"))
            .clone()
    };
    let project = "/properties/project/additionalProperties/properties";
    let kinds = of(&format!("{project}/channel/additionalProperties/oneOf"));
    assert_eq!(kinds.as_array().unwrap().len(), channels::all_kinds().len());
    for field in ["every", "schedule", "uuid", "was", "alert", "paused"] {
        assert!(
            !of(&format!(
                "{project}/check/additionalProperties/properties/{field}/description"
            ))
            .as_str()
            .unwrap()
            .is_empty()
        );
    }
    assert_eq!(
        of("/properties/defaults/properties/check/properties/grace/anyOf/0/minimum"),
        60
    );
}

#[test]
fn files_over_the_limits_are_rejected() {
    let many: String = (0..=MAX_OBJECTS)
        .map(|number| format!("[project.p.check.c{number}]\n"))
        .collect();
    let rendered = render_errors("a.toml", &format!("version = 1\n{many}"));
    assert!(
        rendered.contains("the maximum is 50000"),
        "{}",
        rendered.chars().take(300).collect::<String>()
    );
    let wrong: String = (0..60).map(|number| format!("x{number} = 1\n")).collect();
    let rendered = render_errors("a.toml", &format!("version = 1\n{wrong}"));
    assert!(rendered.ends_with("and 10 more\n"), "{rendered}");
    let deep = "[".repeat(100_000);
    assert!(!render_errors("a.toml", &format!("version = 1\nx = {deep}")).is_empty());
    assert!(!render_errors("a.json", &format!("{{\"x\": {deep}")).is_empty());
}

#[test]
fn fuzz_documents() {
    const EXAMPLES: &[&str] = &[
        concat!(
            "version = 1\nsource = \"home\"\n[project.Home]\nping-log-limit = 100\n",
            "[project.Home.check.backup]\nname = \"a\"\nschedule = \"0 3 * * *\"\ntz = \"UTC\"\n",
            "grace = \"1h\"\ntags = [\"x\", \"y\"]\nchannels = [\"ops\"]\n",
            "[project.Home.channel.ops]\nkind = \"webhook\"\ndown-url = \"http://a/$NAME\"\n",
            "[project.Home.window.w]\nfrom = \"2026-11-20T10:00:00Z\"\nfor = \"2h\"\n",
        ),
        "version = 1\n[project.p.key.k]\naccess = \"ping\"\n[user.ann]\nowner = true\n",
        r#"{"version": 1, "project": {"p": {"check": {"c": {"timeout": "1d", "limits": {}}}}}}"#,
    ];
    crate::util::fuzzing::fuzz_text(EXAMPLES, |text| {
        for name in ["a.toml", "a.json"] {
            render_errors(name, text);
        }
        let _ = identity_providers::parse_identity_providers(text, |_| Err(String::new()));
    });
}
