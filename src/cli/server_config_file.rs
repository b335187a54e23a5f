//! Configuration file of `overdue serve`: values of flags that neither the command line nor a
//! variable sets. The values become words of the command line, so that they are parsed and checked
//! like all others.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use super::common_args::read_limited;
use super::env_variables::MIN_SIMILARITY;
use super::{CliError, table};
use crate::config::{self, ConfigDocument, ConfigNode, ConfigProblem, ConfigValue};

/// File that is read if it exists and no other is given.
const DEFAULT_PATH: &str = "/etc/overdue/overdue.toml";
/// Maximum size of the file in bytes: see [limits](crate::docs::limits).
const MAX_CONFIG_FILE_BYTES: u64 = 1 << 20;
const COMMAND: &str = "serve";
/// Flags that a file cannot set.
const COMMAND_LINE_FLAGS: [&str; 4] = ["config", "print-config", "help", "version"];

/// Words of a command line, with the values of a file.
pub(super) struct CompletedWords {
    /// All words.
    pub(super) words: Vec<OsString>,
    /// File that some of them come from.
    pub(super) file: Option<ServerConfigFile>,
}

/// A file with settings.
pub(super) struct ServerConfigFile {
    path: PathBuf,
    /// Names of the flags that it sets and neither the command line nor a variable overrides.
    flags: BTreeSet<String>,
}

impl ServerConfigFile {
    /// Path of the file, if it sets this flag (`--base-url`).
    pub(super) fn path_of_flag(&self, flag: &str) -> Option<&Path> {
        let name = flag.trim_start_matches('-');
        self.flags.contains(name).then_some(&*self.path)
    }
}

/// Adds the values of the configuration file to the words of `overdue serve`. Other commands stay
/// as they are. `tree` returns the built command line.
///
/// # Errors
/// If the file cannot be read, or has unknown settings or values of a wrong type.
pub(super) fn complete_words(
    words: Vec<OsString>,
    tree: impl FnOnce() -> Command,
    variable: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<CompletedWords, CliError> {
    let unchanged = |words| Ok(CompletedWords { words, file: None });
    let at = subcommand_index(&words);
    // Help is printed whatever the file contains.
    let is_help = ["-h", "--help"].iter().any(|flag| has_flag(&words, flag));
    let is_server = |at: &usize| words.get(*at).is_some_and(|word| word == COMMAND) && !is_help;
    let Some(at) = at.filter(is_server) else {
        return unchanged(words);
    };
    let variable = |name: &OsStr| variable(name).filter(|value| !value.is_empty());
    let given = flag_value(&words, "--config").or_else(|| variable(OsStr::new("OVERDUE_CONFIG")));
    let path = match given {
        Some(path) => PathBuf::from(path),
        None if Path::new(DEFAULT_PATH).exists() => DEFAULT_PATH.into(),
        None => return unchanged(words),
    };
    let tree = tree();
    let Some(command) = tree.find_subcommand(COMMAND) else {
        return unchanged(words);
    };
    let settings = read_settings(&path, command)?;
    let is_set_elsewhere = |flag: &Arg, name: &str| {
        has_flag(&words, &format!("--{name}"))
            || flag.get_env().is_some_and(|name| variable(name).is_some())
    };
    let mut flags = BTreeSet::new();
    let mut from_file = Vec::new();
    for (flag, values) in settings {
        let name = flag.get_long().unwrap_or_default();
        if !is_set_elsewhere(flag, name) {
            flags.insert(name.to_owned());
            from_file.extend(values.into_iter().map(OsString::from));
        }
    }
    let mut completed = words;
    completed.splice(at + 1..at + 1, from_file);
    Ok(CompletedWords {
        words: completed,
        file: Some(ServerConfigFile { path, flags }),
    })
}

/// Index of the subcommand: the first word that is no flag and no value of `--data`.
fn subcommand_index(words: &[OsString]) -> Option<usize> {
    let mut rest = words.iter().enumerate().skip(1);
    while let Some((at, word)) = rest.next() {
        if word == "--data" {
            rest.next();
        } else if !word.to_string_lossy().starts_with('-') {
            return Some(at);
        }
    }
    None
}

/// True if the words have this flag.
fn has_flag(words: &[OsString], flag: &str) -> bool {
    words
        .iter()
        .filter_map(|word| word.to_str())
        .any(|word| word.split('=').next() == Some(flag))
}

/// Returns the value of this flag in the words.
fn flag_value(words: &[OsString], flag: &str) -> Option<OsString> {
    let prefix = format!("{flag}=");
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == flag {
            return rest.next().cloned();
        }
        if let Some(value) = word.to_str().and_then(|word| word.strip_prefix(&prefix)) {
            return Some(value.into());
        }
    }
    None
}

