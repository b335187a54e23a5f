//! Cost of a regression here: every job that pings waits for the response before it ends, and a
//! large installation may need a second server.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a benchmark measures time, and stops when it cannot"
)]

#[allow(dead_code, reason = "shared with the table, which uses the rest")]
mod driver;
#[allow(dead_code, reason = "shared with the list, which needs an API key")]
mod server_fixture;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use driver::Request;
use server_fixture::ServerFixture;

const CHECKS: u64 = 10_000;

/// Measures the time from the request to the response after fsync, over HTTP: alone, and while
/// others share the commit.
fn pings(criterion: &mut Criterion) {
    let fixture = ServerFixture::open(CHECKS).expect("a server that answers");
    let request = Request::ping(&fixture.endpoint, &fixture.ping_key, CHECKS, false);
    let mut group = criterion.benchmark_group("durable ping, 10,000 checks");
    group.sample_size(10).throughput(Throughput::Elements(1));
    for connections in [1, 64, 256] {
        group.bench_function(format!("{connections} connections"), |bencher| {
            bencher.iter_custom(|count| {
                fixture
                    .time(&request, connections, count)
                    .expect("a server that answers")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pings);
criterion_main!(benches);
