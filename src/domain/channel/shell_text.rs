//! The text of a shell command, looked through for variables of alerts that `sh` does not expand there, and for those whose values are run as
//! commands. It knows what people write, not all of the grammar of `sh`: what it finds are warnings.

/// Substitutions within each other that are looked into. Those within are read as plain text.
const DEEPEST: usize = 20;

/// Shells that run the text after `-c`, and what is piped into them.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "fish"];
/// Other programs that run a text, and the letters of the options before it.
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
/// Words that stand before the name of a command.
const BEFORE_COMMANDS: [&str; 17] = [
    "sudo", "env", "exec", "nohup", "nice", "time", "timeout", "command", "setsid", "if", "then", "else", "elif", "do", "while", "until",
    "{",
];

/// Variables of alerts in a command, each once, in the order of the text.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Findings<'a> {
    /// They stand between single quotes, where they stay as they are.
    pub(super) unexpanded: Vec<&'a str>,
    /// They are expanded in a text that another shell or interpreter then runs.
    pub(super) run: Vec<&'a str>,
}

/// Looks through a command.
pub(super) fn look_through(command: &str) -> Findings<'_> {
    let mut scanner = Scanner { rest: command, depth: 0, found: Findings::default() };
    scanner.list(None);
    scanner.found
}

/// A word of a command.
#[derive(Default)]
struct Word<'a> {
    /// Its text, without quotes.
    text: String,
    expanded: Vec<&'a str>,
    in_single_quotes: Vec<&'a str>,
}

struct Scanner<'a> {
    rest: &'a str,
    depth: usize,
    found: Findings<'a>,
}

impl<'a> Scanner<'a> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    /// Reads commands up to their end, and returns the variables that are expanded in them.
    fn list(&mut self, end: Option<char>) -> Vec<&'a str> {
        let (mut all, mut words, mut word, mut piped) = (Vec::new(), Vec::new(), None::<Word<'_>>, Vec::new());
        while let Some(c) = self.next() {
            if Some(c) == end {
                break;
            }
            match c {
                ';' | '&' | '|' | '\n' | ')' => {
                    words.extend(word.take());
                    let expanded = self.command(&words, &piped);
                    words.clear();
                    all.extend_from_slice(&expanded);
                    piped = if c == '|' { expanded } else { Vec::new() };
                }
                c if c.is_whitespace() => words.extend(word.take()),
                '#' if word.is_none() => self.rest = self.rest.find('\n').and_then(|end| self.rest.get(end..)).unwrap_or_default(),
                '(' if word.is_none() => all.extend(self.nested(')')),
                c => self.part(c, word.get_or_insert_default()),
            }
        }
        words.extend(word);
        all.extend(self.command(&words, &piped));
        all
    }

    /// Reads a part of a word that begins with this character.
    fn part(&mut self, c: char, word: &mut Word<'a>) {
        match c {
            '\\' => word.text.extend(self.next()),
            '\'' => {
                let (quoted, behind) = self.rest.split_once('\'').unwrap_or((self.rest, ""));
                self.rest = behind;
                word.text.push_str(quoted);
                word.in_single_quotes.extend(quoted.split('$').skip(1).filter_map(variable));
            }
            '"' => {
                while let Some(c) = self.next().filter(|c| *c != '"') {
                    match c {
                        '\\' => word.text.extend(self.next()),
                        c => self.expansion(c, word),
                    }
                }
            }
            c => self.expansion(c, word),
        }
    }

    /// Reads what is expanded between double quotes, too.
    fn expansion(&mut self, c: char, word: &mut Word<'a>) {
        match c {
            '$' if self.rest.starts_with('(') => {
                self.next();
                word.expanded.extend(self.nested(')'));
            }
            '$' => {
                word.text.push(c);
                word.expanded.extend(variable(self.rest));
            }
            '`' => word.expanded.extend(self.nested('`')),
            c => word.text.push(c),
        }
    }

    fn nested(&mut self, end: char) -> Vec<&'a str> {
        if self.depth >= DEEPEST {
            return Vec::new();
        }
        self.depth += 1;
        let expanded = self.list(Some(end));
        self.depth -= 1;
        expanded
    }

    /// Notes what is wrong with a command, and returns the variables that are expanded in it.
    fn command(&mut self, words: &[Word<'a>], piped: &[&'a str]) -> Vec<&'a str> {
        let code = code(words);
        for word in words.iter().enumerate().filter(|(at, _)| !code.is_shells(*at)).map(|(_, word)| word) {
            note(&mut self.found.unexpanded, &word.in_single_quotes);
        }
        for at in code.words.iter().copied() {
            note(&mut self.found.run, words.get(at).map_or(&[], |word| &word.expanded));
        }
        if is_shell_of_input(words) {
            note(&mut self.found.run, piped);
        }
        words.iter().flat_map(|word| word.expanded.iter().copied()).collect()
    }
}

fn note<'a>(found: &mut Vec<&'a str>, names: &[&'a str]) {
    for name in names {
        if !found.contains(name) {
            found.push(name);
        }
    }
}

/// The words of a command that are run once more.
#[derive(Default)]
struct Code {
    words: Vec<usize>,
    /// A shell with the same environment runs them: it expands what stands between single quotes here.
    is_shell: bool,
}

