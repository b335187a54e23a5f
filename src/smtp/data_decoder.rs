//! Decoder of the content after DATA: finds its end and removes dot stuffing (RFC 5321, section
//! 4.5.2).
//!
//! A line ends in CR LF and in nothing else. A bare LF or CR is content like any other byte. So
//! only CR LF `.` CR LF ends a message, and no message can be smuggled inside another.
//! (`smtp_proto::DataReceiver` also ends at CR LF `.` CR CR LF and misses the dot of the very first
//! line.)

/// Position of the next byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum LinePosition {
    /// At the start of a line, including the first one.
    #[default]
    Start,
    /// After a dot at the start of a line. The dot belongs to the protocol, not to the content.
    Dot,
    /// After such a dot and CR.
    DotCr,
    /// Inside a line.
    Text,
    /// Inside a line, after CR.
    Cr,
}

/// Decoder state within an incoming message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct DataDecoder(LinePosition);

impl DataDecoder {
    /// Appends the content in `input` to `message` and removes it from `input`. Returns true at the
    /// end of the content; the rest of `input` then follows it.
    pub(super) fn decode(&mut self, input: &mut &[u8], message: &mut Vec<u8>) -> bool {
        while let Some((&byte, after)) = input.split_first() {
            match (self.0, byte) {
                (LinePosition::Start, b'.') => {
                    self.0 = LinePosition::Dot;
                    *input = after;
                }
                (LinePosition::Dot, b'\r') => {
                    self.0 = LinePosition::DotCr;
                    *input = after;
                }
                (LinePosition::DotCr, b'\n') => {
                    self.0 = LinePosition::Start;
                    *input = after;
                    return true;
                }
                (LinePosition::DotCr, _) => {
                    // The previous CR was content.
                    message.push(b'\r');
                    self.0 = LinePosition::Cr;
                }
                (LinePosition::Cr, b'\n') => {
                    message.push(byte);
                    self.0 = LinePosition::Start;
                    *input = after;
                }
                (
                    LinePosition::Start | LinePosition::Dot | LinePosition::Text | LinePosition::Cr,
                    _,
                ) => {
                    let length = input
                        .iter()
                        .position(|byte| *byte == b'\r')
                        .map_or(input.len(), |cr| cr + 1);
                    let (run, after) = input.split_at(length);
                    message.extend_from_slice(run);
                    self.0 = if run.ends_with(b"\r") {
                        LinePosition::Cr
                    } else {
                        LinePosition::Text
                    };
                    *input = after;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the decoded content of `sent`, and the rest of it when the end was seen.
    fn decode_all(sent: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut content = DataDecoder::default();
        let mut message = Vec::new();
        let mut input = sent;
        let ended = content.decode(&mut input, &mut message);
        (message, ended.then(|| input.to_vec()))
    }

    #[test]
    fn only_crlf_dot_crlf_ends() {
        for (sent, message, left) in [
            ("hi\r\n.\r\nQUIT\r\n", "hi\r\n", Some("QUIT\r\n")),
            (".\r\n", "", Some("")),
            ("\r\n.\r\n", "\r\n", Some("")),
            ("..\r\n.a\r\n...b\r\n.\r\n", ".\r\na\r\n..b\r\n", Some("")),
            ("a.\r\nb\r\n.\r\n", "a.\r\nb\r\n", Some("")),
            // None of these is an end, although other servers treat it as one.
            (
                "a\n.\nMAIL FROM:<>\r\n.\r\n",
                "a\n.\nMAIL FROM:<>\r\n",
                Some(""),
            ),
            (
                "a\n.\r\nMAIL FROM:<>\r\n.\r\n",
                "a\n.\r\nMAIL FROM:<>\r\n",
                Some(""),
            ),
            (
                "a\r.\r\nMAIL FROM:<>\r\n.\r\n",
                "a\r.\r\nMAIL FROM:<>\r\n",
                Some(""),
            ),
            (
                "a\r.\rMAIL FROM:<>\r\n.\r\n",
                "a\r.\rMAIL FROM:<>\r\n",
                Some(""),
            ),
            (
                "a\r\n.\nMAIL FROM:<>\r\n.\r\n",
                "a\r\n\nMAIL FROM:<>\r\n",
                Some(""),
            ),
            (
                "a\r\n.\rMAIL FROM:<>\r\n.\r\n",
                "a\r\n\rMAIL FROM:<>\r\n",
                Some(""),
            ),
            (
                "a\r\n.\r\r\nMAIL FROM:<>\r\n.\r\n",
                "a\r\n\r\r\nMAIL FROM:<>\r\n",
                Some(""),
            ),
            ("a\r\n\0.\r\n.\0\r\n.\r\n", "a\r\n\0.\r\n\0\r\n", Some("")),
            ("a\r\n.", "a\r\n", None),
            ("a\r\n.\r", "a\r\n", None),
            ("", "", None),
        ] {
            let (got, rest) = decode_all(sent.as_bytes());
            assert_eq!(String::from_utf8(got).unwrap(), message, "{sent:?}");
            assert_eq!(rest.as_deref(), left.map(str::as_bytes), "{sent:?}");
        }
    }

    /// Encodes as RFC 5321 specifies, byte by byte.
    fn dot_stuff(message: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        for byte in message {
            if *byte == b'.' && (sent.is_empty() || sent.ends_with(b"\r\n")) {
                sent.push(b'.');
            }
            sent.push(*byte);
        }
        if !sent.is_empty() && !sent.ends_with(b"\r\n") {
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(b".\r\n");
        sent
    }

    fn lines() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(
            prop_oneof![
                Just(b'.'),
                Just(b'\r'),
                Just(b'\n'),
                Just(b'a'),
                any::<u8>()
            ],
            0..60,
        )
    }

    proptest! {
        #[test]
        fn messages_are_decoded_from_chunks_of_any_size(
            message in lines(),
            cuts in prop::collection::vec(0..70_usize, 0..6),
        ) {
            let sent = [dot_stuff(&message), b"QUIT\r\n".to_vec()].concat();
            let cuts = cuts.into_iter().map(|cut| cut.min(sent.len()));
            let mut cuts: Vec<_> = cuts.chain([0, sent.len()]).collect();
            cuts.sort_unstable();
            let mut content = DataDecoder::default();
            let mut decoded = Vec::new();
            let mut rest = Vec::new();
            let mut ended = false;
            for pair in cuts.windows(2) {
                let mut input = &sent[pair[0]..pair[1]];
                ended = ended || content.decode(&mut input, &mut decoded);
                rest.extend_from_slice(input);
            }
            let mut expected = message;
            if !expected.is_empty() && !expected.ends_with(b"\r\n") {
                expected.extend_from_slice(b"\r\n");
            }
            prop_assert!(ended);
            prop_assert_eq!(decoded, expected);
            prop_assert_eq!(rest, b"QUIT\r\n");
        }
    }
}
