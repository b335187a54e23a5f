//! Results of channel tests, as text and as JSON.

use std::io::{self, Write as _};

use crate::admin::channels::{MemberTestRow, TestReply, TestRow};
use crate::cli::{CliError, table};

/// Returns the result of a test in words.
fn test_words(row: &TestRow) -> String {
    match (row.delivered, &row.error) {
        (false, error) => format!("not delivered: {}", error.as_deref().unwrap_or_default()),
        // Some of its recipients were missed.
        (true, Some(error)) => error.clone(),
        (true, None) => {
            let status = row
                .status
                .map(|status| format!(" ({status})"))
                .unwrap_or_default();
            format!("delivered in {} ms{status}", row.millis)
        }
    }
}

/// Returns the results of the tests of a group: a line for each of its channels.
fn member_test_lines(rows: &[MemberTestRow]) -> Vec<String> {
    rows.iter()
        .map(|row| table::sanitize(&format!("{}: {}", row.name, test_words(&row.test))))
        .collect()
}

/// Returns the result of a test that was delivered, in words; otherwise an error.
fn delivered_words(row: &TestRow) -> Result<String, CliError> {
    if row.delivered {
        Ok(test_words(row))
    } else {
        Err(CliError::other(test_words(row)))
    }
}

/// Returns an error if no channel accepted its test.
fn require_delivery(reply: &TestReply) -> Result<(), CliError> {
    match reply {
        TestReply::Channel(row) => delivered_words(row).map(drop),
        TestReply::Group(rows) if rows.iter().any(|row| row.test.delivered) => Ok(()),
        TestReply::Group(_) => Err(CliError::other(
            "not delivered: no channel of the group accepted it",
        )),
    }
}

/// Writes the result of a test to standard error.
pub(super) fn report_test_result(reply: &TestReply) -> Result<(), CliError> {
    let lines = match reply {
        TestReply::Channel(row) => vec![delivered_words(row)?],
        TestReply::Group(rows) => member_test_lines(rows),
    };
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
    require_delivery(reply)
}

/// Prints the result of a test.
pub(super) fn print_test_result(reply: &TestReply, json: bool) -> Result<(), CliError> {
    let lines = match reply {
        _ if json => vec![table::to_json(reply).map_err(CliError::other)?],
        TestReply::Channel(row) => vec![table::sanitize(&delivered_words(row)?)],
        TestReply::Group(rows) => member_test_lines(rows),
    };
    table::print_lines(&lines).map_err(CliError::output_failed)?;
    require_delivery(reply)
}
