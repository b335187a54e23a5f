//! Lints a shell command for variables of alerts that `sh` does not expand, and for variables whose
//! values are executed as commands. It covers common usage, not the whole grammar of `sh`. Its
//! findings are warnings.

/// Maximum depth of nested substitutions. Deeper ones are read as plain text.
const MAX_NESTING: usize = 20;

/// Shells, which execute the text after `-c` and text piped into them.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "fish"];
/// Other programs that execute a text, and the letters of the options before it.
const INTERPRETERS: [(&str, &[char]); 8] = [
    ("su", &['c']),
    ("python", &['c']),
    ("python3", &['c']),
    ("perl", &['e', 'E']),
    ("ruby", &['e']),
    ("node", &['e', 'p']),
    ("php", &['r']),
    ("lua", &['e']),
];
/// Words that may precede the name of a command.
const COMMAND_PREFIXES: [&str; 17] = [
    "sudo", "env", "exec", "nohup", "nice", "time", "timeout", "command", "setsid", "if", "then",
    "else", "elif", "do", "while", "until", "{",
];

/// Variables of alerts in a command, each once, in the order of the text.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct ShellFindings<'a> {
    /// Variables between single quotes, where they are not expanded.
    pub(super) unexpanded: Vec<&'a str>,
    /// Variables that are expanded in a text that another shell or interpreter then executes.
    pub(super) executed: Vec<&'a str>,
}

/// Lints a command.
pub(super) fn lint_command(command: &str) -> ShellFindings<'_> {
    let mut scanner = ShellScanner {
        rest: command,
        depth: 0,
        findings: ShellFindings::default(),
    };
    scanner.scan_commands(None);
    scanner.findings
}

/// Word of a command.
#[derive(Default)]
struct ShellWord<'a> {
    /// Text of the word, without quotes.
    text: String,
    expanded: Vec<&'a str>,
    in_single_quotes: Vec<&'a str>,
}

struct ShellScanner<'a> {
    rest: &'a str,
    depth: usize,
    findings: ShellFindings<'a>,
}

impl<'a> ShellScanner<'a> {
    fn next_char(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    /// Reads commands up to their end, and returns the variables that are expanded in them.
    fn scan_commands(&mut self, end: Option<char>) -> Vec<&'a str> {
        let mut all = Vec::new();
        let mut words = Vec::new();
        let mut word = None::<ShellWord<'_>>;
        let mut piped = Vec::new();
        while let Some(c) = self.next_char() {
            if Some(c) == end {
                break;
            }
            match c {
                ';' | '&' | '|' | '\n' | ')' => {
                    words.extend(word.take());
                    let expanded = self.check_command(&words, &piped);
                    words.clear();
                    all.extend_from_slice(&expanded);
                    piped = if c == '|' { expanded } else { Vec::new() };
                }
                c if c.is_whitespace() => words.extend(word.take()),
                '#' if word.is_none() => {
                    self.rest = self
                        .rest
                        .find('\n')
                        .and_then(|end| self.rest.get(end..))
                        .unwrap_or_default();
                }
                '(' if word.is_none() => all.extend(self.scan_nested(')')),
                c => self.scan_word_part(c, word.get_or_insert_default()),
            }
        }
        words.extend(word);
        all.extend(self.check_command(&words, &piped));
        all
    }

    /// Reads a part of a word that begins with this character.
    fn scan_word_part(&mut self, c: char, word: &mut ShellWord<'a>) {
        match c {
            '\\' => word.text.extend(self.next_char()),
            '\'' => {
                let (quoted, after) = self.rest.split_once('\'').unwrap_or((self.rest, ""));
                self.rest = after;
                word.text.push_str(quoted);
                word.in_single_quotes
                    .extend(quoted.split('$').skip(1).filter_map(leading_alert_variable));
            }
            '"' => {
                while let Some(c) = self.next_char().filter(|c| *c != '"') {
                    match c {
                        '\\' => word.text.extend(self.next_char()),
                        c => self.scan_expansion(c, word),
                    }
                }
            }
            c => self.scan_expansion(c, word),
        }
    }

    /// Reads a part that is also expanded between double quotes.
    fn scan_expansion(&mut self, c: char, word: &mut ShellWord<'a>) {
        match c {
            '$' if self.rest.starts_with('(') => {
                self.next_char();
                word.expanded.extend(self.scan_nested(')'));
            }
            '$' => {
                word.text.push(c);
                word.expanded.extend(leading_alert_variable(self.rest));
            }
            '`' => word.expanded.extend(self.scan_nested('`')),
            c => word.text.push(c),
        }
    }

