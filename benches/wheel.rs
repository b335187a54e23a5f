//! Cost of a regression here: every ping waits while the writer arms a deadline and, in an
//! installation with many checks, alerts about overdue checks are late.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use overdue::util::wheel::TimingWheel;

const ENTRIES: u64 = 1_000_000;
/// Ticks of 64 ms.
const HOUR: u64 = 3600 * 1000 / 64;
const SECOND: usize = 1000 / 64;
/// Budget of the engine for one call of `advance`.
const BUDGET: usize = 10_000;

/// Returns a million deadlines, spread over a day by a multiplicative hash.
fn deadlines() -> impl Iterator<Item = (u64, u64)> {
    (0..ENTRIES).map(|id| (1 + id.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (24 * HOUR), id))
}

fn filled_wheel(deadlines: impl Iterator<Item = (u64, u64)>) -> TimingWheel {
    let mut wheel = TimingWheel::new(0);
    deadlines.for_each(|(tick, id)| wheel.insert(tick, id));
    wheel
}

/// Calls `advance` until nothing more is due at `now`; returns the longest time of a call.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn longest_advance(wheel: &mut TimingWheel, now: u64, due: &mut Vec<u64>) -> Duration {
    let mut longest = Duration::ZERO;
    loop {
        due.clear();
        let start = Instant::now();
        let more = wheel.advance(now, BUDGET, due);
        longest = longest.max(start.elapsed());
        if !more {
            return longest;
        }
    }
}

fn throughput(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wheel, per deadline of a million within a day");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(ENTRIES));
    group.bench_function("insert", |bencher| {
        bencher.iter_with_large_drop(|| filled_wheel(deadlines()));
    });
    group.bench_function("advance by seconds", |bencher| {
        let mut due = Vec::new();
        bencher.iter_batched_ref(
            || filled_wheel(deadlines()),
            |wheel| {
                for now in (0..=24 * HOUR).step_by(SECOND) {
                    while wheel.advance(now, BUDGET, &mut due) {}
                    black_box(&due);
                    due.clear();
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn longest_pauses(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wheel, longest call of advance");
    group.sample_size(10);
    group.bench_function("a million within a day, by seconds", |bencher| {
        let mut due = Vec::new();
        bencher.iter_custom(|rounds| {
            let mut round = || {
                let mut wheel = filled_wheel(deadlines());
                (0..=24 * HOUR)
                    .step_by(SECOND)
                    .map(|now| longest_advance(&mut wheel, now, &mut due))
                    .max()
                    .unwrap_or_default()
            };
            (0..rounds).map(|_| round()).sum()
        });
    });
    group.bench_function("a million at one tick an hour ahead", |bencher| {
        let mut due = Vec::new();
        bencher.iter_custom(|rounds| {
            (0..rounds)
                .map(|_| {
                    longest_advance(
                        &mut filled_wheel((0..ENTRIES).map(|id| (HOUR, id))),
                        HOUR,
                        &mut due,
                    )
                })
                .sum()
        });
    });
    group.finish();
}

criterion_group!(benches, throughput, longest_pauses);
criterion_main!(benches);
