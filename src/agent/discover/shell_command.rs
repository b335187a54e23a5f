//! Parses shell commands, as far as needed to name a job and to find commands that cannot be
//! edited.

/// Returns the reason why a program cannot edit a line of a crontab.
pub(super) fn find_edit_obstacle(command: &str) -> Option<&'static str> {
    let mut quote = None;
    let mut characters = command.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (_, '%') => return Some("an unescaped % ends the command in a crontab"),
            (Some('\''), '\'') => quote = None,
            // Within single quotes a backslash is literal, but cron removes the one before a
            // percent sign.
            (Some('\''), '\\') => drop(characters.next_if_eq(&'%')),
            (Some('\''), _) => {}
            (_, '\\') => match characters.next() {
                Some(_) => {}
                None => return Some("it ends with a backslash"),
            },
            (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') => return Some("the text after # may be a comment"),
            _ => {}
        }
    }
    quote.map(|_| "a quote is not closed")
}

/// Programs that forward their input: their exit status is independent of the program that wrote
/// it.
const FILTER_PROGRAMS: [&str; 26] = [
    "awk",
    "bzip2",
    "cat",
    "cronolog",
    "cut",
    "gzip",
    "head",
    "logger",
    "mail",
    "mailx",
    "multilog",
    "mutt",
    "pigz",
    "rotatelogs",
    "sed",
    "sendmail",
    "sort",
    "systemd-cat",
    "tail",
    "tee",
    "tr",
    "ts",
    "uniq",
    "wc",
    "xz",
    "zstd",
];

/// Returns the last program of a pipeline at the end of a command, if its exit status hides that of
/// the job.
pub(super) fn find_program_hiding_status(command: &str) -> Option<String> {
    program_hiding_status_within(command, 3)
}

fn program_hiding_status_within(command: &str, depth: usize) -> Option<String> {
    if command.contains("pipefail") {
        return None;
    }
    let command = command.trim_end_matches([' ', '\t', ';', ')', '}']);
    // `sh -c 'job | logger'`: the last word is a command itself.
    let words = split_words(command);
    if let [.., shell, option, script] = words.as_slice()
        && matches!(
            shell.rsplit('/').next(),
            Some("sh" | "bash" | "dash" | "zsh")
        )
        && option.starts_with('-')
        && option.ends_with('c')
    {
        return program_hiding_status_within(script, depth.checked_sub(1)?);
    }
    let last = last_pipeline_stage(command)?;
    // Some of them start a program in other positions.
    let first = last
        .split_whitespace()
        .next()
        .and_then(|first| first.rsplit('/').next())
        .unwrap_or_default();
    [first.to_owned(), job_name(last)]
        .into_iter()
        .find(|last| FILTER_PROGRAMS.contains(&last.as_str()))
}

/// Returns the text after the last bar of the last pipeline. `None` if the last command is no
/// pipeline.
fn last_pipeline_stage(command: &str) -> Option<&str> {
    let mut quote = None;
    let mut last = None;
    let mut characters = command.char_indices().peekable();
    while let Some((_, c)) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(characters.next()),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '|') if characters.next_if(|(_, next)| *next == '|').is_some() => last = None,
            (None, '|') => {
                // `|&` pipes the errors, too.
                characters.next_if(|(_, next)| *next == '&');
                last = characters.peek().map(|(at, _)| *at);
            }
            (None, ';') => last = None,
            (None, '&') if characters.next_if(|(_, next)| *next == '&').is_some() => last = None,
            _ => {}
        }
    }
    command.get(last?..)
}

/// Returns the words of a command without quotes. Operators are separate words.
pub(super) fn split_words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut is_word = false;
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
const WRAPPER_PROGRAMS: [&str; 14] = [
    "nice",
    "ionice",
    "flock",
    "env",
    "sudo",
    "timeout",
    "chronic",
    "nohup",
    "exec",
    "time",
    "setsid",
    "chrt",
    "systemd-cat",
    "command",
];
/// Options of these with a value in the next word.
const OPTIONS_WITH_VALUE: [&str; 9] = ["-n", "-c", "-u", "-g", "-w", "-E", "-k", "-s", "-t"];

/// Returns a name for a job: the last part of the path of the first program that is no wrapper.
pub(super) fn job_name(command: &str) -> String {
    job_name_within(command, 3).unwrap_or_else(|| "job".into())
}

fn job_name_within(command: &str, depth: usize) -> Option<String> {
    let words = split_words(command);
    let mut words = words.iter().map(String::as_str).peekable();
    // `cd there && job`, `[ -x job ] && job`: the condition is not the job.
    let mut wrapper = None;
    while let Some(word) = words.next() {
        let last = word.rsplit('/').next().unwrap_or(word);
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        match last {
            "cd" | "test" | "[" | "[[" | "." | "source" | "command" | "sleep" => {
                words
                    .by_ref()
                    .find(|word| matches!(*word, "&&" | "||" | ";"))?;
                wrapper = None;
            }
            "sh" | "bash" | "dash" | "zsh"
                if words
                    .peek()
                    .is_some_and(|option| option.starts_with('-') && option.ends_with('c')) =>
            {
                words.next();
                return job_name_within(words.next()?, depth.checked_sub(1)?);
            }
            "sh" | "bash" | "dash" | "zsh" | "python" | "python3" | "perl" | "php"
                if words.peek().is_some_and(|next| !next.starts_with('-')) => {}
            _ if WRAPPER_PROGRAMS.contains(&last) => wrapper = Some(last),
            // The list of a loop is not the job.
            "for" | "select" => drop(words.by_ref().find(|word| *word == "do")?),
            "case" => return None,
            _ if is_assignment || matches!(word, "(" | "((" | "{" | "!") => {}
            "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "done" | "fi" | "esac"
            | ";" | "&&" | "||" => {}
            option if wrapper.is_some() && option.starts_with('-') => {
                if OPTIONS_WITH_VALUE.contains(&option) {
                    words.next();
                }
            }
            // The first argument is a file, or a time.
            _ if matches!(wrapper, Some("flock" | "timeout")) => wrapper = Some(""),
            last => {
                let stem = last
                    .rsplit_once('.')
                    .map_or(last, |(stem, _)| if stem.is_empty() { last } else { stem });
                return Some(stem.to_owned()).filter(|stem| !stem.is_empty());
            }
        }
    }
    None
}

/// Quotes text as one word of a shell.
pub(super) fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// True if a command after this one would not be run: the shell is replaced by the job, or may be
/// ended by it.
pub(super) fn ends_shell(command: &str) -> bool {
    let words = split_words(command);
    let is_assignment = |word: &str| {
        word.split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && !name.contains(['/', '-', '.']))
    };
    let first = words
        .iter()
        .find(|word| !is_assignment(word) && !matches!(word.as_str(), "!" | "command"));
    first.is_some_and(|first| matches!(first.as_str(), "exec" | "exit" | "." | "source" | "eval"))
}

/// True if a command is more than one program with its arguments.
pub(super) fn is_compound(command: &str) -> bool {
    command.contains([';', '&', '|'])
}
