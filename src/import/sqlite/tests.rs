use proptest::prelude::*;

use super::super::tests::{RowCollector, row};
use super::*;

fn read_all(path: &Path) -> Result<Vec<SourceRow>, String> {
    let mut everything = RowCollector::default();
    SqliteDatabase::open(path)?
        .read_tables(&mut everything)
        .map(|()| everything.rows)
}

fn made(path: &Path, sql: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
    connection
}

const PINGS: &str = "CREATE TABLE api_ping (id integer PRIMARY KEY, ua text, body_raw blob);";

fn put(connection: &Connection, rows: &[(Option<String>, Option<Vec<u8>>)]) {
    for (ua, body) in rows {
        connection
            .execute(
                "INSERT INTO api_ping (ua, body_raw) VALUES (?1, ?2)",
                rusqlite::params![ua, body],
            )
            .unwrap();
    }
}

fn wanted(rows: &[(Option<String>, Option<Vec<u8>>)]) -> Vec<SourceRow> {
    let values = |(id, (ua, body)): (i64, &(Option<String>, Option<Vec<u8>>))| {
        vec![
            SourceValue::Integer(id),
            ua.clone().map_or(SourceValue::Null, SourceValue::Text),
            body.clone().map_or(SourceValue::Null, SourceValue::Bytes),
        ]
    };
    (1..)
        .zip(rows)
        .map(|row_at| row(SourceTable::Ping, &["id", "ua", "body_raw"], values(row_at)))
        .collect()
}

#[test]
fn rows_are_read_by_the_names_of_their_columns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hc");
    made(
        &path,
        "CREATE TABLE \"api_check\" (\"id\" integer PRIMARY KEY, \"desc\" text, n real); \
         INSERT INTO api_check VALUES (1, 'ž', 1.5); CREATE TABLE other (a)",
    );
    assert_eq!(
        read_all(&path).unwrap(),
        [row(
            SourceTable::Check,
            &["id", "desc", "n"],
            vec![
                SourceValue::Integer(1),
                SourceValue::Text("ž".into()),
                SourceValue::Other
            ]
        )]
    );
    let before = std::fs::read(&path).unwrap();
    assert_eq!(SqliteDatabase::open(&path).unwrap().max_log_rows(), 0);
    assert!(
        std::fs::read(&path).unwrap() == before,
        "reading writes nothing"
    );
}

#[test]
fn committed_wal_entries_are_read_and_uncommitted_ones_are_not() {
    let directory = tempfile::tempdir().unwrap();
    for (mode, rows) in [("wal", 1), ("delete", 0)] {
        let path = directory.path().join(mode);
        let connection = made(
            &path,
            &format!(
                "PRAGMA journal_mode = {mode}; {PINGS} PRAGMA cache_size = 1; PRAGMA cache_spill \
                 = 1"
            ),
        );
        if mode == "delete" {
            connection
                .execute_batch("BEGIN; INSERT INTO api_ping (body_raw) VALUES (zeroblob(1000000))")
                .unwrap();
        } else {
            connection
                .execute_batch("INSERT INTO api_ping (ua) VALUES ('x')")
                .unwrap();
        }
        // The files as a server that is killed here leaves them.
        let copy = directory.path().join(format!("{mode}-copy"));
        for end in ["", "-wal", "-journal"] {
            let from = format!("{}{end}", path.display());
            if Path::new(&from).exists() {
                std::fs::copy(from, format!("{}{end}", copy.display())).unwrap();
            }
        }
        assert_eq!(read_all(&copy).unwrap().len(), rows, "{mode}");
    }
}

#[test]
fn views_and_virtual_tables_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    for (number, sql) in [
        "CREATE VIEW api_ping AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) \
         SELECT i FROM n",
        "CREATE TABLE x (a); CREATE INDEX api_ping ON x (a)",
    ]
    .into_iter()
    .enumerate()
    {
        let path = directory.path().join(number.to_string());
        made(&path, sql);
        assert_eq!(
            read_all(&path),
            Err("api_ping is not an ordinary table".into())
        );
    }
    let path = directory.path().join("text");
    std::fs::write(&path, "SQLite format 3\0 and no more").unwrap();
    assert!(read_all(&path).is_err());
}

#[test]
fn a_damaged_column_name_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hc");
    made(
        &path,
        "CREATE TABLE api_ping (id integer PRIMARY KEY, colour text)",
    );
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|part| part == b"colour").unwrap();
    bytes[at + 1] = 0xff;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(
        read_all(&path),
        Err("api_ping: it is damaged: a column name is not UTF-8".into())
    );
}

/// Rows with texts and bodies, some of them longer than a page.
fn rows() -> impl Strategy<Value = Vec<(Option<String>, Option<Vec<u8>>)>> {
    let text = prop::option::of(any::<String>().prop_map(|text| text.replace('\0', "")));
    prop::collection::vec(
        (
            text,
            prop::option::of(prop::collection::vec(any::<u8>(), 0..3000)),
        ),
        0..12,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_rows_come_back(rows in rows(), size in 9_u32..17) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hc");
        let connection = made(&path, &format!("PRAGMA page_size = {}; {PINGS}", 1 << size));
        put(&connection, &rows);
        drop(connection);
        prop_assert_eq!(read_all(&path), Ok(wanted(&rows)));
    }

    #[test]
    fn damage_is_an_error_or_other_rows(
        rows in rows(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hc");
        put(&made(&path, &format!("PRAGMA page_size = 512; {PINGS}")), &rows);
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        bytes.truncate(if cut { damage[0].0.index(bytes.len()) } else { bytes.len() });
        std::fs::write(&path, bytes).unwrap();
        // Any result is fine as long as reading ends and returns at most as many rows as fit.
        let _ = read_all(&path);
    }
}
