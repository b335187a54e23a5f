//! Connections and threads of the server: the accept loop, the threads that serve HTTP connections,
//! the threads for slow work, and certificates that are reloaded when their files change.

pub mod accept;
pub mod blocking_threads;
pub mod certificate;
pub mod runtime_threads;
