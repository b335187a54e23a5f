//! Where the data lies when nobody says.

use std::ffi::OsString;
use std::path::PathBuf;

/// The directory given; else the one that systemd made (`StateDirectory=`, systemd.exec(5): several are separated by colons); else the
/// place for state of the XDG Base Directory Specification, which ignores relative paths.
pub(super) fn directory(given: Option<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, &'static str> {
    if let Some(given) = given {
        return if given.as_os_str().is_empty() { Err("--data is empty; give a directory") } else { Ok(given) };
    }
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_systemd = variable("STATE_DIRECTORY").and_then(|list| Some(PathBuf::from(list.to_str()?.split(':').next()?)));
    of_systemd
        .filter(|path| path.is_absolute())
        .or_else(|| Some(absolute("XDG_STATE_HOME")?.join("overdue")))
        .or_else(|| Some(absolute("HOME")?.join(".local/state/overdue")))
        .ok_or("no place for the data is known, since HOME is not set; give one with --data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_particular_place_wins() {
        type Case<'a> = (Option<&'a str>, &'a [(&'a str, &'a str)], Option<&'a str>);
        let cases: &[Case<'_>] = &[
            (Some("rel"), &[("STATE_DIRECTORY", "/s"), ("HOME", "/h")], Some("rel")),
            (Some(""), &[("HOME", "/h")], None),
            (None, &[("STATE_DIRECTORY", "/s"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")], Some("/s")),
            (None, &[("STATE_DIRECTORY", "/s/a:/s/b")], Some("/s/a")),
            (None, &[("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")], Some("/x/overdue")),
            (None, &[("XDG_STATE_HOME", "x"), ("HOME", "/h")], Some("/h/.local/state/overdue")),
            (None, &[("HOME", "/h")], Some("/h/.local/state/overdue")),
            (None, &[("HOME", "")], None),
            (None, &[], None),
        ];
        for (given, variables, wanted) in cases {
            let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            assert_eq!(directory(given.map(PathBuf::from), variable).ok(), wanted.map(PathBuf::from), "{given:?} {variables:?}");
        }
    }
}
