//! Checks in the file that an earlier run wrote: a job that is found again keeps its UUID, and with
//! it its ping URL.

use std::io::{self, ErrorKind};
use std::path::Path;

use uuid::Uuid;

use super::proposal_comments;
use crate::cli::common_args::read_limited;
use crate::discover::{CheckProposal, SkippedJob};
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

    /// Reads the UUID of each check and the comment before it.
    fn parse(text: &str) -> Self {
        let (mut checks, mut comment) = (Vec::new(), "");
        for line in text.lines() {
            if let Some(text) = line.strip_prefix("# ") {
                comment = text;
            } else if let Some(uuid) = line.strip_prefix("uuid = \"").and_then(|text| parse_hyphenated_uuid(text.strip_suffix('"')?)) {
                checks.push((job_identity(comment, uuid), uuid));
            }
        }
        Self(checks)
    }

    /// Removes the UUIDs that jobs report with already.
    pub(super) fn without_reporting<'a>(mut self, skipped: impl Iterator<Item = &'a SkippedJob>) -> Self {
        for SkippedJob { job, .. } in skipped {
            self.0.retain(|(_, uuid)| !job.contains(&uuid.to_string()));
        }
        self
    }

    /// Gives a proposal the UUID that its job had. Each is given once.
    pub(super) fn restore(&mut self, proposal: &mut CheckProposal) {
        let comments = proposal_comments(proposal);
        let Some(identity) = comments.last().map(|comment| job_identity(comment, proposal.uuid)) else { return };
        if let Some(at) = self.0.iter().position(|(earlier, _)| *earlier == identity) {
            proposal.set_uuid(self.0.remove(at).1);
        }
    }
}

/// Returns the identity of a job: the comment about its edit without the ping URL, so that another
/// base URL changes nothing.
fn job_identity(comment: &str, uuid: Uuid) -> String {
    let uuid = uuid.to_string();
    comment.split(' ').filter(|word| !word.contains(&uuid)).collect::<Vec<_>>().join(" ")
}
