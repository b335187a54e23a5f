//! Copies of backups in a bucket of Amazon S3 or another server with its protocol.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, GetOptions, ObjectStore as _, ObjectStoreExt as _, RetryConfig};
use tokio::runtime::Runtime;

use super::BackupError;
use super::directory::BackupName;
use crate::domain::timestamp::Timestamp;
use crate::outbound::{ObjectConnector, Outbound};

/// Size of the parts of a file, in bytes. The protocol allows 10,000 parts, so a backup may have
/// 80 GB.
const PART_BYTES: usize = 8 << 20;
/// Maximum time of a copy: see [limits](crate::docs::limits).
const COPY_TIMEOUT: Duration = Duration::from_secs(6 * 3600);
/// Maximum length of the reason for a failure, in characters. Servers may answer with a page.
const MAX_REASON_CHARS: usize = 400;

/// Bucket for copies of backups, and the key of its user.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketConfig {
    /// Name of the bucket.
    pub bucket: Box<str>,
    /// Directory in the bucket, without slashes at its ends. May be empty.
    pub directory: Box<str>,
    /// URL of the server. `None`: Amazon S3 in the region.
    pub endpoint: Option<Box<str>>,
    /// Region, as in `eu-central-1`.
    pub region: Box<str>,
    /// ID of the access key.
    pub access_key_id: Box<str>,
    /// Secret of the access key.
    pub secret_access_key: Box<str>,
    /// Number of newest copies to keep, at least 1. `None`: nothing is deleted.
    pub keep_newest: Option<usize>,
}

impl fmt::Debug for BucketConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketConfig({self})")
    }
}

impl fmt::Display for BucketConfig {
    /// Writes the address of the directory, without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        match &*self.directory {
            "" => Ok(()),
            directory => write!(f, "/{directory}"),
        }
    }
}

/// Connection to a bucket. Its functions block.
pub struct BackupBucket {
    runtime: Runtime,
    store: AmazonS3,
    directory: ObjectPath,
}

/// A backup in a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredBackup {
    /// Name in the directory of the bucket.
    pub name: String,
    /// Start time of the backup.
    pub at: Timestamp,
    /// First part of the name, the same for all backups of a database.
    pub(super) prefix: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Version of the content.
    e_tag: Option<String>,
}

impl BackupBucket {
    /// Prepares requests. Nothing is sent yet.
    ///
    /// # Errors
    /// If the settings are invalid, or the system refuses.
    pub fn connect(config: &BucketConfig, outbound: Outbound) -> Result<Self, BackupError> {
        let retries = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 3,
            retry_timeout: Duration::from_secs(900),
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&*config.bucket)
            .with_region(&*config.region)
            .with_access_key_id(&*config.access_key_id)
            .with_secret_access_key(&*config.secret_access_key)
            .with_allow_http(true)
            // Not every server has the request for several deletions.
            .with_disable_bulk_delete(true)
            .with_retry(retries)
            .with_http_connector(ObjectConnector(outbound));
        if let Some(endpoint) = &config.endpoint {
            builder = builder.with_endpoint(&**endpoint);
        }
        Ok(Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            store: builder.build().map_err(|error| bucket_error(&error))?,
            directory: ObjectPath::parse(&*config.directory)
                .map_err(|error| bucket_error(&error))?,
        })
    }

    /// Copies a file to the bucket under its own name.
    ///
    /// # Errors
    /// If the file cannot be read, or the server does not accept all of it.
    pub fn upload(&self, file: &Path) -> Result<(), BackupError> {
        let name = file.file_name().and_then(|name| name.to_str());
        let target = self.directory.clone().join(name.unwrap_or_default());
        let mut file = File::open(file)?;
        let copy = async {
            let first = read_part(&mut file)?;
            if first.len() < PART_BYTES {
                let stored = self.store.put(&target, first.into()).await;
                return stored.map(drop).map_err(|error| bucket_error(&error));
            }
            self.upload_parts(&target, first, &mut file).await
        };
        self.runtime
            .block_on(async { tokio::time::timeout(COPY_TIMEOUT, copy).await })
            .unwrap_or_else(|_| Err(BackupError::Bucket("it took longer than six hours".into())))
    }

    async fn upload_parts(
        &self,
        target: &ObjectPath,
        first: Bytes,
        file: &mut File,
    ) -> Result<(), BackupError> {
        let mut upload = self
            .store
            .put_multipart(target)
            .await
            .map_err(|error| bucket_error(&error))?;
        let mut part = first;
        let sent = loop {
            if let Err(error) = upload.put_part(part.into()).await {
                break Err(bucket_error(&error));
            }
            part = match read_part(file) {
                Ok(part) if part.is_empty() => break Ok(()),
                Ok(part) => part,
                Err(error) => break Err(error.into()),
            };
        };
        let stored = match sent {
            Ok(()) => upload
                .complete()
                .await
                .map_err(|error| bucket_error(&error)),
            Err(error) => Err(error),
        };
        if stored.is_err()
            && let Err(error) = upload.abort().await
        {
            // The parts take space until the upload is abandoned. Without an answer, the rules of
            // the bucket have to remove them.
            tracing::warn!(
                "an incomplete copy of a backup may be left in the bucket: {}",
                bucket_error(&error)
            );
        }
        stored.map(drop)
    }

    /// Returns the backups in the directory of the bucket, of all databases, oldest first. Other
    /// objects are left out.
    ///
    /// # Errors
    /// If the server does not list them.
    pub fn list(&self) -> Result<Vec<StoredBackup>, BackupError> {
        let listed = self
            .runtime
            .block_on(self.store.list_with_delimiter(Some(&self.directory)))
            .map_err(|error| bucket_error(&error))?;
        let mut backups: Vec<_> = listed
            .objects
            .into_iter()
            .filter_map(|object| {
                let name = object.location.filename()?.to_owned();
                let BackupName { prefix, at, .. } = BackupName::parse(&name)?;
                Some(StoredBackup {
                    name,
                    at,
                    prefix,
                    bytes: object.size,
                    e_tag: object.e_tag,
                })
            })
            .collect();
        backups.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
        Ok(backups)
    }

    /// Returns the backup with this name, or the newest one.
    ///
    /// # Errors
    /// If there is none, or if no name is given and there are backups of several databases.
    pub fn find(&self, name: Option<&str>) -> Result<StoredBackup, BackupError> {
        let mut backups = self.list()?;
        let missing = |text: &str| BackupError::Bucket(text.into());
        if let Some(name) = name {
            return backups
                .into_iter()
                .find(|backup| backup.name == name)
                .ok_or_else(|| missing("it has no backup with this name"));
        }
        let newest = backups
            .pop()
            .ok_or_else(|| missing("it has no backups of overdue"))?;
        if backups.iter().any(|backup| backup.prefix != newest.prefix) {
            return Err(missing(
                "it has backups of several databases: give the name of one",
            ));
        }
        Ok(newest)
    }

    /// Deletes a backup.
    ///
    /// # Errors
    /// If the server refuses.
    pub(super) fn delete(&self, backup: &StoredBackup) -> Result<(), BackupError> {
        let target = self.directory.clone().join(backup.name.as_str());
        self.runtime
            .block_on(self.store.delete(&target))
            .map_err(|error| bucket_error(&error))
    }

    /// Returns a reader of a backup.
    pub fn open(self, backup: StoredBackup) -> impl Read {
        BucketReader {
            location: self.directory.clone().join(backup.name.as_str()),
            bucket: self,
            backup,
            position: 0,
            part: Bytes::new(),
        }
    }
}

