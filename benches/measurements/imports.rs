//! Cost of an import, and its effect on pings.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use uuid::Uuid;

use super::sampler::wait_for_command;
use super::setup::{BenchSetup, TimedLoad};
use super::{TableRow, megabytes, thousands};
use crate::driver::{Request, Result};
use crate::server_process::MeasuredServer;

/// Pings of each check in the source.
const PINGS_PER_CHECK: u64 = 100;
/// Length of the body of each ping in base64: 300 bytes.
const BODY_LEN: usize = 400;
/// Pings a second to other checks meanwhile.
const PINGS_PER_SECOND: u32 = 500;
/// Timestamp of everything in the source.
const IMPORT_TIME: &str = "2026-01-01T12:00:00.123Z";

/// Imports a `dumpdata` of 1,000 checks, and one of 10,000, into a server under load.
pub(super) fn imports(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let mut lines = Vec::new();
    for (checks, target) in [(1_000, "10 s"), (10_000, "60 s; 60 MB; p99 at most 10 ms")] {
        lines.extend(import(setup, setup.scaled(checks), target)?);
    }
    Ok(lines)
}

fn import(setup: &BenchSetup, checks: u64, target: &'static str) -> Result<Vec<TableRow>> {
    let server = setup.start_server()?;
    let path = server.directory.path().join("source.json");
    write_source(&path, checks)?;
    let request = Request::ping(&server.endpoint, &server.ping_key, 10, true);
    let load = TimedLoad {
        name: "pings during an import",
        endpoint: &server.endpoint,
        request,
        connections: 8,
        rate: Some(PINGS_PER_SECOND),
    };
    let without = setup.run_once(&load)?.latency;
    let has_ended = AtomicBool::new(false);
    let ((seconds, client_bytes), latency) = std::thread::scope(|scope| {
        let importing = scope.spawn(|| {
            let imported = run_import(&server, &path);
            has_ended.store(true, Ordering::Relaxed);
            imported
        });
        let mut latency = setup.run_once(&load)?.latency;
        while !has_ended.load(Ordering::Relaxed) {
            latency.add(setup.run_once(&load)?.latency)?;
        }
        Ok::<_, crate::driver::BenchError>((
            importing.join().map_err(|_| "the import panicked")??,
            latency,
        ))
    })?;
    let server_bytes = server.resident_bytes()?;
    let what = format!(
        "import of {} checks with {PINGS_PER_CHECK} pings each into a server that receives \
         {PINGS_PER_SECOND} pings a second",
        thousands(checks as f64)
    );
    let millis = |micros: u64| micros as f64 / 1e3;
    Ok(vec![
        TableRow::new(
            what,
            target,
            format!(
                "{seconds:.1} s; {} for the command, {} for the server",
                megabytes(client_bytes),
                megabytes(server_bytes)
            ),
        ),
        TableRow::new(
            "p99 of these pings, and the longest; without an import",
            "",
            format!(
                "{:.1} ms, {:.1} ms; {:.1} ms, {:.1} ms",
                millis(latency.value_at_quantile(0.99)),
                millis(latency.max()),
                millis(without.value_at_quantile(0.99)),
                millis(without.max())
            ),
        ),
    ])
}

/// Imports a file; returns the seconds that it took, and the peak memory of the command.
fn run_import(server: &MeasuredServer, path: &Path) -> Result<(f64, f64)> {
    let mut import = Command::new(&server.binary);
    import
        .args(["import", "healthchecks", "--trial"])
        .arg(path)
        .arg("--data")
        .arg(server.directory.path());
    wait_for_command(
        import
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?,
        "import",
    )
}

/// Writes the output of `manage.py dumpdata`, with the log in the order in which pings arrived.
fn write_source(path: &Path, checks: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut separator = '[';
    let mut row = |model: &str, pk: u64, fields: &Value| -> Result<()> {
        writeln!(
            out,
            "{separator}{}",
            json!({ "model": model, "pk": pk, "fields": fields })
        )?;
        separator = ',';
        Ok(())
    };
    let user = json!({
        "password": "!",
        "is_superuser": false,
        "username": "a",
        "email": "a@example.org",
        "is_active": true,
        "date_joined": IMPORT_TIME,
    });
    row("auth.user", 1, &user)?;
    row(
        "accounts.profile",
        1,
        &json!({ "ping_log_limit": PINGS_PER_CHECK, "user": 1 }),
    )?;
    let project = json!({
        "code": Uuid::from_u128(1),
        "name": "Moved",
        "owner": 1,
        "api_key": "",
        "api_key_readonly": "",
        "badge_key": "moved",
        "ping_key": null,
        "show_slugs": false,
    });
    row("accounts.project", 1, &project)?;
    for check in 1..=checks {
        let fields = json!({
            "name": format!("check {check}"),
            "slug": format!("check-{check}"),
            "tags": "prod",
            "code": Uuid::from_u128((2 << 64) + u128::from(check)),
            "desc": "",
            "project": 1,
            "created": IMPORT_TIME,
            "kind": "simple",
            "timeout": "365 00:00:00",
            "grace": "01:00:00",
            "schedule": "",
            "tz": "UTC",
            "filter_subject": false,
            "filter_body": false,
            "filter_http_body": false,
            "filter_default_fail": false,
            "start_kw": "",
            "success_kw": "",
            "failure_kw": "",
            "methods": "",
            "manual_resume": false,
            "badge_key": Uuid::from_u128((3 << 64) + u128::from(check)),
            "n_pings": PINGS_PER_CHECK,
            "last_ping": IMPORT_TIME,
            "last_start": null,
            "last_start_rid": null,
            "last_duration": null,
            "status": "up",
        });
        row("api.check", check, &fields)?;
    }
    let body = "eHh4".repeat(BODY_LEN / 4);
    for n in 1..=PINGS_PER_CHECK {
        for check in 1..=checks {
            let fields = json!({
                "n": n,
                "owner": check,
                "created": IMPORT_TIME,
                "kind": "",
                "scheme": "http",
                "remote_addr": "192.0.2.1",
                "method": "GET",
                "ua": "curl",
                "body_raw": body,
                "object_size": null,
                "exitstatus": null,
                "rid": null,
            });
            row("api.ping", n * checks + check, &fields)?;
        }
    }
    out.write_all(b"]\n")?;
    // Otherwise the system writes half a gigabyte to the disk while pings are measured that wait
    // for the same disk.
    Ok(out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?
        .sync_all()?)
}
