//! Cost of a visit: bytes and requests of the files that a page names.

use serde_json::json;

use super::{browse, project_uuid};
use crate::support::server::{TestResponse, TestServer};

async fn zipped(server: &TestServer, path: &str) -> TestResponse {
    let answer = browse(server, "GET", path, &[("Accept-Encoding", "gzip")]).await;
    assert_eq!(answer.status, 200, "{path}");
    answer
}

/// URLs of the files that a page loads.
fn files(page: &str) -> Vec<&str> {
    let urls = page
        .split(['"'])
        .filter(|part| part.starts_with("/static/") && !part.ends_with(".webmanifest"));
    let mut urls: Vec<_> = urls.collect();
    urls.sort_unstable();
    urls.dedup();
    urls
}

#[tokio::test]
async fn a_first_visit_is_small_and_a_second_smaller() {
    let server = TestServer::start().await;
    for number in 0..50 {
        let check = server
            .create_check(json!({
                "name": format!("Nightly backup {number}"), "tags": "nas prod", "timeout": 3600,
            }))
            .await;
        let url = check["ping_url"]
            .as_str()
            .unwrap()
            .replace(&server.base, "");
        for end in ["", "/fail", "/start", ""] {
            server.get(&format!("{url}{end}")).await;
        }
    }
    let path = format!("/projects/{}/checks/", project_uuid(&server));
    let page = browse(&server, "GET", &path, &[]).await;
    let second = zipped(&server, &path).await.body.len();
    let mut styles = 0;
    let mut scripts = 0;
    let mut others = 0;
    let files = files(page.text());
    for url in &files {
        let bytes = zipped(&server, url).await.body.len();
        match url.rsplit('.').next() {
            Some("css") => styles += bytes,
            Some("js") => scripts += bytes,
            _ => others += bytes,
        }
    }
    let first = second + styles + scripts + others;
    let sizes =
        format!("page {second}, styles {styles}, scripts {scripts}, pictures {others}: {files:?}");
    // Rows that change in place, the band of a page that is not current, undoing and the search over
    // everything take 3 kB more than the budget for scripts. The budget of the whole visit has room
    // for them.
    assert!(styles <= 7 << 10 && scripts <= 22 << 9, "{sizes}");
    assert!(first <= 35 << 10 && second <= 8 << 10, "{sizes}");
    assert!(files.len() < 9, "{sizes}");
    // A page names every module that another imports, so that all load at once.
    for url in files.iter().filter(|url| url.ends_with(".js")) {
        let module = browse(&server, "GET", url, &[]).await;
        for import in module
            .text()
            .lines()
            .filter_map(|line| line.strip_prefix("import ")?.split("'./").nth(1))
        {
            let name = import.split('\'').next().unwrap();
            assert!(
                files.iter().any(|file| file.ends_with(&format!("/{name}"))),
                "{url} imports {name}, which the page does not name"
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn files_that_pages_load_are_small() {
    let server = TestServer::start().await;
    let page = browse(
        &server,
        "GET",
        &format!("/projects/{}/checks/", project_uuid(&server)),
        &[],
    )
    .await;
    let directory = files(page.text())[0].rsplit_once('/').unwrap().0.to_owned();
    let mut sizes = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/http/dashboard/static"
    ))
    .unwrap()
    {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let bytes = zipped(&server, &format!("{directory}/{name}"))
            .await
            .body
            .len();
        *sizes
            .entry(name.rsplit('.').next().unwrap().to_owned())
            .or_insert(0) += bytes;
    }
    // No page loads all of them.
    assert!(
        sizes["js"] <= 19 << 10 && sizes["css"] <= 10 << 10,
        "{sizes:?}"
    );
    assert!(sizes.values().sum::<usize>() <= 30 << 10, "{sizes:?}");
    server.stop().await;
}
