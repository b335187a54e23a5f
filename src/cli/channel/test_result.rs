//! Results of channel tests, as text and as JSON.

use crate::admin::channel::{MemberTestRow, TestRow};
use crate::cli::{CliError, table};

/// Returns the result of a test that was delivered, in words; otherwise an error.
pub(super) fn test_message(row: &TestRow) -> Result<String, CliError> {
    let text = test_words(row);
    if row.delivered {
        Ok(text)
    } else {
        Err(CliError::other(text))
    }
}

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
pub(super) fn member_test_lines(rows: &[MemberTestRow]) -> Vec<String> {
    rows.iter()
        .map(|row| table::sanitize(&format!("{}: {}", row.name, test_words(&row.test))))
        .collect()
}

/// Returns an error if no channel of a group accepted its test.
pub(super) fn require_delivery(rows: &[MemberTestRow]) -> Result<(), CliError> {
    if rows.iter().any(|row| row.test.delivered) {
        Ok(())
    } else {
        Err(CliError::other(
            "not delivered: no channel of the group accepted it",
        ))
    }
}

/// Prints the results of the tests of a group.
pub(in crate::cli) fn print_group_test_results(
    rows: &[MemberTestRow],
    json: bool,
) -> Result<(), CliError> {
    let lines = if json {
        vec![table::to_json(rows).map_err(CliError::other)?]
    } else {
        member_test_lines(rows)
    };
    table::print_lines(&lines).map_err(CliError::output_failed)?;
    require_delivery(rows)
}

/// Prints the result of a test.
pub(in crate::cli) fn print_test_result(row: &TestRow, json: bool) -> Result<(), CliError> {
    let text = test_message(row);
    if json || text.is_ok() {
        table::print_created(text.as_deref().unwrap_or_default(), row, json)
            .map_err(CliError::output_failed)?;
    }
    text.map(drop)
}
