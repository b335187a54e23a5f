//! Ping URLs and mail addresses that pages show.

use uuid::Uuid;

use super::DashboardState;
use crate::domain::ids::ProjectId;
use crate::domain::project::KeySecret;
use crate::domain::text::Slug;
use crate::http::common::ping_path::{PingAction, PingPath};

impl DashboardState {
    /// Ping URL of a check by its UUID.
    pub(crate) fn ping_url(&self, check: Uuid) -> String {
        self.write_url(&PingPath::Uuid(check, PingAction::Success))
    }

    /// Ping URL by its slug. `None` if a URL cannot contain the slug, if another check of the
    /// project has it too, or if the project has no ping key.
    pub(crate) fn slug_url(&self, project: ProjectId, slug: &Slug) -> Option<String> {
        self.handle.with_state(|state| {
            if !slug.is_pingable() || state.checks_by_slug(project, slug).len() != 1 {
                return None;
            }
            let keys = state
                .project(project)?
                .keys()
                .filter_map(|id| state.key(id));
            let key = keys.filter_map(|key| match &key.secret {
                KeySecret::Ping(key) => Some(key.clone()),
                _ => None,
            });
            let path = PingPath::Slug(key.last()?, slug.clone(), PingAction::Success);
            Some(self.write_url(&path))
        })
    }

    /// Mail address of a check. `None` if the server accepts no mail.
    pub(crate) fn mail_address(&self, check: Uuid) -> Option<String> {
        self.config
            .mail_domain
            .as_ref()
            .map(|domain| format!("{check}@{domain}"))
    }

    fn write_url(&self, path: &PingPath) -> String {
        let mut url = self.base_url.as_str().to_owned();
        path.write(&mut url);
        url
    }
}
