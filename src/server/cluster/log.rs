//! Log and state of a cluster in etcd. All keys begin with the prefix of the cluster.
//!
//! Each change by a leader requires that the key of the epoch has the value that the leader wrote
//! (the fence), so a former leader can change nothing. No clock and no lock of etcd is involved.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::etcd::{Compare, Etcd, EtcdError, KeyValue, Op};
use super::key_values::KeyValueStore;
use crate::store::log_record_len;

/// Maximum bytes of a record in one key. etcd refuses requests of more than 1.5 MiB.
const PART_BYTES: usize = 1 << 20;
/// Maximum number of records in one reply.
const RECORDS_PER_READ: u32 = 48;
/// Bytes of records after which a read ends.
const MAX_READ_BYTES: usize = 64 << 20;

/// Cluster, written once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterRow {
    /// Random number of the cluster, which its databases share.
    pub id: u64,
    /// Version of the format of records and keys.
    pub format: u64,
}

/// Epoch: the time for which one machine leads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EpochRow {
    /// Number of the epoch; 0 before the first leader.
    pub epoch: u64,
    /// Name of the leader.
    pub node: String,
    /// Address of its peer port, `HOST:PORT`.
    pub address: String,
    /// Random number, so that no two machines write the same value.
    pub nonce: u64,
    /// Time without a renewal of the lease after which another machine takes over, in milliseconds.
    pub patience_millis: u64,
}

/// Lease of a leader, which it renews as long as it leads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Epoch of the leader.
    pub epoch: u64,
    /// Number of renewals by this leader.
    pub renewals: u64,
    /// Place of its last record.
    pub place: u64,
    /// End of the lease by the leader, so that another machine takes over at once. `None` while it
    /// leads.
    pub release: Option<Release>,
    /// Clock of the leader, in microseconds since 1970.
    pub clock: i64,
    /// Bytes of the records in the log, estimated.
    pub log_bytes: u64,
    /// Number of times that a machine took over from a silent leader.
    pub failovers: u64,
}

/// Reason why a leader ended its lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// It stopped, or failed to begin.
    Stopped,
    /// It handed over, to a machine with this name or to any.
    HandedOver(Option<String>),
}

/// Request that the leader of an epoch hands over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandOverRow {
    /// Epoch that the request ends. It has no effect on others.
    pub epoch: u64,
    /// Name of the machine that shall lead; `None` for any.
    pub to: Option<String>,
}

/// Machine of a cluster, as it announces itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeRow {
    /// Address of its peer port, `HOST:PORT`.
    pub address: String,
    /// Release of overdue.
    pub release: String,
    /// Place of the last record in its database.
    pub place: u64,
    /// Place up to which its database is synced.
    pub synced: u64,
    /// Its clock, in microseconds since 1970.
    pub clock: i64,
    /// Random number of the process.
    pub instance: u64,
    /// Time since its database last contained all records, in milliseconds.
    pub lag_millis: u64,
    /// Difference between its clock and that of the leader, in milliseconds.
    pub clock_ahead_millis: i64,
}

/// State of a cluster at one revision.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterView {
    /// `None` before `overdue cluster init`.
    pub cluster: Option<ClusterRow>,
    /// Last epoch.
    pub epoch: EpochRow,
    /// Stored value of the epoch, for a takeover.
    pub epoch_value: Bytes,
    /// `None` before the first leader.
    pub lease: Option<LeaseRow>,
    /// Place up to which records were removed.
    pub trimmed: u64,
    /// Stored value of that place, if there is one.
    pub trimmed_value: Option<Bytes>,
    /// Last request to hand over.
    pub hand_over: Option<HandOverRow>,
}

/// Records that were read from the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogRead {
    /// Records from the wanted place on, without a gap.
    pub records: Vec<Bytes>,
    /// True if the first record is missing although there are later ones: it was trimmed.
    pub is_trimmed: bool,
    /// True if there were no further records.
    pub is_end: bool,
}

/// Error of a change by a leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FencedError {
    /// Another machine leads.
    Fenced,
    /// It is unknown if the change was made, or etcd refused it.
    Etcd(EtcdError),
}

