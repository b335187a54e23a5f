//! Commands of root in the data directory of another user, who may have placed anything in it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::server_process::{ProcessOutput, ServerProcess, overdue, run, temp_data_directory};

/// UID of the service, usually that of the unprivileged user.
const SERVICE: u32 = 65534;

/// Working directory of root that contains the data directory of the service. `None` if the tests
/// do not run as root.
fn service_directory() -> Option<(tempfile::TempDir, PathBuf)> {
    let (directory, data) = temp_data_directory();
    fs::create_dir(&data).unwrap();
    if chown(&data, Some(SERVICE), Some(SERVICE)).is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: this takes root");
        return None;
    }
    fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    Some((directory, data))
}

fn command(data: &Path, words: &[&str]) -> ProcessOutput {
    run(overdue(words).arg("--data").arg(data))
}

/// Creates a file of root in root's own directory.
fn secret(directory: &Path) -> PathBuf {
    let path = directory.join("secret");
    fs::write(&path, b"root only").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

fn expect_untouched(path: &Path, what: &str) {
    let found = fs::metadata(path).unwrap();
    assert_eq!(
        (
            fs::read(path).unwrap().as_slice(),
            found.uid(),
            found.mode() & 0o777
        ),
        (&b"root only"[..], 0, 0o600),
        "{what}"
    );
}

fn file_owners(data: &Path) -> Vec<(String, u32, u32)> {
    let entries = fs::read_dir(data).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let found = fs::symlink_metadata(entry.path()).unwrap();
            (
                entry.file_name().into_string().unwrap(),
                found.uid(),
                found.gid(),
            )
        })
        .collect()
}

#[test]
fn root_follows_no_links_in_the_directory_of_the_service() {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layouts/11/overdue.redb");
    for (name, words) in [
        ("overdue.redb.schema-11.partial", &["project", "list"][..]),
        ("overdue.new", &["project", "create", "web"]),
        ("overdue.redb", &["project", "list"]),
        ("overdue.redb", &["verify"]),
        ("overdue.redb", &["compact"]),
    ] {
        let Some((directory, data)) = service_directory() else {
            return;
        };
        let secret = secret(directory.path());
        if name.ends_with(".partial") {
            fs::copy(&old, data.join("overdue.redb")).unwrap();
            chown(data.join("overdue.redb"), Some(SERVICE), Some(SERVICE)).unwrap();
        }
        symlink(&secret, data.join(name)).unwrap();
        let done = command(&data, words);
        expect_untouched(&secret, name);
        // A link to a missing file creates no file.
        fs::remove_file(data.join(name)).ok();
        let absent = directory.path().join("absent");
        symlink(&absent, data.join(name)).unwrap();
        command(&data, words);
        assert!(!absent.exists(), "{name}: {}", done.err);
        assert!(
            file_owners(&data)
                .iter()
                .all(|(made, uid, gid)| made == name || (*uid, *gid == 0) == (SERVICE, false)),
            "{:?}",
            file_owners(&data)
        );
    }
}

#[test]
fn refusals_for_links_of_the_service_do_not_advise_root_to_become_root() {
    for (at, is_there, whose) in [
        ("data/overdue.redb", true, "which belongs to root"),
        ("data/overdue.redb", false, "which cannot be reached"),
        ("link", true, "which belongs to root"),
    ] {
        let Some((directory, data)) = service_directory() else {
            return;
        };
        let private = directory.path().join("private");
        let link = directory.path().join(at);
        fs::create_dir(&private).unwrap();
        let target = if at == "link" {
            private.clone()
        } else {
            secret(&private)
        };
        if at != "link" && is_there {
            fs::set_permissions(&private, PermissionsExt::from_mode(0o755)).unwrap();
        } else {
            fs::set_permissions(&private, PermissionsExt::from_mode(0o700)).unwrap();
        }
        symlink(&target, &link).unwrap();
        lchown(&link, Some(SERVICE), Some(SERVICE)).unwrap();
        let data = if at == "link" { link.clone() } else { data };
        for words in [&["project", "list"][..], &["verify"], &["compact"]] {
            let done = command(&data, words);
            let error = format!(
                "{} is a link to {}, {whose}, and this runs as ",
                link.display(),
                target.display()
            );
            assert!(
                done.status != 0 && done.err.contains(&error) && !done.err.contains("sudo"),
                "{words:?}: {}",
                done.err
            );
        }
    }
    // A file of root where the service has its own.
    let Some((_directory, data)) = service_directory() else {
        return;
    };
    fs::write(data.join("overdue.redb"), b"").unwrap();
    fs::set_permissions(data.join("overdue.redb"), PermissionsExt::from_mode(0o600)).unwrap();
    let done = command(&data, &["project", "list"]);
    assert!(
        done.err.contains(": run chown ") && !done.err.contains("sudo"),
        "{}",
        done.err
    );
}

