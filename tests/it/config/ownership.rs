//! Ownership of declared objects: changes, adoption, objects of other sources, deletion and
//! conflicts.

use overdue::domain::declared::ApplyOptions;
use overdue::domain::status::Status;

use super::{ALLOW_ALL, ALLOW_NONE, ConfigTestEngine};

const HOME: &str = r#"version = 1
source = "homelab"
[project.Home]
ping-log-limit = 200
[project.Home.channel.phone]
kind = "telegram"
chat = "1"
token = "12345:secret"
[project.Home.check.backup]
schedule = "30 3 * * *"
grace = "15m"
channels = ["phone"]
alert = { after = 2, parents = ["router"] }
[project.Home.check.router]
every = "5m"
[project.Home.window.patchday]
at = "0 2 * * 6"
for = "2h"
[project.Home.key.grafana]
access = "read-only"
value = "abcdefghijklmnopqrstuvwxyz012345"
[user.ann]
owner = true
"#;

fn assert_changes(changes: &Result<Vec<String>, String>, lines: &[&str]) {
    assert_eq!(
        changes
            .as_ref()
            .map(|changes| changes.iter().map(String::as_str).collect::<Vec<_>>()),
        Ok(lines.to_vec())
    );
}

fn assert_error(changes: &Result<Vec<String>, String>, part: &str) {
    assert!(
        changes.as_ref().is_err_and(|error| error.contains(part)),
        "{part:?}: {changes:?}"
    );
}

#[test]
fn applying_gives_the_declared_state_and_a_second_apply_changes_nothing() {
    let site = ConfigTestEngine::new();
    let added = [
        "+ project Home",
        "+ channel phone",
        "+ check backup",
        "+ check router",
        "+ window patchday",
        "+ key grafana",
        "+ user ann",
    ];
    assert_changes(&site.diff(HOME, ALLOW_NONE), &added);
    assert_eq!(
        site.handle.with_state(|state| state.projects().count()),
        0,
        "a diff changes nothing"
    );
    assert_changes(&site.apply(HOME, ALLOW_NONE), &added);
    assert_changes(&site.apply(HOME, ALLOW_NONE), &[]);
    let changed = HOME
        .replace("\"15m\"", "900")
        .replace("5m", "10m")
        .replace("12345:secret", "12345:other")
        .replace("2h", "1h");
    let lines = [
        "~ channel phone: token (secret) -> (changed)",
        "~ check router: every 5m -> 10m",
        "~ window patchday: for 2h -> 1h",
    ];
    assert_changes(&site.diff(&changed, ALLOW_NONE), &lines);
    assert_changes(&site.apply(&changed, ALLOW_NONE), &lines);
    assert_changes(&site.diff(&changed, ALLOW_NONE), &[]);
    {
        site.handle.with_state(|state| {
            let project = state.projects().next().unwrap();
            assert_eq!(project.project.ping_log_limit, 200);
            let key = state.keys().next().unwrap();
            assert_eq!((key.label.as_str(), &*key.hint), ("grafana", "abcd"));
            let backup = state
                .checks()
                .find(|check| check.settings.slug.as_str() == "backup")
                .unwrap();
            assert_eq!(
                (
                    backup.settings.channels.len(),
                    backup.settings.parents.ids().len(),
                    backup.settings.failure_threshold.get()
                ),
                (1, 1, 2)
            );
        });
    }
    // Another value is another key; the old one has no access any more.
    assert_changes(
        &site.apply(&changed.replace("012345", "543210"), ALLOW_NONE),
        &["~ key grafana: value (secret) -> (changed)"],
    );
    assert_eq!(site.handle.with_state(|state| state.keys().count()), 1);
}

