//! Second step of signing in, for users with a second factor.

use std::collections::HashMap;
use std::time::Duration;

use askama::Template;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::sign_in::{self, VerifiedCredentials};
use crate::domain::ids::UserId;
use crate::domain::project::SecretHash;
use crate::domain::user::second_factor::SecondFactorProof;
use crate::domain::user::{PasswordHash, User};
use crate::engine::command::user::SignInProof;
use crate::util::log_limit::LogLimit;
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Maximum time between the password and the code: see [limits](crate::docs::limits).
const CODE_TIMEOUT: Duration = Duration::from_secs(300);
/// Number of wrong codes that end an attempt: see [limits](crate::docs::limits).
const MAX_WRONG_CODES: u32 = 5;
/// Maximum number of pending attempts: see [limits](crate::docs::limits). Above it the oldest is
/// dropped.
const MAX_PENDING: usize = 1000;

static FAILED_CODE_LOG_LIMIT: LogLimit = LogLimit::new();
static THROTTLED_CODE_LOG_LIMIT: LogLimit = LogLimit::new();

#[derive(Template)]
#[template(path = "second_step.html", config = "src/http/dashboard/askama.toml")]
struct SecondStepPage<'a> {
    layout: Layout,
    /// Token of the attempt.
    attempt: &'a str,
    is_wrong: bool,
}

/// Sign-in with a correct password that waits for the code.
#[derive(Clone)]
struct PendingSignIn {
    user: UserId,
    /// Hash that the password was checked against.
    verified_hash: PasswordHash,
    /// New hash of the same password.
    new_hash: Option<PasswordHash>,
    next_url: String,
    started: Duration,
    wrong_codes: u32,
}

/// Attempts with a correct password, by the hash of their token. In memory: after a restart the
/// password is asked for again.
#[derive(Default)]
pub(super) struct PendingSignIns(Mutex<HashMap<SecretHash, PendingSignIn>>);

impl PendingSignIns {
    fn insert(&self, attempt: SecretHash, pending: PendingSignIn) {
        let mut all = self.lock();
        all.retain(|_, old| pending.started < old.started + CODE_TIMEOUT);
        let oldest = all
            .iter()
            .min_by_key(|(_, old)| old.started)
            .map(|(attempt, _)| *attempt);
        if let Some(oldest) = oldest.filter(|_| all.len() >= MAX_PENDING) {
            all.remove(&oldest);
        }
        all.insert(attempt, pending);
    }

    fn get(&self, attempt: &SecretHash, now: Duration) -> Option<PendingSignIn> {
        self.lock()
            .get(attempt)
            .filter(|pending| now < pending.started + CODE_TIMEOUT)
            .cloned()
    }

    /// Counts a wrong code. Returns true if another code may be tried.
    fn record_failure(&self, attempt: &SecretHash) -> bool {
        let mut all = self.lock();
        let Some(pending) = all.get_mut(attempt) else {
            return false;
        };
        pending.wrong_codes += 1;
        let may_retry = pending.wrong_codes < MAX_WRONG_CODES;
        if !may_retry {
            all.remove(attempt);
        }
        may_retry
    }

