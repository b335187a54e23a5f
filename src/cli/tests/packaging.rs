//! Files of packages that follow from the table of flags: the settings file, the manual pages, the
//! completions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::super::{Cli, completions, man};

/// Compares the files in a directory of the repository with the expected ones, or writes them.
fn expect_files(directory: &str, expected: &BTreeMap<String, String>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(directory);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(&directory).unwrap();
        read_files(&directory)
            .keys()
            .filter(|name| !expected.contains_key(*name))
            .for_each(|name| std::fs::remove_file(directory.join(name)).unwrap());
        expected
            .iter()
            .for_each(|(name, text)| std::fs::write(directory.join(name), text).unwrap());
    }
    let actual = read_files(&directory);
    for (name, text) in expected {
        let is_current = actual.get(name) == Some(text);
        assert!(
            is_current,
            "{}/{name} differs from the flags: run UPDATE_DOCS=1 cargo test --lib packaging",
            directory.display()
        );
    }
    assert_eq!(
        actual.len(),
        expected.len(),
        "{} has files that are not generated",
        directory.display()
    );
}

fn read_files(directory: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files
        .map(|path| (name(&path), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    man::write_pages(directory.path()).unwrap();
    let pages = read_files(directory.path());
    assert!(
        pages["overdue-serve.1"].contains("smtp\\-listen")
            && pages.contains_key("overdue-channel-create.1"),
        "{:?}",
        pages.keys()
    );
}

#[test]
fn completions_name_the_flags_of_subcommands() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = String::from_utf8(completions::script(shell)).unwrap();
        assert!(script.contains("ping-body-limit"), "{shell}");
    }
}

/// Returns the text as comment lines.
fn comment_lines(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        if lines.last().unwrap().len() + word.len() > 98 {
            lines.push("#".into());
        }
        *lines.last_mut().unwrap() += &format!(" {word}");
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_settings_file_has_every_flag_of_the_server() {
    let mut tree = Cli::command();
    tree.build();
    let server = tree.find_subcommand("serve").unwrap();
    let mut text = String::from(
        "# Settings of the overdue service: every flag of `overdue serve` with its default. To\n\
         # set a variable, remove the # before it, then run: systemctl restart overdue\n\
         #\n\
         # To listen on another address, change overdue.socket, not OVERDUE_LISTEN. For port 8000\n\
         # on all addresses:\n\
         #     systemctl edit overdue.socket            # and write these three lines:\n\
         #         [Socket]\n\
         #         ListenStream=\n\
         #         ListenStream=8000\n\
         #     systemctl restart overdue.socket         # which also restarts the service\n\
         # and set OVERDUE_BASE_URL below to the URL for clients, for example\n\
         # http://192.168.1.5:8000. The server also listens on the addresses of OVERDUE_LISTEN;\n\
         # to use only these, run first:\n\
         #     systemctl disable --now overdue.socket\n\
         #\n\
         # The data is in /var/lib/overdue. To list the projects:\n\
         #     sudo -u overdue overdue project list --data /var/lib/overdue\n",
    );
    let mut groups: BTreeMap<&str, Vec<&clap::Arg>> = BTreeMap::new();
    for flag in server
        .get_arguments()
        .filter(|flag| flag.get_env().is_some())
        .filter(|flag| flag.get_id() != "data" && flag.get_id() != "print_config")
    {
        groups
            .entry(flag.get_help_heading().unwrap_or_default())
            .or_default()
            .push(flag);
    }
    for (heading, flags) in &groups {
        if !heading.is_empty() {
            text += &format!("\n# --- {heading} ---\n");
        }
        for flag in flags {
            let default: Vec<_> = flag
                .get_default_values()
                .iter()
                .map(|value| value.to_str().unwrap())
                .collect();
            let variable = flag.get_env().unwrap().to_str().unwrap();
            text += &format!(
                "\n{}#{variable}={}\n",
                comment_lines(&flag.get_help().unwrap().to_string()),
                default.join(",")
            );
        }
    }
    let count = text
        .lines()
        .filter(|line| line.starts_with("#OVERDUE_"))
        .count();
    assert!(
        count > 25 && text.contains("\n#OVERDUE_LISTEN=127.0.0.1:8000\n"),
        "{text}"
    );
    expect_files("default", &BTreeMap::from([("overdue".to_owned(), text)]));
}
