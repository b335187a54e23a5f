//! The conversation with one mail sender: bytes in, replies and whole messages out. It has no socket, no clock and no store.
//!
//! Command lines end in LF, with or without CR: other mail servers take both. The end of a message is stricter (see the module
//! `content`). Mail for other domains is refused at RCPT, whoever sends it. No reply tells whether an address has a check behind it.

use std::borrow::Cow;

use smtp_proto::request::parser::Rfc5321Parser;
use smtp_proto::{Error, MailFrom, Request};

use super::address::{self, Domain, Refusal};
use super::content::Content;
use crate::domain::ping::LONGEST_BODY;
use crate::engine::command::Target;

/// Bytes of the longest message, as announced with SIZE (RFC 1870).
pub const MESSAGE_MAX: usize = LONGEST_BODY;
/// Recipients that one message may have; RFC 5321, section 4.5.3.1.8, asks for as many at least.
pub const RECIPIENTS_MAX: usize = 100;
/// Bytes of the longest command line, its end included: the 512 of RFC 5321 and what parameters may add.
pub const LINE_MAX: usize = 2_048;
/// Commands that one session may send: some three thousand messages.
pub const COMMANDS_MAX: u32 = 10_000;
/// Commands that one session may get wrong. A client of another protocol is soon told to go.
pub const MISTAKES_MAX: u32 = 20;

/// Text that goes to the sender, line ends included.
pub type Reply = Cow<'static, str>;

/// A message that was taken, for each of its recipients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Who sent it, as MAIL said; empty for bounces (`<>`).
    pub sender: String,
    /// The checks that it names, in the order of RCPT, each once, at least one.
    pub targets: Vec<Target>,
    /// The whole message, dots taken out; up to [`MESSAGE_MAX`] bytes.
    pub message: Vec<u8>,
}

/// What is to be done next.
#[derive(PartialEq, Eq, Debug)]
pub enum Step {
    /// Read on: all input is used up.
    NeedMore,
    /// Send this.
    Reply(Reply),
    /// Send this, then do the TLS handshake. The input that came before it is void (RFC 3207, section 4.2).
    StartTls(Reply),
    /// Log the pings, then send what [`Dialogue::delivered`] says.
    Deliver(Envelope),
    /// Send this and hang up.
    Close(Reply),
}

/// Whether connections can be encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// There is no certificate.
    None,
    /// STARTTLS may be said.
    Offered,
    /// It has been said.
    Active,
}

enum Phase {
    Command,
    /// In a line that is too long, up to its end.
    LongLine,
    /// After DATA. A message that cannot be taken is read to its end without being kept, then answered with `refused`.
    Message {
        content: Content,
        message: Vec<u8>,
        /// Bytes of it that are kept.
        keep: usize,
        /// Bytes of it that were dropped since.
        dropped: usize,
        refused: Option<Reply>,
    },
}

struct Transaction {
    sender: String,
    targets: Vec<Target>,
}

/// One session.
pub struct Dialogue {
    domain: Domain,
    tls: Tls,
    /// The start of a command line whose end has not come.
    line: Vec<u8>,
    phase: Phase,
    greeted: bool,
    transaction: Option<Transaction>,
    commands: u32,
    mistakes: u32,
}

/// A message of more bytes gets the place for the longest at once. The system gives memory for as much as comes. Growing step by step
/// would copy the message each time, and what it leaves behind would go back to the system late or never.
const GROWN: usize = 1 << 20;
/// Bytes of the longest message, and of what may come with its end.
const MOST_HELD: usize = MESSAGE_MAX + (64 << 10);

const OK: &str = "250 2.0.0 OK\r\n";
const TAKEN: &str = "250 2.1.5 OK\r\n";
const TOO_LARGE: &str = "552 5.3.4 Message too large: at most 33554432 bytes\r\n";

impl Dialogue {
    /// A session with a sender that has just connected, for mail to `domain`.
    pub fn new(domain: Domain, tls: Tls) -> Self {
        Self { domain, tls, line: Vec::new(), phase: Phase::Command, greeted: false, transaction: None, commands: 0, mistakes: 0 }
    }

    /// What the sender hears first.
    pub fn greeting(&self) -> Reply {
        format!("220 {} ESMTP overdue\r\n", self.domain.as_str()).into()
    }