impl From<EtcdError> for FencedError {
    fn from(error: EtcdError) -> Self {
        Self::Etcd(error)
    }
}

/// Access to the keys of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct ClusterLog<S = Etcd> {
    etcd: S,
    prefix: String,
}

impl<S: KeyValueStore> ClusterLog<S> {
    /// Returns the access to the keys below a prefix.
    pub fn new(etcd: S, prefix: &str) -> Self {
        Self {
            etcd,
            prefix: format!("{prefix}/"),
        }
    }

    /// Client of etcd.
    pub fn etcd(&self) -> &S {
        &self.etcd
    }

    fn key(&self, name: &str) -> Bytes {
        format!("{}{name}", self.prefix).into()
    }

    fn record_key(&self, place: u64) -> Bytes {
        self.key(&format!("log/{place:016x}"))
    }

    /// Key of a part of a long record after its first one.
    fn part_key(&self, place: u64, part: usize) -> Bytes {
        self.key(&format!("part/{place:016x}/{part:08x}"))
    }

    /// Condition that the leader with this fence still leads.
    fn leads(&self, fence: &Bytes) -> Compare {
        Compare::Value {
            key: self.key("epoch"),
            value: fence.clone(),
        }
    }

    /// Creates the keys of a new cluster. Returns false if there is one already.
    ///
    /// # Errors
    /// See [`KeyValueStore::transact`].
    pub async fn create(&self, cluster: &ClusterRow) -> Result<bool, EtcdError> {
        let is_missing = Compare::Missing {
            key: self.key("cluster"),
        };
        let put = |name, value| Op::Put {
            key: self.key(name),
            value,
        };
        let puts = [
            put("cluster", encode(cluster)),
            put("epoch", encode(&EpochRow::default())),
        ];
        Ok(self
            .etcd
            .transact(&[is_missing], &puts, &[])
            .await?
            .succeeded)
    }

    /// Returns the current state of the cluster.
    ///
    /// # Errors
    /// See [`KeyValueStore::transact`].
    pub async fn view(&self) -> Result<ClusterView, EtcdError> {
        let keys = ["cluster", "epoch", "lease", "trimmed", "hand-over"];
        let gets = keys.map(|name| Op::Get {
            key: self.key(name),
        });
        let reply = self.etcd.transact(&[], &gets, &[]).await?;
        let value = |index: usize| {
            let found: Option<&KeyValue> = reply.gets.get(index).and_then(Option::as_ref);
            found.map(|found| found.value.clone())
        };
        let epoch_value = value(1).unwrap_or_default();
        Ok(ClusterView {
            cluster: value(0).and_then(|value| decode(&value)),
            epoch: decode(&epoch_value).unwrap_or_default(),
            epoch_value,
            lease: value(2).and_then(|value| decode(&value)),
            trimmed: value(3)
                .and_then(|value| decode(&value))
                .unwrap_or_default(),
            trimmed_value: value(3),
            hand_over: value(4).and_then(|value| decode(&value)),
        })
    }

    /// Begins an epoch in place of the one with this value. Returns the fence of the new leader;
    /// `None` if another machine was first.
    ///
    /// # Errors
    /// Returns an error if it is unknown which machine leads.
    pub async fn take_over(
        &self,
        replaced: &Bytes,
        row: &EpochRow,
    ) -> Result<Option<Bytes>, EtcdError> {
        let fence = encode(row);
        let put = Op::Put {
            key: self.key("epoch"),
            value: fence.clone(),
        };
        let is_unchanged = self.leads(replaced);
        let taken = match self.etcd.transact(&[is_unchanged], &[put], &[]).await {
            Ok(reply) => reply.succeeded,
            Err(EtcdError::Unknown(_)) => {
                let found = self.etcd.get(self.key("epoch")).await?;
                found.is_some_and(|found| found.value == fence)
            }
            Err(error) => return Err(error),
        };
        Ok(taken.then_some(fence))
    }

