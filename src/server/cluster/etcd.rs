//! Client of etcd v3: reads, transactions, compaction and status.
//!
//! A call tries one endpoint at a time, each for at most the timeout of the configuration. It
//! begins with the endpoint that answered last. If nothing was sent to an endpoint, the next one
//! is tried. Reads and compactions also go on to the next endpoint if the reply is missing. A
//! transaction then ends with [`EtcdError::Unknown`], and the next call begins with another
//! endpoint. A caller that repeats the transaction unchanged needs conditions that make a second
//! execution harmless.
//!
//! Calls carry no token at first. If etcd asks for one, the client authenticates and repeats the
//! call once: etcd has not executed it then.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::timeout;

use self::endpoint::{EndpointClient, Token};
use self::messages::{
    AuthenticateRequest, AuthenticateResponse, CompactionRequest, EmptyMessage, RangeRequest,
    RangeResponse, StatusResponse, TxnResponse,
};
use crate::outbound::Outbound;
pub use error::{EtcdError, Refusal, RefusalKind};
pub(crate) use tls::{EtcdIdentity, EtcdTls};
pub use transaction::{Compare, KeyValue, Op, TransactionReply};
pub(crate) use url::{EtcdConfigError, EtcdEndpoint, EtcdUrl, EtcdUser};

mod endpoint;
mod error;
mod messages;
#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;
mod tls;
mod transaction;
mod url;

/// Addresses and credentials of an etcd cluster.
#[derive(Clone, Debug)]
pub(crate) struct EtcdConfig {
    /// Members of the cluster, at least one.
    pub(crate) endpoints: Vec<EtcdEndpoint>,
    /// User, if etcd requires one.
    pub(crate) user: Option<EtcdUser>,
    /// Settings of TLS. `None`: connections without TLS.
    pub(crate) tls: Option<EtcdTls>,
    /// Maximum time of a call to one endpoint, including the time to connect.
    pub(crate) timeout: Duration,
}

/// Result of a read of several keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeReply {
    /// Keys in ascending order.
    pub key_values: Vec<KeyValue>,
    /// True if the limit left out keys.
    pub has_more: bool,
    /// Revision of the key space that was read.
    pub revision: i64,
}

/// Status of a member of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EndpointStatus {
    /// Release of etcd.
    pub(crate) version: String,
    /// Size of the database file, in bytes.
    pub(crate) database_bytes: u64,
    /// Bytes in use in that file.
    pub(crate) used_bytes: u64,
    /// Size at which etcd refuses changes. `None`: this release does not report it.
    pub(crate) quota_bytes: Option<u64>,
    /// Identifier of the member that leads; 0: there is none.
    pub(crate) leader: u64,
    /// Identifier of this member.
    pub(crate) member: u64,
    /// Problems that the member reports, such as alarms.
    pub(crate) errors: Vec<String>,
}

/// Client of an etcd cluster. Clones share the connections, one for each endpoint.
#[derive(Clone)]
pub struct Etcd {
    inner: Arc<EtcdInner>,
}

struct EtcdInner {
    endpoints: Vec<EndpointClient>,
    addresses: Vec<EtcdEndpoint>,
    user: Option<EtcdUser>,
    timeout: Duration,
    /// Index of the endpoint that the next call tries first.
    preferred: AtomicUsize,
    /// Locked while the client authenticates, so that concurrent calls share the token.
    token: Mutex<Option<Token>>,
    /// True once it was logged that etcd asks for no user.
    has_warned: AtomicBool,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Etcd({:?})", self.inner.addresses)
    }
}

