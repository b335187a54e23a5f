mod fuzz;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;

/// Parses a message that is written here with LF and arrives with CR LF.
fn read(message: &str) -> (String, String) {
    let read = SearchableMail::parse(message.replace('\n', "\r\n").as_bytes());
    (read.subject, read.text.replace("\r\n", "\n"))
}

#[test]
fn subjects_are_decoded() {
    for (field, subject) in [
        ("Subject: backup OK", "backup OK"),
        ("SUBJECT:backup OK  ", "backup OK"),
        ("Subject : OK", "OK"),
        ("Subject: backup\n OK", "backup OK"),
        ("Subject: =?UTF-8?B?xb5hZGFuw70gxI1lcw==?=", "žadaný čes"),
        (
            "Subject: =?utf-8?q?=C5=BEal_OK?= and =?iso-8859-2?q?=BE?=",
            "žal OK and ž",
        ),
        ("Subject: =?utf-8?Q?BRO?=\n =?utf-8?Q?KEN?=", "BROKEN"),
        (
            "Subject: =?ISO-2022-JP?B?GyRCJVAlQyUvJSIlQyVXGyhC?= OK",
            "バックアップ OK",
        ),
        ("Subject: =?gb2312?B?sbi33cqnsNw=?=", "备份失败"),
        ("Subject: =?big5?B?s8al96WisdE=?=", "備份失敗"),
        ("Subject: =?windows-1251?Q?=CE=F8=E8=E1=EA=E0?=", "Ошибка"),
        ("Subject: plný disk", "plný disk"),
        ("Subject: =?utf-8?Q?broken", "=?utf-8?Q?broken"),
        ("Subject: =?nowhere?Q?OK?=", "OK"),
        ("Subject:", ""),
        ("X-Subject: OK", ""),
        ("Subject: first\nSubject: second", "first"),
        (
            "From: x\nReceived: y\n z\n\tSubject: folded\nSubject: OK",
            "OK",
        ),
        ("Subject OK\nSubject: later", ""),
    ] {
        assert_eq!(read(&format!("{field}\n\ntext\n")).0, subject, "{field}");
        assert_eq!(read(field).0, subject, "{field} and nothing else");
    }
}

#[test]
fn bodies_are_decoded() {
    for (head, body, text) in [
        ("", "plain\ntext\n", "plain\ntext\n"),
        ("Content-Type: text/plain; charset=utf-8", "žlutý", "žlutý"),
        (
            "Content-Transfer-Encoding: quoted-printable",
            "BRO=\nKEN =C5=BE = =3D=zz 1=2 a= \t\nb=",
            "BROKEN ž = ==zz 1=2 ab=",
        ),
        (
            "Content-Transfer-Encoding: BASE64",
            "QlJP\nS0VO\n",
            "BROKEN",
        ),
        (
            "Content-Transfer-Encoding: base64",
            "QlJP\0S0*VO\u{e9}",
            "BROKEN",
        ),
        ("Content-Transfer-Encoding: 8bit", "=4F=4B", "=4F=4B"),
        (
            "Content-Type: text/plain; charset=\"Windows-1250\"\nContent-Transfer-Encoding: \
             quoted-printable",
            "=9Elu=9D",
            "žluť",
        ),
        (
            "Content-Type: text/plain; charset=utf-16le\nContent-Transfer-Encoding: base64",
            "TwBLAA==",
            "OK",
        ),
        (
            "Content-Type: text/plain; charset=shift_jis\nContent-Transfer-Encoding: base64",
            "jriUcyBPSw==",
            "失敗 OK",
        ),
        ("Content-Type: text/plain; charset=unknown-8bit", "OK", "OK"),
        (
            "Content-Type: TEXT/HTML",
            "<p>BRO<b>KEN</b> &amp; &#79;K<style>no</style></p>\n",
            "BROKEN & OK",
        ),
        (
            "Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: base64",
            "PGI+xb48L2I+PHNjcmlwdD5ubzwvc2NyaXB0Pk9L",
            "žOK",
        ),
        ("Content-Type: text", "OK", "OK"),
        ("Content-Type: ;;;", "OK", "OK"),
        ("Content-Type: text/csv", "OK", ""),
        ("Content-Type: application/octet-stream", "OK", ""),
        (
            "Content-Type: text/plain\nContent-Disposition: attachment; filename=a.txt",
            "OK",
            "",
        ),
        (
            "Content-Type: text/plain; name=a.txt\nContent-Disposition: INLINE",
            "OK",
            "OK",
        ),
        ("Content-Type: message/rfc822", "Subject: x\n\nOK", ""),
        (
            "Content-Type: multipart/mixed",
            "no boundary: OK",
            "no boundary: OK",
        ),
        (
            r#"Content-Type: multipart/mixed; boundary="""#,
            "--\nOK\n--",
            "--\nOK\n--",
        ),
        (
            "Content-Type: multipart/mixed; boundary=b",
            "--c\nOK",
            "--c\nOK",
        ),
    ] {
        let head = if head.is_empty() { "From: x" } else { head };
        assert_eq!(
            read(&format!("{head}\n\n{body}")).1,
            text,
            "{head} | {body}"
        );
        // The same body as the only part of a multipart, where the line end before the delimiter
        // belongs to the delimiter.
        let part = format!(
            "Content-Type: multipart/mixed; \
             boundary=\"=_x\"\n\n--=_x\n{head}\n\n{body}\n--=_x--\nepilogue"
        );
        assert_eq!(read(&part).1, text, "{head} | {body} in a multipart");
    }
}