/// Reads the settings of a file: flags with their words.
fn read_settings<'c>(
    path: &Path,
    command: &'c Command,
) -> Result<Vec<(&'c Arg, Vec<String>)>, CliError> {
    let name = path.display().to_string();
    let unreadable = |error: &dyn std::fmt::Display| {
        CliError::usage(format!(
            "cannot read the configuration file {name}: {error}"
        ))
    };
    let bytes = read_limited(path, MAX_CONFIG_FILE_BYTES).map_err(|error| unreadable(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable(&"it is not UTF-8 text"))?;
    let mut document = ConfigDocument::empty();
    let mut problems = document.add_file(&name, text);
    let mut settings = Vec::new();
    for (key, location, node) in document.root.entries() {
        match setting_words(command, key, node) {
            Ok(setting) => settings.push(setting),
            Err(SettingError::Key(reason)) => problems.push(ConfigProblem {
                location: Some(location.clone()),
                path: vec![key.clone()],
                reason,
            }),
            Err(SettingError::Value(reason)) => problems.push(ConfigProblem {
                location: Some(node.location.clone()),
                path: vec![key.clone()],
                reason,
            }),
        }
    }
    if problems.is_empty() {
        Ok(settings)
    } else {
        Err(CliError::verbatim(2, document.render_problems(&problems)))
    }
}

/// Reason for refusing a setting.
enum SettingError {
    /// Problem of its name.
    Key(String),
    /// Problem of its value.
    Value(String),
}

/// Returns the flag of a setting, and its words.
fn setting_words<'c>(
    command: &'c Command,
    key: &str,
    node: &ConfigNode,
) -> Result<(&'c Arg, Vec<String>), SettingError> {
    let names = || command.get_arguments().filter_map(Arg::get_long);
    let flag = command
        .get_arguments()
        .find(|flag| flag.get_long() == Some(key));
    let Some(flag) = flag.filter(|_| !COMMAND_LINE_FLAGS.contains(&key)) else {
        let similarity = |name: &&str| strsim::jaro_winkler(key, name);
        let nearest = names()
            .filter(|name| !COMMAND_LINE_FLAGS.contains(name))
            .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
            .filter(|name| similarity(name) >= MIN_SIMILARITY)
            .map_or_else(String::new, |name| format!("; did you mean {name}?"));
        return Err(SettingError::Key(format!(
            "there is no such setting{nearest} (`overdue serve --help` lists them, without --)"
        )));
    };
    let word = |node: &ConfigNode| match &node.value {
        ConfigValue::Text(text) => Ok(format!("--{key}={text}")),
        ConfigValue::Number(number) => Ok(format!("--{key}={number}")),
        _ => Err(SettingError::Value(format!(
            "it is {}; give text or a number",
            node.type_name()
        ))),
    };
    let is_switch = matches!(flag.get_action(), ArgAction::SetTrue);
    let words = match &node.value {
        ConfigValue::Bool(true) if is_switch => vec![format!("--{key}")],
        ConfigValue::Bool(false) if is_switch => Vec::new(),
        _ if is_switch => {
            let reason = format!("it is {}; give true or false", node.type_name());
            return Err(SettingError::Value(reason));
        }
        ConfigValue::List(items) if matches!(flag.get_action(), ArgAction::Append) => {
            items.iter().map(word).collect::<Result<_, _>>()?
        }
        _ => vec![word(node)?],
    };
    Ok((flag, words))
}