/// Reader that fetches an object in parts.
struct BucketReader {
    bucket: BackupBucket,
    location: ObjectPath,
    backup: StoredBackup,
    /// Number of bytes that were fetched.
    position: u64,
    /// Fetched bytes that were not read yet.
    part: Bytes,
}

impl BucketReader {
    fn fetch_part(&mut self) -> Result<Bytes, BackupError> {
        let end = self.backup.bytes.min(self.position + PART_BYTES as u64);
        // Another content under the same name is an error.
        let options = GetOptions {
            range: Some((self.position..end).into()),
            if_match: self.backup.e_tag.clone(),
            ..GetOptions::default()
        };
        let part = self
            .bucket
            .runtime
            .block_on(async {
                let found = self.bucket.store.get_opts(&self.location, options).await?;
                found.bytes().await
            })
            .map_err(|error| bucket_error(&error))?;
        self.position += part.len() as u64;
        Ok(part)
    }
}

impl Read for BucketReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.part.is_empty() && self.position < self.backup.bytes {
            self.part = self
                .fetch_part()
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        let len = buffer.len().min(self.part.len());
        let part = self.part.split_to(len);
        if let Some(buffer) = buffer.get_mut(..len) {
            buffer.copy_from_slice(&part);
        }
        Ok(len)
    }
}

/// Reads the next part of a file; the last one is shorter.
fn read_part(file: &mut File) -> io::Result<Bytes> {
    let mut part = Vec::with_capacity(PART_BYTES);
    file.take(PART_BYTES as u64).read_to_end(&mut part)?;
    Ok(part.into())
}

/// Returns the first cause of an error of the library, whose own texts name its attempts and
/// pauses. From an answer with an error of the protocol, only the code and the message are taken.
fn bucket_error(error: &dyn std::error::Error) -> BackupError {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>"))
            .map(|(value, _)| value)
    };
    let reason = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("the server answered {code}: {message}"),
        _ => text.clone(),
    };
    let reason = reason.replace(char::is_control, " ");
    BackupError::Bucket(reason.chars().take(MAX_REASON_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_protocol_are_shown_by_code_and_message() {
        for (text, expected) in [
            (
                "403 Forbidden: <Error><Code>NoKey</Code><Message>It\ndoes not exist.</Message>",
                "the server answered NoKey: It does not exist.",
            ),
            ("cannot connect to [::1]:1", "cannot connect to [::1]:1"),
            ("<Code>no end", "<Code>no end"),
        ] {
            let error = io::Error::other(text);
            let library = object_store::Error::Generic {
                store: "S3",
                source: Box::new(error),
            };
            assert_eq!(bucket_error(&library).to_string(), expected);
        }
        let long = io::Error::other("x".repeat(5000));
        assert_eq!(bucket_error(&long).to_string().len(), MAX_REASON_CHARS);
    }

    #[test]
    fn the_key_is_not_shown() {
        let mut config = BucketConfig {
            bucket: "backups".into(),
            directory: "a/b".into(),
            endpoint: None,
            region: "eu-central-1".into(),
            access_key_id: "AKIA".into(),
            secret_access_key: "s3cret".into(),
            keep_newest: None,
        };
        assert_eq!(format!("{config:?}"), "BucketConfig(s3://backups/a/b)");
        config.directory = "".into();
        assert_eq!(config.to_string(), "s3://backups");
    }
}
