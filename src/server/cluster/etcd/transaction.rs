//! Transactions: conditions, operations and results, and their messages.

use bytes::Bytes;

use super::messages::{
    CompareMessage, CompareOperand, CompareTarget, DeleteRangeRequest, PutRequest, RangeRequest,
    RequestOp, RequestOpKind, ResponseOpKind, StoredKeyValue, TxnRequest, TxnResponse,
};

/// Key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyValue {
    /// Key.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
    /// Number of times that the value was set since the key was created; at least 1.
    pub version: i64,
    /// Revision at which the value was set.
    pub mod_revision: i64,
}

impl From<StoredKeyValue> for KeyValue {
    fn from(stored: StoredKeyValue) -> Self {
        Self {
            key: stored.key,
            value: stored.value,
            version: stored.version,
            mod_revision: stored.mod_revision,
        }
    }
}

/// Condition of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compare {
    /// The key exists and has this value.
    Value {
        /// Key.
        key: Bytes,
        /// Required value.
        value: Bytes,
    },
    /// The key does not exist.
    Missing {
        /// Key.
        key: Bytes,
    },
}

impl Compare {
    fn to_message(&self) -> CompareMessage {
        let (target, key, operand) = match self {
            Self::Value { key, value } => (
                CompareTarget::Value,
                key,
                CompareOperand::Value(value.clone()),
            ),
            Self::Missing { key } => (CompareTarget::Version, key, CompareOperand::Version(0)),
        };
        CompareMessage {
            target: target.into(),
            key: key.clone(),
            operand: Some(operand),
        }
    }
}

/// Operation of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Sets the value of a key.
    Put {
        /// Key.
        key: Bytes,
        /// New value.
        value: Bytes,
    },
    /// Reads a key.
    Get {
        /// Key.
        key: Bytes,
    },
    /// Deletes the keys in `[from, to)`.
    DeleteRange {
        /// First key.
        from: Bytes,
        /// Key after the last one. If it is empty, only `from` is deleted.
        to: Bytes,
    },
}

impl Op {
    fn to_message(&self) -> RequestOp {
        let request = match self {
            Self::Put { key, value } => RequestOpKind::Put(PutRequest {
                key: key.clone(),
                value: value.clone(),
            }),
            Self::Get { key } => RequestOpKind::Range(RangeRequest {
                key: key.clone(),
                ..RangeRequest::default()
            }),
            Self::DeleteRange { from, to } => RequestOpKind::DeleteRange(DeleteRangeRequest {
                key: from.clone(),
                range_end: to.clone(),
            }),
        };
        RequestOp {
            request: Some(request),
        }
    }
}

/// Result of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransactionReply {
    /// True if all conditions held, so that the operations in `then` were executed; else those in
    /// `otherwise` were.
    pub succeeded: bool,
    /// Result of each executed [`Op::Get`], in order.
    pub gets: Vec<Option<KeyValue>>,
    /// Revision of the key space after the transaction.
    pub revision: i64,
}

impl From<TxnResponse> for TransactionReply {
    fn from(response: TxnResponse) -> Self {
        let gets = response
            .responses
            .into_iter()
            .filter_map(|result| match result.response {
                Some(ResponseOpKind::Range(range)) => {
                    Some(range.kvs.into_iter().next().map(KeyValue::from))
                }
                _ => None,
            });
        Self {
            succeeded: response.succeeded,
            gets: gets.collect(),
            revision: response.header.unwrap_or_default().revision,
        }
    }
}

/// Returns the message for a transaction.
pub(super) fn transaction_request(
    compares: &[Compare],
    then: &[Op],
    otherwise: &[Op],
) -> TxnRequest {
    TxnRequest {
        compare: compares.iter().map(Compare::to_message).collect(),
        success: then.iter().map(Op::to_message).collect(),
        failure: otherwise.iter().map(Op::to_message).collect(),
    }
}
