use super::super::tests::RowCollector;
use super::*;

#[test]
fn a_source_is_recognised_by_its_first_bytes() {
    for (head, form) in [
        (&b"SQLite format 3\0\x10\0"[..], SourceFormat::Sqlite),
        (b"[{\"model\"", SourceFormat::Dumpdata),
        (b"\n [", SourceFormat::Dumpdata),
        (b"--\n-- PostgreSQL database dump\n", SourceFormat::PgDump),
        (b"COPY api_check (id) FROM stdin;", SourceFormat::PgDump),
        (b"\\restrict abc\n--\n", SourceFormat::PgDump),
        (b"SET statement_timeout = 0;", SourceFormat::PgDump),
    ] {
        assert_eq!(SourceFormat::from_signature(head), Ok(form));
    }
    for (head, part) in [
        (
            &b"PGDMP\x01"[..],
            "pg_restore -f - FILE | overdue import healthchecks -",
        ),
        (b"\x1f\x8b\x08", "gunzip -c FILE"),
        (b"\x28\xb5\x2f\xfd", "zstd -dc FILE"),
        (b"", "it is empty"),
        (b"<?xml", "it is neither"),
        (b"{\"model\"", "it is neither"),
    ] {
        assert!(
            SourceFormat::from_signature(head)
                .unwrap_err()
                .contains(part),
            "{part}"
        );
    }
}

#[test]
fn input_that_cannot_be_reread_is_spooled_and_the_copy_is_removed() {
    let text = b"COPY api_check (id) FROM stdin;\n1\n\\.\n";
    let data = SourceData::from_stream(&text[..], &Random::System).unwrap();
    let mut source = ImportSource {
        name: "standard input".into(),
        data,
    };
    for _ in 0..2 {
        let mut everything = RowCollector::default();
        source.read_tables(&mut everything).unwrap();
        assert_eq!(everything.rows.len(), 1);
    }
    assert_eq!(
        (source.format(), source.total_progress()),
        (SourceFormat::PgDump, text.len() as u64)
    );
    let private = PrivateDirectory::create(&Random::System).unwrap();
    let path = private.0.clone();
    std::fs::write(path.join("copy"), "x").unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions())
            & 0o777,
        0o700
    );
    drop(private);
    assert!(!path.exists());
}

#[test]
fn errors_name_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hc");
    let problem = || {
        ImportSource::open(&path, &Random::System)
            .map(|_| ())
            .unwrap_err()
    };
    assert!(problem().starts_with(&format!("{}: No such file", path.display())));
    std::fs::write(&path, "nothing").unwrap();
    assert!(problem().starts_with(&format!("{}: it is neither", path.display())));
    std::fs::write(&path, "SQLite format 3\0").unwrap();
    assert!(problem().starts_with(&path.display().to_string()));
}

#[test]
#[cfg(feature = "sqlite")]
fn a_database_is_read_from_a_writable_copy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hc");
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/healthchecks/hc.sqlite"),
        &path,
    )
    .unwrap();
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o400);
    std::fs::set_permissions(&path, permissions).unwrap();
    let mut source = ImportSource::open(&path, &Random::System).unwrap();
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        let mut everything = RowCollector::default();
        source.read_tables(&mut everything).unwrap();
        assert!(everything.rows.len() > 150);
    }
    assert_eq!(
        (
            source.format(),
            std::fs::read_dir(directory.path()).unwrap().count()
        ),
        (SourceFormat::Sqlite, 0),
        "nothing was written beside it"
    );
}

/// Healthchecks uses this mode by default: a journal that is deleted after each change.
#[test]
#[cfg(feature = "sqlite")]
fn a_database_is_read_while_a_server_writes_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hc");
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/healthchecks/hc.sqlite"),
        &path,
    )
    .unwrap();
    // Large enough that a change falls into each copy.
    let server = rusqlite::Connection::open(&path).unwrap();
    server
        .busy_timeout(std::time::Duration::from_secs(60))
        .unwrap();
    server
        .execute_batch("CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(60000000))")
        .unwrap();
    let stop = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                server
                    .execute_batch(
                        "INSERT INTO filler VALUES (randomblob(20000)); DELETE FROM filler WHERE \
                         length(x) = 20000",
                    )
                    .unwrap();
            }
        });
        for _ in 0..3 {
            let opened = ImportSource::open(&path, &Random::System).map(|mut source| {
                let mut everything = RowCollector::default();
                source.read_tables(&mut everything).unwrap();
                everything.rows.len()
            });
            let is_read = opened.as_ref().is_ok_and(|rows| *rows > 150);
            if !is_read {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            assert!(is_read, "{opened:?}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