/// Prints the settings that result from flags, variables and the file, as such a file.
pub(super) fn print(
    root: &Command,
    matches: &ArgMatches,
    file: Option<&ServerConfigFile>,
) -> Result<(), CliError> {
    let Some((command, matches)) = root
        .find_subcommand(COMMAND)
        .zip(matches.subcommand_matches(COMMAND))
    else {
        return Ok(());
    };
    let mut lines = vec![match file {
        Some(file) => format!(
            "# Settings of `overdue serve`, with {}",
            file.path.display()
        ),
        None => "# Settings of `overdue serve`, without a configuration file".into(),
    }];
    let flags = command.get_arguments().filter(|flag| {
        flag.get_long()
            .is_some_and(|name| !COMMAND_LINE_FLAGS.contains(&name))
    });
    lines.extend(flags.map(|flag| setting_line(flag, matches, file)));
    match table::print_lines(&lines) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(CliError::output_failed),
    }
}

/// Returns the line of a flag, with its source as a comment.
fn setting_line(flag: &Arg, matches: &ArgMatches, file: Option<&ServerConfigFile>) -> String {
    let name = flag.get_long().unwrap_or_default();
    let id = flag.get_id().as_str();
    let raw: Vec<_> = matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(OsStr::to_string_lossy)
        .collect();
    let source = match matches.value_source(id) {
        None => return format!("# {name} is not set"),
        Some(ValueSource::EnvVariable) => flag
            .get_env()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        Some(ValueSource::DefaultValue) => String::new(),
        Some(_) if file.is_some_and(|file| file.flags.contains(name)) => {
            "configuration file".into()
        }
        Some(_) => "flag".into(),
    };
    if flag.is_hide_env_values_set() {
        return format!("# {name} is set ({source}); it may contain a secret");
    }
    let value = match flag.get_action() {
        ArgAction::SetTrue => Value::Bool(matches.get_flag(id)),
        ArgAction::Append => raw.iter().map(|text| Value::from(&**text)).collect(),
        _ => {
            let text = raw.first().map(|text| &**text).unwrap_or_default();
            text.parse::<u32>()
                .map_or_else(|_| Value::from(text), Value::from)
        }
    };
    let value = config::toml_value(&value);
    match matches.value_source(id) {
        // A default is a comment: some flags may be set only together with others.
        Some(ValueSource::DefaultValue) => format!("# {name} = {value}  # default"),
        _ => format!("{name} = {value}  # {source}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, built_tree};
    use clap::CommandFactory as _;

    /// Words of a command line with a file of this text.
    fn completed(text: &str, words: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("overdue.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        let words = words.replace("FILE", &path);
        let words = words.split(' ').map(OsString::from).collect();
        let variable = |name: &OsStr| {
            let found = variables.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| OsString::from(value.replace("FILE", &path)))
        };
        match complete_words(words, built_tree, variable) {
            Ok(completed) => {
                let words: Vec<_> = completed
                    .words
                    .iter()
                    .map(|word| word.to_str().unwrap())
                    .collect();
                Ok(words.join(" ").replace(&path, "FILE"))
            }
            Err(error) => Err(error.message.replace(&path, "FILE")),
        }
    }

    #[test]
    fn a_flag_overrides_a_variable_and_a_variable_the_file() {
        let file = "listen = [\"127.0.0.1:1\", \"[::1]:1\"]\nbase-url = \"http://a\"\n\
                    api-rate = 5\n\
                    no-web = true\naccess-log = false\n";
        for (words, variables, expected) in [
            (
                "overdue serve --config FILE",
                &[][..],
                "overdue serve --api-rate=5 --base-url=http://a --listen=127.0.0.1:1 \
                 --listen=[::1]:1 --no-web --config FILE",
            ),
            (
                "overdue --data serve serve --config=FILE --api-rate 7 --no-web",
                &[("OVERDUE_BASE_URL", "http://b"), ("OVERDUE_LISTEN", "")],
                "overdue --data serve serve --listen=127.0.0.1:1 --listen=[::1]:1 --config=FILE \
                 --api-rate 7 --no-web",
            ),
            (
                "overdue serve --listen=[::]:2",
                &[("OVERDUE_CONFIG", "FILE"), ("OVERDUE_NO_WEB", "1")],
                "overdue serve --api-rate=5 --base-url=http://a --listen=[::]:2",
            ),
            (
                "overdue serve --help --config FILE",
                &[],
                "overdue serve --help --config FILE",
            ),
            ("overdue serve", &[], "overdue serve"),
            (
                "overdue check list --config FILE",
                &[],
                "overdue check list --config FILE",
            ),
            ("overdue", &[("OVERDUE_CONFIG", "FILE")], "overdue"),
        ] {
            assert_eq!(
                completed(file, words, variables),
                Ok(expected.into()),
                "{words}"
            );
        }
    }

    #[test]
    fn a_problem_names_its_line() {
        for (text, reason) in [
            (
                "listn = \"x\"",
                "there is no such setting; did you mean listen?",
            ),
            ("config = \"x\"", "there is no such setting"),
            ("\nno-web = 1", "it is a number; give true or false"),
            (
                "api-rate = true",
                "it is true or false; give text or a number",
            ),
            ("base-url = [\"a\"]", "it is a list; give text or a number"),
            ("[listen]", "it is a table; give text or a number"),
            ("listen = [1", ""),
        ] {
            let error = completed(text, "overdue serve --config FILE", &[]).unwrap_err();
            let line = if text.starts_with('\n') { 2 } else { 1 };
            assert!(
                error.starts_with(&format!("FILE:{line}:")) && error.contains(reason),
                "{text:?}: {error}"
            );
        }
        let missing = completed("", "overdue serve --config FILE.none", &[]).unwrap_err();
        assert!(
            missing.starts_with("cannot read the configuration file FILE.none"),
            "{missing}"
        );
    }

    #[test]
    fn printed_settings_are_a_file_with_the_same_settings() {
        let root = built_tree();
        let words = [
            "overdue",
            "serve",
            "--listen=127.0.0.1:1",
            "--listen=127.0.0.1:2",
            "--no-web",
            "--site-name=a \"b\"",
            "--heartbeat-url=http://secret/",
        ];
        let lines = |words: Vec<OsString>, file: Option<&ServerConfigFile>| -> Vec<String> {
            let matches = Cli::command().try_get_matches_from(words).unwrap();
            let serve = root.find_subcommand(COMMAND).unwrap();
            let matches = matches.subcommand_matches(COMMAND).unwrap();
            let flags = serve
                .get_arguments()
                .filter(|flag| flag.get_long().is_some_and(|name| name != "help"));
            flags
                .filter(|flag| !COMMAND_LINE_FLAGS.contains(&flag.get_long().unwrap()))
                .map(|flag| setting_line(flag, matches, file))
                .collect()
        };
        let first = lines(words.map(OsString::from).into(), None);
        for line in [
            "listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]  # flag",
            "no-web = true  # flag",
            "# access-log = false  # default",
            "site-name = \"a \\\"b\\\"\"  # flag",
            "# api-rate = 100  # default",
            "# base-url is not set",
            "# heartbeat-url is set (flag); it may contain a secret",
        ] {
            assert!(
                first.iter().any(|found| found == line),
                "{line}: {first:#?}"
            );
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("overdue.toml");
        std::fs::write(&path, first.join("\n")).unwrap();
        let words = ["overdue", "serve", "--config", path.to_str().unwrap()];
        let completed = complete_words(words.map(OsString::from).into(), built_tree, |_| None)
            .unwrap_or_else(|error| panic!("{}", error.message));
        let second = lines(completed.words, completed.file.as_ref());
        let without_source = |lines: &[String]| -> Vec<String> {
            let settings = lines.iter().filter(|line| !line.starts_with('#'));
            settings
                .map(|line| line.split("  # ").next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(without_source(&second), without_source(&first));
        assert!(second.contains(&"site-name = \"a \\\"b\\\"\"  # configuration file".to_owned()));
    }
}
