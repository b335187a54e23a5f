//! SMTP dialogue with one mail sender: bytes in, replies and whole messages out. It has no socket,
//! no clock and no store.
//!
//! Command lines end in LF, with or without CR: other mail servers accept both. The end of a
//! message is stricter (see the module `data_decoder`). Mail for other domains is refused at RCPT,
//! for any sender. No reply reveals whether an address belongs to a check.

use std::borrow::Cow;

use smtp_proto::request::parser::Rfc5321Parser;
use smtp_proto::{Error, MailFrom, Request};

use super::address::{self, MailDomain, RecipientError};
use super::data_decoder::DataDecoder;
use crate::domain::ping::MAX_BODY_BYTES;
use crate::engine::command::PingTarget;

/// Maximum bytes of a message, as announced with SIZE (RFC 1870).
pub const MAX_MESSAGE_BYTES: usize = MAX_BODY_BYTES;
/// Maximum recipients of a message; RFC 5321, section 4.5.3.1.8, requires at least this number.
pub const MAX_RECIPIENTS: usize = 100;
/// Maximum bytes of a command line, its end included: the 512 of RFC 5321, plus room for
/// parameters.
pub const MAX_LINE_BYTES: usize = 2_048;
/// Maximum number of commands in a session: some three thousand messages.
pub const MAX_COMMANDS: u32 = 10_000;
/// Maximum number of wrong commands in a session. A client of another protocol is soon
/// disconnected.
pub const MAX_MISTAKES: u32 = 20;

/// Text that is sent to the client, line ends included.
pub type SmtpReply = Cow<'static, str>;

/// An accepted message with all of its recipients.
#[derive(Clone, PartialEq, Debug)]
pub struct Envelope {
    /// Sender in MAIL; empty for bounces (`<>`).
    pub sender: String,
    /// Targets, in the order of RCPT, each once, at least one.
    pub targets: Vec<PingTarget>,
    /// The whole message with dot stuffing removed; up to [`MAX_MESSAGE_BYTES`] bytes.
    pub message: Vec<u8>,
}

/// Next step of the caller.
#[derive(PartialEq, Debug)]
pub enum DialogueStep {
    /// Read more: all input is used up.
    NeedMore,
    /// Send this reply.
    Reply(SmtpReply),
    /// Send this reply, then do the TLS handshake. Input received before it is discarded (RFC 3207,
    /// section 4.2).
    StartTls(SmtpReply),
    /// Log the pings, then send the result of [`Dialogue::delivery_reply`].
    Deliver(Envelope),
    /// Send this reply and close the connection.
    Close(SmtpReply),
}

/// State of TLS in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsState {
    /// There is no certificate.
    None,
    /// The client may send STARTTLS.
    Offered,
    /// The connection is encrypted.
    Active,
}

enum DialoguePhase {
    Command,
    /// In a line that is too long, up to its end.
    LongLine,
    /// After DATA. A message that cannot be accepted is read to its end without being kept, then
    /// answered with `refusal`.
    Message {
        content: DataDecoder,
        message: Vec<u8>,
        /// Maximum bytes of it that are kept.
        max_kept: usize,
        /// Bytes of it that were dropped.
        dropped: usize,
        refusal: Option<SmtpReply>,
    },
}

struct MailTransaction {
    sender: String,
    targets: Vec<PingTarget>,
}

/// State of one session.
pub struct Dialogue {
    domain: MailDomain,
    tls: TlsState,
    /// Start of a command line whose end has not arrived.
    line: Vec<u8>,
    phase: DialoguePhase,
    has_greeted: bool,
    transaction: Option<MailTransaction>,
    commands: u32,
    mistakes: u32,
}

/// Size at which a message buffer is allocated at its maximum size at once. The system provides
/// memory only for the bytes that arrive. Growing step by step would copy the message each time,
/// and the freed buffers would return to the system late or never.
const FULL_ALLOCATION_THRESHOLD: usize = 1 << 20;
/// Maximum bytes of a message, and of input that may follow its end.
const MAX_BUFFERED_BYTES: usize = MAX_MESSAGE_BYTES + (64 << 10);

