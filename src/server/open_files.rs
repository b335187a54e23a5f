//! Limit of open files. It is raised at start to the number that all listeners need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{admin, http, smtp};

/// Number of files beside connections: the database, listeners, the log, the runtimes.
const OTHER_FILES: usize = 64;

/// Maximum number of connections of clients.
const MAX_CONNECTIONS: usize = http::MAX_CONNECTIONS + smtp::MAX_SESSIONS + admin::MAX_CONNECTIONS;

/// Returns the number of open files when every listener has its maximum of connections.
fn needed_files(per_connection: usize) -> u64 {
    // Far below the maximum of either type.
    (MAX_CONNECTIONS * per_connection + OTHER_FILES) as u64
}

/// Raises the limit as far as needed and allowed. Logs a warning if that is not enough.
/// `per_connection`: number of files that a connection of a client needs.
pub(super) fn raise_limit(per_connection: usize) {
    let needed = needed_files(per_connection);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current.filter(|current| *current < needed) else {
        return;
    };
    let new_limit = maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(new_limit),
            maximum,
        },
    )
    .map_or(current, |()| new_limit);
    if raised < needed {
        tracing::warn!(
            "only {raised} files may be open, but all connections together need {needed}: \
             further clients have to wait; raise the hard limit (LimitNOFILE= of systemd, ulimit \
             -Hn)"
        );
    }
}
