//! Messages of the etcd v3 API (`rpc.proto` and `kv.proto` of etcd 3.4), as far as the client needs
//! them. A `tag` is the number of the field on the wire. Unknown fields are skipped.

use bytes::Bytes;

/// Header of a reply.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResponseHeader {
    #[prost(uint64, tag = "2")]
    pub(super) member_id: u64,
    /// Revision of the key space.
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

/// Key with its value and versions (`mvccpb.KeyValue`).
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredKeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) value: Bytes,
}

/// Request for the keys from `key` to `range_end`, or for `key` only if that is empty.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    /// Maximum number of keys; 0: none.
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// True if a member may answer by itself, possibly with old data.
    #[prost(bool, tag = "7")]
    pub(super) serializable: bool,
}

/// Reply to [`RangeRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<StoredKeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
}

/// Operation that sets the value of a key.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

/// Operation that deletes the keys from `key` to `range_end`, or `key` only if that is empty.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
}

/// Message without fields that the client reads.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EmptyMessage {}

/// Operation of a transaction.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "RequestOpKind", tags = "1, 2, 3")]
    pub(super) request: Option<RequestOpKind>,
}

/// Kind of an operation of a transaction.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum RequestOpKind {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

/// Result of an operation of a transaction.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResponseOp {
    #[prost(oneof = "ResponseOpKind", tags = "1, 2, 3")]
    pub(super) response: Option<ResponseOpKind>,
}

/// Kind of a result of an operation.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum ResponseOpKind {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(EmptyMessage),
    #[prost(message, tag = "3")]
    DeleteRange(EmptyMessage),
}

/// Property of a key that a condition is about (`Compare.CompareTarget`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, prost::Enumeration)]
#[repr(i32)]
pub(super) enum CompareTarget {
    Version = 0,
    Value = 3,
}

/// Condition of a transaction. The result that it requires is `EQUAL`, which is 0 and thus absent.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CompareMessage {
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) key: Bytes,
    #[prost(oneof = "CompareOperand", tags = "4, 7")]
    pub(super) operand: Option<CompareOperand>,
}

/// Operand of a condition.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum CompareOperand {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
}

/// Request for a transaction.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<CompareMessage>,
    /// Operations if all conditions hold.
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    /// Operations if a condition does not hold.
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

/// Reply to [`TxnRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    /// One result for each operation.
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

/// Request to drop all versions of keys before a revision.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
}

/// Reply to a request for the status of a member.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(int64, tag = "3")]
    pub(super) db_size: i64,
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) db_size_in_use: i64,
    /// 0 before etcd 3.6.
    #[prost(int64, tag = "12")]
    pub(super) db_size_quota: i64,
}

/// Request for a token. It has no `Debug`, because of the password.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

/// Reply to [`AuthenticateRequest`]. It has no `Debug`, because of the token.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}
