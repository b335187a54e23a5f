//! Files of packages that follow from the table of flags: the settings file, the manual pages, the
//! completions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::super::{Cli, completions, man};

/// Compares the files in a directory of the repository with the expected ones, or writes them.
fn expect_files(directory: &str, wanted: &BTreeMap<String, String>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(directory);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(&directory).unwrap();
        read_files(&directory)
            .keys()
            .filter(|name| !wanted.contains_key(*name))
            .for_each(|name| std::fs::remove_file(directory.join(name)).unwrap());
        wanted
            .iter()
            .for_each(|(name, text)| std::fs::write(directory.join(name), text).unwrap());
    }
    let there = read_files(&directory);
    for (name, text) in wanted {
        let stale = there.get(name) != Some(text);
        assert!(
            !stale,
            "{}/{name} is not what the flags say: run UPDATE_DOCS=1 cargo test --lib packaged",
            directory.display()
        );
    }
    assert_eq!(
        there.len(),
        wanted.len(),
        "{} has a file too many",
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

/// Returns `script` as comment lines.
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
fn the_file_of_settings_has_every_flag_of_the_server() {
    let mut tree = Cli::command();
    tree.build();
    let server = tree.find_subcommand("serve").unwrap();
    let mut text = String::from(
        "# Settings of overdue as a service: every flag of `overdue serve`, each with its default. Remove the # in front\n\
         # of a variable to set it, then: systemctl restart overdue\n\
         #\n\
         # To listen on another address, change overdue.socket, not OVERDUE_LISTEN. For port 8000 of all addresses:\n\
         #     systemctl edit overdue.socket            # and write these three lines:\n\
         #         [Socket]\n\
         #         ListenStream=\n\
         #         ListenStream=8000\n\
         #     systemctl restart overdue.socket         # which restarts the service, too\n\
         # and set OVERDUE_BASE_URL below to what others reach, such as http://192.168.1.5:8000. What OVERDUE_LISTEN names\n\
         # is listened on besides; to use it alone, first: systemctl disable --now overdue.socket\n\
         #\n\
         # The data lies in /var/lib/overdue: sudo -u overdue overdue project list --data /var/lib/overdue\n",
    );
    let mut groups: BTreeMap<&str, Vec<&clap::Arg>> = BTreeMap::new();
    for flag in server
        .get_arguments()
        .filter(|flag| flag.get_env().is_some() && flag.get_id() != "data")
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
