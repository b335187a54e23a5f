//! Limit of open files. It is raised at start to the number that all listeners need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{admin, http, smtp};

/// Number of files beside connections: the database, listeners, the log, the runtimes.
const OTHER_FILES: usize = 64;

/// Number of open files when every listener has its maximum of connections.
// The sum is far below the maximum of either type.
const NEEDED_FILES: u64 =
    (http::MAX_CONNECTIONS + smtp::MAX_SESSIONS + admin::MAX_CONNECTIONS + OTHER_FILES) as u64;

/// Raises the limit as far as needed and allowed. Logs a warning if that is not enough.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current.filter(|current| *current < NEEDED_FILES) else {
        return;
    };
    let new_limit = maximum.map_or(NEEDED_FILES, |maximum| maximum.min(NEEDED_FILES));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(new_limit),
            maximum,
        },
    )
    .map_or(current, |()| new_limit);
    if raised < NEEDED_FILES {
        tracing::warn!(
            "only {raised} files may be open, but all connections together need {NEEDED_FILES}: \
             further clients have to wait; raise the hard limit (LimitNOFILE= of systemd, ulimit \
             -Hn)"
        );
    }
}