    fn scan_nested(&mut self, end: char) -> Vec<&'a str> {
        if self.depth >= MAX_NESTING {
            return Vec::new();
        }
        self.depth += 1;
        let expanded = self.scan_commands(Some(end));
        self.depth -= 1;
        expanded
    }

    /// Records findings about a command, and returns the variables that are expanded in it.
    fn check_command(&mut self, words: &[ShellWord<'a>], piped: &[&'a str]) -> Vec<&'a str> {
        let code = find_executed_words(words);
        for word in words
            .iter()
            .enumerate()
            .filter(|(at, _)| !code.is_run_by_shell(*at))
            .map(|(_, word)| word)
        {
            add_unique(&mut self.findings.unexpanded, &word.in_single_quotes);
        }
        for at in code.words.iter().copied() {
            add_unique(
                &mut self.findings.executed,
                words.get(at).map_or(&[], |word| &word.expanded),
            );
        }
        if is_shell_reading_stdin(words) {
            add_unique(&mut self.findings.executed, piped);
        }
        words
            .iter()
            .flat_map(|word| word.expanded.iter().copied())
            .collect()
    }
}

fn add_unique<'a>(found: &mut Vec<&'a str>, names: &[&'a str]) {
    for name in names {
        if !found.contains(name) {
            found.push(name);
        }
    }
}

/// Words of a command that are executed again.
#[derive(Default)]
struct ExecutedWords {
    words: Vec<usize>,
    /// True if a shell with the same environment executes them. It expands text that is between
    /// single quotes here.
    is_shell: bool,
}

impl ExecutedWords {
    fn is_run_by_shell(&self, word: usize) -> bool {
        self.is_shell && self.words.contains(&word)
    }
}

fn find_executed_words(words: &[ShellWord<'_>]) -> ExecutedWords {
    let is_before = |word: &&ShellWord<'_>| {
        let text = word.text.as_str();
        COMMAND_PREFIXES.contains(&text)
            || text.starts_with(['-', '!'])
            || text.contains('=')
            || text.starts_with(|c: char| c.is_ascii_digit())
    };
    let first = words.iter().take_while(is_before).count();
    match words.get(first).map(program_name) {
        Some("eval") => {
            return ExecutedWords {
                words: (first + 1..words.len()).collect(),
                is_shell: true,
            };
        }
        // The shell of the remote machine executes all of the words.
        Some("ssh") => {
            return ExecutedWords {
                words: (first + 1..words.len()).collect(),
                is_shell: false,
            };
        }
        _ => {}
    }
    for (at, word) in words.iter().enumerate() {
        let is_shell = SHELLS.contains(&program_name(word));
        let interpreter = INTERPRETERS
            .iter()
            .find(|(program, _)| *program == program_name(word))
            .map(|(_, letters)| *letters);
        let Some(letters) = interpreter.or(is_shell.then_some(&['c'])) else {
            continue;
        };
        let is_option = |word: &ShellWord<'_>| {
            word.text.starts_with('-')
                && !word.text.starts_with("--")
                && word.text.contains(letters)
        };
        let after = words.get(at + 1..).unwrap_or_default();
        if let Some(option) = after.iter().position(is_option) {
            return ExecutedWords {
                words: vec![at + option + 2],
                is_shell,
            };
        }
    }
    ExecutedWords::default()
}