    fn remove(&self, attempt: &SecretHash) {
        self.lock().remove(attempt);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SecretHash, PendingSignIn>> {
        lock(&self.0)
    }
}

/// Renders the form for the code after a correct password.
pub(super) fn begin_second_step(
    request: &PageRequest,
    user: UserId,
    verified_hash: PasswordHash,
    new_hash: Option<PasswordHash>,
    next: &str,
) -> PageResponse {
    let attempt = request.handle().random().url_safe::<32>();
    let pending = PendingSignIn {
        user,
        verified_hash,
        new_hash,
        next_url: next.into(),
        started: request.handle().clock().uptime(),
        wrong_codes: 0,
    };
    request
        .dashboard
        .pending_sign_ins
        .insert(SecretHash::of(attempt.as_bytes()), pending);
    render_form(request, &attempt, false).into()
}

fn render_form(request: &PageRequest, attempt: &str, is_wrong: bool) -> HtmlPage {
    HtmlPage::from_template(&SecondStepPage {
        layout: request.layout("Sign in"),
        attempt,
        is_wrong,
    })
    .without_caching()
}

/// Signs in with a code.
pub(super) async fn post(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let dashboard = &request.dashboard;
    let text = form.get("attempt");
    let attempt = SecretHash::of(text.as_bytes());
    let found = dashboard
        .pending_sign_ins
        .get(&attempt, request.handle().clock().uptime());
    let user = found.as_ref().and_then(|pending| {
        request
            .handle()
            .with_state(|state| state.users.get(pending.user).cloned())
    });
    let (Some(pending), Some(user)) = (found, user) else {
        return Ok(sign_in::restart_sign_in(
            request,
            "The sign-in has timed out. Sign in again.",
        ));
    };
    let counted = sign_in::begin_attempt(request, Some(&user.name))?;
    let proof = user
        .second_factor
        .as_ref()
        .and_then(|second| second.verify_code(form.get("code"), request.now));
    // Recovery codes cannot be guessed, so they are always accepted.
    let is_recovery = matches!(proof, Some(SecondFactorProof::Recovery(_)));
    let is_code_counted = user.second_factor.is_some() && !is_recovery;
    if is_code_counted {
        count_code(request, &user)?;
    }
    if user.second_factor.is_some() && proof.is_none() {
        if let Some(suppressed) = FAILED_CODE_LOG_LIMIT.admit(request.now) {
            let address = request.origin.client.addr;
            tracing::warn!(
                name = user.name.as_str(),
                %address,
                "a sign-in failed: wrong code of the second factor{suppressed}"
            );
        }
        return Ok(match dashboard.pending_sign_ins.record_failure(&attempt) {
            true => render_form(request, text, true).with_invalid_form().into(),
            false => sign_in::restart_sign_in(request, "Too many wrong codes. Sign in again."),
        });
    }
    dashboard.pending_sign_ins.remove(&attempt);
    let PendingSignIn {
        verified_hash,
        new_hash,
        next_url: next,
        ..
    } = pending;
    let entered = sign_in::open_session(
        request,
        &user,
        VerifiedCredentials {
            proof: SignInProof::Password {
                verified: verified_hash,
                rehashed: new_hash,
                second_factor: proof,
            },
            is_code_counted,
        },
        counted,
        &next,
    )
    .await?;
    Ok(entered.unwrap_or_else(|| {
        sign_in::restart_sign_in(
            request,
            "Your account was changed in the meantime. Sign in again.",
        )
    }))
}

/// Counts a code as wrong until the sign-in succeeds, or returns the time to wait as an error.
fn count_code(request: &PageRequest, user: &User) -> Result<(), PageError> {
    let is_known = sign_in::known_browser_mark(request, user).is_some();
    let uptime = request.handle().clock().uptime();
    let limit = &request.dashboard.second_factor_limit;
    limit
        .begin_attempt(user.id, is_known, request.now, uptime)
        .map_err(|wait| {
            if let Some(suppressed) = THROTTLED_CODE_LOG_LIMIT.admit(request.now) {
                let address = request.origin.client.addr;
                tracing::warn!(
                    name = user.name.as_str(),
                    %address,
                    "second factor throttled after wrong codes{suppressed}"
                );
            }
            sign_in::too_many_attempts(wait)
        })
}

/// Redirects to the sign-in form: without a password this page shows nothing.
pub(super) fn show() -> PageResponse {
    PageResponse::Redirect(Page::Login(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_sign_in(since: u64) -> PendingSignIn {
        let since = Duration::from_secs(since);
        PendingSignIn {
            user: UserId(1),
            verified_hash: PasswordHash::new("x"),
            new_hash: None,
            next_url: String::new(),
            started: since,
            wrong_codes: 0,
        }
    }

    #[test]
    fn an_attempt_ends_after_five_wrong_codes_or_five_minutes() {
        let attempts = PendingSignIns::default();
        let secs = Duration::from_secs;
        let [one, two] = [b"1", b"2"].map(|text| SecretHash::of(text));
        attempts.insert(one, pending_sign_in(0));
        assert!(attempts.get(&one, secs(299)).is_some() && attempts.get(&one, secs(300)).is_none());
        assert_eq!(
            [0; 6].map(|_| attempts.record_failure(&one)),
            [true, true, true, true, false, false]
        );
        assert!(attempts.get(&one, secs(1)).is_none());
        attempts.insert(two, pending_sign_in(10));
        attempts.remove(&two);
        assert!(attempts.get(&two, secs(11)).is_none());
        for number in 0..MAX_PENDING as u64 + 5 {
            attempts.insert(SecretHash::of(&number.to_le_bytes()), pending_sign_in(20));
        }
        assert_eq!(attempts.lock().len(), MAX_PENDING);
    }
}