const OK_REPLY: &str = "250 2.0.0 OK\r\n";
const RECIPIENT_OK_REPLY: &str = "250 2.1.5 OK\r\n";
const TOO_LARGE_REPLY: &str = "552 5.3.4 Message too large: at most 33554432 bytes\r\n";
const _: () = assert!(MAX_MESSAGE_BYTES == 33_554_432, "TOO_LARGE_REPLY");

impl Dialogue {
    /// Creates a session with a client that has just connected, for mail to `domain`.
    pub fn new(domain: MailDomain, tls: TlsState) -> Self {
        Self {
            domain,
            tls,
            line: Vec::new(),
            phase: DialoguePhase::Command,
            has_greeted: false,
            transaction: None,
            commands: 0,
            mistakes: 0,
        }
    }

    /// Returns the greeting of the session.
    pub fn greeting(&self) -> SmtpReply {
        format!("220 {} ESMTP overdue\r\n", self.domain.as_str()).into()
    }

    /// Returns the next step and removes the used bytes from `input`. Call it again until it needs
    /// more.
    pub fn step(&mut self, input: &mut &[u8]) -> DialogueStep {
        match &mut self.phase {
            DialoguePhase::Message {
                content,
                message,
                max_kept: keep,
                dropped,
                refusal: refused,
            } => {
                if message.len() > FULL_ALLOCATION_THRESHOLD
                    && message.capacity() < MAX_BUFFERED_BYTES
                {
                    // If the allocation fails, the message grows step by step.
                    let _ = message.try_reserve_exact(MAX_BUFFERED_BYTES - message.len());
                }
                let ended = content.decode(input, message);
                *dropped += message.len().saturating_sub(*keep);
                message.truncate(*keep);
                if message.len() + *dropped > MAX_MESSAGE_BYTES {
                    *refused = Some(TOO_LARGE_REPLY.into());
                }
                if refused.is_some() {
                    *message = Vec::new();
                }
                if ended {
                    self.end_message()
                } else {
                    DialogueStep::NeedMore
                }
            }
            DialoguePhase::LongLine => match take_line(input) {
                (_, true) => {
                    self.phase = DialoguePhase::Command;
                    self.count_command(mistake("500 5.5.2 Line too long\r\n"))
                }
                (_, false) => DialogueStep::NeedMore,
            },
            DialoguePhase::Command => {
                let (piece, ended) = take_line(input);
                if self.line.len() + piece.len() > MAX_LINE_BYTES {
                    self.line.clear();
                    if !ended {
                        self.phase = DialoguePhase::LongLine;
                        return DialogueStep::NeedMore;
                    }
                    return self.count_command(mistake("500 5.5.2 Line too long\r\n"));
                }
                self.line.extend_from_slice(piece);
                if !ended {
                    return DialogueStep::NeedMore;
                }
                let line = std::mem::take(&mut self.line);
                let answer = self.handle_command(&line);
                if let CommandResult::StartTls = answer {
                    *input = &[];
                }
                self.count_command(answer)
            }
        }
    }

    /// True if a message is being received, rather than commands.
    pub fn is_in_message(&self) -> bool {
        matches!(self.phase, DialoguePhase::Message { .. })
    }

    /// Returns the buffered bytes of the message that is being received.
    pub fn buffered_bytes(&self) -> usize {
        match &self.phase {
            DialoguePhase::Message { message, .. } => message.len(),
            DialoguePhase::Command | DialoguePhase::LongLine => 0,
        }
    }

