//! Texts that the next page of a user shows once: new secrets, and messages at sign-in. In memory
//! only.

use std::collections::HashMap;
use std::time::Duration;

use super::page_request::{ClientId, PageRequest};
use crate::domain::ids::{SessionId, UserId};
use crate::util::sync::{Mutex, lock};

/// Maximum time that a text waits to be shown.
const TEXT_LIFETIME: Duration = Duration::from_secs(120);
/// Maximum number of waiting texts. Above it new ones are dropped, and the user has to create
/// another secret.
const MAX_TEXTS: usize = 1000;

/// Owner of a text, and path of the page that shows it.
type TextOwner = (ClientId, String);

/// Texts that wait to be shown.
#[derive(Default)]
pub(super) struct OneTimeTexts(Mutex<HashMap<TextOwner, (Duration, String)>>);

impl OneTimeTexts {
    /// Stores a text for the page of this path.
    pub(super) fn store(&self, request: &PageRequest, path: &str, text: String) {
        self.insert(
            text_owner(request, path),
            text,
            request.handle().clock().uptime(),
        );
    }

    /// Stores a text for the page of this path and a new session.
    pub(super) fn store_for_session(
        &self,
        request: &PageRequest,
        (user, session): (UserId, SessionId),
        path: &str,
        text: String,
    ) {
        self.insert(
            ((Some(user), Some(session)), path.into()),
            text,
            request.handle().clock().uptime(),
        );
    }

    /// Takes the text that this page shows to the viewer.
    pub(super) fn take(&self, request: &PageRequest, path: &str) -> Option<String> {
        self.remove(
            &text_owner(request, path),
            request.handle().clock().uptime(),
        )
    }

    fn insert(&self, owner: TextOwner, text: String, now: Duration) {
        let mut waiting = lock(&self.0);
        waiting.retain(|_, (since, _)| now < *since + TEXT_LIFETIME);
        if waiting.len() < MAX_TEXTS {
            waiting.insert(owner, (now, text));
        }
    }

    fn remove(&self, owner: &TextOwner, now: Duration) -> Option<String> {
        let mut waiting = lock(&self.0);
        waiting
            .remove(owner)
            .filter(|(since, _)| now < *since + TEXT_LIFETIME)
            .map(|(_, text)| text)
    }
}

fn text_owner(request: &PageRequest, path: &str) -> TextOwner {
    (request.client_id(), path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_once_to_its_creator_for_a_short_time() {
        let secrets = OneTimeTexts::default();
        let secs = Duration::from_secs;
        let user = |user, session: Option<u64>, path: &str| {
            (
                (Some(UserId(user)), session.map(SessionId)),
                path.to_owned(),
            )
        };
        let maker = |session| user(1, Some(session), "/a/");
        secrets.insert(maker(1), "s".into(), secs(0));
        for other in [
            maker(2),
            user(2, Some(1), "/a/"),
            user(1, None, "/a/"),
            user(1, Some(1), "/b/"),
            ((None, None), "/a/".into()),
        ] {
            assert_eq!(secrets.remove(&other, secs(1)), None, "{other:?}");
        }
        assert_eq!(secrets.remove(&maker(1), secs(1)).as_deref(), Some("s"));
        assert_eq!(secrets.remove(&maker(1), secs(1)), None);
        secrets.insert(maker(1), "s".into(), secs(0));
        assert_eq!(secrets.remove(&maker(1), secs(120)), None);
        for number in 0..2 * MAX_TEXTS as u64 {
            secrets.insert(maker(number), "s".into(), secs(200));
        }
        assert_eq!(secrets.0.lock().unwrap().len(), MAX_TEXTS);
    }
}