#[test]
fn messages_without_a_header_are_text() {
    for (message, text) in [
        ("OK\n", "OK\n"),
        (
            "all is OK: really\nSubject: no\n",
            "all is OK: really\nSubject: no\n",
        ),
        ("\nOK\n", "OK\n"),
        ("", ""),
        ("From: x", ""),
        ("From: x\n", ""),
        (
            "From: x\nOK without an empty line\n",
            "OK without an empty line\n",
        ),
        (": no name\n", ": no name\n"),
        (" folded: nothing\n", " folded: nothing\n"),
    ] {
        assert_eq!(
            read(message),
            (String::new(), text.to_owned()),
            "{message:?}"
        );
    }
}

#[test]
fn multiparts_are_walked() {
    for (message, text) in [
        (
            "Content-Type: multipart/alternative; \
             boundary=b\n\npreamble\n--b\n\nfine\n--b\nContent-Type: \
             text/html\n\n<p>BRO<b>KEN</b></p>\n--b--\nepilogue\n",
            "fine\nBROKEN",
        ),
        // White space after a delimiter is transport padding. A longer boundary is a different
        // one, and a boundary within a line is none.
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b \t\n\none\n--bb\nx--b\n--b--x\n \
             --b\n--b\n\ntwo\n--b-- \n--b\n\nthree",
            "one\n--bb\nx--b\n--b--x\n --b\ntwo",
        ),
        // The multipart is not closed.
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo\n",
            "one\ntwo\n",
        ),
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n--b\n\n\n--b",
            "",
        ),
        // Mixed, related and alternative, next to parts that are not searched.
        (
            "Content-Type: multipart/mixed; boundary=\"a b\"\n\n--a b\nContent-Type: \
             multipart/related;\n boundary=r\n\n--r\nContent-Type: multipart/alternative; \
             boundary=alt\n\n--alt\n\nplain\n--alt\nContent-Type: \
             text/html\n\n<i>html</i>\n--alt--\n--r\nContent-Type: \
             image/png\nContent-Transfer-Encoding: base64\n\nT0s=\n--r--\n--a b\nContent-Type: \
             text/plain\nContent-Disposition: attachment\n\nlog\n--a b\nContent-Type: \
             message/rfc822\n\nSubject: s\n\ninner\n--a b\n\nfooter\n--a b--\n",
            "plain\nhtml\nfooter",
        ),
        // The inner multipart is not closed: the delimiter of the outer one ends it.
        (
            "Content-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: multipart/mixed; \
             boundary=i\n\n--i\n\none\n--o\n\ntwo\n--o--\n--i\n\nno",
            "one\ntwo",
        ),
    ] {
        assert_eq!(read(message).1, text, "{message}");
    }
}

#[test]
fn line_ends_may_be_bare() {
    let message = "Subject: s\nContent-Type: multipart/mixed; \
                   boundary=b\n\n--b\n\none\n--b\nContent-Type: text/html\n\n<b>two</b>\n--b--\n";
    let read = SearchableMail::parse(message.as_bytes());
    assert_eq!(
        (read.subject.as_str(), read.text.as_str()),
        ("s", "one\ntwo")
    );
}

/// Nested multiparts, with a text on each level.
fn nested(levels: usize) -> String {
    let open: String = (0..levels)
        .map(|level| {
            format!(
                "Content-Type: multipart/mixed; \
                 boundary=b{level}\n\n--b{level}\n\nL{level}\n--b{level}\n"
            )
        })
        .collect();
    format!("{open}\nlast\n")
}

#[test]
fn depth_is_bounded() {
    let (_, text) = read(&nested(usize::from(MAX_DEPTH)));
    assert!(text.ends_with("L15\nlast\n"), "{text}");
    let (_, text) = read(&nested(usize::from(MAX_DEPTH) + 1));
    assert!(text.ends_with("L15"), "{text}");
    // A recursive walk over all of these levels would overflow any stack.
    assert!(read(&nested(100_000)).1.ends_with("L15"));
    let message = "Content-Type: message/rfc822\n\n".repeat(300_000) + "OK";
    assert_eq!(read(&message).1, "");
}

