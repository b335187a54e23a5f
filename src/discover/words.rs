//! Commands as a shell reads them, as far as it takes to name a job and to see what cannot be edited.

/// What keeps a line of a crontab from being edited by a program.
pub(super) fn trouble(command: &str) -> Option<&'static str> {
    let mut quote = None;
    let mut characters = command.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (_, '%') => return Some("an unescaped % ends the command for cron"),
            (Some('\''), '\'') => quote = None,
            // Within single quotes a backslash is itself, but cron takes the one before a percent sign.
            (Some('\''), '\\') => drop(characters.next_if_eq(&'%')),
            (Some('\''), _) => {}
            (_, '\\') => match characters.next() {
                Some(_) => {}
                None => return Some("it ends in a backslash"),
            },
            (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') => return Some("what follows a # may be a comment"),
            _ => {}
        }
    }
    quote.map(|_| "its quotes are open")
}

/// The words of a command, quotes taken away. Operators are words of their own.
pub(super) fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.push(c),
            (_, '\\') => {
                is_word = true;
                word.extend(characters.next());
            }
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None, ' ' | '\t' | ';' | '&' | '|' | '(' | ')' | '<' | '>') => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                    is_word = false;
                }
                if !c.is_whitespace() {
                    match words.last_mut() {
                        Some(last) if last.chars().all(|other| other == c) => last.push(c),
                        _ => words.push(c.into()),
                    }
                }
            }
            (None, c) => {
                is_word = true;
                word.push(c);
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

/// Programs that only start another one.
const WRAPPERS: [&str; 14] =
    ["nice", "ionice", "flock", "env", "sudo", "timeout", "chronic", "nohup", "exec", "time", "setsid", "chrt", "systemd-cat", "command"];
/// Options of theirs that have a value in the next word.
const WITH_VALUE: [&str; 9] = ["-n", "-c", "-u", "-g", "-w", "-E", "-k", "-s", "-t"];

/// What people would call a job: the last part of the path of the first program that is no wrapper.
pub(super) fn name(command: &str) -> String {
    named(command, 3).unwrap_or_else(|| "job".into())
}

fn named(command: &str, depth: usize) -> Option<String> {
    let words = words(command);
    let mut words = words.iter().map(String::as_str).peekable();
    // `cd there && job`, `[ -x job ] && job`: what the condition is about is not the job.
    let mut wrapper = None;
    while let Some(word) = words.next() {
        let last = word.rsplit('/').next().unwrap_or(word);
        let is_assignment =
            word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
        match last {
            "cd" | "test" | "[" | "[[" | "." | "source" | "command" | "sleep" => {
                words.by_ref().find(|word| matches!(*word, "&&" | "||" | ";"))?;
                wrapper = None;
            }
            "sh" | "bash" | "dash" | "zsh" if words.peek().is_some_and(|option| option.starts_with('-') && option.ends_with('c')) => {
                words.next();
                return named(words.next()?, depth.checked_sub(1)?);
            }
            "sh" | "bash" | "dash" | "zsh" | "python" | "python3" | "perl" | "php"
                if words.peek().is_some_and(|next| !next.starts_with('-')) => {}
            _ if WRAPPERS.contains(&last) => wrapper = Some(last),
            _ if is_assignment || matches!(word, "(" | "((" | "{" | "!") => {}
            option if wrapper.is_some() && option.starts_with('-') => {
                if WITH_VALUE.contains(&option) {
                    words.next();
                }
            }
            // Its first word is a file, or a time.
            _ if matches!(wrapper, Some("flock" | "timeout")) => wrapper = Some(""),
            last => {
                let stem = last.rsplit_once('.').map_or(last, |(stem, _)| if stem.is_empty() { last } else { stem });
                return Some(stem.to_owned()).filter(|stem| !stem.is_empty());
            }
        }
    }
    None
}

/// Text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Whether what follows a command would not be run: the shell becomes the job, or runs what may end it.
pub(super) fn ends_shell(command: &str) -> bool {
    let words = words(command);
    let is_assignment = |word: &str| word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains(['/', '-', '.']));
    let first = words.iter().find(|word| !is_assignment(word) && !matches!(word.as_str(), "!" | "command"));
    first.is_some_and(|first| matches!(first.as_str(), "exec" | "exit" | "." | "source" | "eval"))
}

/// Whether a command is more than one program with its arguments.
pub(super) fn is_compound(command: &str) -> bool {
    command.contains([';', '&', '|'])
}
