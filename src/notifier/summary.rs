//! Summaries by mail: what was down in the last week or month, for each user who subscribes.
//!
//! A summary is sent once the period is over, from nine o'clock on by the clock of the user. The
//! result is written to the row of the user. After a crash between the two it is sent again, under
//! the same `Message-ID`.

mod contents;
mod mail;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use super::scheduler::CurrentTime;
use super::sender::MessageSender;
use super::{UnsubscribeTarget, WRITER_RETRY_DELAY};
use crate::domain::ids::UserId;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::user::User;
use crate::domain::user::summary::{MAX_FAILURE_CHARS, SummaryPeriod};
use crate::engine::command::Command;
use crate::engine::command::user::{SummaryResult, UserCommand};
use crate::outbound::{MailError, MailStep};
use contents::SummaryRequest;
use mail::SummaryLinks;

/// Time between two searches for due summaries.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of summaries in progress: alerts need the other connections.
const MAX_IN_FLIGHT: usize = 2;
/// Time to wait after the first failure. It doubles up to the maximum.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(300);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3600);
/// Time after the end of a period at which a failing summary is given up, in seconds.
const GIVE_UP_SECS: i64 = 2 * 86_400;

/// Summaries in progress, and failed ones.
#[derive(Default)]
pub(super) struct Summaries {
    last_checked: Option<Duration>,
    in_flight: JoinSet<(UserId, bool)>,
    /// Summaries that have ended and are not processed yet.
    ended: Vec<Result<(UserId, bool), JoinError>>,
    in_progress: Vec<UserId>,
    failures: BTreeMap<UserId, FailedSummary>,
}

/// Summary that will be sent again.
struct FailedSummary {
    attempts: u32,
    next_attempt: Duration,
}

/// Error of an attempt.
struct SummaryError {
    reason: String,
    /// True if another attempt would fail too.
    is_permanent: bool,
}

/// Summary that must be sent now.
struct DueSummary {
    user: Arc<User>,
    period: SummaryPeriod,
    zone: Timezone,
}

impl Summaries {
    /// Starts the summaries that are due.
    pub(super) fn send(&mut self, sender: &Rc<MessageSender>, now: CurrentTime) {
        while let Some(finished) = self.in_flight.try_join_next() {
            self.ended.push(finished);
        }
        for finished in std::mem::take(&mut self.ended) {
            match finished {
                Ok((user, is_done)) => self.finish(user, is_done, now.uptime),
                // The panic hook has logged it. The order of tasks is unknown, so all wait.
                Err(_) => {
                    for user in std::mem::take(&mut self.in_progress) {
                        self.finish(user, false, now.uptime);
                    }
                }
            }
        }
        if self
            .last_checked
            .is_some_and(|last| now.uptime < last + CHECK_INTERVAL)
        {
            return;
        }
        self.last_checked = Some(now.uptime);
        for due in due_summaries(sender, now.wall) {
            if self.in_flight.len() >= MAX_IN_FLIGHT {
                // The next round, which begins when one of them ends, continues.
                self.last_checked = None;
                break;
            }
            let id = due.user.id;
            let waits = self
                .failures
                .get(&id)
                .is_some_and(|failed| now.uptime < failed.next_attempt);
            if waits || self.in_progress.contains(&id) {
                continue;
            }
            self.in_progress.push(id);
            let is_first = !self.failures.contains_key(&id);
            let sender = Rc::clone(sender);
            self.in_flight.spawn_local(async move {
                let is_done = sender.send_summary(due, is_first).await;
                (id, is_done)
            });
        }
    }

    /// Waits until a summary ends. Never returns if none is in progress.
    pub(super) async fn wait_for_end(&mut self) {
        match self.in_flight.join_next().await {
            Some(ended) => self.ended.push(ended),
            None => std::future::pending().await,
        }
    }

    fn finish(&mut self, user: UserId, is_done: bool, uptime: Duration) {
        self.in_progress.retain(|other| *other != user);
        if is_done {
            self.failures.remove(&user);
            return;
        }
        let failed = self.failures.entry(user).or_insert(FailedSummary {
            attempts: 0,
            next_attempt: uptime,
        });
        let delay = FIRST_RETRY_DELAY * 2_u32.saturating_pow(failed.attempts.min(8));
        failed.attempts += 1;
        failed.next_attempt = uptime + delay.min(MAX_RETRY_DELAY);
    }
}

/// Summaries of all users that are due at `now`.
fn due_summaries(sender: &MessageSender, now: Timestamp) -> Vec<DueSummary> {
    sender.handle.with_state(|state| {
        let due = state.users.iter().filter(|user| !user.disabled);
        due.filter_map(|user| {
            let subscription = user.summary.as_ref()?;
            let zone = user.preferences.zone.as_ref().unwrap_or(&sender.zone);
            let period = subscription.due_period(now, zone)?;
            Some(DueSummary {
                user: Arc::clone(user),
                period,
                zone: zone.clone(),
            })
        })
        .collect()
    })
}