    /// Keeps at most the first `most` bytes of the message that is being received, because memory
    /// is short. The rest is read and dropped.
    pub fn truncate_message(&mut self, most: usize) {
        if let DialoguePhase::Message {
            message,
            max_kept: keep,
            dropped,
            ..
        } = &mut self.phase
        {
            *keep = most;
            *dropped += message.len().saturating_sub(most);
            message.truncate(most);
            message.shrink_to_fit();
        }
    }

    /// Returns the reply to a message after [`DialogueStep::Deliver`]. `logged`: its pings are on
    /// disk.
    pub fn delivery_reply(logged: bool) -> SmtpReply {
        if logged {
            OK_REPLY.into()
        } else {
            "451 4.3.0 Not logged: try again later\r\n".into()
        }
    }

    fn end_message(&mut self) -> DialogueStep {
        let phase = std::mem::replace(&mut self.phase, DialoguePhase::Command);
        match (phase, self.transaction.take()) {
            (
                DialoguePhase::Message {
                    refusal: None,
                    message,
                    ..
                },
                Some(MailTransaction {
                    sender, targets, ..
                }),
            ) => DialogueStep::Deliver(Envelope {
                sender,
                targets,
                message,
            }),
            (
                DialoguePhase::Message {
                    refusal: Some(refused),
                    ..
                },
                _,
            ) => DialogueStep::Reply(refused),
            // A message is received only within a transaction.
            _ => DialogueStep::Reply(OUT_OF_ORDER_REPLY.into()),
        }
    }

    /// Counts a command and its mistakes.
    fn count_command(&mut self, answer: CommandResult) -> DialogueStep {
        self.commands += 1;
        let reply = match answer {
            CommandResult::Reply(reply) => reply,
            CommandResult::StartTls => {
                return DialogueStep::StartTls("220 2.0.0 Ready to start TLS\r\n".into());
            }
            CommandResult::Quit => return DialogueStep::Close("221 2.0.0 Bye\r\n".into()),
            CommandResult::Mistake(reply) => {
                self.mistakes += 1;
                reply
            }
        };
        if self.mistakes >= MAX_MISTAKES {
            return DialogueStep::Close("421 4.7.0 Too many errors\r\n".into());
        }
        if self.commands >= MAX_COMMANDS && !self.is_in_message() {
            return DialogueStep::Close("421 4.7.0 Too many commands: connect again\r\n".into());
        }
        DialogueStep::Reply(reply)
    }

    fn handle_command(&mut self, line: &[u8]) -> CommandResult {
        let line = &*add_missing_brackets(line);
        match Request::parse(&mut line.iter()) {
            Ok(Request::Ehlo { .. }) => {
                self.begin_session();
                CommandResult::Reply(self.ehlo_reply())
            }
            Ok(Request::Helo { .. }) => {
                self.begin_session();
                CommandResult::Reply(format!("250 {}\r\n", self.domain.as_str()).into())
            }
            Ok(Request::Mail { .. })
            | Err(Error::InvalidSenderAddress | Error::InvalidParameter { .. })
                if has_oversized_size(line) =>
            {
                reply(TOO_LARGE_REPLY)
            }
            Ok(Request::Mail { from }) => self.handle_mail(from),
            Ok(Request::Rcpt { to }) => self.handle_rcpt(&to.address),
            Ok(Request::Data) => self.handle_data(),
            Ok(Request::Rset) => {
                self.transaction = None;
                reply(OK_REPLY)
            }
            Ok(Request::Noop { .. }) => reply(OK_REPLY),
            Ok(Request::Vrfy { .. }) => {
                reply("252 2.5.2 Addresses are not verified: send a message\r\n")
            }
            Ok(Request::Help { .. }) => {
                reply("214 2.0.0 Mail to <uuid> or <ping key>+<slug> at this domain is a ping\r\n")
            }
            Ok(Request::Quit) => CommandResult::Quit,
            Ok(Request::StartTls) => self.handle_starttls(),
            Ok(_) => mistake("502 5.5.1 Command not implemented\r\n"),
            Err(Error::InvalidSenderAddress) => match parse_bare_sender(line) {
                Some(from) => self.handle_mail(from),
                None => mistake("553 5.1.7 Invalid sender\r\n"),
            },
            Err(Error::InvalidRecipientAddress) => {
                self.refuse_recipient(RecipientError::BadMailbox)
            }
            Err(Error::SyntaxError { syntax }) => {
                CommandResult::Mistake(format!("501 5.5.4 Syntax: {syntax}\r\n").into())
            }
            Err(Error::InvalidParameter { param }) => {
                CommandResult::Mistake(format!("501 5.5.4 Invalid value of {param}\r\n").into())
            }
            Err(Error::UnsupportedParameter { .. }) => {
                mistake("555 5.5.4 Parameter not supported\r\n")
            }
            // A line that ends in the middle of a command.
            Err(Error::NeedsMoreData { .. }) => mistake("501 5.5.4 Arguments are missing\r\n"),
            Err(_) => mistake("500 5.5.1 Command not recognized\r\n"),
        }
    }

