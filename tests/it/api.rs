//! The Management API over HTTP, one file for each resource and verb.

mod actions;
mod any_body;
mod auth;
mod channels;
mod create;
mod flips;
mod get;
mod list;
mod methods;
mod overdue_addresses;
mod overdue_channels;
mod overdue_deliveries;
mod overdue_groups;
mod overdue_windows;
mod pings;
mod storage;
mod update;
mod upsert;
mod versions;

use overdue::channels::find_kind;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor};
use overdue::domain::project::ChannelName;
use overdue::operations::channel;
use serde_json::{Value, json};

use crate::support::server::{TestProject, TestResponse, TestServer};

/// UUID of a check that does not exist.
pub const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

impl TestServer {
    /// Sends a request with this key.
    pub(crate) async fn keyed(
        &self,
        key: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> TestResponse {
        self.send(method, path, &[("X-Api-Key", key)], body.as_bytes())
            .await
    }

    /// Creates a channel. Returns its UUID.
    pub(crate) async fn channel(&self, project: &TestProject, name: &str) -> String {
        let settings =
            ChannelSettings::parse(find_kind("email").unwrap(), [("to", "a@b.example")]).unwrap();
        let channel = channel::create(
            &self.handle,
            project.id,
            ChannelName::parse(name).unwrap(),
            settings,
            SettingsAuthor::Operator,
        )
        .await
        .unwrap();
        channel.uuid.to_string()
    }

    /// Number of changes of the main project's checks and channels.
    fn changes(&self) -> u64 {
        self.handle
            .with_state(|state| state.project(self.main.id).unwrap().version)
    }

    /// Pings a check.
    pub(crate) async fn ping(&self, check: &Value, rest: &str) {
        let answer = self
            .get(&format!("/ping/{}{rest}", text(check, "uuid")))
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Returns the current check.
    async fn now(&self, check: &Value) -> Value {
        self.api("GET", &path(check, ""), "").await.json()
    }
}

/// Returns a member that is a string.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// Path of a check below `/api/v3`.
fn path(check: &Value, rest: &str) -> String {
    format!("/checks/{}{rest}", text(check, "uuid"))
}

/// Expects a refusal with this status and only this message.
#[track_caller]
fn refused(answer: &TestResponse, status: u16, message: &str) {
    assert_eq!(
        (answer.status, answer.json()),
        (status, json!({ "error": message }))
    );
    assert_eq!(answer.header("Content-Type"), Some("application/json"));
}
