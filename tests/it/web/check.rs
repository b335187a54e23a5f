//! The pages of a check: status over time, forms, and text from untrusted sources.

use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ids::UniqueKey;
use overdue::domain::text::Slug;
use overdue::engine::command::{Command, DeliveryReport, SendOutcome};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{browse, channel, post, project_uuid, visible_text};
use crate::support::commands::create_check;
use crate::support::server::{TestResponse, TestServer};

/// A check of the server that has some of everything that its pages show.
struct CheckPageFixture {
    server: TestServer,
    uuid: String,
}

impl CheckPageFixture {
    async fn with(check: Value) -> Self {
        let server = TestServer::start().await;
        let uuid = server.create_check(check).await["uuid"]
            .as_str()
            .unwrap()
            .to_owned();
        Self { server, uuid }
    }

    fn path(&self, rest: &str) -> String {
        format!("/checks/{}/{rest}", self.uuid)
    }

    /// Returns a page below the check as text.
    async fn page_text(&self, rest: &str) -> String {
        let answer = browse(&self.server, "GET", &self.path(rest), &[]).await;
        assert_eq!(answer.status, 200, "{rest}: {answer:?}");
        answer.text().to_owned()
    }

    async fn send(&self, rest: &str, fields: &[(&str, &str)]) -> TestResponse {
        post(&self.server, &self.path(rest), fields).await
    }