#[test]
fn only_objects_of_the_same_source_are_pruned_and_only_on_request() {
    let site = ConfigTestEngine::new();
    site.apply(HOME, ALLOW_NONE).unwrap();
    let other = "version = 1\nsource = \"other\"\n[project.Home.check.theirs]\n";
    assert_changes(&site.apply(other, ALLOW_NONE), &["+ check theirs"]);
    let unowned = "version = 1\n[project.Home.check.free]\n";
    assert_changes(&site.apply(unowned, ALLOW_NONE), &["+ check free"]);
    let empty = "version = 1\nsource = \"homelab\"\n[user.ann]\nowner = true\n";
    let kept_lines = [
        "? channel phone",
        "? check backup",
        "? check router",
        "? window patchday",
        "? key grafana",
    ];
    assert_changes(&site.apply(empty, ALLOW_NONE), &kept_lines);
    assert_eq!(site.handle.with_state(|state| state.check_count()), 4);
    assert_error(
        &site.apply(
            empty,
            ApplyOptions {
                prune_limit: Some(4),
                adopt_unmanaged: false,
            },
        ),
        r#"5 objects of the source "homelab" are no longer declared"#,
    );
    let deleted_lines = kept_lines.map(|line| line.replace('?', "-"));
    assert_changes(
        &site.apply(
            empty,
            ApplyOptions {
                prune_limit: Some(5),
                adopt_unmanaged: false,
            },
        ),
        &deleted_lines.each_ref().map(String::as_str),
    );
    assert_changes(&site.apply(empty, ALLOW_ALL), &[]);
    site.handle.with_state(|state| {
        let slugs: Vec<_> = state
            .checks()
            .map(|check| check.settings.slug.as_str().to_owned())
            .collect();
        assert_eq!(
            (slugs, state.projects().count(), state.keys().count()),
            (vec!["theirs".into(), "free".into()], 1, 0)
        );
    });
}

#[test]
fn undeclared_objects_are_adopted_and_changed_only_on_request() {
    let site = ConfigTestEngine::new();
    site.apply(
        "version = 1\n[project.Home.check.backup]\n[project.Home.check.same]\n",
        ALLOW_NONE,
    )
    .unwrap();
    let file = "version = 1\nsource = \"homelab\"\n[project.Home.check.backup]\ngrace = \
                \"15m\"\n[project.Home.check.same]\n";
    assert_error(
        &site.diff(file, ALLOW_NONE),
        "check backup: it already exists, belongs to no source and differs in grace; use --adopt \
         to change it",
    );
    assert_changes(
        &site.apply(file, ALLOW_ALL),
        &["~ check backup: grace - -> 15m", "a check same"],
    );
    assert_changes(&site.apply(file, ALLOW_NONE), &[]);
    assert_error(
        &site.apply(&file.replace("homelab", "other"), ALLOW_ALL),
        "it belongs to the source \"homelab\"",
    );
    assert_error(
        &site.apply(
            "version = 1\n[project.Home.check.same]\ngrace = 60\n",
            ALLOW_ALL,
        ),
        "it belongs to the source \"homelab\"",
    );
    // A source that declares the same values causes no conflict.
    assert_changes(
        &site.apply("version = 1\n[project.Home.check.same]\n", ALLOW_NONE),
        &[],
    );
}

#[test]
fn checks_keep_their_log_and_url_when_they_are_renamed() {
    let site = ConfigTestEngine::new();
    site.apply(
        "version = 1\nsource = \"a\"\n[project.Home.check.old]\n",
        ALLOW_NONE,
    )
    .unwrap();
    let uuid = site
        .handle
        .with_state(|state| state.checks().next().unwrap().uuid);
    let renamed = "version = 1\nsource = \"a\"\n[project.House]\nwas = \
                   \"Home\"\n[project.House.check.new]\nwas = \"old\"\nname = \"old\"\n";
    assert_changes(
        &site.apply(renamed, ALLOW_ALL),
        &[
            "~ project House: name Home -> House",
            "~ check new: name - -> old, slug old -> new",
        ],
    );
    assert_changes(&site.apply(renamed, ALLOW_ALL), &[]);
    assert_eq!(
        site.handle
            .with_state(|state| state.checks().next().unwrap().uuid),
        uuid
    );
    let by_uuid = format!(
        "version = 1\nsource = \"a\"\n[project.House.check.{uuid}]\nslug = \"newer\"\nname = \
         \"old\"\n"
    );
    assert_changes(
        &site.apply(&by_uuid, ALLOW_ALL),
        &[&*format!("~ check {uuid}: slug new -> newer")],
    );
    let wrong_uuid = "version = 1\n[project.House.check.newer]\nuuid = \
                 \"00000000-0000-4000-8000-000000000001\"\n";
    assert_error(
        &site.apply(wrong_uuid, ALLOW_ALL),
        &format!("the check with this slug has the UUID {uuid}"),
    );
}

