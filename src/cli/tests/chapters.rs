//! Tests that the program accepts the command lines in the chapters. The README's commands are run
//! by `.ci/readme`.

use clap::CommandFactory as _;

use super::super::{Cli, parse_args};
use super::all_commands;
use crate::docs::CHAPTERS;

/// Returns the words of a command, up to the next operator of the shell. It supports the shell
/// grammar that the chapters use.
fn shell_words_of(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => (quote, word) = (Some(letter), Some(word.unwrap_or_default())),
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '<' | '>' | ';' | '&' | ')') => break,
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Returns the lines of blocks of the language `sh`, and the parts in backquotes of all other text.
/// A continued line is joined.
fn code_parts(text: &str) -> (Vec<String>, Vec<&str>) {
    let mut lines = Vec::<String>::new();
    let mut quoted = Vec::new();
    let mut block = None;
    for line in text.lines() {
        match (block, line.strip_prefix("```")) {
            (None, Some(language)) => block = Some(language),
            (Some(_), Some(_)) => block = None,
            (Some("sh"), None) => match lines.last_mut().filter(|last| last.ends_with('\\')) {
                Some(last) => *last = last.trim_end_matches('\\').to_owned() + line.trim_start(),
                None => lines.push(line.to_owned()),
            },
            (Some(_), None) => {}
            (None, None) => quoted.extend(line.split('`').skip(1).step_by(2)),
        }
    }
    (lines, quoted)
}

#[test]
fn commands_in_the_chapters_are_accepted() {
    // Some flags read their file at once.
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&secret, "a secret that is long enough for every flag\n").unwrap();
    let is_secret = |word: &str| {
        ["/run/secrets/", "/etc/overdue/"]
            .iter()
            .any(|directory| word.starts_with(directory))
    };
    let with_secret_file = |word: String| {
        if is_secret(&word) {
            secret.path().into()
        } else {
            word.into()
        }
    };
    let mut count = 0;
    for chapter in CHAPTERS {
        for line in code_parts(chapter.text).0 {
            let command = line.trim_start_matches("sudo ");
            if !command.starts_with("overdue ") {
                continue;
            }
            count += 1;
            if let Err(error) = parse_args(
                shell_words_of(command)
                    .into_iter()
                    .map(with_secret_file)
                    .collect(),
                |_| None,
            ) {
                panic!("{}.md says:\n{line}\n{error}", chapter.slug);
            }
        }
    }
    assert!(count > 70, "only {count} commands were found");
}

#[test]
fn flags_and_subcommands_in_the_chapters_exist() {
    let mut tree = Cli::command();
    tree.build();
    let has = |command: &clap::Command, flag: &str| {
        command
            .get_arguments()
            .any(|argument| argument.get_long() == Some(flag))
    };
    let mut commands = 0;
    let mut flags = 0;
    let mut wrong = Vec::new();
    for chapter in CHAPTERS {
        for part in code_parts(chapter.text).1 {
            let words = shell_words_of(part);
            let (named, rest) = match words.split_first() {
                Some((first, rest)) if first == "overdue" => (true, rest),
                Some((first, _))
                    if tree.find_subcommand(first).is_some() && part.contains(" --") =>
                {
                    (true, &words[..])
                }
                Some((first, _)) if first.starts_with("--") => (false, &words[..]),
                _ => continue,
            };
            let mut command = &tree;
            for word in rest.iter().take_while(|word| *word != "--") {
                let flag = word
                    .strip_prefix("--")
                    .map(|flag| flag.split('=').next().unwrap_or_default());
                match (flag, command.find_subcommand(word)) {
                    // A flag that is named without a command belongs to any command.
                    (Some(flag), _)
                        if !named
                            && !all_commands(&tree)
                                .into_iter()
                                .any(|command| has(command, flag)) =>
                    {
                        wrong.push((chapter.slug, part));
                    }
                    (Some(flag), _) if named && !has(command, flag) => {
                        wrong.push((chapter.slug, part));
                    }
                    (Some(_), _) => flags += 1,
                    (None, Some(next)) if named => (command, commands) = (next, commands + 1),
                    (None, _)
                        if named
                            && command.has_subcommands()
                            && word.chars().all(|letter| letter.is_ascii_lowercase()) =>
                    {
                        wrong.push((chapter.slug, part));
                    }
                    (None, _) => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "unknown flags or subcommands: {wrong:#?}");
    assert!(
        commands > 50 && flags > 30,
        "only {commands} subcommands and {flags} flags were found"
    );
}
