//! Checks in the file that an earlier run wrote: a job that is found again keeps its UUID, and with
//! it its ping URL.

use std::io::{self, ErrorKind};
use std::path::Path;

use uuid::Uuid;

use super::proposal_comments;
use crate::agent::discover::{CheckProposal, SkippedJob};
use crate::cli::common_args::read_limited;
use crate::domain::ids::parse_hyphenated_uuid;

/// Maximum number of bytes of the file: see [limits](crate::docs::limits).
const MAX_CHECKS_FILE_BYTES: u64 = 16 << 20;

/// UUIDs of checks, each with the identity of its job.
pub(super) struct EarlierChecks(Vec<(String, Uuid)>);

impl EarlierChecks {
    /// Reads the file of an earlier run. Before the first run there is none.
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        match read_limited(file, MAX_CHECKS_FILE_BYTES) {
            Ok(bytes) => Ok(Self::parse(&String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self(Vec::new())),
            Err(error) => Err(error),
        }
    }

    /// Reads the UUID of each check and the comments before it.
    fn parse(text: &str) -> Self {
        let mut checks = Vec::new();
        let mut comments = Vec::new();
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                comments.push(comment);
                continue;
            }
            if let Some(uuid) = line
                .strip_prefix("uuid = \"")
                .and_then(|text| parse_hyphenated_uuid(text.strip_suffix('"')?))
            {
                checks.extend(job_identity(&comments).map(|identity| (identity, uuid)));
            }
            comments.clear();
        }
        Self(checks)
    }

    /// Removes the UUIDs that jobs report with already.
    pub(super) fn without_reporting<'a>(
        mut self,
        skipped: impl Iterator<Item = &'a SkippedJob>,
    ) -> Self {
        for SkippedJob { job, .. } in skipped {
            self.0.retain(|(_, uuid)| !job.contains(&uuid.to_string()));
        }
        self
    }

    /// Gives a proposal the UUID that its job had. Each is given once.
    pub(super) fn restore(&mut self, proposal: &mut CheckProposal) {
        let comments = proposal_comments(proposal);
        let Some(identity) = job_identity(&comments) else {
            return;
        };
        if let Some(at) = self.0.iter().position(|(earlier, _)| *earlier == identity) {
            proposal.set_uuid(self.0.remove(at).1);
        }
    }
}

/// Returns the identity of a job: its crontab and its line before the edit. It does not depend on
/// the base URL, the reporter and the number of the line. For a timer it is the only comment.
fn job_identity(comments: &[impl AsRef<str>]) -> Option<String> {
    match comments {
        [location, line, ..] => {
            let location = location.as_ref().trim_end_matches(':');
            let file = location.rsplit_once(':').map_or(location, |(file, _)| file);
            Some(format!("{file}\n{}", line.as_ref()))
        }
        [comment] => Some(comment.as_ref().into()),
        [] => None,
    }
}
