//! Default data directory, and the user ids of a command in it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{CliError, session};
use crate::store::FILE_NAME;
use crate::store::owner::{AssumedOwner, ForeignOwner, become_owner, explain_refusal};
use crate::store::path_access::SERVICE_DIRECTORY;

/// Returns the given directory; else the one that systemd created (`StateDirectory=`,
/// systemd.exec(5): several are separated by colons); else the state directory of the XDG Base
/// Directory Specification, which ignores relative paths.
pub(super) fn resolve(
    flag: Option<PathBuf>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, &'static str> {
    if let Some(directory) = flag {
        return if directory.as_os_str().is_empty() {
            Err("--data is empty; give a directory")
        } else {
            Ok(directory)
        };
    }
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let of_systemd = variable("STATE_DIRECTORY")
        .and_then(|list| Some(PathBuf::from(list.to_str()?.split(':').next()?)));
    of_systemd
        .filter(|path| path.is_absolute())
        .or_else(|| Some(absolute("XDG_STATE_HOME")?.join("overdue")))
        .or_else(|| Some(absolute("HOME")?.join(".local/state/overdue")))
        .ok_or("there is no default data directory, because HOME is not set; give one with --data")
}

/// Returns the directory of a command that needs an existing database. If the default has none,
/// this is the directory of the service that a package installed, if `has_database` finds one
/// there.
pub(super) fn service_directory_or(
    default: PathBuf,
    has_database: impl Fn(&Path) -> bool,
) -> PathBuf {
    let service = Path::new(SERVICE_DIRECTORY);
    if !has_database(&default) && has_database(service) {
        service.into()
    } else {
        default
    }
}

/// True if a directory has a database, as far as this user can see.
pub(super) fn has_database(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join(FILE_NAME)).is_ok()
}

/// Acts as the owner of the data directory while the result lives, if root runs this and the
/// directory is another user's.
pub(super) fn assume_owner(directory: &Path) -> Result<AssumedOwner, CliError> {
    AssumedOwner::assume(directory).map_err(CliError::other)
}

/// Acts as the owner of the data directory from now on, if root runs this and the directory is
/// another user's. Programs from the database, such as commands of channels, then run without the
/// rights of root.
pub(super) fn switch_to_owner(directory: &Path) -> Result<(), CliError> {
    become_owner(directory).map_err(CliError::other)
}

/// Runs this program again as the owner of the data directory, if root runs it and the directory is
/// another user's. It does not return then.
pub(super) fn restart_as_owner(directory: &Path) -> Result<(), CliError> {
    let Some(owner) = ForeignOwner::of_directory(directory) else {
        return Ok(());
    };
    Err(CliError::other(explain_refusal(
        owner,
        directory,
        &session::restart_as(owner),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_directory_is_used() {
        type Case<'a> = (Option<&'a str>, &'a [(&'a str, &'a str)], Option<&'a str>);
        let cases: &[Case<'_>] = &[
            (
                Some("rel"),
                &[("STATE_DIRECTORY", "/s"), ("HOME", "/h")],
                Some("rel"),
            ),
            (Some(""), &[("HOME", "/h")], None),
            (
                None,
                &[
                    ("STATE_DIRECTORY", "/s"),
                    ("XDG_STATE_HOME", "/x"),
                    ("HOME", "/h"),
                ],
                Some("/s"),
            ),
            (None, &[("STATE_DIRECTORY", "/s/a:/s/b")], Some("/s/a")),
            (
                None,
                &[
                    ("STATE_DIRECTORY", ""),
                    ("XDG_STATE_HOME", "/x"),
                    ("HOME", "/h"),
                ],
                Some("/x/overdue"),
            ),
            (
                None,
                &[("XDG_STATE_HOME", "x"), ("HOME", "/h")],
                Some("/h/.local/state/overdue"),
            ),
            (None, &[("HOME", "/h")], Some("/h/.local/state/overdue")),
            (None, &[("HOME", "")], None),
            (None, &[], None),
        ];
        for (flag, variables, expected) in cases {
            let variable = |name: &str| {
                variables
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            };
            assert_eq!(
                resolve(flag.map(PathBuf::from), variable).ok(),
                expected.map(PathBuf::from),
                "{flag:?} {variables:?}"
            );
        }
    }

    #[test]
    fn the_database_of_the_service_is_used_where_the_default_has_none() {
        let default = PathBuf::from("/home/ann/.local/state/overdue");
        for (databases, expected) in [
            (&[][..], "/home/ann/.local/state/overdue"),
            (&["/var/lib/overdue"], "/var/lib/overdue"),
            (
                &["/var/lib/overdue", "/home/ann/.local/state/overdue"],
                "/home/ann/.local/state/overdue",
            ),
        ] {
            let has_database = |directory: &Path| {
                databases
                    .iter()
                    .any(|database| Path::new(database) == directory)
            };
            assert_eq!(
                service_directory_or(default.clone(), has_database),
                Path::new(expected),
                "{databases:?}"
            );
        }
    }
}