#[test]
fn root_reads_and_writes_its_own_files_beside_the_directory_of_the_service() {
    let Some((directory, data)) = service_directory() else {
        return;
    };
    let private = directory.path().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, PermissionsExt::from_mode(0o700)).unwrap();
    let path = |name: &str| private.join(name).to_str().unwrap().to_owned();
    let declared = path("a.toml");
    let backup = path("a.zst");
    let exported = path("all.jsonl");
    fs::write(&declared, "version = 1\n[project.web]\n").unwrap();
    for words in [
        &["apply", &declared][..],
        &["backup", &backup],
        &["export", "--format", "jsonl", &exported],
        &["verify"],
        &["compact"],
        &["restore", &backup, "--force"],
        &["project", "list"],
    ] {
        let done = command(&data, words);
        assert_eq!(done.status, 0, "{words:?}: {}", done.err);
    }
    for file in [&backup, &exported] {
        assert_eq!(fs::metadata(file).unwrap().uid(), 0, "{file}");
    }
    assert!(
        file_owners(&data).iter().all(|(_, uid, _)| *uid == SERVICE),
        "{:?}",
        file_owners(&data)
    );
    // A server that root starts runs as the owner too, and root's commands reach it.
    let server = ServerProcess::start(&data);
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        (line("Uid:"), line("Gid:")),
        (
            "65534 65534 65534 65534".into(),
            "65534 65534 65534 65534".into()
        )
    );
    assert_eq!(line("Groups:"), "");
    assert_eq!(command(&data, &["project", "list"]).status, 0);
    server.stop();
}

/// The settings of a channel come from the database, which the service may have changed.
#[test]
fn commands_of_channels_never_run_as_root() {
    let Some((_directory, data)) = service_directory() else {
        return;
    };
    assert_eq!(command(&data, &["project", "create", "web"]).status, 0);
    let ids = data.join("ids");
    let set = format!(
        "down-command=echo $(id -u) $(id -ru) $(id -g) $(id -rg) $(id -G) > {}",
        ids.display()
    );
    let make = [
        "channel",
        "create",
        "--project",
        "web",
        "--kind",
        "shell",
        "--name",
        "sh",
        "--set",
        &set,
    ];
    let secret = secret(data.parent().unwrap());
    let files = ["--ca-file", secret.to_str().unwrap()];
    for words in [
        &[&make[..], &["--test", "--allow-shell"]].concat()[..],
        &["channel", "test", "sh", "--allow-shell"],
    ] {
        let done = command(&data, words);
        assert_eq!(done.status, 0, "{words:?}: {}", done.err);
        let group = file_owners(&data)[0].2;
        let shown = fs::read_to_string(&ids).unwrap();
        assert_eq!(
            shown.trim_end(),
            format!("{SERVICE} {SERVICE} {group} {group} {group}"),
            "{words:?}"
        );
        fs::remove_file(&ids).unwrap();
    }
    // Root reads the files that flags name, as usual: this one is not a certificate, but it can be
    // read.
    let done = command(&data, &[&["channel", "test", "sh"][..], &files].concat());
    assert!(
        done.status != 0 && !done.err.contains("ermission denied"),
        "{}",
        done.err
    );
    assert!(
        file_owners(&data).iter().all(|(_, uid, _)| *uid == SERVICE),
        "{:?}",
        file_owners(&data)
    );
}

