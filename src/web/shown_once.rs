//! Secrets that were just made, until the page after the form has shown them: once, and to the session that made them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::visit::Visit;
use crate::domain::ids::SessionId;

/// How long a secret waits to be shown.
const PATIENCE: Duration = Duration::from_secs(120);
/// Secrets that wait at the same time. Beyond it none is kept: whoever made one makes another.
const MOST_WAITING: usize = 1000;

/// What was made on which page, by whom.
type Maker = (Option<SessionId>, String);

/// See the module. In memory only.
#[derive(Default)]
pub(super) struct ShownOnce(Mutex<HashMap<Maker, (Duration, String)>>);

impl ShownOnce {
    /// Keeps a secret for the page of this path.
    pub(super) fn keep(&self, visit: &Visit, path: &str, secret: String) {
        self.put((session(visit), path.into()), secret, visit.handle().clock().uptime());
    }

    /// The secret that was made for this page by whoever looks at it. It is gone then.
    pub(super) fn take(&self, visit: &Visit, path: &str) -> Option<String> {
        self.remove(&(session(visit), path.into()), visit.handle().clock().uptime())
    }

    fn put(&self, maker: Maker, secret: String, now: Duration) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, (since, _)| now < *since + PATIENCE);
        if waiting.len() < MOST_WAITING {
            waiting.insert(maker, (now, secret));
        }
    }

    fn remove(&self, maker: &Maker, now: Duration) -> Option<String> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(maker).filter(|(since, _)| now < *since + PATIENCE).map(|(_, secret)| secret)
    }
}

fn session(visit: &Visit) -> Option<SessionId> {
    let person = visit.viewer.person.as_ref()?;
    person.session.as_ref().map(|session| session.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_once_to_its_maker_and_not_for_long() {
        let (secrets, secs) = (ShownOnce::default(), Duration::from_secs);
        let maker = |session| (Some(SessionId(session)), "/a/".to_owned());
        secrets.put(maker(1), "s".into(), secs(0));
        assert_eq!(secrets.remove(&maker(2), secs(1)), None);
        assert_eq!(secrets.remove(&(Some(SessionId(1)), "/b/".into()), secs(1)), None);
        assert_eq!(secrets.remove(&maker(1), secs(1)).as_deref(), Some("s"));
        assert_eq!(secrets.remove(&maker(1), secs(1)), None);
        secrets.put(maker(1), "s".into(), secs(0));
        assert_eq!(secrets.remove(&maker(1), secs(120)), None);
        for number in 0..2 * MOST_WAITING as u64 {
            secrets.put(maker(number), "s".into(), secs(200));
        }
        assert_eq!(secrets.0.lock().unwrap().len(), MOST_WAITING);
    }
}
