//! `/api/overdue/v1/deliveries`: delivery results of the own project, in pages.

use overdue::domain::ids::ChannelId;
use overdue::engine::command::{Command, DeliveryReport, SendOutcome};
use serde_json::{Value, json};

use super::{path, refused, text};
use crate::support::server::{TestProject, TestServer, new_project};

impl TestServer {
    pub(crate) fn number_of(&self, project: &TestProject, uuid: &str) -> ChannelId {
        self.handle.with_state(|state| {
            state
                .project(project.id)
                .unwrap()
                .channels
                .values()
                .find(|channel| channel.uuid.to_string() == uuid)
                .unwrap()
                .id
        })
    }

    /// Finishes all queued messages of a channel with this result.
    pub(crate) async fn sent(&self, channel: ChannelId, sent: SendOutcome, status: u16) {
        let rows: Vec<_> = self.handle.with_state(|state| {
            state
                .outbox
                .rows_of_channel(channel)
                .map(|row| row.number)
                .collect()
        });
        self.handle
            .call(Command::StartAttempts {
                rows: rows.clone(),
                last_row: None,
            })
            .await
            .unwrap()
            .unwrap();
        self.clock.advance_secs(1);
        let report = DeliveryReport {
            recipients: Default::default(),
            channel,
            sent_to: None,
            merged_into: rows.first().copied(),
            rows,
            result: sent,
            status,
        };
        self.handle
            .call(Command::RecordDeliveryReports(vec![report]))
            .await
            .unwrap()
            .unwrap();
    }

