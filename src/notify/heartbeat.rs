//! Who watches the watcher: a URL that is fetched as long as all is well here. Silence is the alarm, so it may be the ping URL of a check
//! of another server.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::sender::MessageSender;
use crate::log_limit::LogLimit;
use crate::outbound::{HttpRequest, RedirectPolicy, Trust};

/// How long an answer is waited for.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// One line for all of them now and then.
static FAILURE_LOG_LIMIT: LogLimit = LogLimit::new();

/// Where, and how often.
#[derive(Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The URL, which may be a secret.
    pub url: String,
    /// How often it is fetched.
    pub interval: Duration,
}

/// Fetches it until it is stopped, as long as pings are taken and deadlines are noticed. It shares its thread with what sends alerts: if that
/// hangs, no heartbeat is sent.
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
                && let Some(left_out) = FAILURE_LOG_LIMIT.admit(sender.handle.now())
            {
                tracing::warn!("the heartbeat was not taken: {reason}{left_out}");
            }
        }
        sleep(heartbeat.interval).await;
    }
}
