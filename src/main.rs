//! The `overdue` command: words in, exit status out.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    overdue::cli::run(std::env::args_os())
}