impl Etcd {
    /// Creates a client. The first call opens a connection.
    ///
    /// # Errors
    /// If there is no endpoint, or if an endpoint or a certificate is not valid.
    pub(crate) fn new(config: EtcdConfig, outbound: &Outbound) -> Result<Self, EtcdConfigError> {
        if config.endpoints.is_empty() {
            let text = "etcd has no endpoint: give the address of each member";
            return Err(EtcdConfigError(text.into()));
        }
        let tls = config
            .tls
            .as_ref()
            .map(EtcdTls::client_config)
            .transpose()?;
        let endpoints = config
            .endpoints
            .iter()
            .map(|address| EndpointClient::new(address.clone(), tls.clone(), outbound.clone()));
        let inner = EtcdInner {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            addresses: config.endpoints,
            user: config.user,
            timeout: config.timeout,
            preferred: AtomicUsize::new(0),
            token: Mutex::default(),
            has_warned: AtomicBool::new(false),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Endpoints, in the order of the configuration.
    pub(crate) fn endpoints(&self) -> &[EtcdEndpoint] {
        &self.inner.addresses
    }

    /// Reads the keys in `[from, to)` in ascending order, at most `limit` of them (0: no limit). If
    /// the read is not linearizable, a member may answer by itself with older data.
    ///
    /// # Errors
    /// If no endpoint answered, or if etcd refused.
    pub(crate) async fn range(
        &self,
        from: impl Into<Bytes>,
        to: impl Into<Bytes>,
        limit: u32,
        linearizable: bool,
    ) -> Result<RangeReply, EtcdError> {
        let request = RangeRequest {
            key: from.into(),
            range_end: to.into(),
            limit: limit.into(),
            serializable: !linearizable,
        };
        let response: RangeResponse = self
            .call("/etcdserverpb.KV/Range", &request, Repetition::Harmless)
            .await?;
        Ok(RangeReply {
            key_values: response.kvs.into_iter().map(KeyValue::from).collect(),
            has_more: response.more,
            revision: response.header.unwrap_or_default().revision,
        })
    }

    /// Executes `then` if all conditions hold, else `otherwise`, as one step.
    ///
    /// # Errors
    /// If no endpoint could be reached, if the reply is missing, or if etcd refused.
    pub(crate) async fn transact(
        &self,
        compares: &[Compare],
        then: &[Op],
        otherwise: &[Op],
    ) -> Result<TransactionReply, EtcdError> {
        let request = transaction::transaction_request(compares, then, otherwise);
        let response: TxnResponse = self
            .call("/etcdserverpb.KV/Txn", &request, Repetition::ByCaller)
            .await?;
        Ok(response.into())
    }

    /// Drops all versions of keys that were replaced or deleted before this revision. Succeeds if
    /// that has been done already.
    ///
    /// # Errors
    /// If no endpoint answered, or if the revision is in the future.
    pub(crate) async fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        let request = CompactionRequest { revision };
        let result: Result<EmptyMessage, _> = self
            .call("/etcdserverpb.KV/Compact", &request, Repetition::Harmless)
            .await;
        match result {
            Ok(_) => Ok(()),
            Err(EtcdError::Refused(refusal)) if refusal.kind == RefusalKind::Compacted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks one member for its status. `endpoint`: index in [`endpoints`](Self::endpoints).
    ///
    /// # Errors
    /// If the endpoint did not answer or refused, or if there is no such endpoint.
    pub(crate) async fn status(&self, endpoint: usize) -> Result<EndpointStatus, EtcdError> {
        let endpoint = self.inner.endpoints.get(endpoint).ok_or_else(|| {
            EtcdError::Unreachable(format!("there is no endpoint with the index {endpoint}"))
        })?;
        let response: StatusResponse = self
            .attempt(
                endpoint,
                "/etcdserverpb.Maintenance/Status",
                &EmptyMessage {},
            )
            .await?;
        Ok(EndpointStatus {
            version: response.version,
            database_bytes: u64::try_from(response.db_size).unwrap_or_default(),
            used_bytes: u64::try_from(response.db_size_in_use).unwrap_or_default(),
            quota_bytes: u64::try_from(response.db_size_quota)
                .ok()
                .filter(|bytes| *bytes > 0),
            leader: response.leader,
            member: response.header.unwrap_or_default().member_id,
            errors: response.errors,
        })
    }

    /// Calls a method at one endpoint after the other until the result is certain, or until the
    /// request may not be repeated.
    async fn call<Q, R>(
        &self,
        method: &'static str,
        message: &Q,
        repetition: Repetition,
    ) -> Result<R, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        R: prost::Message + Default + 'static,
    {
        let inner = &*self.inner;
        let count = inner.endpoints.len();
        let first = inner.preferred.load(Ordering::Relaxed) % count.max(1);
        let prefer = |index: usize| inner.preferred.store(index, Ordering::Relaxed);
        let mut reasons = Vec::new();
        let mut may_be_executed = false;
        let in_order = inner.endpoints.iter().enumerate().cycle();
        for (index, endpoint) in in_order.skip(first).take(count) {
            match self.attempt(endpoint, method, message).await {
                Err(EtcdError::Unreachable(reason)) => reasons.push(reason),
                Err(EtcdError::Unknown(reason)) => {
                    prefer((index + 1) % count);
                    reasons.push(reason);
                    may_be_executed = true;
                    if repetition == Repetition::ByCaller {
                        break;
                    }
                }
                result => {
                    prefer(index);
                    return result;
                }
            }
        }
        let reasons = reasons.join("; ");
        Err(if may_be_executed {
            EtcdError::Unknown(reasons)
        } else {
            EtcdError::Unreachable(reasons)
        })
    }

    /// Calls a method at one endpoint within the timeout.
    async fn attempt<Q, R>(
        &self,
        endpoint: &EndpointClient,
        method: &'static str,
        message: &Q,
    ) -> Result<R, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        R: prost::Message + Default + 'static,
    {
        let sent = AtomicBool::new(false);
        let exchange = self.exchange(endpoint, method, message, &sent);
        if let Ok(result) = timeout(self.inner.timeout, exchange).await {
            return result;
        }
        // The other side may be gone without a trace.
        endpoint.disconnect();
        let reason = format!(
            "{} did not answer within {} seconds",
            endpoint.address,
            self.inner.timeout.as_secs_f32()
        );
        Err(if sent.load(Ordering::Relaxed) {
            EtcdError::Unknown(reason)
        } else {
            EtcdError::Unreachable(reason)
        })
    }

    /// Calls a method at one endpoint, and authenticates if etcd asks for it.
    async fn exchange<Q, R>(
        &self,
        endpoint: &EndpointClient,
        method: &'static str,
        message: &Q,
        sent: &AtomicBool,
    ) -> Result<R, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        R: prost::Message + Default + 'static,
    {
        let token = self.inner.token.lock().await.clone();
        let result = endpoint.call(method, message, token.clone(), sent).await;
        match (&self.inner.user, result) {
            (Some(user), Err(error)) if error.is_unauthenticated() => {
                sent.store(false, Ordering::Relaxed);
                let token = self.authenticate(endpoint, user, token).await?;
                endpoint.call(method, message, Some(token), sent).await
            }
            (Some(user), Ok(reply))
                if token.is_none() && method.starts_with("/etcdserverpb.KV/") =>
            {
                self.warn_of_unused(user);
                Ok(reply)
            }
            (_, result) => result,
        }
    }

    /// Logs once that etcd answers clients without a user.
    fn warn_of_unused(&self, user: &EtcdUser) {
        if !self.inner.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "etcd does not ask for the user {} of its URL, and answers every client that \
                 reaches it: run `etcdctl auth enable`, or leave the user out",
                user.name
            );
        }
    }

    /// Returns a token other than the one that was refused.
    async fn authenticate(
        &self,
        endpoint: &EndpointClient,
        user: &EtcdUser,
        refused: Option<Token>,
    ) -> Result<Token, EtcdError> {
        let mut current = self.inner.token.lock().await;
        // Another call may have authenticated in the meantime.
        if let Some(token) = current
            .as_ref()
            .filter(|token| Some(*token) != refused.as_ref())
        {
            return Ok(token.clone());
        }
        let request = AuthenticateRequest {
            name: user.name.clone(),
            password: user.password.clone(),
        };
        let result: Result<AuthenticateResponse, _> = endpoint
            .call(
                "/etcdserverpb.Auth/Authenticate",
                &request,
                None,
                &AtomicBool::new(false),
            )
            .await;
        let response = match result {
            Ok(response) => response,
            // The request of the caller is not executed.
            Err(EtcdError::Unknown(reason)) => return Err(EtcdError::Unreachable(reason)),
            Err(error) => return Err(error),
        };
        let mut token = Token::try_from(response.token).map_err(|_| {
            EtcdError::Unreachable(format!("{} sent an invalid token", endpoint.address))
        })?;
        token.set_sensitive(true);
        *current = Some(token.clone());
        Ok(token)
    }
}

/// Responsibility for the repetition of a request whose reply is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repetition {
    /// The client: a second execution changes nothing.
    Harmless,
    /// The caller: only it knows if a second execution is harmless.
    ByCaller,
}
