//! Metrics of the process, with the standard names of Prometheus. They are
//! read from `/proc`. On systems without it only the start time is available.

use std::fs;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Registers the metrics of this process. `started`: start time in seconds since 1970.
pub(super) fn register_process_metrics(started: f64, registry: &mut Registry) {
    registry.register(
        "start_time_seconds",
        "Start time of the process",
        ConstGauge::new(started),
    );
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else {
        return;
    };
    // The name of the program may contain spaces. The numbers follow its closing parenthesis
    // (proc_pid_stat(5), from the third field on).
    let numbers: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0.0))
        .collect();
    let number = |place: usize| numbers.get(place - 3).copied().unwrap_or(0.0);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let page = rustix::param::page_size() as f64;
    let cpu = ConstCounter::new((number(14) + number(15)) / ticks);
    registry.register("cpu_seconds", "CPU time used by the process", cpu);
    registry.register(
        "threads",
        "Threads of the process",
        ConstGauge::new(number(20)),
    );
    registry.register(
        "virtual_memory_bytes",
        "Size of the address space",
        ConstGauge::new(number(23)),
    );
    registry.register(
        "resident_memory_bytes",
        "Size of the memory in use",
        ConstGauge::new(number(24) * page),
    );
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the directory itself.
        registry.register(
            "open_fds",
            "Open files and connections",
            ConstGauge::new(open.count().saturating_sub(1) as u64),
        );
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit {
        registry.register(
            "max_fds",
            "Maximum number of open files and connections",
            ConstGauge::new(limit),
        );
    }
}
