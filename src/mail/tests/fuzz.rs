//! Mails of any bytes.

use super::*;

#[test]
fn fuzz_messages() {
    const EXAMPLES: &[&str] = &[
        "Subject: =?UTF-8?B?xb5hZGFuw70=?= OK\r\nFrom: a@b\r\n\r\nbackup done\r\n",
        concat!(
            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"x y\"\r\n\r\n",
            "--x y\r\nContent-Type: text/html; charset=iso-8859-2\r\n",
            "Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>a=E9=\r\nb</p>\r\n",
            "--x y\r\nContent-Type: multipart/alternative; boundary=in\r\n\r\n",
            "--in\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\r\n--in--\r\n--x y--\r\n",
        ),
        "Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntext\r\n",
    ];
    crate::util::fuzzing::fuzz(EXAMPLES, |message| {
        let found = SearchableMail::parse(message);
        assert!(found.text.len() <= MAX_TEXT_BYTES);
    });
}
