//! The `overdue-run` command: `overdue run` and `overdue ping` without the server.

use std::process::ExitCode;

fn main() -> ExitCode {
    overdue::cli::run_client(std::env::args_os())
}
