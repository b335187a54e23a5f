//! File of `serve --backup-bucket`: a bucket for copies of backups.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::BucketConfig;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct BucketFile {
    bucket: String,
    #[serde(default)]
    directory: String,
    endpoint: Option<String>,
    region: String,
    access_key_id: String,
    secret_access_key_file: PathBuf,
    keep: Option<NonZero<u32>>,
}

/// Parses the text of a file. `read_secret` returns the content of a file with a secret.
///
/// # Errors
/// A sentence that says what is wrong and where.
pub fn parse_bucket(
    text: &str,
    read_secret: impl Fn(&Path) -> Result<String, String>,
) -> Result<BucketConfig, String> {
    let file: BucketFile = toml::from_str(text).map_err(|error| error.to_string())?;
    for (name, value) in [
        ("bucket", &file.bucket),
        ("region", &file.region),
        ("access-key-id", &file.access_key_id),
    ] {
        if value.is_empty() {
            return Err(format!("{name} is empty"));
        }
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !file.bucket.chars().all(is_plain) {
        return Err("bucket is a name, without a scheme and slashes".into());
    }
    let directory = file.directory.trim_matches('/');
    let is_segment =
        |part: &str| !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain);
    if !directory.is_empty() && !directory.split('/').all(is_segment) {
        return Err("directory may have letters, digits, '.', '-', '_' and single slashes".into());
    }
    let endpoint = file.endpoint.as_deref().map(parse_endpoint).transpose()?;
    Ok(BucketConfig {
        bucket: file.bucket.into(),
        directory: directory.into(),
        endpoint,
        region: file.region.into(),
        access_key_id: file.access_key_id.into(),
        secret_access_key: read_secret(&file.secret_access_key_file)?.into(),
        keep_newest: file.keep.map(|keep| keep.get() as usize),
    })
}

fn parse_endpoint(text: &str) -> Result<Box<str>, String> {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .map(|host| host.trim_end_matches('/'));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']) => {
            Ok(text.trim_end_matches('/').into())
        }
        _ => Err("endpoint must be a URL without a path, such as https://s3.example.org".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "bucket = \"backups\"\nregion = \"eu-central-1\"\n\
                         access-key-id = \"AKIA\"\nsecret-access-key-file = \"/secret\"\n";

    fn parse(text: &str) -> Result<BucketConfig, String> {
        parse_bucket(text, |path| match path.to_str() {
            Some("/secret") => Ok("s3cret".into()),
            _ => Err("cannot read it".into()),
        })
    }

    #[test]
    fn a_bucket_needs_a_name_a_region_and_a_key() {
        let config = parse(VALID).unwrap();
        assert_eq!(config.to_string(), "s3://backups");
        assert_eq!((config.endpoint, config.keep_newest), (None, None));
        assert_eq!(&*config.secret_access_key, "s3cret");
        let full = format!(
            "{VALID}directory = \"/overdue/web/\"\nendpoint = \"http://127.0.0.1:9000/\"\n\
             keep = 30\n"
        );
        let config = parse(&full).unwrap();
        assert_eq!(config.to_string(), "s3://backups/overdue/web");
        assert_eq!(config.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(config.keep_newest, Some(30));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, expected) in [
            (String::new(), "missing field `bucket`"),
            (format!("{VALID}keep = 0\n"), "line 5"),
            (format!("{VALID}acl = \"public\"\n"), "unknown field `acl`"),
            (VALID.replace("\"backups\"", "\"\""), "bucket is empty"),
            (VALID.replace("\"backups\"", "\"s3://b/x\""), "is a name"),
            (VALID.replace("/secret", "/none"), "cannot read it"),
            (format!("{VALID}directory = \"a/../b\"\n"), "directory may"),
            (format!("{VALID}directory = \"a//b\"\n"), "directory may"),
            (format!("{VALID}endpoint = \"s3.org\"\n"), "endpoint must"),
            (
                format!("{VALID}endpoint = \"https://s3.org/x\"\n"),
                "endpoint must",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
