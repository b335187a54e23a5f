//! Heartbeat: fetches a URL while the server works. A missing request is the alarm, so the URL may
//! be the ping URL of a check on another server.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::sender::MessageSender;
use crate::outbound::{HttpRequest, RedirectPolicy, Trust};
use crate::util::log_limit::LogLimit;

/// Maximum time to wait for a response.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits the log to one line for all failures in a while.
static FAILURE_LOG_LIMIT: LogLimit = LogLimit::new();

/// URL and interval of the heartbeat.
#[derive(Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// URL, which may be a secret.
    pub url: String,
    /// Time between two requests.
    pub interval: Duration,
}

/// Fetches the URL until it is stopped, while pings are accepted and deadlines are processed. It
/// shares its thread with the sending of alerts: if that hangs, no heartbeat is sent.
pub(super) async fn run(sender: Rc<MessageSender>, heartbeat: Heartbeat) {
    loop {
        if sender.handle.is_writable() && !sender.handle.has_overdue_deadlines() {
            let request = HttpRequest {
                method: "GET".into(),
                url: heartbeat.url.clone(),
                headers: Vec::new(),
                body: Vec::new().into(),
                redirects: RedirectPolicy::Follow,
                pin: None,
                timeout: HEARTBEAT_TIMEOUT,
            };
            let failed = match sender.send_request(request, Trust::Operator).await {
                Ok(answer) if (200..300).contains(&answer.status) => None,
                Ok(answer) => Some(format!("the answer was {}", answer.status)),
                Err(error) => Some(error.to_string()),
            };
            if let Some(reason) = failed
                && let Some(suppressed) = FAILURE_LOG_LIMIT.admit(sender.handle.now())
            {
                tracing::warn!("the heartbeat request failed: {reason}{suppressed}");
            }
        }
        sleep(heartbeat.interval).await;
    }
}