impl Code {
    fn is_shells(&self, word: usize) -> bool {
        self.is_shell && self.words.contains(&word)
    }
}

fn code(words: &[Word<'_>]) -> Code {
    let is_before = |word: &&Word<'_>| {
        let text = word.text.as_str();
        BEFORE_COMMANDS.contains(&text)
            || text.starts_with(['-', '!'])
            || text.contains('=')
            || text.starts_with(|c: char| c.is_ascii_digit())
    };
    let first = words.iter().take_while(is_before).count();
    match words.get(first).map(name) {
        Some("eval") => return Code { words: (first + 1..words.len()).collect(), is_shell: true },
        // The shell of the other machine runs all of its words.
        Some("ssh") => return Code { words: (first + 1..words.len()).collect(), is_shell: false },
        _ => {}
    }
    for (at, word) in words.iter().enumerate() {
        let is_shell = SHELLS.contains(&name(word));
        let interpreter = INTERPRETERS.iter().find(|(program, _)| *program == name(word)).map(|(_, letters)| *letters);
        let Some(letters) = interpreter.or(is_shell.then_some(&['c'])) else { continue };
        let is_option = |word: &Word<'_>| word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letters);
        let behind = words.get(at + 1..).unwrap_or_default();
        if let Some(option) = behind.iter().position(is_option) {
            return Code { words: vec![at + option + 2], is_shell };
        }
    }
    Code::default()
}

/// True for a shell that reads its commands from standard input.
fn is_shell_of_input(words: &[Word<'_>]) -> bool {
    words.split_first().is_some_and(|(first, rest)| {
        SHELLS.contains(&name(first)) && rest.iter().all(|word| word.text.starts_with('-') && !word.text.contains('c'))
    })
}

/// The name of the program that a word names.
fn name<'w>(word: &'w Word<'_>) -> &'w str {
    word.text.rsplit('/').next().unwrap_or_default()
}

/// Returns the variable of alerts at the beginning of what follows a `$`, as in `NAME` and `{NAME}`.
fn variable(after: &str) -> Option<&str> {
    let after = after.strip_prefix('{').unwrap_or(after);
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    after.get(..end).filter(|name| is_of_alerts(name))
}

/// True if a command of a channel has a variable of this name in its environment.
fn is_of_alerts(name: &str) -> bool {
    let is_tag = |number: &str| !number.is_empty() && !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
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
            ("echo '${TAG12} $TAG0 $TAGS' '$TAGS $OVERDUE_ALERT_EVENT'", &["TAG12", "TAGS", "OVERDUE_ALERT_EVENT"]),
            // Between double quotes a single quote is a character like any other.
            ("echo \"it's $NAME\" 'x'", &[]),
            ("echo \"$(echo '$STATUS')\" \"$NAME\"", &["STATUS"]),
            ("echo \"`echo '$STATUS'`\"", &["STATUS"]),
            ("echo \"(it's $NAME)\"", &[]),
            ("echo \\'$NAME\\'", &[]),
            ("echo \"\\\"'$NAME'\"", &[]),
            ("echo ok # don't\necho \"$NAME\" 'it'", &[]),
            ("(echo '$CODE'; echo \"$NOW\") # '$NAME'", &["CODE"]),
            ("awk '{print $1, $NAMES}'", &[]),
            ("echo 'never closed $BODY", &["BODY"]),
            // A shell within expands them.
            ("sh -c 'echo \"$NAME\"' x", &[]),
            ("eval 'echo \"$NAME\"'", &[]),
            ("sh -c 'echo \"$1\"' x '$NAME'", &["NAME"]),
            ("ssh host 'echo $NAME'", &["NAME"]),
            ("", &[]),
        ] {
            assert_eq!(look_through(command).unexpanded, found, "{command}");
        }
    }

    #[test]
    fn values_that_are_run_are_found() {
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
            ("echo \"notify $NAME\" | sh", &["NAME"]),
            ("echo \"$NAME\" | tee log | bash -s", &[]),
            ("echo \"$(sh -c \"$NAME\")\"", &["NAME"]),
            ("eval \"$(echo $NAME)\"", &["NAME"]),
            ("echo `sh -c \"$NAME\"`", &["NAME"]),
            // Handed over as data.
            ("sh -c 'logger \"$NAME\"'", &[]),
            ("sh -c 'logger \"$1\"' x \"$NAME\"", &[]),
            ("eval 'logger \"$NAME\"'", &[]),
            ("logger -t ssh \"eval: $NAME\"", &[]),
            ("printf %s \"$NAME\" | ssh pi notify", &[]),
            ("bash notify.sh \"$NAME\"", &[]),
            ("curl -d \"$NAME\" https://example.org/", &[]),
            ("echo \"sh -c $NAME\"", &[]),
            ("sh -c true; echo $NAME", &[]),
        ] {
            assert_eq!(look_through(command).run, found, "{command}");
        }
    }

    #[test]
    fn any_text_comes_to_an_end() {
        for text in ["(", "$(", "\"$(", "`", "((((", "'", "\\", "$", "${", "|", "\"`'"] {
            look_through(&text.repeat(3000));
        }
    }
}