    async fn deliveries(&self, path: &str) -> Vec<Value> {
        let answer = self.extension_api("GET", path, "").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()["deliveries"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn deliveries_are_listed_newest_first_in_pages() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let mail = server.channel(&server.main, "mail").await;
    let spare = server.channel(&server.main, "spare").await;
    let foreign = server.channel(&other, "foreign").await;
    let [ours, second] = [&mail, &spare].map(|uuid| server.number_of(&server.main, uuid));
    let theirs = server.number_of(&other, &foreign);
    let check = server.create_check(json!({ "channels": mail })).await;
    let twin = server.create_check(json!({ "channels": mail })).await;
    let answer = server
        .keyed(
            &other.read_write_key,
            "POST",
            "/api/v3/checks/",
            r#"{"channels": "*"}"#,
        )
        .await
        .json();
    for one in [&check, &twin, &answer] {
        server.ping(one, "/fail").await;
    }
    server.sent(ours, SendOutcome::Delivered, 250).await;
    server
        .sent(theirs, SendOutcome::Failed("it never answered".into()), 0)
        .await;
    server.ping(&check, "").await;
    server
        .sent(ours, SendOutcome::Failed("it answered \"550\"".into()), 550)
        .await;
    server
        .handle
        .call(Command::RecordChannelTest(DeliveryReport::of_test(
            second,
            SendOutcome::Failed("no".into()),
            0,
        )))
        .await
        .unwrap()
        .unwrap();

    let all = server.deliveries("/deliveries").await;
    let numbers: Vec<_> = all
        .iter()
        .map(|delivery| delivery["number"].as_u64().unwrap())
        .collect();
    assert!(
        numbers.is_sorted_by(|a, b| a > b) && numbers.len() == 4,
        "{numbers:?}"
    );
    let shown: Vec<_> = all
        .iter()
        .map(|one| {
            (
                text(one, "event"),
                text(one, "outcome"),
                one["channel"].clone(),
                one["check"].clone(),
            )
        })
        .collect();
    let check_id = check["uuid"].clone();
    let twin_id = twin["uuid"].clone();
    assert_eq!(
        shown,
        [
            ("test", "failed", json!(spare), Value::Null),
            ("up", "failed", json!(mail), check_id.clone()),
            ("down", "delivered", json!(mail), twin_id),
            ("down", "delivered", json!(mail), check_id.clone())
        ]
    );
    let up = json!({
        "number": numbers[1], "channel": mail, "check": check_id, "event": "up",
        "outcome": "failed", "queued": "2026-11-20T10:00:02.000000+00:00",
        "finished": "2026-11-20T10:00:03.000000+00:00", "attempts": 1, "status": 550,
        "error": "it answered \"550\"", "told_with": null,
    });
    assert_eq!(all[1], up);
    assert_eq!(
        (&all[2]["told_with"], &all[2]["status"], &all[2]["error"]),
        (&json!(numbers[3]), &json!(250), &Value::Null)
    );
    assert_eq!(all[0]["status"], Value::Null);

    let found = async |path: String| -> Vec<usize> {
        let deliveries = server.deliveries(&path).await;
        deliveries
            .iter()
            .map(|delivery| all.iter().position(|one| one == delivery).unwrap())
            .collect()
    };
    for (path, places) in [
        ("/deliveries?limit=2".to_owned(), [0, 1].as_slice()),
        (
            format!("/deliveries?limit=2&before={}", numbers[1]),
            &[2, 3],
        ),
        (
            "/deliveries?limit=500&before=9223372036854775807&x=y".to_owned(),
            &[0, 1, 2, 3],
        ),
        ("/deliveries?before=0".to_owned(), &[]),
        ("/deliveries?outcome=failed".to_owned(), &[0, 1]),
        ("/deliveries?outcome=failed&limit=1".to_owned(), &[0]),
        ("/deliveries?outcome=superseded".to_owned(), &[]),
        (format!("/channels/{mail}/deliveries"), &[1, 2, 3]),
        (
            format!("/channels/{mail}/deliveries?outcome=delivered"),
            &[2, 3],
        ),
        (format!("/channels/{spare}/deliveries"), &[0]),
        (path(&check, "/deliveries"), &[1, 3]),
        (path(&twin, "/deliveries?limit=1"), &[2]),
    ] {
        assert_eq!(found(path.clone()).await, places, "{path}");
    }
    let theirs = server
        .keyed(
            &other.read_write_key,
            "GET",
            "/api/overdue/v1/deliveries",
            "",
        )
        .await
        .json();
    assert_eq!(theirs["deliveries"].as_array().unwrap().len(), 1);
    assert_eq!(theirs["deliveries"][0]["error"], "it never answered");

    // Deleted objects have no name. A delivery whose objects are all deleted belongs to no project.
    assert_eq!(
        server
            .extension_api("DELETE", &format!("/channels/{mail}"), "")
            .await
            .status,
        200
    );
    assert_eq!(server.api("DELETE", &path(&twin, ""), "").await.status, 200);
    let rest = server.deliveries("/deliveries").await;
    let named: Vec<_> = rest
        .iter()
        .map(|one| {
            (
                one["number"].clone(),
                one["channel"].clone(),
                one["check"].clone(),
            )
        })
        .collect();
    let of = |place: usize| json!(numbers[place]);
    assert_eq!(
        named,
        [
            (of(0), json!(spare), Value::Null),
            (of(1), Value::Null, check_id.clone()),
            (of(3), Value::Null, check_id)
        ],
        "{rest:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn queries_are_read_strictly() {
    let server = TestServer::start().await;
    for (query, message) in [
        ("limit=0", "limit is not a whole number from 1 to 500"),
        ("limit=501", "limit is not a whole number from 1 to 500"),
        ("limit=+5", "limit is not a whole number from 1 to 500"),
        ("limit", "limit is not a whole number from 1 to 500"),
        (
            "limit=5&limit=x",
            "limit is not a whole number from 1 to 500",
        ),
        (
            "before=-1",
            "before is not a whole number from 0 to 9223372036854775807",
        ),
        (
            "before=9223372036854775808",
            "before is not a whole number from 0 to 9223372036854775807",
        ),
        (
            "before=%FF",
            "before is not a whole number from 0 to 9223372036854775807",
        ),
        (
            "outcome=",
            "outcome must be one of delivered, failed, superseded, skipped",
        ),
        (
            "outcome=Failed",
            "outcome must be one of delivered, failed, superseded, skipped",
        ),
    ] {
        refused(
            &server
                .extension_api("GET", &format!("/deliveries?{query}"), "")
                .await,
            400,
            message,
        );
    }
    assert_eq!(
        server.extension_api("GET", "/deliveries", "").await.json(),
        json!({ "deliveries": [] })
    );
    server.stop().await;
}