    async fn ping(&self, rest: &str, body: &[u8]) {
        let answer = self
            .server
            .send("POST", &format!("/ping/{}{rest}", self.uuid), &[], body)
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    async fn api(&self) -> Value {
        self.server
            .api("GET", &format!("/checks/{}", self.uuid), "")
            .await
            .json()
    }

    fn at(&self, time: &str) {
        let time: jiff::Timestamp = time.parse().unwrap();
        self.server
            .clock
            .advance_secs(time.as_second() - self.server.handle.now().secs());
    }
}

fn hidden(html: &str, name: &str) -> String {
    let field = format!("name=\"{name}\" value=\"");
    html.split(&field)
        .nth(1)
        .unwrap_or_else(|| panic!("no {name} in {html}"))
        .split('"')
        .next()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn the_output_of_a_failure_is_shown_at_once() {
    let page = CheckPageFixture::with(json!({})).await;
    page.ping("", b"fine\n").await;
    let up = page.page_text("details/").await;
    assert!(
        !up.contains("class=\"output\"") && up.contains("fine"),
        "{up}"
    );
    let output: String = (1..=30).map(|line| format!("line <{line}>\n")).collect();
    page.ping("/3", output.as_bytes()).await;
    page.ping("/log", b"a note").await;
    let down = page.page_text("details/").await;
    let shown = down.split("class=\"output\"").nth(1).unwrap();
    let shown = shown.split("</pre>").next().unwrap();
    assert!(
        shown.contains("line &#60;21&#62;") && shown.trim_end().ends_with("line &#60;30&#62;"),
        "{shown}"
    );
    assert!(!shown.contains("line &#60;20&#62;"), "{shown}");
    // The log has the first line of each body.
    let log = visible_text(&page.page_text("log/").await);
    for line in ["fine", "line &#60;1&#62;", "a note"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    // Scripts show the body in place.
    let path = page.path("pings/2/");
    let body = browse(&page.server, "GET", &path, &[("X-Fragment", "body")]).await;
    assert!(
        body.text().starts_with("<pre") && body.text().contains("line &#60;30&#62;"),
        "{body:?}"
    );
    page.server.stop().await;
}

#[tokio::test]
async fn scripts_replace_all_parts_of_the_page_that_change() {
    let page = CheckPageFixture::with(json!({ "schedule": "30 3 * * *", "tz": "UTC" })).await;
    for _ in 0..3 {
        page.ping("/start", b"").await;
        page.server.clock.advance_secs(90);
        page.ping("", b"").await;
    }
    let path = page.path("details/");
    let parts = browse(&page.server, "GET", &path, &[("X-Fragment", "check")]).await;
    let whole = page.page_text("details/").await;
    assert!(!parts.text().contains("<html"), "{parts:?}");
    for id in [
        "actions",
        "standing",
        "runs",
        "sent",
        "history",
        "durations",
        "log",
    ] {
        let id = format!("id=\"{id}\"");
        assert!(
            parts.text().contains(&id) && whole.contains(&id),
            "{id}: {parts:?}"
        );
    }
    assert!(parts.text().contains("<h2>Durations</h2>"), "{parts:?}");
    page.server.stop().await;
}

#[tokio::test]
async fn a_log_keeps_times_of_day_and_other_times_are_relative() {
    let page = CheckPageFixture::with(json!({})).await;
    page.ping("", b"").await;
    let log = page.page_text("log/").await;
    let times: Vec<_> = log.split("<time ").skip(1).collect();
    assert!(
        !times.is_empty()
            && times
                .iter()
                .all(|time| time.split('>').next().unwrap().ends_with(" data-fixed")),
        "{log}"
    );
    let list = format!("/projects/{}/checks/", project_uuid(&page.server));
    let list = browse(&page.server, "GET", &list, &[]).await;
    assert!(
        list.text().contains("<time ") && !list.text().contains("data-fixed"),
        "{list:?}"
    );
    page.server.stop().await;
}

#[tokio::test]
async fn the_page_shows_the_status_over_time() {
    let page = CheckPageFixture::with(json!({
        "name": "Nightly backup", "schedule": "30 3 * * *", "tz": "Europe/Riga", "grace": 900,
    }))
    .await;
    assert!(
        visible_text(&page.page_text("details/").await)
            .contains("New. Waiting for the first ping. Until then nothing can be overdue.")
    );
    page.ping("/start", b"").await;
    page.at("2026-11-20T10:10:00Z");
    assert!(
        visible_text(&page.page_text("details/").await)
            .contains("A run began at 12:00:00 (10 min ago).")
    );
    page.ping("", b"").await;
    let up = visible_text(&page.page_text("details/").await);
    assert!(
        up.contains("Up. Last ping just now, next expected tomorrow 03:30 (in 15 h)."),
        "{up}"
    );
    assert!(
        up.contains("every day at 03:30 in Europe/Riga, 15 minutes of grace"),
        "{up}"
    );
    assert!(
        up.contains("Sat 21 Nov 03:30 +02 in 15 h your time: tomorrow 01:30"),
        "{up}"
    );
    assert!(
        up.contains("Clocks go forward on 28 Mar 2027: the run at 03:30 is moved to 04:00."),
        "{up}"
    );
    page.at("2026-11-21T01:36:00Z");
    let late = visible_text(&page.page_text("details/").await);
    assert!(
        late.contains(
            "Late. It was expected at 03:30. Unless it reports, it goes down at 03:45 (in 9 min)."
        ),
        "{late}"
    );
    page.at("2026-11-21T02:00:00Z");
    let down = page.page_text("details/").await;
    assert!(down.contains("favicon-down.svg"));
    let down = visible_text(&down);
    assert!(
        down.contains(
            "Down since 03:45 (15 minutes). It was expected at 03:30 and had until 03:45 to \
             report (Europe/Riga)."
        ),
        "{down}"
    );
    assert!(
        down.contains("Next run: tomorrow 03:30 (in 23 h)."),
        "{down}"
    );
    page.ping("/3", b"").await;
    let failed = visible_text(&page.page_text("details/").await);
    assert!(failed.contains("exit 3"), "{failed}");
    page.server.stop().await;
}

#[tokio::test]
async fn the_timeline_shows_the_chosen_period() {
    let page = CheckPageFixture::with(json!({ "timeout": 3600, "grace": 60 })).await;
    page.ping("", b"").await;
    page.server.clock.advance_secs(3660);
    page.ping("/3", b"").await;
    let day = page.page_text("details/").await;
    assert!(
        day.contains("class=\"timeline\""),
        "a job of every hour: {day}"
    );
    for mark in [
        "no ping: expected at",
        "exit status 3",
        "<title>Up from",
        "aria-current=\"true\">Day",
    ] {
        assert!(day.contains(mark), "{mark}: {day}");
    }
    let quarter = page.page_text("details/?period=quarter").await;
    assert!(
        quarter.contains("class=\"bar-of-days\"") && quarter.contains(">Nov 2026</text>"),
        "{quarter}"
    );
    page.server.stop().await;
}

#[tokio::test]
async fn two_runs_are_shown_side_by_side() {
    let page = CheckPageFixture::with(json!({})).await;
    page.ping("", b"a\nb\n<c>\n").await;
    let alone = browse(&page.server, "GET", &page.path("pings/1/compare/"), &[]).await;
    assert_eq!(alone.status, 303, "{alone:?}");
    page.ping("/fail", b"x").await;
    page.ping("/3", b"a\nbroken\n<c>\n").await;
    assert!(
        page.page_text("pings/3/")
            .await
            .contains("/pings/3/compare/")
    );
    assert!(!page.page_text("pings/1/").await.contains("/compare/"));
    // The last success is the usual other run.
    let compared = page.page_text("pings/3/compare/").await;
    for part in [
        "<h1>Runs 1 and 3</h1>",
        "<del>− b</del><ins>+ broken</ins>",
        "<span>&#60;c&#62;</span>",
        ">exit 3<",
    ] {
        assert!(compared.contains(part), "{part}: {compared}");
    }
    let chosen = page.page_text("pings/3/compare/?with=2").await;
    assert!(chosen.contains("<h1>Runs 2 and 3</h1>"), "{chosen}");
    page.server.stop().await;
}

#[tokio::test]
async fn buttons_do_what_they_say() {
    let page = CheckPageFixture::with(
        json!({ "name": "job", "slug": "job", "schedule": "0 0 * * *", "tags": "a b" }),
    )
    .await;
    let page_path = page.path("details/");
    for (button, fields, notice, status) in [
        ("pause/", &[][..], "paused&undo=1", "paused"),
        ("resume/", &[], "resumed&undo=2", "new"),
        ("ping/", &[("kind", "success")], "pinged", "up"),
        ("ping/", &[("kind", "fail")], "pinged", "down"),
        ("zone/", &[("tz", "Asia/Tokyo")], "saved", "down"),
    ] {
        let answer = page.send(button, fields).await;
        assert_eq!(
            (answer.status, answer.header("Location")),
            (303, Some(format!("{page_path}?m={notice}").as_str())),
            "{button} {answer:?}"
        );
        assert_eq!(page.api().await["status"], status, "{button}");
    }
    assert_eq!(page.api().await["tz"], "Asia/Tokyo");
    assert!(visible_text(&page.page_text("log/").await).contains("overdue dashboard"));
    for (button, fields, status) in [
        ("resume/", &[][..], 409),
        ("ping/", &[("kind", "log")], 400),
        ("zone/", &[("tz", "Mars")], 400),
    ] {
        assert_eq!(page.send(button, fields).await.status, status, "{button}");
    }
    let copied = page.send("copy/", &[]).await;
    let copy = copied
        .header("Location")
        .unwrap()
        .strip_suffix("details/?m=copied-check")
        .unwrap()
        .to_owned();
    let copy = page
        .server
        .api("GET", copy.trim_end_matches('/'), "")
        .await
        .json();
    for (field, value) in [
        ("name", "job (copy)"),
        ("slug", "job-copy"),
        ("tags", "a b"),
        ("schedule", "0 0 * * *"),
        ("tz", "Asia/Tokyo"),
    ] {
        assert_eq!(copy[field], value);
    }
    assert!(
        visible_text(&page.page_text("remove/").await)
            .contains("Delete this check? job is deleted with its log (2 pings so far).")
    );
    assert_eq!(
        page.api().await["status"],
        "down",
        "the confirmation page deletes nothing"
    );
    let list = format!("/projects/{}/checks/?m=deleted", project_uuid(&page.server));
    assert_eq!(
        page.send("remove/", &[]).await.header("Location"),
        Some(list.as_str())
    );
    assert_eq!(page.send("remove/", &[]).await.status, 404);
    page.server.stop().await;
}

/// Form fields that are all valid.
const GOOD: [(&str, &str); 11] = [
    ("name", "Nightly <backup>"),
    ("slug", "nightly"),
    ("tags", "nas"),
    (
        "desc",
        "see https://example.org/\r\n<script>alert(1)</script>",
    ),
    ("expects", "cron"),
    ("cron", "30 3 * * *"),
    ("tz", "Europe/Riga"),
    ("grace", "15"),
    ("grace_unit", "min"),
    ("after", "2"),
    ("manual_resume", "1"),
];

#[tokio::test]
async fn checks_are_added_and_edited_by_forms() {
    let server = TestServer::start().await;
    let add = format!("/projects/{}/checks/add/", project_uuid(&server));
    let form = browse(&server, "GET", &add, &[]).await;
    assert!(
        form.text().contains("name=\"tz\"") && visible_text(form.text()).contains("every day"),
        "{form:?}"
    );
    let answer = post(&server, &add, &GOOD).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let uuid = answer
        .header("Location")
        .unwrap()
        .split('/')
        .nth(2)
        .unwrap()
        .to_owned();
    let page = CheckPageFixture { server, uuid };
    let shown = page.page_text("details/?m=made").await;
    assert!(
        shown.contains(
            r#"<a href="https://example.org/" rel="noopener noreferrer">https://example.org/</a>"#
        ),
        "{shown}"
    );
    assert!(
        !shown.contains("<script>")
            && visible_text(&shown).contains("Check added.")
            && visible_text(&shown).contains("Alerts after 2 failures in a row.")
    );
    let form = page.page_text("edit/").await;
    let was = hidden(&form, "was");
    for (name, value) in [
        ("slug", "nightly"),
        ("cron", "30 3 * * *"),
        ("tz", "Europe/Riga"),
        ("grace", "15"),
        ("after", "2"),
    ] {
        assert_eq!(hidden(&form, name), value);
    }
    // An error is shown beside its field, and the input is kept.
    let mut wrong = GOOD.to_vec();
    wrong.extend([
        ("was", was.as_str()),
        ("cron", "61 3 * * *"),
        ("name", "typed name"),
        ("slug", "Bad Slug"),
    ]);
    let refused = page.send("edit/", &wrong).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let text = visible_text(refused.text());
    assert!(
        text.contains("2 fields have errors.")
            && text.contains("Use only a to z, 0 to 9, hyphens and underscores.")
            && text.matches("Minute “61”").count() == 1,
        "{text}"
    );
    assert!(
        refused.text().contains("value=\"typed name\"")
            && refused.text().contains("value=\"61 3 * * *\"")
    );
    assert_eq!(page.api().await["name"], "Nightly <backup>");
    // A preview stores nothing.
    let preview: Vec<_> = GOOD
        .into_iter()
        .chain([
            ("was", was.as_str()),
            ("cron", "0 5 * * *"),
            ("preview", "1"),
        ])
        .collect();
    let previewed = page.send("edit/", &preview).await;
    assert!(
        previewed.status == 200
            && visible_text(previewed.text()).contains("every day at 05:00 in Europe/Riga"),
        "{previewed:?}"
    );
    let saved: Vec<_> = GOOD
        .into_iter()
        .chain([("was", was.as_str()), ("cron", "0 5 * * *")])
        .collect();
    assert_eq!(page.send("edit/", &saved).await.status, 303);
    let check = page.api().await;
    assert_eq!(
        (&check["schedule"], &check["grace"], &check["manual_resume"]),
        (&json!("0 5 * * *"), &json!(900), &json!(true))
    );
    // The same form, in which another user changes another field: both changes are kept.
    let merged: Vec<_> = GOOD
        .into_iter()
        .chain([("was", was.as_str()), ("name", "Nightly copy")])
        .collect();
    assert_eq!(page.send("edit/", &merged).await.status, 303);
    let check = page.api().await;
    assert_eq!(
        (&check["schedule"], &check["name"]),
        (&json!("0 5 * * *"), &json!("Nightly copy"))
    );
    // Both change one field: both values are shown, and the next submit stores the input. The name
    // that the form did not change stays.
    let fields: Vec<_> = GOOD
        .into_iter()
        .chain([("was", was.as_str()), ("cron", "0 6 * * *")])
        .collect();
    let outdated = page.send("edit/", &fields).await;
    assert_eq!(outdated.status, 409, "{outdated:?}");
    assert!(
        visible_text(outdated.text()).contains("Expected 0 5 * * * 0 6 * * *"),
        "{}",
        visible_text(outdated.text())
    );
    let was = hidden(outdated.text(), "was");
    let fields_again: Vec<_> = GOOD
        .into_iter()
        .chain([("was", was.as_str()), ("cron", "0 6 * * *")])
        .collect();
    assert_eq!(page.send("edit/", &fields_again).await.status, 303);
    let check = page.api().await;
    assert_eq!(check["schedule"], "0 6 * * *");
    page.server.stop().await;
}

#[tokio::test]
async fn the_channels_of_a_check_are_chosen_by_checkboxes() {
    let page = CheckPageFixture::with(json!({})).await;
    let channel = channel(&page.server).await;
    assert!(visible_text(&page.page_text("details/").await).contains("hook &#60;1&#62; Webhook"));
    assert_eq!(
        page.send("channels/", &[("channel", &channel)])
            .await
            .status,
        303
    );
    assert_eq!(page.api().await["channels"], channel);
    assert_eq!(page.send("channels/", &[]).await.status, 303);
    assert_eq!(page.api().await["channels"], "");
    assert_eq!(
        page.send("channels/", &[("channel", "nobody")])
            .await
            .status,
        400
    );
    page.server.stop().await;
}

#[tokio::test]
async fn the_log_is_shown_in_pages_by_kind_and_by_run() {
    let page = CheckPageFixture::with(json!({})).await;
    for _ in 0..50 {
        page.ping("/start", b"").await;
        page.ping("/log", b"").await;
        page.server.clock.advance_secs(60);
        page.ping("", b"").await;
    }
    // The project keeps 100 pings.
    let log = page.page_text("log/").await;
    assert!(
        visible_text(&log).contains("The last 100 of 150 pings are stored."),
        "{}",
        visible_text(&log)
    );
    assert_eq!(log.matches("id=\"ping-").count(), 100);
    let runs = page.page_text("log/?group=run").await;
    assert_eq!(runs.matches(", 1 minute, 1 note").count(), 33);
    let starts = page.page_text("log/?kind=start&kind=flip").await;
    assert_eq!(starts.matches("id=\"ping-").count(), 33);
    assert!(visible_text(&page.page_text("log/?kind=fail").await).contains("No matching entries."));
    assert!(
        page.page_text("log/?before=60")
            .await
            .contains("id=\"ping-59\"")
    );
    assert!(visible_text(&page.page_text("details/").await).contains("median 1 minute"));
    page.server.stop().await;
}

#[tokio::test]
async fn untrusted_content_is_shown_as_text() {
    let page =
        CheckPageFixture::with(json!({ "name": "\u{202e}<img src=x onerror=alert(1)>" })).await;
    let body = "\u{1b}[31mred\u{1b}[0m <script>alert(1)</script>\r\n\u{202e}x\0".to_owned()
        + &"y".repeat(900);
    let agent = "<svg/onload=alert(1)>";
    let sent = page
        .server
        .send(
            "POST",
            &format!("/ping/{}", page.uuid),
            &[("User-Agent", agent)],
            body.as_bytes(),
        )
        .await;
    assert_eq!(sent.status, 200);
    for rest in ["details/", "log/", "pings/1/", "edit/", "remove/"] {
        let html = page.page_text(rest).await;
        for bad in ["<script>", "<img", "<svg/", "\u{202e}x", "\u{1b}", "\0"] {
            assert!(!html.contains(bad), "{rest} has {bad:?}");
        }
    }
    let ping = page.page_text("pings/1/").await;
    assert!(
        ping.contains("red &#60;script&#62;alert(1)&#60;/script&#62;\n[U+202E]x␀yyy"),
        "{ping}"
    );
    assert!(
        ping.contains("?escapes=1")
            && page
                .page_text("pings/1/?escapes=1")
                .await
                .contains("␛[31mred␛[0m")
    );
    let file = browse(&page.server, "GET", &page.path("pings/1/body/"), &[]).await;
    assert_eq!(file.body, body.as_bytes());
    assert_eq!(
        file.header("Content-Type"),
        Some("application/octet-stream")
    );
    assert_eq!(
        file.header("Content-Disposition"),
        Some("attachment; filename=\"ping-1.txt\"")
    );
    assert_eq!(
        file.header("Content-Security-Policy"),
        Some("sandbox; default-src 'none'")
    );
    for unknown in [
        "pings/0/",
        "pings/2/",
        "pings/99999999999999999999/",
        "pings/2/body/",
    ] {
        assert_eq!(
            browse(&page.server, "GET", &page.path(unknown), &[])
                .await
                .status,
            404,
            "{unknown}"
        );
    }
    page.server.stop().await;
}

#[tokio::test]
async fn urls_in_bookmarks_and_messages_lead_to_the_page() {
    let page = CheckPageFixture::with(json!({})).await;
    for (old, new) in [
        ("name/", "edit/"),
        ("timeout/", "edit/"),
        ("filtering_rules/", "edit/"),
        ("last_ping/", "log/"),
        ("details", "details/"),
    ] {
        let answer = browse(&page.server, "GET", &page.path(old), &[]).await;
        assert_eq!(
            (answer.status, answer.header("Location")),
            (301, Some(page.path(new).as_str())),
            "{old}"
        );
    }
    let key = UniqueKey::of_check(page.uuid.parse().unwrap());
    let answer = browse(&page.server, "GET", &format!("/cloaked/{key}/"), &[]).await;
    assert_eq!(
        (answer.status, answer.header("Location")),
        (303, Some(page.path("details/").as_str()))
    );
    let other = format!("/cloaked/{}/", UniqueKey::NONE);
    assert_eq!(browse(&page.server, "GET", &other, &[]).await.status, 404);
    page.server.stop().await;
}

#[tokio::test]
async fn the_form_sets_the_parents_of_a_check() {
    let page = CheckPageFixture::with(json!({ "name": "router", "slug": "router" })).await;
    let mut uuids = vec![page.uuid.clone()];
    for name in ["<b>switch</b>", "twin", "twin", "job"] {
        uuids.push(
            page.server.create_check(json!({ "name": name })).await["uuid"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let job = CheckPageFixture {
        uuid: uuids.pop().unwrap(),
        server: page.server,
    };
    let form = job.page_text("edit/").await;
    assert!(
        form.contains(r#"<option value="&#60;b&#62;switch&#60;/b&#62;">"#)
            && form.contains(&format!("<option value=\"{}\">", uuids[2]))
    );
    assert!(
        !form.contains("<option value=\"job\">"),
        "nothing depends on itself"
    );
    let send = async |parents: &[&str]| {
        let mut fields = vec![
            ("name", "job"),
            ("period", "1"),
            ("period_unit", "d"),
            ("grace", "1"),
            ("grace_unit", "h"),
            ("tz", "UTC"),
            ("after", "1"),
        ];
        let was = hidden(&job.page_text("edit/").await, "was");
        fields.push(("was", &was));
        fields.extend(parents.iter().map(|parent| ("parent", *parent)));
        job.send("edit/", &fields).await
    };
    let parents = || {
        job.server.handle.with_state(|state| {
            state
                .check_by_uuid(job.uuid.parse().unwrap())
                .unwrap()
                .settings
                .parents
                .ids()
                .len()
        })
    };
    for (typed, text) in [
        (
            &["nobody"][..],
            "There is no check “nobody” in this project.",
        ),
        (
            &["twin"],
            "Several checks have the name “twin”; enter the UUID of one.",
        ),
        (&["job"], "The check would be a parent of itself."),
    ] {
        let refused = send(typed).await;
        assert!(
            refused.status == 422 && visible_text(refused.text()).contains(text),
            "{typed:?}: {refused:?}"
        );
        assert!(
            refused
                .text()
                .contains(&format!("name=\"parent\" value=\"{}\"", typed[0]))
                && parents() == 0
        );
    }
    assert_eq!(
        send(&["router", "<b>switch</b>", " ", &uuids[2]])
            .await
            .status,
        303
    );
    assert_eq!(parents(), 3);
    let shown = visible_text(&job.page_text("details/").await);
    assert!(
        shown.contains("Depends on router , &#60;b&#62;switch&#60;/b&#62; , twin ."),
        "{shown}"
    );
    // Submitting the form unchanged changes nothing.
    let form = job.page_text("edit/").await;
    let typed: Vec<_> = form
        .split("name=\"parent\" value=\"")
        .skip(1)
        .map(|part| part.split('"').next().unwrap())
        .collect();
    assert_eq!(
        typed,
        ["router", "&#60;b&#62;switch&#60;/b&#62;", &uuids[2], ""]
    );
    assert_eq!(send(&["router"]).await.status, 303);
    assert_eq!((parents(), send(&[]).await.status, parents()), (1, 303, 0));
    // The same holds for a new check.
    let add = format!("/projects/{}/checks/add/", project_uuid(&job.server));
    let fields: Vec<_> = GOOD
        .into_iter()
        .filter(|(name, _)| *name != "slug")
        .chain([("parent", "router")])
        .collect();
    let created = post(&job.server, &add, &fields).await;
    let created = browse(&job.server, "GET", created.header("Location").unwrap(), &[]).await;
    assert!(
        visible_text(created.text()).contains("Depends on router ."),
        "{created:?}"
    );
    job.server.stop().await;
}

#[tokio::test]
async fn the_last_delivery_is_shown_beside_its_channel() {
    let page = CheckPageFixture::with(json!({ "name": "job" })).await;
    let hook = json!({
        "kind": "webhook", "name": "hook <1>",
        "settings": { "down-url": "http://127.0.0.1:1/", "up-url": "http://127.0.0.1:1/" },
    });
    let channel = page
        .server
        .extension_api("POST", "/channels", &hook.to_string())
        .await
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    page.send("channels/", &[("channel", &channel)]).await;
    let other = page
        .server
        .create_check(json!({ "name": "other", "channels": "*" }))
        .await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(!page.page_text("details/").await.contains("Recent alerts"));
    page.ping("/fail", b"").await;
    assert_eq!(
        page.server.get(&format!("/ping/{other}/fail")).await.status,
        200
    );
    let handle = &page.server.handle;
    let channel = handle.with_state(|state| {
        state
            .project(page.server.main.id)
            .unwrap()
            .channels
            .keys()
            .copied()
            .next()
            .unwrap()
    });
    let rows: Vec<_> = handle.with_state(|state| {
        state
            .outbox
            .rows_of_channel(channel)
            .map(|row| row.number)
            .collect()
    });
    assert_eq!(rows.len(), 2);
    assert!(
        visible_text(&page.page_text("details/").await)
            .contains("Recent alerts waiting hook &#60;1&#62; went down just now")
    );
    handle
        .call(Command::StartAttempts {
            rows: rows.clone(),
            last_row: None,
        })
        .await
        .unwrap()
        .unwrap();
    page.server.clock.advance_secs(60);
    let sent = SendOutcome::Failed("it answered <b>500".into());
    let report = DeliveryReport {
        recipients: Default::default(),
        channel,
        sent_to: None,
        merged_into: None,
        rows,
        result: sent,
        status: 500,
    };
    handle
        .call(Command::RecordDeliveryReports(vec![report]))
        .await
        .unwrap()
        .unwrap();
    let html = page.page_text("details/").await;
    let shown = visible_text(&html);
    assert!(
        shown.contains(
            "Recent alerts not delivered hook &#60;1&#62; went down just now it answered \
             &#60;b&#62;500"
        ),
        "{shown}"
    );
    let listed = html
        .split("class=\"sent\"")
        .nth(1)
        .unwrap()
        .split("</ul>")
        .next()
        .unwrap();
    assert_eq!(
        listed.matches("<li>").count(),
        1,
        "of this check alone: {listed}"
    );
    // A channel took the alert about the downtime, but not the one about its end. Both are listed,
    // after the pending alerts.
    for (ping, sent, expected) in [
        ("", None, None),
        (
            "/fail",
            Some(SendOutcome::Delivered),
            Some("delivered hook &#60;1&#62; went down"),
        ),
        (
            "",
            Some(SendOutcome::Failed("no answer".into())),
            Some("not delivered hook &#60;1&#62; is up again just now no answer"),
        ),
    ] {
        page.ping(ping, b"").await;
        let Some(sent) = sent else { continue };
        let shown = visible_text(&page.page_text("details/").await);
        assert!(
            shown.contains("Recent alerts waiting hook &#60;1&#62; "),
            "{shown}"
        );
        let rows: Vec<_> = handle.with_state(|state| {
            state
                .outbox
                .rows_of_channel(channel)
                .map(|row| row.number)
                .collect()
        });
        handle
            .call(Command::StartAttempts {
                rows: rows.clone(),
                last_row: None,
            })
            .await
            .unwrap()
            .unwrap();
        let shown = visible_text(&page.page_text("details/").await);
        assert!(
            shown.contains("Recent alerts sending hook &#60;1&#62; "),
            "{shown}"
        );
        let report = DeliveryReport {
            recipients: Default::default(),
            channel,
            sent_to: None,
            merged_into: None,
            rows,
            result: sent,
            status: 0,
        };
        handle
            .call(Command::RecordDeliveryReports(vec![report]))
            .await
            .unwrap()
            .unwrap();
        let shown = visible_text(&page.page_text("details/").await);
        assert!(
            expected.is_some_and(|expected| shown.contains(expected)),
            "{shown}"
        );
    }
    page.server.stop().await;
}

#[tokio::test]
async fn keywords_are_previewed_on_the_last_pings() {
    let page = CheckPageFixture::with(json!({ "name": "job" })).await;
    for body in [&b"all OK"[..], b"OK so far", b"FAILED: disk", b"nothing"] {
        page.ping("", body).await;
    }
    let said = async |fields: &str| {
        let typed = format!(
            "/checks/preview/?check={}&expects=period&period=1&period_unit=d&{fields}",
            page.uuid
        );
        let answer = browse(&page.server, "GET", &typed, &[("X-Fragment", "preview")]).await;
        visible_text(&format!(
            "<p{}",
            answer.text().split("id=\"matches\"").nth(1).unwrap()
        ))
    };
    for (fields, expected) in [
        ("", ""),
        (
            "success_kw=OK",
            "These keywords have no effect: select below which texts to search.",
        ),
        (
            "success_kw=OK&failure_kw=FAILED&filter_http_body=1",
            "Result for the last 4 pings that are searched: 2 success, 1 failure, 1 ignored.",
        ),
        (
            "start_kw=far&filter_http_body=1&default_fail=1",
            "Result for the last 4 pings that are searched: 3 failure, 1 start.",
        ),
        (
            "success_kw=OK&filter_subject=1",
            "No ping has arrived yet to try these keywords on.",
        ),
    ] {
        assert_eq!(said(fields).await, expected, "{fields}");
    }
    // The page works without scripts too.
    page.server
        .api(
            "POST",
            &format!("/checks/{}", page.uuid),
            r#"{"success_kw":"OK","filter_http_body":true}"#,
        )
        .await;
    assert!(
        visible_text(&page.page_text("edit/").await)
            .contains("Result for the last 4 pings that are searched: 2 success, 2 ignored.")
    );
    page.server.stop().await;
}

#[tokio::test]
async fn a_page_shows_the_beginning_of_a_long_body_and_the_download_has_all_of_it() {
    let server = TestServer::start_storing(2 << 20).await;
    let uuid = server.create_check(json!({ "name": "long" })).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let page = CheckPageFixture { server, uuid };
    let long = "\u{ad}".repeat(600_000);
    page.ping("", long.as_bytes()).await;
    let html = page.page_text("pings/1/").await;
    assert!(
        html.contains("?all=1\">Show the first 1.0 MB</a>"),
        "{html}"
    );
    // Each character has two bytes, and eight when it is escaped.
    let html = page.page_text("pings/1/?all=1&escapes=1").await;
    assert_eq!(html.matches("[U+00AD]").count(), 1 << 19);
    assert!(!html.contains(">Show ") && html.contains("The download is complete."));
    assert_eq!(
        browse(&page.server, "GET", &page.path("pings/1/body/"), &[])
            .await
            .body,
        long.as_bytes()
    );
    page.ping("", "x".repeat(30_000).as_bytes()).await;
    assert!(
        page.page_text("pings/2/")
            .await
            .contains("?all=1\">Show all</a>")
    );
    let html = page.page_text("pings/2/?all=1").await;
    assert!(!html.contains(">Show ") && !html.contains("The download is complete"));
    page.server.stop().await;
}

#[tokio::test]
async fn a_slug_that_is_invalid_in_a_url_is_not_shown_in_one() {
    let server = TestServer::start().await;
    let long = "x".repeat(120);
    for (number, slug, is_shown) in [
        (1, "job", true),
        (2, "BackUp", false),
        (3, "back up", false),
        (4, &long, true),
    ] {
        let edit = CheckEdit {
            slug: Some(Slug::from_stored(slug)),
            ..CheckEdit::default()
        };
        server
            .handle
            .call(create_check(server.main.id, number, edit))
            .await
            .unwrap()
            .unwrap();
        let page = browse(
            &server,
            "GET",
            &format!("/checks/{}/details/?by=slug", Uuid::from_u128(number)),
            &[],
        )
        .await;
        let path = format!("/ping/{}/{slug}", server.main.ping_key);
        assert_eq!(
            (page.status, page.text().contains(&path)),
            (200, is_shown),
            "{slug}"
        );
        assert_eq!(
            server
                .send("POST", &path.replace(' ', "%20"), &[], b"")
                .await
                .status
                == 200,
            is_shown,
            "{slug}"
        );
    }
    server.stop().await;
}