    /// Says what to do next and takes what it has used off `input`. Call it again until it needs more.
    pub fn step(&mut self, input: &mut &[u8]) -> Step {
        match &mut self.phase {
            Phase::Message { content, message, keep, dropped, refused } => {
                if message.len() > GROWN && message.capacity() < MOST_HELD {
                    // Without it, the message grows as it can.
                    let _ = message.try_reserve_exact(MOST_HELD - message.len());
                }
                let ended = content.take(input, message);
                *dropped += message.len().saturating_sub(*keep);
                message.truncate(*keep);
                if message.len() + *dropped > MESSAGE_MAX {
                    *refused = Some(TOO_LARGE.into());
                }
                if refused.is_some() {
                    *message = Vec::new();
                }
                if ended { self.message_ended() } else { Step::NeedMore }
            }
            Phase::LongLine => match take_line(input) {
                (_, true) => {
                    self.phase = Phase::Command;
                    self.answer(mistake("500 5.5.2 Line too long\r\n"))
                }
                (_, false) => Step::NeedMore,
            },
            Phase::Command => {
                let (piece, ended) = take_line(input);
                if self.line.len() + piece.len() > LINE_MAX {
                    self.line.clear();
                    if !ended {
                        self.phase = Phase::LongLine;
                        return Step::NeedMore;
                    }
                    return self.answer(mistake("500 5.5.2 Line too long\r\n"));
                }
                self.line.extend_from_slice(piece);
                if !ended {
                    return Step::NeedMore;
                }
                let line = std::mem::take(&mut self.line);
                let answer = self.command(&line);
                if let Answer::StartTls = answer {
                    *input = &[];
                }
                self.answer(answer)
            }
        }
    }

    /// Whether a message is coming in, rather than commands.
    pub fn in_message(&self) -> bool {
        matches!(self.phase, Phase::Message { .. })
    }

    /// Bytes of the message that is coming in.
    pub fn held(&self) -> usize {
        match &self.phase {
            Phase::Message { message, .. } => message.len(),
            Phase::Command | Phase::LongLine => 0,
        }
    }

    /// Keeps no more than the first `keep` bytes of the message that is coming in, since there is no room for it. The rest is read.
    pub fn cut_message(&mut self, most: usize) {
        if let Phase::Message { message, keep, dropped, .. } = &mut self.phase {
            *keep = most;
            *dropped += message.len().saturating_sub(most);
            message.truncate(most);
            message.shrink_to_fit();
        }
    }

    /// The reply to a message after [`Step::Deliver`]: whether its pings are logged.
    pub fn delivered(logged: bool) -> Reply {
        if logged { OK.into() } else { "451 4.3.0 Not logged: try again later\r\n".into() }
    }

    fn message_ended(&mut self) -> Step {
        let phase = std::mem::replace(&mut self.phase, Phase::Command);
        match (phase, self.transaction.take()) {
            (Phase::Message { refused: None, message, .. }, Some(Transaction { sender, targets, .. })) => {
                Step::Deliver(Envelope { sender, targets, message })
            }
            (Phase::Message { refused: Some(refused), .. }, _) => Step::Reply(refused),
            // No message comes in without a transaction.
            _ => Step::Reply(OUT_OF_ORDER.into()),
        }
    }