    fn begin_session(&mut self) {
        self.has_greeted = true;
        self.transaction = None;
    }

    fn ehlo_reply(&self) -> SmtpReply {
        let starttls = if self.tls == TlsState::Offered {
            "250-STARTTLS\r\n"
        } else {
            ""
        };
        format!(
            "250-{}\r\n250-PIPELINING\r\n250-SIZE \
             {MAX_MESSAGE_BYTES}\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n{starttls}250 \
             ENHANCEDSTATUSCODES\r\n",
            self.domain.as_str()
        )
        .into()
    }

    fn handle_mail(&mut self, from: MailFrom<Cow<'_, str>>) -> CommandResult {
        if !self.has_greeted {
            return mistake("503 5.5.1 EHLO first\r\n");
        }
        if self.transaction.is_some() {
            return mistake("503 5.5.1 MAIL was sent already\r\n");
        }
        if from.size > MAX_MESSAGE_BYTES {
            return reply(TOO_LARGE_REPLY);
        }
        self.transaction = Some(MailTransaction {
            sender: from.address.into_owned(),
            targets: Vec::new(),
        });
        reply("250 2.1.0 OK\r\n")
    }

    fn handle_rcpt(&mut self, recipient: &str) -> CommandResult {
        let Some(transaction) = &mut self.transaction else {
            return mistake(OUT_OF_ORDER_REPLY);
        };
        match address::parse_recipient(recipient, &self.domain) {
            Ok(target) if transaction.targets.contains(&target) => reply(RECIPIENT_OK_REPLY),
            Ok(_) if transaction.targets.len() >= MAX_RECIPIENTS => {
                reply("452 4.5.3 Too many recipients\r\n")
            }
            Ok(target) => {
                transaction.targets.push(target);
                reply(RECIPIENT_OK_REPLY)
            }
            Err(refusal) => self.refuse_recipient(refusal),
        }
    }

    fn refuse_recipient(&self, refusal: RecipientError) -> CommandResult {
        if self.transaction.is_none() {
            return mistake(OUT_OF_ORDER_REPLY);
        }
        reply(match refusal {
            RecipientError::OtherDomain => "550 5.1.1 Recipient rejected\r\n",
            RecipientError::BadMailbox => "550 5.1.1 Invalid mailbox\r\n",
        })
    }

    fn handle_data(&mut self) -> CommandResult {
        match &self.transaction {
            None => mistake(OUT_OF_ORDER_REPLY),
            Some(transaction) if transaction.targets.is_empty() => {
                mistake("503 5.5.1 No valid recipients\r\n")
            }
            Some(_) => {
                let content = DataDecoder::default();
                self.phase = DialoguePhase::Message {
                    content,
                    message: Vec::new(),
                    max_kept: usize::MAX,
                    dropped: 0,
                    refusal: None,
                };
                reply("354 End the message with CR LF . CR LF\r\n")
            }
        }
    }

