//! Flags that several subcommands share.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal as _, Read as _, Write};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;

use clap::Args;
use clap::builder::FalseyValueParser;
use ipnet::IpNet;

use super::CliError;

/// Returns a parser of a whole number in a range. An error names the range. The flag must allow
/// negative numbers, so that they reach the parser.
pub(super) fn number_parser<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text
            .parse()
            .ok()
            .filter(|number| range.contains(number))
            .and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| {
            format!(
                "give a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}

/// Reads a file of at most `max_bytes`. A longer file, or one that never ends, is refused before it
/// uses memory.
pub(super) fn read_limited(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {max_bytes} bytes"),
        ));
    }
    Ok(bytes)
}

/// Parses a network or a single address.
pub(super) fn parse_network(text: &str) -> Result<IpNet, &'static str> {
    let single = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| single())
        .map_err(|_| "give a network or an address, as in 10.0.0.0/8 or ::1")
}

/// Whole range of a `u32`.
pub(super) const ANY_U32: RangeInclusive<u64> = 0..=u32::MAX as u64;

/// The flag of every list.
#[derive(Args)]
pub(super) struct JsonFlag {
    /// Print JSON
    #[arg(long, env = "OVERDUE_JSON", value_parser = FalseyValueParser::new())]
    pub(super) json: bool,
}

/// The flag of commands that delete.
#[derive(Args)]
pub(super) struct YesFlag {
    /// Do not ask for confirmation. Without this flag, the command asks if it runs on a terminal
    #[arg(long, env = "OVERDUE_YES", value_parser = FalseyValueParser::new())]
    pub(super) yes: bool,
}

/// Asks for confirmation on the terminal before a deletion. Without a terminal it does not ask.
pub(super) fn confirm_deletion_on_terminal(what: &str) -> Result<(), CliError> {
    if io::stdin().is_terminal() {
        confirm_deletion(what, io::stdin().lock(), io::stderr())
    } else {
        Ok(())
    }
}

/// Asks for confirmation of a deletion. Returns an error unless the answer is yes.
pub(super) fn confirm_deletion(
    what: &str,
    mut answers: impl BufRead,
    mut questions: impl Write,
) -> Result<(), CliError> {
    let mut answer = String::new();
    write!(questions, "Delete {what}? [y/N] ")
        .and_then(|()| answers.read_line(&mut answer))
        .map_err(CliError::other)?;
    let yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    if yes {
        Ok(())
    } else {
        Err(CliError::other("nothing was deleted"))
    }
}

/// The project of a new object.
#[derive(Args)]
pub(super) struct TargetProject {
    /// Name or UUID of the project [default: the only project]
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME")]
    pub(super) project: Option<String>,
}

/// The project whose objects are selected.
#[derive(Args)]
pub(super) struct ProjectFilter {
    /// Name or UUID of the project [default: all projects]
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME")]
    pub(super) project: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn only_yes_confirms_a_deletion() {
        for (answer, is_yes) in [
            ("y\n", true),
            ("Yes\n", true),
            ("\n", false),
            ("", false),
            ("no\n", false),
            ("yesterday\n", false),
        ] {
            let mut prompt = Vec::new();
            let confirmed = confirm_deletion("the check \"a\"", answer.as_bytes(), &mut prompt);
            assert_eq!(
                (confirmed.is_ok(), prompt.as_slice()),
                (is_yes, &b"Delete the check \"a\"? [y/N] "[..]),
                "{answer:?}"
            );
        }
    }

    #[test]
    fn files_that_are_too_long_are_refused_before_they_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read_limited(&path, 3).unwrap(), b"abc");
        assert_eq!(
            read_limited(&path, 2).unwrap_err().to_string(),
            "it has more than 2 bytes"
        );
        // The reader does not wait for the end: the other end of this pipe stays open.
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"abcd").unwrap();
        let pipe = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(
            read_limited(Path::new(&pipe), 2).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(
            read_limited(&directory.path().join("none"), 2)
                .unwrap_err()
                .kind(),
            io::ErrorKind::NotFound
        );
    }
}