#[test]
fn all_errors_are_reported_together_and_nothing_is_changed() {
    let site = ConfigTestEngine::new();
    let text = r#"version = 1
source = "a"
[project.Home]
check-limit = 2
[project.Home.check.one]
channels = ["nobody"]
alert = { parents = ["two"] }
[project.Home.check.two]
alert = { parents = ["three", "nowhere"] }
[project.Home.check.three]
alert = { parents = ["one"] }
[project.Home.key.k]
access = "ping"
value = "abcdefghijklmnopqrstuv"
[project.Other]
ping-key = "abcdefghijklmnopqrstuv"
[user.bob]
projects = { Nowhere = "member" }
"#;
    let error = site.apply(text, ALLOW_NONE).unwrap_err();
    for part in [
        "the project would have 3 checks, but its check-limit is 2",
        r#"check one: the project has no channel "nobody""#,
        r#"check two: the project has no check "nowhere""#,
        "the check would be a parent of itself",
        r#"user bob: there is no project "Nowhere""#,
    ] {
        assert!(error.contains(part), "{part:?} is not in:\n{error}");
    }
    assert_eq!(
        (
            site.handle.with_state(|state| state.projects().count()),
            site.export().len()
        ),
        (0, 0)
    );
}

#[test]
fn a_declared_parent_is_refused_if_a_check_of_another_file_would_have_too_many_levels() {
    let site = ConfigTestEngine::new();
    let chain = |source: &str, numbers: std::ops::Range<u32>, highest: u32| {
        let mut text = format!("version = 1\nsource = \"{source}\"\n[project.House]\n");
        for number in numbers {
            text += &format!("[project.House.check.n{number}]\n");
            if number > highest {
                text += &format!("alert = {{ parents = [\"n{}\"] }}\n", number - 1);
            }
        }
        text
    };
    site.apply(&chain("a", 1..33, 1), ALLOW_NONE).unwrap();
    site.apply(&chain("b", 33..34, 1), ALLOW_NONE).unwrap();
    assert_error(
        &site.apply(&chain("a", 0..33, 0), ALLOW_NONE),
        "check n33: it depends on declared checks: a check may have at most 32 levels",
    );
}

#[test]
fn a_key_belongs_to_one_project() {
    let site = ConfigTestEngine::new();
    let one = "version = 1\n[project.One]\nping-key = \"abcdefghijklmnopqrstuv\"\n";
    assert_changes(&site.apply(one, ALLOW_NONE), &["+ project One", "+ key"]);
    assert_error(
        &site.apply(&one.replace("One", "Two"), ALLOW_NONE),
        "another key has this value",
    );
}

#[test]
fn the_last_owner_keeps_the_role() {
    let site = ConfigTestEngine::new();
    site.apply(
        "version = 1\nsource = \"a\"\n[user.ann]\nowner = true\n[user.bob]\n[project.P]\n",
        ALLOW_NONE,
    )
    .unwrap();
    assert_error(
        &site.apply(
            "version = 1\nsource = \"a\"\n[user.ann]\n[user.bob]\n",
            ALLOW_NONE,
        ),
        "no owner with permission to sign in would remain",
    );
    assert_error(
        &site.apply("version = 1\nsource = \"a\"\n[user.bob]\n", ALLOW_ALL),
        "no owner with permission to sign in would remain",
    );
    // One user is demoted and another promoted: the order in the file does not matter.
    let swapped = "version = 1\nsource = \"a\"\n[user.ann]\nprojects = { P = \"member\" \
                   }\n[user.bob]\nowner = true\n";
    let lines = site.apply(swapped, ALLOW_NONE).unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_changes(&site.apply(swapped, ALLOW_NONE), &[]);
}

#[test]
fn the_paused_status_changes_only_if_declared() {
    let site = ConfigTestEngine::new();
    let check = |settings: &str| format!("version = 1\n[project.P.check.c]\n{settings}");
    let status = || {
        site.handle
            .with_state(|state| state.checks().next().unwrap().state.status)
    };
    site.apply(&check("paused = true"), ALLOW_NONE).unwrap();
    assert_eq!(status(), Status::Paused);
    assert_changes(&site.apply(&check(""), ALLOW_NONE), &[]);
    assert_changes(
        &site.apply(&check("paused = false"), ALLOW_NONE),
        &["~ check c: paused true -> false"],
    );
    assert_eq!(status(), Status::New);
    assert_changes(
        &site.apply(&check("paused = true\ngrace = 60"), ALLOW_NONE),
        &["~ check c: grace - -> 1m, paused false -> true"],
    );
    assert_eq!(status(), Status::Paused);
}