    /// Stores the lease of a leader. Returns the last request to hand over.
    ///
    /// # Errors
    /// See [`FencedError`].
    pub async fn put_lease(
        &self,
        fence: &Bytes,
        lease: &LeaseRow,
    ) -> Result<Option<HandOverRow>, FencedError> {
        let put = Op::Put {
            key: self.key("lease"),
            value: encode(lease),
        };
        let get = Op::Get {
            key: self.key("hand-over"),
        };
        let leads = [self.leads(fence)];
        let reply = self.etcd.transact(&leads, &[put, get], &[]).await?;
        if !reply.succeeded {
            return Err(FencedError::Fenced);
        }
        let request = reply.gets.first().and_then(Option::as_ref);
        Ok(request.and_then(|stored| decode(&stored.value)))
    }

    /// Asks the leader of an epoch to hand over.
    ///
    /// # Errors
    /// See [`KeyValueStore::transact`].
    pub async fn request_hand_over(&self, request: &HandOverRow) -> Result<(), EtcdError> {
        let put = Op::Put {
            key: self.key("hand-over"),
            value: encode(request),
        };
        self.etcd.transact(&[], &[put], &[]).await.map(drop)
    }

    /// Makes changes if the leader with this fence still leads.
    async fn change(&self, fence: &Bytes, changes: &[Op]) -> Result<(), FencedError> {
        let reply = self
            .etcd
            .transact(&[self.leads(fence)], changes, &[])
            .await?;
        if reply.succeeded {
            Ok(())
        } else {
            Err(FencedError::Fenced)
        }
    }

    /// Appends a record at a place, which is empty or contains the same record.
    ///
    /// # Errors
    /// See [`FencedError`]. After an unknown result, the same call may be repeated.
    pub async fn append(
        &self,
        fence: &Bytes,
        place: u64,
        record: &Bytes,
    ) -> Result<(), FencedError> {
        let first = record.slice(..record.len().min(PART_BYTES));
        for (part, start) in (PART_BYTES..record.len()).step_by(PART_BYTES).enumerate() {
            let value = record.slice(start..record.len().min(start + PART_BYTES));
            let put = Op::Put {
                key: self.part_key(place, part),
                value,
            };
            self.change(fence, &[put]).await?;
        }
        let key = self.record_key(place);
        let put = Op::Put {
            key: key.clone(),
            value: first.clone(),
        };
        let compares = [self.leads(fence), Compare::Missing { key: key.clone() }];
        let gets = [self.key("epoch"), key].map(|key| Op::Get { key });
        let reply = self.etcd.transact(&compares, &[put], &gets).await?;
        if reply.succeeded {
            return Ok(());
        }
        let holds = |index: usize, value: &Bytes| {
            let found = reply.gets.get(index).and_then(Option::as_ref);
            found.is_some_and(|found| found.value == *value)
        };
        // An earlier attempt may have succeeded.
        if holds(0, fence) && holds(1, &first) {
            Ok(())
        } else {
            Err(FencedError::Fenced)
        }
    }

    /// Returns records from a place on, without a gap. If the read is not linearizable, it may lack
    /// the newest ones.
    ///
    /// # Errors
    /// See [`KeyValueStore::range`].
    pub async fn read(&self, from: u64, is_linearizable: bool) -> Result<LogRead, EtcdError> {
        let end = self.key("log0");
        let reply = self
            .etcd
            .range(
                self.record_key(from),
                end,
                RECORDS_PER_READ,
                is_linearizable,
            )
            .await?;
        let mut read = LogRead {
            is_end: !reply.has_more,
            ..LogRead::default()
        };
        let mut bytes = 0;
        for (place, stored) in (from..).zip(reply.key_values) {
            if stored.key != self.record_key(place) {
                read.is_trimmed = place == from;
                break;
            }
            let length = log_record_len(&stored.value).unwrap_or_default();
            let record = if length > stored.value.len() {
                match self.read_parts(place, &stored.value, length).await? {
                    Some(record) => record,
                    None => break,
                }
            } else {
                stored.value
            };
            bytes += record.len();
            read.records.push(record);
            if bytes >= MAX_READ_BYTES {
                read.is_end = false;
                break;
            }
        }
        Ok(read)
    }

