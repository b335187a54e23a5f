//! Encryption of backups with age (<https://age-encryption.org/v1>): a backup is encrypted for
//! public keys, and only the file with one of their secret keys opens it.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::str::FromStr;

use age::stream::{StreamReader, StreamWriter};
use age::x25519;
use age::{Decryptor, EncryptError, Encryptor, IdentityFile};

use super::BackupError;

/// First bytes of every encrypted file.
pub(super) const AGE_MAGIC: &[u8] = b"age-encryption.org/";

/// Public key that backups are encrypted for, as `age-keygen` prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct BackupRecipient(x25519::Recipient);

impl FromStr for BackupRecipient {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        x25519::Recipient::from_str(text)
            .map(Self)
            .map_err(|_| "give a public key of age, as age-keygen prints it: age1…")
    }
}

impl fmt::Debug for BackupRecipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Secret keys that open encrypted backups. The default has none.
#[derive(Default)]
pub struct BackupKeys(Vec<Box<dyn age::Identity + Send + Sync>>);

impl BackupKeys {
    /// Reads a file as `age-keygen` writes it.
    ///
    /// # Errors
    /// If the file cannot be read or has another line than keys and comments.
    pub fn read(file: impl BufRead) -> Result<Self, String> {
        let invalid = "give a file as age-keygen writes it, with a line AGE-SECRET-KEY-1…";
        let keys = IdentityFile::from_buffer(file)
            .map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => invalid.to_owned(),
                _ => error.to_string(),
            })?
            .into_identities()
            .map_err(|_| invalid.to_owned())?;
        match keys.is_empty() {
            true => Err(invalid.into()),
            false => Ok(Self(keys)),
        }
    }

    /// Starts to decrypt an input. Bytes that are not authentic are errors of reading.
    pub(super) fn decrypt<R: BufRead>(&self, input: R) -> Result<StreamReader<R>, BackupError> {
        if self.0.is_empty() {
            return Err(BackupError::Damaged(
                "it is encrypted: give the file with its secret key by --key-file".into(),
            ));
        }
        let keys = self.0.iter().map(|key| &**key as &dyn age::Identity);
        Decryptor::new_buffered(input)
            .and_then(|decryptor| decryptor.decrypt(keys))
            .map_err(|error| match error {
                age::DecryptError::NoMatchingKeys => BackupError::Damaged(
                    "it is encrypted for other keys than those of --key-file".into(),
                ),
                age::DecryptError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                    BackupError::Io(error)
                }
                _ => BackupError::Damaged("the header of its encryption is damaged".into()),
            })
    }
}

/// Output that is encrypted unless there are no recipients.
pub enum EncryptedOutput<W: Write> {
    /// Not encrypted.
    Plain(W),
    /// Encrypted.
    Encrypted(StreamWriter<W>),
}

impl<W: Write> EncryptedOutput<W> {
    /// Starts to encrypt for these recipients. Returns also the keys of the verification, which
    /// open this output and exist only in memory.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn begin(out: W, recipients: &[BackupRecipient]) -> io::Result<(Self, BackupKeys)> {
        if recipients.is_empty() {
            return Ok((Self::Plain(out), BackupKeys::default()));
        }
        let key = x25519::Identity::generate();
        let own = key.to_public();
        let all = recipients
            .iter()
            .map(|recipient| &recipient.0)
            .chain([&own])
            .map(|recipient| recipient as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(all).map_err(encryption_error)?;
        let writer = encryptor.wrap_output(out)?;
        Ok((Self::Encrypted(writer), BackupKeys(vec![Box::new(key)])))
    }

    /// Writes the end and returns the output.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(out) => Ok(out),
            Self::Encrypted(writer) => writer.finish(),
        }
    }
}

impl<W: Write> Write for EncryptedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Encrypted(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Encrypted(writer) => writer.flush(),
        }
    }
}

fn encryption_error(error: EncryptError) -> io::Error {
    match error {
        EncryptError::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const KEY: &str = "# created: 2026-11-28T11:16:25Z\n\
        # public key: age1wnn6mmm229hzp3dqff93jqksu4tg6n3muwwuuykmg93t5yktj55q6ugygz\n\
        AGE-SECRET-KEY-1J7T9VQGHJKY87PH4NZ7W8C467J80GZUVCTFX9VSV32ERQQ0HJMASJZ4T2K\n";
    const RECIPIENT: &str = "age1wnn6mmm229hzp3dqff93jqksu4tg6n3muwwuuykmg93t5yktj55q6ugygz";

    fn encrypted(content: &[u8]) -> Vec<u8> {
        let recipients = [RECIPIENT.parse().unwrap()];
        let (mut out, _) = EncryptedOutput::begin(Vec::new(), &recipients).unwrap();
        out.write_all(content).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn a_file_is_opened_by_the_key_of_a_recipient_only() {
        let bytes = encrypted(b"rows");
        assert!(bytes.starts_with(AGE_MAGIC));
        assert!(!bytes.windows(4).any(|window| window == b"rows"));
        let keys = BackupKeys::read(KEY.as_bytes()).unwrap();
        let mut text = String::new();
        keys.decrypt(&bytes[..])
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "rows");
        let other = BackupKeys(vec![Box::new(x25519::Identity::generate())]);
        for (keys, reason) in [
            (&other, "encrypted for other keys"),
            (&BackupKeys::default(), "--key-file"),
        ] {
            let error = keys.decrypt(&bytes[..]).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn changed_and_truncated_files_are_refused() {
        let whole = encrypted(b"rows");
        let keys = BackupKeys::read(KEY.as_bytes()).unwrap();
        let read = |bytes: &[u8]| -> Result<Vec<u8>, BackupError> {
            let mut content = Vec::new();
            keys.decrypt(bytes)?.read_to_end(&mut content)?;
            Ok(content)
        };
        assert_eq!(read(&whole).unwrap(), b"rows");
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "cut at {len}");
            let mut changed = whole.clone();
            changed[len] ^= 1;
            assert!(read(&changed).is_err(), "changed at {len}");
        }
    }

    #[test]
    fn keys_are_parsed_or_refused() {
        for text in ["", "age1", "AGE-SECRET-KEY-1", "ssh-ed25519 AAAA"] {
            assert!(text.parse::<BackupRecipient>().is_err(), "{text}");
        }
        for text in ["", "# only a comment\n", "AGE-SECRET-KEY-1XX\n", RECIPIENT] {
            let error = BackupKeys::read(text.as_bytes()).err().unwrap();
            assert!(error.contains("age-keygen"), "{text}: {error}");
        }
    }
}