/// Messages built to cost more than their length. Each is read in well under a second; quadratic
/// work would take hours.
#[test]
fn work_is_in_proportion_to_length() {
    const MANY: usize = 300_000;
    let long = |piece: &str| piece.repeat(4_000_000 / piece.len());
    for (what, message, subject, text) in [
        (
            "header lines",
            "X-A: b\n".repeat(MANY) + "Subject: OK\n\nOK",
            2,
            2,
        ),
        (
            "one header line",
            format!("Subject: {}\n\nOK", long("x")),
            MAX_FIELD_BYTES - 1,
            2,
        ),
        (
            "folded lines",
            format!("Subject: a{}\n\nOK", "\n b".repeat(MANY)),
            10_921,
            2,
        ),
        (
            "encoded words",
            format!("Subject: {}\n\nOK", long("=?utf-8?q?")),
            MAX_FIELD_BYTES - 1,
            2,
        ),
        (
            "base64 words",
            format!("Subject: {}\n\nOK", long("=?a?b?AAAA")),
            MAX_FIELD_BYTES - 1,
            2,
        ),
        (
            "parameters",
            format!("Content-Type: text/plain{}\n\nOK", long("; a*0*=x'y'z%41")),
            0,
            2,
        ),
        (
            "comments",
            format!("Content-Type: {}\n\nOK", long("(")),
            0,
            2,
        ),
        (
            "parts",
            format!(
                "Content-Type: multipart/mixed; boundary=b\n\n{}",
                long("--b\n\nx\n")
            ),
            0,
            MAX_PARTS * 2 - 1,
        ),
        (
            "almost delimiters",
            format!(
                "Content-Type: multipart/mixed; boundary=b\n\n{}",
                long("--b-\n")
            ),
            0,
            MAX_TEXT_BYTES,
        ),
        (
            "an unclosed tag",
            format!("Content-Type: text/html\n\n{}", long("<a ")),
            0,
            0,
        ),
        (
            "unclosed scripts",
            format!("Content-Type: text/html\n\n{}", long("<script></scrip")),
            0,
            0,
        ),
        (
            "unclosed comments",
            format!("Content-Type: text/html\n\n{}", long("<!--")),
            0,
            0,
        ),
        (
            "quotes",
            format!("Content-Type: text/html\n\n{}", long("<a b='")),
            0,
            0,
        ),
        (
            "ampersands",
            format!("Content-Type: text/html\n\n{}", long("&a")),
            0,
            MAX_TEXT_BYTES,
        ),
        (
            "equal signs",
            format!(
                "Content-Transfer-Encoding: quoted-printable\n\n{}",
                long("= ")
            ),
            0,
            MAX_TEXT_BYTES,
        ),
        (
            "base64 with noise",
            format!("Content-Transfer-Encoding: base64\n\n{}", long("T0tPSw*=")),
            0,
            MAX_TEXT_BYTES,
        ),
    ] {
        let read = SearchableMail::parse(message.as_bytes());
        assert_eq!(
            (read.subject.len(), read.text.len()),
            (subject, text),
            "{what}"
        );
    }
}

