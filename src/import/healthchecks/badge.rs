//! Badge URLs in the report of an import.

use std::collections::HashSet;

use super::secret_verification::SecretVerdict;
use crate::domain::import_contents::ImportContents;
use crate::import::report::{ImportTally, ReportedKind};

/// Counts badge URLs. The URLs of projects and tags need the secret that signed them.
pub(super) fn tally_badges(
    imported: &ImportContents,
    secret_verdict: SecretVerdict,
    tally: &mut ImportTally,
) {
    for project in &imported.projects {
        let check_badges = project
            .checks
            .iter()
            .filter(|check| check.badge.is_some())
            .count() as u64;
        tally.add_carried(ReportedKind::Badges, check_badges);
        let tags: HashSet<&str> = project
            .checks
            .iter()
            .flat_map(|check| check.settings.tags.iter())
            .collect();
        let signed = 1 + tags.len() as u64;
        match (project.legacy_badge, secret_verdict) {
            (None, _) => {
                let reason = format!(
                    "of project {:?} and its tags: they return 404 without the SECRET_KEY of the \
                     old server; give it with --env-file or --secret-key-file, or use the new URLs \
                     that GET /api/v3/badges/ lists",
                    project.name.as_str()
                );
                tally.add_dropped(ReportedKind::Badges, signed, reason);
            }
            (Some(_), SecretVerdict::Incorrect(_)) => {
                tally.add_carried(ReportedKind::Badges, signed);
                tally.add_note(
                    ReportedKind::Badges,
                    Some(signed),
                    "of projects and tags: they return 404 unless the old server used this \
                     SECRET_KEY",
                );
            }
            (Some(_), _) => tally.add_carried(ReportedKind::Badges, signed),
        }
    }
}