impl MessageSender {
    /// Sends a summary and records the result. False if it must be sent again later.
    async fn send_summary(&self, due: DueSummary, is_first: bool) -> bool {
        let DueSummary { user, period, zone } = due;
        let result = self.try_send_summary(&user, period, zone).await;
        let now = self.handle.now();
        let is_late = now > period.end.plus_secs(GIVE_UP_SECS) && !is_first;
        let is_done = match &result {
            Ok(_) => true,
            Err(error) => error.is_permanent || is_late,
        };
        let failure = result.as_ref().err().map(|error| {
            let text: String = error.reason.chars().take(MAX_FAILURE_CHARS).collect();
            text.into_boxed_str()
        });
        if let Some(reason) = &failure {
            let next = if is_done { "given up" } else { "tried again" };
            tracing::warn!(
                user = user.name.as_str(),
                "a summary could not be sent and is {next}: {reason}"
            );
        }
        let result = SummaryResult {
            covered_until: is_done.then_some(period.end),
            sent: result.ok().filter(|was_sent| *was_sent).map(|_| now),
            failure,
        };
        let command = || {
            let result = result.clone();
            let user = user.id;
            Command::User(Box::new(UserCommand::RecordSummary { user, result }))
        };
        // A summary that is not recorded would be sent again.
        while self.handle.call(command()).await.is_err() {
            sleep(WRITER_RETRY_DELAY).await;
        }
        is_done
    }

    /// Sends a summary. False if there is nothing to report on.
    async fn try_send_summary(
        &self,
        user: &Arc<User>,
        period: SummaryPeriod,
        zone: Timezone,
    ) -> Result<bool, SummaryError> {
        let temporary = |reason: String| SummaryError {
            reason,
            is_permanent: false,
        };
        let Some(subscription) = &user.summary else {
            return Ok(false);
        };
        let request = SummaryRequest {
            user: Arc::clone(user),
            period,
            zone,
            pages_url: self.pages_url.clone(),
        };
        let handle = self.handle.clone();
        let gathered = tokio::task::spawn_blocking(move || contents::gather(&handle, &request));
        let contents = gathered
            .await
            .map_err(|_| temporary("an internal error; see the server log".into()))?
            .map_err(|error| temporary(format!("the database cannot be read: {error}")))?;
        let Some(contents) = contents else {
            return Ok(false);
        };
        let address = subscription.settings.address.as_str();
        let links = SummaryLinks {
            account: self
                .pages_url
                .as_ref()
                .map(|base| format!("{base}/account/")),
            unsubscribe: self.unsubscribe_link(UnsubscribeTarget::Summary(user.uuid), address),
        };
        // A summary that is requested again is another message.
        let number = subscription.last_sent.map_or(0, Timestamp::secs);
        let id = format!(
            "{}-summary-{}-{}-{number}",
            self.instance(),
            user.uuid.simple(),
            period.end.secs()
        );
        let mail = mail::render(
            &subscription.settings,
            &contents,
            &links,
            id,
            self.handle.now(),
        )
        .ok_or_else(|| temporary("the mail cannot be rendered".into()))?;
        match self.outbound.send_mail(mail).await {
            Ok(_) => Ok(true),
            Err(error) => Err(SummaryError {
                is_permanent: is_permanent(&error),
                reason: error.to_string(),
            }),
        }
    }
}

/// True if the mail server will never accept this mail: it refused the recipient or the message
/// (RFC 5321, section 4.2.1).
fn is_permanent(error: &MailError) -> bool {
    match error {
        MailError::Refused(reply) => {
            reply.code >= 500 && matches!(reply.step, MailStep::Recipient | MailStep::Message)
        }
        MailError::Send(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::MailReply;

    #[test]
    fn a_refusal_from_code_500_on_of_the_recipient_or_the_message_is_permanent() {
        for (step, code, expected) in [
            (MailStep::Recipient, 499, false),
            (MailStep::Recipient, 500, true),
            (MailStep::Message, 554, true),
            (MailStep::Sender, 550, false),
        ] {
            let text = String::new();
            let refused = MailError::Refused(MailReply { step, code, text });
            assert_eq!(is_permanent(&refused), expected, "{step:?} {code}");
        }
    }

    #[test]
    fn each_failure_of_a_summary_doubles_the_delay_up_to_an_hour() {
        let user = UserId(1);
        let uptime = Duration::from_secs(10_000);
        let mut summaries = Summaries::default();
        for expected in [300, 600, 1_200, 2_400, 3_600, 3_600] {
            summaries.finish(user, false, uptime);
            assert_eq!(
                summaries.failures[&user].next_attempt,
                uptime + Duration::from_secs(expected)
            );
        }
        summaries.finish(user, true, uptime);
        assert!(summaries.failures.is_empty());
    }
}
