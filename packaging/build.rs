//! Embeds the commit of a release build, unless `OVERDUE_COMMIT` names it. Other builds have no
//! commit, so that a new commit does not cause a recompilation.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=packaging/build.rs");
    println!("cargo::rerun-if-env-changed=OVERDUE_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release || std::env::var_os("OVERDUE_COMMIT").is_some() {
        return;
    }
    // A copy of the source may be in another repository with an unrelated commit.
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let top = git(&["rev-parse", "--show-toplevel"]).unwrap_or_default();
    if Path::new(&top).canonicalize().ok() != Path::new(&root).canonicalize().ok() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return;
    };
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) =
            git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists())
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rustc-env=OVERDUE_COMMIT={commit}");
}

/// Returns the output of git, or `None` without git or outside a repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(words)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}
