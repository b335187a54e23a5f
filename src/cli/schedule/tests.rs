use clap::Parser;

use super::*;

#[derive(Parser)]
struct ScheduleTestCommand {
    #[command(flatten)]
    args: ScheduleArgs,
}

fn args(words: &[&str]) -> Result<ScheduleArgs, String> {
    let parsed = ScheduleTestCommand::try_parse_from([&["schedule"], words].concat());
    parsed.map(|command| command.args).map_err(|error| {
        error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

/// Returns standard output and standard error, at 2026-11-20T10:00:00Z.
fn schedule(words: &[&str], stdin: &[u8]) -> (String, String) {
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    run(
        &args(words).unwrap(),
        Timestamp::from_secs(1_795_168_800),
        stdin,
        &mut stdout,
        &mut stderr,
    )
    .unwrap();
    (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

#[test]
fn occurrences_are_alone_on_stdout() {
    let (stdout, stderr) = schedule(
        &[
            "0 8 * * *",
            "--tz",
            "Europe/Riga",
            "--from",
            "2026-10-24T00:00:00+03:00",
            "--count",
            "3",
        ],
        b"",
    );
    assert_eq!(
        stdout,
        "2026-10-24T08:00:00+03:00\n2026-10-25T08:00:00+02:00\n2026-10-26T08:00:00+02:00\n"
    );
    assert_eq!(stderr, "");

    let (stdout, stderr) = schedule(&["daily"], b"");
    assert_eq!(
        (stdout.lines().count(), stdout.lines().next()),
        (5, Some("2026-11-21T00:00:00+00:00"))
    );
    assert_eq!(
        stderr,
        "overdue: times are in UTC; --tz sets the time zone of the schedule, as in --tz \
         Europe/Riga\n"
    );
}

#[test]
fn a_series_that_ends_prints_nothing_more() {
    let (stdout, stderr) = schedule(&["2026-12-24,25 18:00", "--tz", "UTC"], b"");
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("2026-12-24T18:00:00+00:00\n2026-12-25T18:00:00+00:00\n", "")
    );
    let (stdout, stderr) = schedule(&["2020-1-1", "--tz", "UTC"], b"");
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("", "overdue: the schedule has ended\n")
    );
}

#[test]
fn an_invalid_argument_is_an_error_with_its_reason() {
    for (words, reason) in [
        (
            &["*/5 * * * 8"][..],
            "invalid value '*/5 * * * 8' for '[EXPR]': weekday `8`: 0-7 or SUN-SAT",
        ),
        (
            &["0 0 30 2 *"],
            "invalid value '0 0 30 2 *' for '[EXPR]': day of month `30`: none of these months has \
             such a day",
        ),
        (
            &["0 0 0 * * *"],
            "invalid value '0 0 0 * * *' for '[EXPR]': six fields: overdue accepts five; remove \
             the seconds",
        ),
        (
            &["daily", "--tz", "utc"],
            "invalid value 'utc' for '--tz <ZONE>': not a time zone: give an IANA name in its \
             exact spelling, such as Europe/Riga or UTC",
        ),
        (
            &["daily", "--from", "today"],
            "invalid value 'today' for '--from <RFC3339>': give an RFC 3339 time, as in \
             2027-01-31T08:00:00+02:00",
        ),
        (&[], "the following required arguments were not provided:"),
        (
            &["daily", "--batch"],
            "the argument '[EXPR]' cannot be used with '--batch'",
        ),
    ] {
        assert_eq!(
            args(words).err(),
            Some(format!("error: {reason}")),
            "{words:?}"
        );
    }
}

#[test]
fn lines_of_a_batch_are_answered_in_order() {
    let long = format!(r#"{{"expr":"{}"}}"#, "x".repeat(20_000));
    let lines = [
        concat!(
            r#"{"expr":"0 12 * * *","tz":"Europe/Riga","start":"2033-04-28T22:00:00.5Z","#,
            r#""kind":"not read"}"#
        ),
        r#"{"expr":"2026-11-21\n2020-1-1 \u0055TC","tz":"Europe/Kiev"}"#,
        r#"{"expr":"2020-1-1"}"#,
        r#"{"expr":"* * * * * *","tz":"UTC","start":"2026-01-01T00:00:00Z"}"#,
        r#"{"expr":"daily","tz":"Mars/Olympus"}"#,
        r#"{"expr":"daily","start":"2026-01-01"}"#,
        r#"{"expr":5}"#,
        "{\"expr\":\"0 0 * * \u{9b}2J\u{202e}\"}",
        "",
        "half a character: \u{fffd}",
        &long,
        r#"{"expr":"hourly"}"#,
    ];
    let mut stdin = lines.join("\n").into_bytes();
    stdin.retain(|byte| *byte != 0xbd);
    let (stdout, stderr) = schedule(&["--batch", "--count", "2"], &stdin);
    let answers: Vec<&str> = stdout.lines().collect();
    assert_eq!((stderr.as_str(), answers.len()), ("", lines.len()));
    assert_eq!(
        answers[0],
        r#"{"kind":"cron","next":["2033-04-29T09:00:00Z","2033-04-30T09:00:00Z"]}"#
    );
    assert_eq!(
        answers[1],
        r#"{"kind":"oncalendar","next":["2026-11-20T22:00:00Z"]}"#
    );
    assert_eq!(answers[2], r#"{"kind":"oncalendar","next":[]}"#);
    assert!(answers[7].contains(r"\u009b2J\u202e"), "{}", answers[7]);
    for answer in &answers[3..11] {
        assert!(answer.starts_with(r#"{"error":""#), "{answer}");
    }
    assert_eq!(
        answers[11],
        r#"{"kind":"oncalendar","next":["2026-11-20T11:00:00Z","2026-11-20T12:00:00Z"]}"#
    );
}

#[test]
fn a_closed_pipe_ends_quietly() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for words in ["daily", "--batch"] {
        assert!(
            run(
                &args(&[words]).unwrap(),
                Timestamp::default(),
                &br#"{"expr":"daily"}"#[..],
                Closed,
                io::sink()
            )
            .is_ok()
        );
    }
}
