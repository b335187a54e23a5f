//! Access to the keys of a cluster. A simulation of etcd implements it, too.

use std::future::Future;

use bytes::Bytes;

use super::etcd::{Compare, Etcd, EtcdError, KeyValue, Op, RangeReply, TransactionReply};

/// Store of keys with conditional changes. Clones share it.
pub trait KeyValueStore: Clone + Send + Sync + 'static {
    /// Executes `then` if all conditions hold, else `otherwise`, as one step.
    ///
    /// # Errors
    /// Returns an error if the transaction was not executed, or if that is unknown.
    fn transact(
        &self,
        compares: &[Compare],
        then: &[Op],
        otherwise: &[Op],
    ) -> impl Future<Output = Result<TransactionReply, EtcdError>> + Send;

    /// Reads the keys in `[from, to)` in ascending order, at most `limit` of them (0: no limit). If
    /// the read is not linearizable, the data may be older.
    ///
    /// # Errors
    /// Returns an error if nothing could be read.
    fn range(
        &self,
        from: Bytes,
        to: Bytes,
        limit: u32,
        is_linearizable: bool,
    ) -> impl Future<Output = Result<RangeReply, EtcdError>> + Send;

    /// Reads a key. The read is linearizable.
    ///
    /// # Errors
    /// See [`Self::range`].
    fn get(
        &self,
        key: impl Into<Bytes>,
    ) -> impl Future<Output = Result<Option<KeyValue>, EtcdError>> + Send {
        let key = key.into();
        async move {
            let reply = self.range(key, Bytes::new(), 0, true).await?;
            Ok(reply.key_values.into_iter().next())
        }
    }

    /// Drops all versions of keys that were replaced or deleted before this revision.
    ///
    /// # Errors
    /// Returns an error if that is not certain.
    fn compact(&self, revision: i64) -> impl Future<Output = Result<(), EtcdError>> + Send;
}

impl KeyValueStore for Etcd {
    async fn transact(
        &self,
        compares: &[Compare],
        then: &[Op],
        otherwise: &[Op],
    ) -> Result<TransactionReply, EtcdError> {
        Self::transact(self, compares, then, otherwise).await
    }

    async fn range(
        &self,
        from: Bytes,
        to: Bytes,
        limit: u32,
        is_linearizable: bool,
    ) -> Result<RangeReply, EtcdError> {
        Self::range(self, from, to, limit, is_linearizable).await
    }

    async fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        Self::compact(self, revision).await
    }
}