fn nasty() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "Subject: ",
        "=?utf-8?Q?",
        "=?iso-2022-jp?B?",
        "?=",
        "Content-Type: ",
        "multipart/mixed; boundary=b",
        "text/html",
        "text/plain",
        "message/rfc822",
        "charset=",
        "utf-7",
        "utf-16",
        "utf-16be",
        "gb18030",
        "iso-2022-kr",
        "big5",
        "euc-jp",
        "x-user-defined",
        "macintosh",
        "koi8-r",
        ";",
        "\r\n",
        "\r\n",
        "\n",
        "\n\n",
        "--b",
        "--b--",
        "\r\n\r\n",
        " ",
        "\t",
        "\"",
        "'",
        "Content-Transfer-Encoding: ",
        "base64",
        "quoted-printable",
        "=",
        "=4",
        "=C5=BE",
        "Content-Disposition: attachment",
        "<",
        ">",
        "<b ",
        "&#",
        "&amp;",
        ";",
        "name*0*=utf-8''%C5",
        "name*1=",
        "boundary*=",
        "(",
        ")",
        "\\",
        "\0",
        "+",
        "T0s=",
        ":",
    ]);
    let piece = prop_oneof![
        6 => pieces.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

#[derive(Clone, Copy, Debug)]
enum TransferEncoding {
    None,
    Base64,
    QuotedPrintable,
}

/// Encodes like a sender. The quoted-printable variant escapes everything that is not a letter, and
/// breaks lines.
fn encoded(text: &str, encoding: TransferEncoding) -> String {
    match encoding {
        TransferEncoding::None => text.to_owned(),
        TransferEncoding::Base64 => STANDARD
            .encode(text)
            .as_bytes()
            .chunks(76)
            .map(|line| format!("{}\r\n", String::from_utf8_lossy(line)))
            .collect(),
        TransferEncoding::QuotedPrintable => {
            let escape = |byte: u8| {
                if byte.is_ascii_alphabetic() {
                    char::from(byte).to_string()
                } else {
                    format!("={byte:02X}")
                }
            };
            text.bytes()
                .map(escape)
                .collect::<Vec<_>>()
                .chunks(20)
                .map(<[_]>::concat)
                .collect::<Vec<_>>()
                .join("=\r\n")
        }
    }
}

fn text_and_encoding() -> impl Strategy<Value = (String, TransferEncoding)> {
    (
        "[ -~žščřÄ漢字\u{1F600}]{1,200}",
        prop::sample::select(vec![
            TransferEncoding::None,
            TransferEncoding::Base64,
            TransferEncoding::QuotedPrintable,
        ]),
    )
        .prop_filter("no delimiter", |(text, _)| !text.starts_with("--"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_message_fails(message in nasty()) {
        let read = SearchableMail::parse(&message);
        prop_assert!(read.subject.len() <= 4 * MAX_FIELD_BYTES);
        prop_assert!(read.text.len() <= 3 * message.len());
    }
}

proptest! {
    #[test]
    fn subject_and_text_are_decoded(
        parts in prop::collection::vec(text_and_encoding(), 1..5),
        subject in "[a-zžščř漢字\u{1F600}]{1,40}",
    ) {
        let name = |encoding: &TransferEncoding| match encoding {
            TransferEncoding::None => "8bit",
            TransferEncoding::Base64 => "base64",
            TransferEncoding::QuotedPrintable => "quoted-printable",
        };
        let bodies: String = parts
            .iter()
            .map(|(text, encoding)| {
                let body = encoded(text, *encoding);
                format!(
                    "--b\r\n\
                     Content-Type: text/plain; charset=utf-8\r\n\
                     Content-Transfer-Encoding: {}\r\n\r\n\
                     {body}\r\n",
                    name(encoding)
                )
            })
            .collect();
        let words: Vec<_> = subject
            .chars()
            .map(|c| format!("=?utf-8?B?{}?=", STANDARD.encode(c.to_string())))
            .collect();
        let message = format!(
            "Subject: {}\r\n\
             Content-Type: multipart/mixed; boundary=b\r\n\r\n\
             {bodies}--b--\r\n",
            words.join("\r\n ")
        );
        let read = SearchableMail::parse(message.as_bytes());
        prop_assert_eq!(read.subject, subject);
        let texts: Vec<_> = parts.into_iter().map(|(text, _)| text).collect();
        prop_assert_eq!(read.text, texts.join("\n"));
    }
}

#[test]
fn the_beginning_of_a_long_part_is_read() {
    let line = "QUJDRCBFRkdI".repeat(6) + "\r\n";
    let long = line.repeat(MAX_PART_BYTES / line.len() + 1000);
    let text = "ABCD EFGH".repeat(MAX_TEXT_BYTES / 9 + 1);
    for (what, message, beginning) in [
        (
            "base64",
            format!("Content-Transfer-Encoding: base64\r\n\r\n{long}"),
            &text[..MAX_TEXT_BYTES],
        ),
        (
            "base64 that is out of step",
            format!("Content-Transfer-Encoding: base64\r\n\r\n*{long}"),
            &text[..MAX_TEXT_BYTES],
        ),
        (
            "plain",
            format!("\r\n{}", "ž".repeat(MAX_PART_BYTES)),
            &"ž".repeat(MAX_TEXT_BYTES / 2),
        ),
        (
            "white space",
            format!(
                "Content-Type: text/html\r\n\r\nOK{}late",
                " ".repeat(MAX_PART_BYTES)
            ),
            "OK",
        ),
        (
            "markup",
            format!(
                "Content-Type: text/html\r\n\r\nOK{}late",
                "<br>".repeat(MAX_PART_BYTES / 4)
            ),
            "OK",
        ),
        (
            "an entity at the end",
            format!(
                "Content-Type: text/html\r\n\r\n{}&ž",
                "ž&amp;".repeat(MAX_TEXT_BYTES)
            ),
            &"ž&".repeat(MAX_TEXT_BYTES / 3),
        ),
    ] {
        assert!(
            SearchableMail::parse(message.as_bytes()).text == beginning,
            "{what}"
        );
    }
}
