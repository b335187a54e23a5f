//! Commands of channels, run by a real shell with untrusted names.

use overdue::domain::text::Tags;

use super::*;

/// A site that runs commands, with a channel that runs this command in its own directory.
async fn site(directory: &tempfile::TempDir, command: &str) -> NotifierFixture {
    let site = NotifierFixture::start_on(
        Medium::memory(),
        Timestamp::from_secs(1_800_000_000),
        |outbound| {
            outbound.command_launcher = Some(env!("CARGO_BIN_EXE_overdue").into());
        },
    );
    site.execute(create_project(&Random::seeded(2), "Home", 100))
        .await;
    let command = format!("cd '{}' || exit 1\n{command}", directory.path().display());
    site.create_channel("shell", &[("down-command", &command)])
        .await;
    site
}

async fn check(site: &NotifierFixture, name: &str, tags: &str) {
    let name = Some(Name::parse(name).unwrap());
    let tags = Some(Tags::parse(tags).unwrap());
    let edit = CheckEdit {
        name,
        tags,
        channels: Some(ChannelSelection::All),
        ..CheckEdit::default()
    };
    site.execute(create_check(MAIN, 7, edit)).await;
}

#[tokio::test]
async fn no_name_runs_a_command_with_any_quoting_of_the_variable() {
    let directory = tempfile::tempdir().unwrap();
    let command = r#"{
        printf '%s|' $NAME; echo
        printf '%s\n' "$NAME"
        printf '%s\n' '$NAME'
        printf '%s\n' "$(printf '%s' "$NAME")"
        printf '%s\n' "`printf '%s' "$NAME"`"
        printf '%s\n' "it's $NAME"
        printf '%s\n' "${TAG1}+$TAGS+$STATUS+$CODE"
        printf '%s\n' "$OVERDUE_ALERT_NAME" "$BODY" "$NOW"
    } > out"#;
    let site = site(&directory, command).await;
    let name = r#"$(id > pwned) `id > pwned` '; id > pwned; ' "; id > pwned; ""#;
    check(&site, name, "$(id>pwned) `id>pwned`").await;
    site.ping(7, PingKind::Fail, "$(id > pwned)").await;
    let deliveries = site.deliveries(1).await;
    assert_eq!(
        deliveries[0].result,
        DeliveryResult::Delivered,
        "{:?}",
        deliveries[0]
    );
    assert!(!directory.path().join("pwned").exists());
    let out = std::fs::read_to_string(directory.path().join("out")).unwrap();
    let lines: Vec<_> = out.lines().collect();
    let words = name
        .split(' ')
        .map(|word| format!("{word}|"))
        .collect::<String>();
    let expected = [
        &words,
        name,
        "$NAME",
        name,
        name,
        &format!("it's {name}"),
        "$(id>pwned)+$(id>pwned) `id>pwned`+down+00000000-0000-0000-0000-000000000007",
        name,
        "$(id > pwned)",
        "2027-01-15T08:00:00+00:00",
    ];
    assert_eq!(lines, expected);
    site.stop().await;
}

#[tokio::test]
async fn values_that_an_environment_cannot_hold_break_no_command() {
    let directory = tempfile::tempdir().unwrap();
    let site = site(
        &directory,
        r#"printf '%s' "$NAME" > name; printf '%s' "$BODY" > body; printf '%s' "$TAGS" > tags"#,
    )
    .await;
    check(&site, "a\0b", &"tag ".repeat(64)).await;
    let body: &'static str = Box::leak("\0x".repeat(300_000).into_boxed_str());
    site.ping(7, PingKind::Fail, body).await;
    assert_eq!(
        site.deliveries(1).await[0].result,
        DeliveryResult::Delivered
    );
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!((read("name").as_str(), read("tags").len()), ("ab", 256));
    let body = read("body");
    assert!(
        body.len() > 10_000 && body.len() <= 100 << 10 && body.bytes().all(|byte| byte == b'x'),
        "{}",
        body.len()
    );
    site.stop().await;
}