/// A paused check with a run of half an hour: declared as resumed or paused together with a
/// shorter grace, it does not go down first.
#[test]
fn a_check_is_paused_or_resumed_before_other_settings_can_take_it_down() {
    for (paused, status, flip_count) in [(false, Status::New, 2), (true, Status::Paused, 3)] {
        let site = ConfigTestEngine::new();
        let check = |settings: &str| format!("version = 1\n[project.P.check.c]\n{settings}");
        site.apply(&check("paused = true\ngrace = \"1h\""), ALLOW_NONE)
            .unwrap();
        if paused {
            site.apply(&check("paused = false\ngrace = \"1h\""), ALLOW_NONE)
                .unwrap();
        }
        site.start_run();
        site.clock.advance_secs(1800);
        let text = check(&format!("paused = {paused}\ngrace = \"10m\""));
        site.apply(&text, ALLOW_NONE).unwrap();
        let state = site
            .handle
            .with_state(|state| state.checks().next().unwrap().state);
        assert_eq!((state.status, state.last_flip.0), (status, flip_count));
        assert_changes(&site.apply(&text, ALLOW_NONE), &[]);
    }
}

/// Whether the writer has noticed a passed deadline before the file is applied makes no difference.
#[test]
fn a_paused_check_with_an_overdue_run_is_down_and_not_resumed() {
    let site = ConfigTestEngine::new();
    let check = |settings: &str| format!("version = 1\n[project.P.check.c]\n{settings}");
    site.apply(&check("paused = true\ngrace = \"1h\""), ALLOW_NONE)
        .unwrap();
    site.start_run();
    // Less than the granularity of the writer after the deadline.
    site.clock.advance_secs(3600);
    let text = check("paused = false\ngrace = \"2h\"");
    assert_changes(
        &site.apply(&text, ALLOW_NONE),
        &["~ check c: grace - -> 2h"],
    );
    let status = site
        .handle
        .with_state(|state| state.checks().next().unwrap().state.status);
    assert_eq!(status, Status::Down);
}

#[test]
fn a_past_window_is_accepted_in_a_file_and_not_stored() {
    let site = ConfigTestEngine::new();
    let text = "version = 1\n[project.P.window.w]\nfrom = 2020-01-01T00:00:00Z\nfor = \"1h\"\n";
    assert_changes(&site.apply(text, ALLOW_NONE), &["+ project P"]);
    assert_changes(&site.apply(text, ALLOW_NONE), &[]);
    let later = text.replace("2020", "2040");
    assert_changes(&site.apply(&later, ALLOW_NONE), &["+ window w"]);
    assert_changes(&site.apply(&later, ALLOW_NONE), &[]);
}

#[test]
fn a_channel_keeps_its_kind() {
    let site = ConfigTestEngine::new();
    site.apply(HOME, ALLOW_NONE).unwrap();
    let text = "version = 1\nsource = \"homelab\"\n[project.Home.channel.phone]\nkind = \
                \"ntfy\"\ntopic = \"t\"\n";
    assert_error(
        &site.apply(text, ALLOW_NONE),
        "channel phone: the existing channel is of kind telegram",
    );
}

#[test]
fn a_value_that_the_service_never_issues_is_refused() {
    let site = ConfigTestEngine::new();
    let invalid_token = HOME.replace("12345:secret", "nonsense");
    assert_error(
        &site.apply(&invalid_token, ALLOW_NONE),
        "channel phone: token is not one that @BotFather issues",
    );
    assert_eq!(site.handle.with_state(|state| state.projects().count()), 0);
    site.apply(HOME, ALLOW_NONE).unwrap();
    assert_error(
        &site.apply(
            &HOME.replace("chat = \"1\"", "chat = \"hello world\""),
            ALLOW_NONE,
        ),
        "channel phone: chat is neither",
    );
    assert_changes(&site.apply(HOME, ALLOW_NONE), &[]);
}
