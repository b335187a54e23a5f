//! Hashes passwords on the threads for slow work: two at a time, so that clients that guess
//! passwords do not use up the threads and the memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::domain::user::{Password, PasswordHash};
use crate::http::common::reply::HttpError;
use crate::http::common::response_body::ResponseWriter;
use crate::http::common::work_owner::WorkOwner;
use crate::util::password::{self, PasswordMatch};
use crate::util::random::Random;

/// Maximum number of hashes computed at the same time.
const MAX_HASHES: usize = 2;
/// Maximum time that a hash waits for a permit.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// Hashes passwords, at most two at a time.
pub(super) struct PasswordHasher {
    permits: Arc<Semaphore>,
    response_writer: ResponseWriter,
    random: Random,
}

impl PasswordHasher {
    pub(super) fn new(response_writer: &ResponseWriter, random: Random) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_HASHES)),
            response_writer: response_writer.for_owner(WorkOwner::Passwords),
            random,
        }
    }

    /// Checks a password against a hash. Takes the same time if there is no hash.
    pub(super) async fn verify(
        &self,
        password: &str,
        hash: Option<PasswordHash>,
    ) -> Result<PasswordMatch, HttpError> {
        let password = password.as_bytes().to_vec();
        self.run_with_permit(move || password::verify(&password, hash.as_ref()))
            .await
    }

    /// Hashes a password.
    pub(super) async fn hash(&self, password: Password) -> Result<PasswordHash, HttpError> {
        let salt = self.random.bytes();
        self.run_with_permit(move || password::hash(&password, salt))
            .await?
            .map_err(|_| HttpError::Unavailable)
    }

    async fn run_with_permit<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        self.response_writer
            .run_with_permit(&self.permits, QUEUE_TIMEOUT, work)
            .await
    }
}
