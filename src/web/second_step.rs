//! The second step of signing in, for whoever wants to be asked for more than a password.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::route::Page;
use super::sign_in::{self, Entering};
use super::visit::Visit;
use crate::domain::ids::UserId;
use crate::domain::project::KeyHash;
use crate::domain::user::second_factor::Proof;
use crate::domain::user::{PasswordHash, User};
use crate::log_limit::LogLimit;

/// How long the second step waits for its code: see [limits](crate::docs::limits).
const PATIENCE: Duration = Duration::from_secs(300);
/// Wrong codes that end an attempt: see [limits](crate::docs::limits).
const MOST_WRONG: u32 = 5;
/// Attempts that wait at the same time: see [limits](crate::docs::limits). Beyond it the oldest is forgotten.
const MOST_WAITING: usize = 1000;

static FAILED: LogLimit = LogLimit::new();
static WAITS: LogLimit = LogLimit::new();

#[derive(Template)]
#[template(path = "code.html", config = "src/web/askama.toml")]
struct AskCode<'a> {
    frame: Frame,
    /// The second step of which attempt it is.
    attempt: &'a str,
    is_wrong: bool,
}

/// Somebody whose password was right.
#[derive(Clone)]
struct Waiting {
    user: UserId,
    /// What the password was checked against.
    checked: PasswordHash,
    /// The same password hashed anew.
    renewed: Option<PasswordHash>,
    next: String,
    since: Duration,
    wrong: u32,
}

/// Attempts whose password was right, by what they are recognised by. In memory: after a restart the password is asked for again.
#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<KeyHash, Waiting>>);

impl Attempts {
    fn put(&self, attempt: KeyHash, waiting: Waiting) {
        let mut all = self.locked();
        all.retain(|_, old| waiting.since < old.since + PATIENCE);
        let oldest = all.iter().min_by_key(|(_, old)| old.since).map(|(attempt, _)| *attempt);
        if let Some(oldest) = oldest.filter(|_| all.len() >= MOST_WAITING) {
            all.remove(&oldest);
        }
        all.insert(attempt, waiting);
    }

    fn get(&self, attempt: &KeyHash, now: Duration) -> Option<Waiting> {
        self.locked().get(attempt).filter(|waiting| now < waiting.since + PATIENCE).cloned()
    }

    /// Counts a wrong code; whether another may be tried.
    fn failed(&self, attempt: &KeyHash) -> bool {
        let mut all = self.locked();
        let Some(waiting) = all.get_mut(attempt) else { return false };
        waiting.wrong += 1;
        let goes_on = waiting.wrong < MOST_WRONG;
        if !goes_on {
            all.remove(attempt);
        }
        goes_on
    }

    fn end(&self, attempt: &KeyHash) {
        self.locked().remove(attempt);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<KeyHash, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The form for the code of whoever typed the right password.
pub(super) fn begin(visit: &Visit, user: UserId, checked: PasswordHash, renewed: Option<PasswordHash>, next: &str) -> Done {
    let attempt = visit.handle().random().url_safe::<32>();
    let waiting = Waiting { user, checked, renewed, next: next.into(), since: visit.handle().clock().uptime(), wrong: 0 };
    visit.site.attempts.put(KeyHash::of(attempt.as_bytes()), waiting);
    form(visit, &attempt, false).into()
}

fn form(visit: &Visit, attempt: &str, is_wrong: bool) -> Html {
    Html::of(&AskCode { frame: visit.frame("Sign in"), attempt, is_wrong }).secret()
}

/// Signs in with a code.
pub(super) async fn post(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (site, text) = (&visit.site, typed.get("attempt"));
    let attempt = KeyHash::of(text.as_bytes());
    let found = site.attempts.get(&attempt, visit.handle().clock().uptime());
    let user = found.as_ref().and_then(|waiting| visit.handle().with_state(|state| state.users.get(waiting.user).cloned()));
    let (Some(waiting), Some(user)) = (found, user) else {
        return Ok(sign_in::again(visit, "This took too long. Sign in again."));
    };
    let counted = sign_in::attempt(visit, Some(&user.name))?;
    let proof = user.second.as_ref().and_then(|second| second.proof(typed.get("code"), visit.now));
    // Nobody guesses a code for a lost app, so these are taken at any time.
    let is_recovery = matches!(proof, Some(Proof::Recovery(_)));
    let is_code_counted = user.second.is_some() && !is_recovery;
    if is_code_counted {
        count_code(visit, &user)?;
    }
    if user.second.is_some() && proof.is_none() {
        if let Some(left_out) = FAILED.admit(visit.now) {
            let address = visit.came.client.addr;
            tracing::warn!(name = user.name.as_str(), %address, "a sign-in failed by its second factor{left_out}");
        }
        return Ok(match site.attempts.failed(&attempt) {
            true => form(visit, text, true).refused().into(),
            false => sign_in::again(visit, "Too many wrong codes. Sign in again."),
        });
    }
    site.attempts.end(&attempt);
    let Waiting { checked, renewed, next, .. } = waiting;
    let entered = sign_in::enter(visit, &user, Entering { checked, renewed, second: proof, is_code_counted }, counted, &next).await?;
    Ok(entered.unwrap_or_else(|| sign_in::again(visit, "Something was changed meanwhile. Sign in again.")))
}

/// Counts a code as wrong until the user is in, or says how long to wait.
fn count_code(visit: &Visit, user: &User) -> Result<(), Trouble> {
    let is_known = sign_in::known_browser(visit, user).is_some();
    visit.site.wrong_codes.begin(user.id, is_known, visit.now, visit.handle().clock().uptime()).map_err(|wait| {
        if let Some(left_out) = WAITS.admit(visit.now) {
            let address = visit.came.client.addr;
            tracing::warn!(name = user.name.as_str(), %address, "a second factor has to wait after wrong codes{left_out}");
        }
        sign_in::too_many(wait)
    })
}

/// There is nothing to be seen without a password.
pub(super) fn show() -> Done {
    Done::Go(Page::Login(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(since: u64) -> Waiting {
        let since = Duration::from_secs(since);
        Waiting { user: UserId(1), checked: PasswordHash::new("x"), renewed: None, next: String::new(), since, wrong: 0 }
    }

    #[test]
    fn an_attempt_ends_after_five_wrong_codes_or_five_minutes() {
        let (attempts, secs) = (Attempts::default(), Duration::from_secs);
        let [one, two] = [b"1", b"2"].map(|text| KeyHash::of(text));
        attempts.put(one, waiting(0));
        assert!(attempts.get(&one, secs(299)).is_some() && attempts.get(&one, secs(300)).is_none());
        assert_eq!([0; 6].map(|_| attempts.failed(&one)), [true, true, true, true, false, false]);
        assert!(attempts.get(&one, secs(1)).is_none());
        attempts.put(two, waiting(10));
        attempts.end(&two);
        assert!(attempts.get(&two, secs(11)).is_none());
        for number in 0..MOST_WAITING as u64 + 5 {
            attempts.put(KeyHash::of(&number.to_le_bytes()), waiting(20));
        }
        assert_eq!(attempts.locked().len(), MOST_WAITING);
    }
}
