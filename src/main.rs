//! The `overdue` command: words in, exit status out.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// See `.cargo/config.toml` for its settings.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    overdue::cli::run(std::env::args_os())
}
