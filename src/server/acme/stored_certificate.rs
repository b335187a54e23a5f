//! Certificates that the server makes itself, and the file of the one that it was given.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::sign::CertifiedKey;
use x509_cert::der::DecodePem as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::domain::timestamp::Timestamp;
use crate::runtime::certificate::CertificateError;

/// Part of its validity after which a certificate is renewed, in thirds.
const RENEWAL_THIRDS: i64 = 2;

/// Generates a certificate that is signed by its own key: a temporary one, or the answer to
/// a challenge with this digest.
pub(super) fn generate_certificate(
    domains: &[String],
    digest: Option<&[u8]>,
) -> Result<CertifiedKey, CertificateError> {
    let error =
        |error: &dyn std::fmt::Display| CertificateError::new(format!("cannot make one: {error}"));
    let mut parameters = CertificateParams::new(domains).map_err(|failure| error(&failure))?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, "overdue, temporary");
    let extension = digest.map(CustomExtension::new_acme_identifier);
    parameters.custom_extensions = extension.into_iter().collect();
    let key = KeyPair::generate().map_err(|failure| error(&failure))?;
    let certificate = parameters
        .self_signed(&key)
        .map_err(|failure| error(&failure))?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let chain = vec![certificate.der().clone()];
    // `CertifiedKey::from_der` refuses the critical extension of an answer.
    let key = ring::default_provider()
        .key_provider
        .load_private_key(key)
        .map_err(|failure| error(&failure))?;
    Ok(CertifiedKey::new(chain, key))
}

/// Reason to get another certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReplacementReason {
    Missing,
    Unreadable,
    OtherDomains,
    Expired,
    ExpiresSoon,
}

impl ReplacementReason {
    /// The reason as a sentence without a full stop.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Missing => "there is none yet",
            Self::Unreadable => "the stored one cannot be read",
            Self::OtherDomains => "the stored one is for other domains",
            Self::Expired => "the stored one has expired",
            Self::ExpiresSoon => "the stored one expires soon",
        }
    }
}

/// Contents of a certificate that decide when it is replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CertificateFacts {
    pub(super) domains: Vec<String>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

impl CertificateFacts {
    /// Reads the first certificate of a file. `None` if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn read(file: &Path) -> Result<Option<Self>, String> {
        match fs::read_to_string(file) {
            Ok(text) => Self::parse(&text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Parses the first certificate of a text in PEM.
    fn parse(text: &str) -> Result<Self, String> {
        const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
        const END: &str = "-----END CERTIFICATE-----";
        let none = || "there is no CERTIFICATE section in it".to_owned();
        let begin = text.find(BEGIN).ok_or_else(none)?;
        let rest = text.get(begin..).unwrap_or_default();
        let end = rest.find(END).ok_or_else(none)? + END.len();
        let section = rest.get(..end).unwrap_or_default();
        let certificate =
            x509_cert::Certificate::from_pem(section).map_err(|error| error.to_string())?;
        let contents = certificate.tbs_certificate();
        let names = contents
            .get_extension::<SubjectAltName>()
            .map_err(|error| error.to_string())?;
        let names = names.into_iter().flat_map(|(_, names)| names.0);
        let domains = names.filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
            _ => None,
        });
        let time = |time: x509_cert::time::Time| {
            let secs = time.to_unix_duration().as_secs();
            Timestamp::from_secs(i64::try_from(secs).unwrap_or(i64::MAX / 1_000_000))
        };
        Ok(Self {
            domains: domains.collect(),
            not_before: time(contents.validity().not_before),
            not_after: time(contents.validity().not_after),
        })
    }

    /// Reason to replace the certificate, if there is one.
    pub(super) fn replacement_reason(
        &self,
        domains: &[String],
        now: Timestamp,
    ) -> Option<ReplacementReason> {
        let mut sorted = [self.domains.clone(), domains.to_vec()];
        sorted.iter_mut().for_each(|names| {
            names.sort();
            names.dedup();
        });
        let validity = self.not_after.micros_since(self.not_before).max(0);
        let renewal = self.not_before.plus_micros(validity / 3 * RENEWAL_THIRDS);
        if sorted[0] != sorted[1] {
            Some(ReplacementReason::OtherDomains)
        } else if now >= self.not_after {
            Some(ReplacementReason::Expired)
        } else if now >= renewal {
            Some(ReplacementReason::ExpiresSoon)
        } else {
            None
        }
    }
}

/// Writes a private file in a private directory, which is created if needed. It replaces the file
/// as a whole.
pub(super) fn write_private_file(path: &Path, contents: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let partial = path.with_extension("partial");
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(contents.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn facts(names: &[&str], from: i64, to: i64) -> CertificateFacts {
        CertificateFacts {
            domains: names.iter().map(|name| (*name).to_owned()).collect(),
            not_before: Timestamp::from_secs(from),
            not_after: Timestamp::from_secs(to),
        }
    }

    #[test]
    fn a_certificate_is_replaced_in_its_last_third_or_for_other_domains() {
        let stored = facts(&["a.test", "b.test"], 0, 90);
        for (domains, now, expected) in [
            (&["a.test", "b.test"][..], 0, None),
            (&["b.test", "a.test", "a.test"], 59, None),
            (
                &["a.test", "b.test"],
                60,
                Some(ReplacementReason::ExpiresSoon),
            ),
            (&["a.test", "b.test"], 90, Some(ReplacementReason::Expired)),
            (&["a.test"], 0, Some(ReplacementReason::OtherDomains)),
            (
                &["a.test", "c.test"],
                0,
                Some(ReplacementReason::OtherDomains),
            ),
        ] {
            let domains: Vec<_> = domains.iter().map(|name| (*name).to_owned()).collect();
            let now = Timestamp::from_secs(now);
            assert_eq!(
                stored.replacement_reason(&domains, now),
                expected,
                "{domains:?}"
            );
        }
    }

    #[test]
    fn a_certificate_is_read_from_a_file_that_begins_with_its_key() {
        let mut parameters =
            CertificateParams::new(["A.test".to_owned(), "b.test".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(2026, 4, 2);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("acme/certificate.pem");
        assert_eq!(CertificateFacts::read(&file), Ok(None));
        for contents in ["partial", &(key.serialize_pem() + &certificate.pem())] {
            write_private_file(&file, contents).unwrap();
        }
        assert_eq!(
            CertificateFacts::read(&file),
            Ok(Some(facts(
                &["a.test", "b.test"],
                1_767_312_000,
                1_775_088_000
            )))
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        for damaged in [
            "",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            write_private_file(&file, damaged).unwrap();
            assert!(CertificateFacts::read(&file).is_err(), "{damaged}");
        }
    }
}