    fn handle_starttls(&mut self) -> CommandResult {
        match self.tls {
            TlsState::None => mistake("502 5.5.1 TLS is not available\r\n"),
            TlsState::Active => mistake("503 5.5.1 TLS is active already\r\n"),
            TlsState::Offered => {
                // Everything received in clear text is discarded (RFC 3207, section 4.2).
                self.tls = TlsState::Active;
                self.has_greeted = false;
                self.transaction = None;
                CommandResult::StartTls
            }
        }
    }
}

const OUT_OF_ORDER_REPLY: &str = "503 5.5.1 Commands out of order: EHLO, MAIL, RCPT, DATA\r\n";

enum CommandResult {
    Reply(SmtpReply),
    /// Reply to a command that no sender of mail should send.
    Mistake(SmtpReply),
    StartTls,
    Quit,
}

fn reply(text: &'static str) -> CommandResult {
    CommandResult::Reply(text.into())
}

fn mistake(text: &'static str) -> CommandResult {
    CommandResult::Mistake(text.into())
}

/// Takes the bytes up to LF, and LF itself, off `input`, or all of it. Also returns true if LF was
/// found.
fn take_line<'x>(input: &mut &'x [u8]) -> (&'x [u8], bool) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (line, after) = input.split_at(end.map_or(input.len(), |lf| lf + 1));
    *input = after;
    (line, end.is_some())
}

/// Returns the line of a command, and adds angle brackets around the address of MAIL and RCPT if
/// they are missing. RFC 5321 requires them, old devices omit them.
fn add_missing_brackets(line: &[u8]) -> Cow<'_, [u8]> {
    let Some((command, argument)) = line
        .iter()
        .position(|byte| *byte == b':')
        .and_then(|colon| line.split_at_checked(colon + 1))
    else {
        return line.into();
    };
    let words: Vec<_> = command
        .split(|byte| *byte == b':' || byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    let is = |wanted: [&str; 2]| {
        words.len() == 2
            && words
                .iter()
                .zip(wanted)
                .all(|(word, wanted)| word.eq_ignore_ascii_case(wanted.as_bytes()))
    };
    let argument = argument.trim_ascii_start();
    let end = argument
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(argument.len());
    let (address, rest) = argument.split_at(end);
    let is_bare = !address.is_empty() && !address.iter().any(|byte| matches!(byte, b'<' | b'>'));
    if is_bare && (is(["MAIL", "FROM"]) || is(["RCPT", "TO"])) {
        [command, b"<", address, b">", rest].concat().into()
    } else {
        line.into()
    }
}

/// True if the SIZE of a MAIL line exceeds any integer. The parser overflows on it, or reports an
/// error.
fn has_oversized_size(line: &[u8]) -> bool {
    let words = line.split(u8::is_ascii_whitespace);
    let sizes = words
        .filter_map(|word| word.split_at_checked(5))
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"SIZE="));
    sizes
        .filter_map(|(_, digits)| std::str::from_utf8(digits).ok())
        .any(|digits| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number && digits.parse::<usize>().is_err()
        })
}

/// Parses a sender without a domain, such as `<root>`. RFC 5321 requires a domain, appliances omit
/// it. Here the sender is only informative.
fn parse_bare_sender(line: &[u8]) -> Option<MailFrom<Cow<'_, str>>> {
    let path = line.splitn(2, |byte| *byte == b'<').nth(1)?;
    let length = path.iter().position(|byte| *byte == b'>')?;
    let (sender, parameters) = path.split_at(length);
    let sender = std::str::from_utf8(sender)
        .ok()
        .filter(|sender| !sender.chars().any(|c| c.is_control() || c == '<'))?;
    let mut parameters = parameters.get(1..)?.iter();
    Rfc5321Parser::new(&mut parameters)
        .mail_from_parameters(sender.trim().into())
        .ok()
}

#[cfg(test)]
mod tests;