/// True for a shell that reads its commands from standard input.
fn is_shell_reading_stdin(words: &[ShellWord<'_>]) -> bool {
    words.split_first().is_some_and(|(first, rest)| {
        SHELLS.contains(&program_name(first))
            && rest
                .iter()
                .all(|word| word.text.starts_with('-') && !word.text.contains('c'))
    })
}

/// Name of the program that a word names.
fn program_name<'w>(word: &'w ShellWord<'_>) -> &'w str {
    word.text.rsplit('/').next().unwrap_or_default()
}

/// Returns the alert variable at the beginning of the text after a `$`, as in `NAME` and `{NAME}`.
fn leading_alert_variable(after: &str) -> Option<&str> {
    let after = after.strip_prefix('{').unwrap_or(after);
    let end = after
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(after.len());
    after.get(..end).filter(|name| is_alert_variable(name))
}

/// True if the environment of a channel's command has a variable of this name.
fn is_alert_variable(name: &str) -> bool {
    let is_tag = |number: &str| {
        !number.is_empty()
            && !number.starts_with('0')
            && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    ["NAME", "TAGS", "STATUS", "CODE", "NOW", "BODY"].contains(&name)
        || name.starts_with("OVERDUE_ALERT_")
        || name.strip_prefix("TAG").is_some_and(is_tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_between_single_quotes_are_found() {
        for (command, found) in [
            ("echo $NAME", &[][..]),
            ("echo \"$NAME\"", &[]),
            ("echo '$NAME'", &["NAME"]),
            (
                "echo '${TAG12} $TAG0 $TAGS' '$TAGS $OVERDUE_ALERT_EVENT'",
                &["TAG12", "TAGS", "OVERDUE_ALERT_EVENT"],
            ),
            // Between double quotes a single quote is an ordinary character.
            ("echo \"it's $NAME\" 'x'", &[]),
            ("echo \"$(echo '$STATUS')\" \"$NAME\"", &["STATUS"]),
            ("echo \"`echo '$STATUS'`\"", &["STATUS"]),
            ("echo \"(it's $NAME)\"", &[]),
            ("echo \\'$NAME\\'", &[]),
            ("echo \"\\\"'$NAME'\"", &[]),
            ("echo ok # don't\necho \"$NAME\" 'it'", &[]),
            (r#"(echo '$CODE'; echo "$NOW") # '$NAME'"#, &["CODE"]),
            ("awk '{print $1, $NAMES}'", &[]),
            ("echo 'never closed $BODY", &["BODY"]),
            // The inner shell expands them.
            ("sh -c 'echo \"$NAME\"' x", &[]),
            ("eval 'echo \"$NAME\"'", &[]),
            ("sh -c 'echo \"$1\"' x '$NAME'", &["NAME"]),
            ("ssh host 'echo $NAME'", &["NAME"]),
            ("", &[]),
        ] {
            assert_eq!(lint_command(command).unexpanded, found, "{command}");
        }
    }

    #[test]
    fn executed_values_are_found() {
        for (command, found) in [
            ("eval echo $NAME", &["NAME"][..]),
            ("eval \"echo '$NAME'\"", &["NAME"]),
            ("FOO=1 eval echo \"$TAGS\" ok", &["TAGS"]),
            ("if true; then eval $BODY; fi", &["BODY"]),
            ("sh -c \"$NAME\"", &["NAME"]),
            ("sh -c \"logger '$NAME' ${TAG1}\"", &["NAME", "TAG1"]),
            ("/bin/bash -ec \"$NAME\"", &["NAME"]),
            ("sudo -u ann sh -c \"$NAME\"", &["NAME"]),
            ("docker exec job sh -c \"echo $NAME\"", &["NAME"]),
            ("su - ann -c \"notify $NAME\"", &["NAME"]),
            ("ssh pi notify $NAME", &["NAME"]),
            ("ssh pi \"notify '$NAME'\" && true", &["NAME"]),
            ("python3 -c \"print('$NAME')\"", &["NAME"]),
            ("perl -e \"print '$NAME'\"", &["NAME"]),
            ("bash -x -c \"$NAME\"", &["NAME"]),
            ("bash --rcfile bashrc -c \"$NAME\"", &["NAME"]),
            ("grep -c \"$NAME\" log", &[]),
            ("echo \"notify $NAME\" | sh", &["NAME"]),
            ("echo \"$NAME\" | bash -s", &["NAME"]),
            ("echo \"$NAME\" | tee log | bash -s", &[]),
            ("echo \"$NAME\" | cat -n", &[]),
            ("echo \"$NAME\" | sh notify.sh", &[]),
            ("echo \"$(sh -c \"$NAME\")\"", &["NAME"]),
            ("eval \"$(echo $NAME)\"", &["NAME"]),
            ("echo `sh -c \"$NAME\"`", &["NAME"]),
            // The values are passed as data.
            ("sh -c 'logger \"$NAME\"'", &[]),
            ("sh -c 'logger \"$1\"' x \"$NAME\"", &[]),
            ("eval 'logger \"$NAME\"'", &[]),
            ("logger -t ssh \"eval: $NAME\"", &[]),
            ("printf %s \"$NAME\" | ssh pi notify", &[]),
            ("bash notify.sh \"$NAME\"", &[]),
            ("python3 script.py \"$NAME\"", &[]),
            ("curl -d \"$NAME\" https://example.org/", &[]),
            ("echo \"sh -c $NAME\"", &[]),
            ("sh -c true; echo $NAME", &[]),
        ] {
            assert_eq!(lint_command(command).executed, found, "{command}");
        }
    }

    #[test]
    fn substitutions_are_read_up_to_a_depth_and_any_number_of_them() {
        let nested = |depth: usize| {
            format!(
                "{}echo '$NAME'{}",
                "echo \"$(".repeat(depth),
                ")\"".repeat(depth)
            )
        };
        assert_eq!(lint_command(&nested(MAX_NESTING)).unexpanded, ["NAME"]);
        assert_eq!(lint_command(&nested(MAX_NESTING + 1)).unexpanded, [""; 0]);
        let many = "echo \"$(true)\"; ".repeat(3 * MAX_NESTING) + &nested(1);
        assert_eq!(lint_command(&many).unexpanded, ["NAME"]);
    }

    #[test]
    fn linting_ends_for_any_text() {
        for text in [
            "(", "$(", "\"$(", "`", "((((", "'", "\\", "$", "${", "|", "\"`'",
        ] {
            lint_command(&text.repeat(3000));
        }
    }
}