    /// Returns a record of this length, whose first part is given. `None` if it was trimmed in the
    /// meantime.
    async fn read_parts(
        &self,
        place: u64,
        first: &Bytes,
        length: usize,
    ) -> Result<Option<Bytes>, EtcdError> {
        let mut record = Vec::with_capacity(first.len());
        record.extend_from_slice(first);
        let mut part = 0;
        while record.len() < length {
            let Some(found) = self.etcd.get(self.part_key(place, part)).await? else {
                return Ok(None);
            };
            record.extend_from_slice(&found.value);
            part += 1;
        }
        Ok(Some(record.into()))
    }

    /// Removes the records up to a place, and the history of keys. Databases of other machines must
    /// contain them. `view`: current state. Nothing changes if another trim came first.
    ///
    /// # Errors
    /// See [`FencedError`].
    pub async fn trim(
        &self,
        fence: &Bytes,
        view: &ClusterView,
        up_to: u64,
    ) -> Result<(), FencedError> {
        let removed = |from: Bytes, to: Bytes| Op::DeleteRange { from, to };
        let key = self.key("trimmed");
        // A delayed trim must not set an earlier place.
        let is_unchanged = match &view.trimmed_value {
            Some(value) => Compare::Value {
                key: key.clone(),
                value: value.clone(),
            },
            None => Compare::Missing { key: key.clone() },
        };
        let next = up_to.saturating_add(1);
        let changes = [
            Op::Put {
                key,
                value: encode(&up_to),
            },
            removed(self.record_key(0), self.record_key(next)),
            removed(self.part_key(0, 0), self.part_key(next, 0)),
        ];
        let compares = [self.leads(fence), is_unchanged];
        let reply = self.etcd.transact(&compares, &changes, &[]).await?;
        Ok(self.etcd.compact(reply.revision).await?)
    }

    /// Announces this machine.
    ///
    /// # Errors
    /// See [`KeyValueStore::transact`].
    pub async fn announce(&self, name: &str, node: &NodeRow) -> Result<(), EtcdError> {
        let put = Op::Put {
            key: self.key(&format!("node/{name}")),
            value: encode(node),
        };
        self.etcd.transact(&[], &[put], &[]).await.map(drop)
    }

    /// Removes a machine that does not come back. Returns false if there is none with this name.
    ///
    /// # Errors
    /// See [`KeyValueStore::transact`].
    pub async fn forget(&self, name: &str) -> Result<bool, EtcdError> {
        let key = self.key(&format!("node/{name}"));
        let get = Op::Get { key: key.clone() };
        let removal = Op::DeleteRange {
            from: key,
            to: Bytes::new(),
        };
        let reply = self.etcd.transact(&[], &[get, removal], &[]).await?;
        Ok(reply.gets.iter().any(Option::is_some))
    }

    /// Returns the machines of the cluster by name.
    ///
    /// # Errors
    /// See [`KeyValueStore::range`].
    pub async fn nodes(&self) -> Result<Vec<(String, NodeRow)>, EtcdError> {
        let from = self.key("node/");
        let reply = self
            .etcd
            .range(from.clone(), self.key("node0"), 0, true)
            .await?;
        let nodes = reply.key_values.into_iter().filter_map(|stored| {
            let name = stored.key.get(from.len()..)?;
            let name = std::str::from_utf8(name).ok()?.to_owned();
            Some((name, decode(&stored.value)?))
        });
        Ok(nodes.collect())
    }
}

fn encode(row: &impl Serialize) -> Bytes {
    // The rows are numbers, flags and names, which always have a form as JSON.
    serde_json::to_vec(row).unwrap_or_default().into()
}

/// Decodes a value. `None` if it has another form.
fn decode<R: DeserializeOwned>(value: &[u8]) -> Option<R> {
    serde_json::from_slice(value).ok()
}

#[cfg(test)]
mod tests;
