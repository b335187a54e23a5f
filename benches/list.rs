//! Cost of a regression here: all users of the dashboard and clients of the API wait longer, and so
//! do the jobs whose pings wait while a list keeps the processor busy.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a benchmark measures time, and stops when it cannot"
)]

#[allow(dead_code, reason = "shared with the table, which uses the rest")]
mod driver;
mod server_fixture;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use driver::Request;
use server_fixture::ServerFixture;

const PATH: &str = "/api/v3/checks/";

/// Measures the whole list, and the response that it has not changed.
fn lists(criterion: &mut Criterion) {
    let fixture = ServerFixture::open(1000).expect("a server that answers");
    let key = ("X-Api-Key", fixture.api_key.as_str());
    let listed = fixture
        .endpoint
        .call("GET", PATH, &[key], "")
        .expect("a server that answers");
    let tag = listed.header("etag").expect("a list has an ETag");
    let mut group = criterion.benchmark_group("list of 1,000 checks");
    group.sample_size(10).throughput(Throughput::Elements(1));
    for (name, headers) in [
        ("whole", vec![key]),
        ("unchanged", vec![key, ("If-None-Match", tag)]),
    ] {
        let request = Request::new(&fixture.endpoint, "GET", PATH, &headers, "", 1);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                fixture
                    .time(&request, 16, count)
                    .expect("a server that answers")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, lists);
criterion_main!(benches);