    /// Counts a command and its mistakes.
    fn answer(&mut self, answer: Answer) -> Step {
        self.commands += 1;
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::StartTls => return Step::StartTls("220 2.0.0 Ready to start TLS\r\n".into()),
            Answer::Bye => return Step::Close("221 2.0.0 Bye\r\n".into()),
            Answer::Mistake(reply) => {
                self.mistakes += 1;
                reply
            }
        };
        if self.mistakes >= MISTAKES_MAX {
            return Step::Close("421 4.7.0 Too many errors\r\n".into());
        }
        if self.commands >= COMMANDS_MAX && !self.in_message() {
            return Step::Close("421 4.7.0 Too many commands: connect again\r\n".into());
        }
        Step::Reply(reply)
    }

    fn command(&mut self, line: &[u8]) -> Answer {
        let line = &*bracketed(line);
        match Request::parse(&mut line.iter()) {
            Ok(Request::Ehlo { .. }) => {
                self.greet();
                Answer::Reply(self.extensions())
            }
            Ok(Request::Helo { .. }) => {
                self.greet();
                Answer::Reply(format!("250 {}\r\n", self.domain.as_str()).into())
            }
            Ok(Request::Mail { .. }) | Err(Error::InvalidSenderAddress | Error::InvalidParameter { .. }) if overflows(line) => {
                reply(TOO_LARGE)
            }
            Ok(Request::Mail { from }) => self.mail(from),
            Ok(Request::Rcpt { to }) => self.rcpt(&to.address),
            Ok(Request::Data) => self.data(),
            Ok(Request::Rset) => {
                self.transaction = None;
                reply(OK)
            }
            Ok(Request::Noop { .. }) => reply(OK),
            Ok(Request::Vrfy { .. }) => reply("252 2.5.2 Addresses are not verified: send a message\r\n"),
            Ok(Request::Help { .. }) => reply("214 2.0.0 Mail to <uuid> or <ping key>+<slug> at this domain is a ping\r\n"),
            Ok(Request::Quit) => Answer::Bye,
            Ok(Request::StartTls) => self.start_tls(),
            Ok(_) => mistake("502 5.5.1 Command not implemented\r\n"),
            Err(Error::InvalidSenderAddress) => match bare_sender(line) {
                Some(from) => self.mail(from),
                None => mistake("553 5.1.7 Invalid sender\r\n"),
            },
            Err(Error::InvalidRecipientAddress) => self.refused(Refusal::Mailbox),
            Err(Error::SyntaxError { syntax }) => Answer::Mistake(format!("501 5.5.4 Syntax: {syntax}\r\n").into()),
            Err(Error::InvalidParameter { param }) => Answer::Mistake(format!("501 5.5.4 Invalid value of {param}\r\n").into()),
            Err(Error::UnsupportedParameter { .. }) => mistake("555 5.5.4 Parameter not supported\r\n"),
            // A line that ends in the middle of a command.
            Err(Error::NeedsMoreData { .. }) => mistake("501 5.5.4 Arguments are missing\r\n"),
            Err(_) => mistake("500 5.5.1 Command not recognized\r\n"),
        }
    }

    fn greet(&mut self) {
        self.greeted = true;
        self.transaction = None;
    }

    fn extensions(&self) -> Reply {
        let starttls = if self.tls == Tls::Offered { "250-STARTTLS\r\n" } else { "" };
        format!(
            "250-{}\r\n250-PIPELINING\r\n250-SIZE {MESSAGE_MAX}\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n{starttls}250 ENHANCEDSTATUSCODES\r\n",
            self.domain.as_str()
        )
        .into()
    }

    fn mail(&mut self, from: MailFrom<Cow<'_, str>>) -> Answer {
        if !self.greeted {
            return mistake("503 5.5.1 EHLO first\r\n");
        }
        if self.transaction.is_some() {
            return mistake("503 5.5.1 MAIL was said already\r\n");
        }
        if from.size > MESSAGE_MAX {
            return reply(TOO_LARGE);
        }
        self.transaction = Some(Transaction { sender: from.address.into_owned(), targets: Vec::new() });
        reply("250 2.1.0 OK\r\n")
    }

    fn rcpt(&mut self, recipient: &str) -> Answer {
        let Some(transaction) = &mut self.transaction else { return mistake(OUT_OF_ORDER) };
        match address::target(recipient, &self.domain) {
            Ok(target) if transaction.targets.contains(&target) => reply(TAKEN),
            Ok(_) if transaction.targets.len() >= RECIPIENTS_MAX => reply("452 4.5.3 Too many recipients\r\n"),
            Ok(target) => {
                transaction.targets.push(target);
                reply(TAKEN)
            }
            Err(refusal) => self.refused(refusal),
        }
    }

    fn refused(&self, refusal: Refusal) -> Answer {
        if self.transaction.is_none() {
            return mistake(OUT_OF_ORDER);
        }
        reply(match refusal {
            Refusal::Domain => "550 5.1.1 Recipient rejected\r\n",
            Refusal::Mailbox => "550 5.1.1 Invalid mailbox\r\n",
        })
    }

    fn data(&mut self) -> Answer {
        match &self.transaction {
            None => mistake(OUT_OF_ORDER),
            Some(transaction) if transaction.targets.is_empty() => mistake("503 5.5.1 No valid recipients\r\n"),
            Some(_) => {
                let content = Content::default();
                self.phase = Phase::Message { content, message: Vec::new(), keep: usize::MAX, dropped: 0, refused: None };
                reply("354 End the message with CR LF . CR LF\r\n")
            }
        }
    }

    fn start_tls(&mut self) -> Answer {
        match self.tls {
            Tls::None => mistake("502 5.5.1 TLS is not available\r\n"),
            Tls::Active => mistake("503 5.5.1 TLS is active already\r\n"),
            Tls::Offered => {
                // All that was said in the clear is forgotten (RFC 3207, section 4.2).
                self.tls = Tls::Active;
                self.greeted = false;
                self.transaction = None;
                Answer::StartTls
            }
        }
    }
}