/// Root would run any text that a service types into root's terminal.
#[test]
fn commands_of_channels_have_no_terminal_and_no_file_of_root() {
    let Some((directory, data)) = service_directory() else {
        return;
    };
    assert_eq!(command(&data, &["project", "create", "web"]).status, 0);
    let secret = secret(directory.path());
    let out = data.join("out");
    let shown =
        r#"cat <&9; cut -d' ' -f6,7 /proc/$$/stat; echo $$ 0; echo "$HOME"; ls /proc/$$/fd"#;
    let set = format!("down-command=exec > {} 2>&1; {shown}", out.display());
    let make = [
        "channel",
        "create",
        "--project",
        "web",
        "--kind",
        "shell",
        "--name",
        "sh",
        "--set",
        &set,
    ];
    assert_eq!(command(&data, &make).status, 0);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let home = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|user| user[2] == SERVICE.to_string());
    let home = home.map(|user| user[5].to_owned()).unwrap_or_default();
    // Root's shell has an open file and its own home directory.
    let of_root = |words: &[&str]| {
        let plain = overdue(words);
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "exec 9<\"$1\"; shift; exec \"$@\"", "sh"])
            .arg(&secret)
            .arg(plain.get_program())
            .args(plain.get_args());
        command
            .arg("--data")
            .arg(&data)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/root")
            .stdin(Stdio::null());
        command
    };
    let expect_apart = |what: &str| {
        let shown = fs::read_to_string(&out).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert!(
            !shown.contains("root only") && lines[0].contains("ile descriptor"),
            "{what}: {shown}"
        );
        assert_eq!(
            lines[1], lines[2],
            "{what}: the session and its terminal: {shown}"
        );
        assert_eq!(
            (lines[3], &lines[4..]),
            (home.as_str(), &["0", "1", "2"][..]),
            "{what}: {shown}"
        );
        fs::remove_file(&out).unwrap();
    };
    let done = run(&mut of_root(&["channel", "test", "sh", "--allow-shell"]));
    assert_eq!(done.status, 0, "{}", done.err);
    expect_apart("a test without a server");
    let server = ServerProcess::spawn(&mut of_root(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--allow-shell",
    ]));
    let process = PathBuf::from(format!("/proc/{}", server.id()));
    let open: Vec<_> = fs::read_dir(process.join("fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .collect();
    assert!(!open.is_empty() && !open.contains(&secret), "{open:?}");
    // The kernel assigns to root the files of a process that other processes of its user may not
    // trace.
    assert_eq!(fs::metadata(process.join("environ")).unwrap().uid(), 0);
    let done = command(&data, &["channel", "test", "sh"]);
    assert_eq!(done.status, 0, "{}", done.err);
    expect_apart("a server that root starts");
    server.stop();
}

/// Root applies the files in the directory. A user who could replace the directory could make root
/// write any file.
#[test]
fn edits_are_not_written_into_a_directory_of_others() {
    let (directory, _) = temp_data_directory();
    let crontab = directory.path().join("crontab");
    let out = directory.path().join("out");
    let link = directory.path().join("link");
    fs::write(&crontab, "30 3 * * * /usr/local/bin/backup\n").unwrap();
    fs::create_dir(&out).unwrap();
    symlink(&out, &link).unwrap();
    let discover = |into: &Path| {
        run(overdue(&["discover", "--host", "nas", "--crontab"])
            .arg(&crontab)
            .arg("--write")
            .arg(into))
    };
    let expect_refused = |into: &Path, part: &str| {
        let done = discover(into);
        assert!(
            done.status == 1 && done.err.contains(part) && done.err.contains("cannot write to "),
            "{}",
            done.err
        );
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{part}");
    };
    fs::set_permissions(&out, PermissionsExt::from_mode(0o1777)).unwrap();
    expect_refused(
        &out,
        &format!("others can write to {0}; run chmod go-w {0}", out.display()),
    );
    let done = run(overdue(&["discover", "--host", "nas", "--crontab"])
        .arg(&crontab)
        .args(["--write", "."])
        .current_dir(&out));
    assert!(
        done.status == 1
            && done
                .err
                .contains(&format!("; run chmod go-w {}", out.display())),
        "{}",
        done.err
    );
    fs::set_permissions(&out, PermissionsExt::from_mode(0o755)).unwrap();
    expect_refused(&link, "it is a link; give the directory that it leads to");
    if chown(&out, Some(SERVICE), None).is_ok() {
        expect_refused(
            &out,
            "it belongs to user 65534, and this runs as user 0; give a directory of its own",
        );
        chown(&out, Some(0), None).unwrap();
    }
    let done = discover(&out);
    assert_eq!(
        (done.status, fs::read_dir(&out).unwrap().count()),
        (0, 2),
        "{}",
        done.err
    );
}

/// A user who may rename a new directory could replace it before root applies the files in it.
#[test]
fn edits_are_not_written_into_a_new_directory_within_one_of_others() {
    let (directory, _) = temp_data_directory();
    let crontab = directory.path().join("crontab");
    let out = directory.path().join("out");
    let link = directory.path().join("link");
    fs::write(&crontab, "30 3 * * * /usr/local/bin/backup\n").unwrap();
    fs::create_dir(&out).unwrap();
    symlink(&out, &link).unwrap();
    let discover = |into: &Path| {
        run(overdue(&["discover", "--host", "nas", "--crontab"])
            .arg(&crontab)
            .arg("--write")
            .arg(into))
    };
    let expect_refused = |above: &Path, part: &str| {
        for into in ["new", "new/", "new/below"] {
            let done = discover(&above.join(into));
            let is_refused = done.status == 1
                && done.err.contains("cannot write to ")
                && done.err.contains(part);
            assert!(
                is_refused && fs::read_dir(&out).unwrap().count() == 0,
                "{into}: {}",
                done.err
            );
        }
    };
    fs::set_permissions(&out, PermissionsExt::from_mode(0o777)).unwrap();
    expect_refused(&out, &format!("; run chmod go-w {}", out.display()));
    expect_refused(&link, &format!("; run chmod go-w {}", out.display()));
    fs::set_permissions(&out, PermissionsExt::from_mode(0o755)).unwrap();
    if chown(&out, Some(SERVICE), None).is_ok() {
        expect_refused(
            &out,
            " belongs to user 65534, and this runs as user 0; give a directory of its own",
        );
        expect_refused(
            &link,
            " belongs to user 65534, and this runs as user 0; give a directory of its own",
        );
        chown(&out, Some(0), None).unwrap();
        lchown(&link, Some(SERVICE), None).unwrap();
        expect_refused(
            &link,
            " belongs to user 65534, and this runs as user 0; give a directory of its own",
        );
    }
    // In a directory such as /tmp, no other user may rename it.
    fs::set_permissions(&out, PermissionsExt::from_mode(0o1777)).unwrap();
    for into in ["new", "other/below"] {
        let done = discover(&out.join(into));
        assert_eq!(
            (done.status, fs::read_dir(out.join(into)).unwrap().count()),
            (0, 2),
            "{}",
            done.err
        );
        assert_eq!(fs::metadata(out.join(into)).unwrap().mode() & 0o777, 0o700);
    }
}

/// A user who may rename a parent directory, or a link on the path, could replace this directory.
#[test]
fn edits_are_not_written_below_a_directory_of_others() {
    let (directory, _) = temp_data_directory();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("crontab"), "30 3 * * * /usr/local/bin/backup\n").unwrap();
    fs::create_dir_all(path("home/own/out")).unwrap();
    fs::create_dir(path("links")).unwrap();
    symlink("../home/own", path("links/relative")).unwrap();
    symlink(path("links/relative"), path("link")).unwrap();
    let discover = |into: &str| {
        run(overdue(&["discover", "--host", "nas", "--crontab"])
            .arg(path("crontab"))
            .arg("--write")
            .arg(path(into)))
    };
    let expect_refused = |all: &[&str], part: &str| {
        for into in all {
            let done = discover(into);
            assert!(
                done.status == 1
                    && done.err.contains("cannot write to ")
                    && done.err.contains(part),
                "{into}: {}",
                done.err
            );
        }
        assert_eq!(
            (
                fs::read_dir(path("home/own")).unwrap().count(),
                fs::read_dir(path("home/own/out")).unwrap().count()
            ),
            (1, 0)
        );
    };
    let all = [
        "home/own/out",
        "home/own/new",
        "link/out",
        "link/new/below",
        "links/../home/own/out",
    ];
    fs::set_permissions(path("home"), PermissionsExt::from_mode(0o777)).unwrap();
    expect_refused(
        &all,
        &format!("others can write to {};", path("home").display()),
    );
    fs::set_permissions(path("home"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(path("links"), PermissionsExt::from_mode(0o777)).unwrap();
    expect_refused(
        &all[2..],
        &format!("others can write to {};", path("links").display()),
    );
    fs::set_permissions(path("links"), PermissionsExt::from_mode(0o755)).unwrap();
    if chown(path("home"), Some(SERVICE), None).is_ok() {
        expect_refused(
            &all,
            &format!("{} belongs to user 65534", path("home").display()),
        );
        chown(path("home"), Some(0), None).unwrap();
        lchown(path("links/relative"), Some(SERVICE), None).unwrap();
        expect_refused(
            &all[2..4],
            &format!("{} belongs to user 65534", path("links/relative").display()),
        );
        lchown(path("links/relative"), Some(0), None).unwrap();
    }
    fs::remove_file(path("link")).unwrap();
    symlink("link", path("link")).unwrap();
    expect_refused(&["link/new"], "too many links");
    fs::remove_file(path("link")).unwrap();
    symlink(path("links/relative"), path("link")).unwrap();
    for into in all {
        let done = discover(into);
        assert_eq!(done.status, 0, "{into}: {}", done.err);
    }
}

#[test]
fn names_of_crontabs_do_nothing_to_a_terminal() {
    let (directory, _) = temp_data_directory();
    let crontab = directory.path().join("a\u{1b}[2J\u{9b}2J\u{202e}\nb");
    fs::write(
        &crontab,
        "30 3 * * * /usr/local/bin/backup\u{9b}2J\n@reboot /usr/local/bin/x\u{1b}[2J\n",
    )
    .unwrap();
    let absent = directory.path().join("absent\u{1b}[2J\nb");
    let out = directory.path().join("out\u{1b}[2J");
    for (file, words) in [
        (&crontab, &[][..]),
        (&crontab, &["--json"]),
        (&crontab, &["--write", out.to_str().unwrap()]),
        (&absent, &[]),
    ] {
        let done = run(overdue(&["discover", "--host", "nas", "--crontab"])
            .arg(file)
            .args(words));
        for shown in [&done.out, &done.err] {
            let is_obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!shown.contains(is_obeyed), "{words:?}: {shown:?}");
        }
        assert!(
            done.err.lines().all(|line| line.starts_with("overdue: ")),
            "{:?}",
            done.err
        );
        assert!(
            !done.err.is_empty() && (file == &absent || done.status == 0),
            "{words:?}: {:?}",
            done.err
        );
    }
    let patch = fs::read_to_string(out.join("overdue.patch")).unwrap();
    assert_eq!(
        patch
            .lines()
            .filter(|line| line.starts_with("+++ \""))
            .count(),
        1,
        "{patch:?}"
    );
    assert!(
        patch
            .lines()
            .all(|line| line.starts_with(['-', '+', '@', ' ']))
            && patch.contains("\\012b\"\n"),
        "{patch:?}"
    );
}
