//! The `overdue` command: words in, exit status out.

use std::process::ExitCode;

fn main() -> ExitCode {
    overdue::cli::run(std::env::args_os())
}