const OUT_OF_ORDER: &str = "503 5.5.1 Commands out of order: EHLO, MAIL, RCPT, DATA\r\n";

enum Answer {
    Reply(Reply),
    /// A reply to what no sender of mail should say.
    Mistake(Reply),
    StartTls,
    Bye,
}

fn reply(text: &'static str) -> Answer {
    Answer::Reply(text.into())
}

fn mistake(text: &'static str) -> Answer {
    Answer::Mistake(text.into())
}

/// Takes the bytes up to LF, and LF itself, off `input`, or all of it. Tells whether LF was there.
fn take_line<'x>(input: &mut &'x [u8]) -> (&'x [u8], bool) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (line, after) = input.split_at(end.map_or(input.len(), |lf| lf + 1));
    *input = after;
    (line, end.is_some())
}

/// The line of a command, with angle brackets around the address of MAIL and RCPT if they are missing. RFC 5321 wants them, old devices
/// leave them out.
fn bracketed(line: &[u8]) -> Cow<'_, [u8]> {
    let Some((command, argument)) = line.iter().position(|byte| *byte == b':').and_then(|colon| line.split_at_checked(colon + 1)) else {
        return line.into();
    };
    let words: Vec<_> = command.split(|byte| *byte == b':' || byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).collect();
    let is =
        |wanted: [&str; 2]| words.len() == 2 && words.iter().zip(wanted).all(|(word, wanted)| word.eq_ignore_ascii_case(wanted.as_bytes()));
    let argument = argument.trim_ascii_start();
    let end = argument.iter().position(u8::is_ascii_whitespace).unwrap_or(argument.len());
    let (address, rest) = argument.split_at(end);
    let bare = !address.is_empty() && !address.iter().any(|byte| matches!(byte, b'<' | b'>'));
    if bare && (is(["MAIL", "FROM"]) || is(["RCPT", "TO"])) { [command, b"<", address, b">", rest].concat().into() } else { line.into() }
}

/// Whether the SIZE of a MAIL line is beyond all numbers. The parser lets it overflow, or finds fault with it.
fn overflows(line: &[u8]) -> bool {
    let words = line.split(u8::is_ascii_whitespace);
    let sizes = words.filter_map(|word| word.split_at_checked(5)).filter(|(name, _)| name.eq_ignore_ascii_case(b"SIZE="));
    sizes.filter_map(|(_, digits)| std::str::from_utf8(digits).ok()).any(|digits| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number && digits.parse::<usize>().is_err()
    })
}

/// Reads a sender without a domain, such as `<root>`. RFC 5321 wants a domain, appliances leave it out. Here the sender is only a note.
fn bare_sender(line: &[u8]) -> Option<MailFrom<Cow<'_, str>>> {
    let path = line.splitn(2, |byte| *byte == b'<').nth(1)?;
    let length = path.iter().position(|byte| *byte == b'>')?;
    let (sender, parameters) = path.split_at(length);
    let sender = std::str::from_utf8(sender).ok().filter(|sender| !sender.chars().any(|c| c.is_control() || c == '<'))?;
    let mut parameters = parameters.get(1..)?.iter();
    Rfc5321Parser::new(&mut parameters).mail_from_parameters(sender.trim().into()).ok()
}

#[cfg(test)]
mod tests;
