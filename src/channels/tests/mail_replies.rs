//! Meaning of the replies of mail servers and of the exits of commands.

use super::kinds::example;
use super::replies::{answer, judged_after, judged_at};
use crate::channels::transport_reply::{CommandStatus, MailStage};
use crate::channels::{TransportReply, Verdict};

#[test]
fn replies_of_mail_servers_and_commands() {
    use MailStage::{Content, Recipient, Session};
    use Verdict::{ChannelRejected, Delivered, MessageRejected};
    for (code, stage, expected) in [
        (250, Content, Delivered),
        (421, Session, Verdict::RETRY),
        (451, Content, Verdict::RETRY),
        (535, Session, Verdict::RETRY),
        (550, Recipient, ChannelRejected),
        (551, Recipient, ChannelRejected),
        (450, Recipient, Verdict::RETRY),
        (550, Session, Verdict::RETRY),
        (552, Content, MessageRejected),
        (554, Content, MessageRejected),
        (554, Session, Verdict::RETRY),
    ] {
        let answer = TransportReply::Mail {
            code,
            stage,
            text: "5.1.1 no such user".into(),
        };
        let judged = judged_after(&example("email"), 3, 3_600, &answer);
        assert_eq!(judged.verdict, expected, "{code} {stage:?}");
        let error = if expected == Delivered {
            "not taken for 5.1.1 no such user".into()
        } else {
            format!("the mail server said {code}: 5.1.1 no such user")
        };
        assert_eq!((judged.error, judged.status), (error, code));
    }
    for (end, expected, error) in [
        (CommandStatus::Exit(0), Delivered, ""),
        (
            CommandStatus::Exit(75),
            Verdict::RETRY,
            "exit status 75: no disk",
        ),
        (
            CommandStatus::Exit(1),
            MessageRejected,
            "exit status 1: no disk",
        ),
        (
            CommandStatus::Exit(127),
            ChannelRejected,
            "exit status 127: no disk",
        ),
        (
            CommandStatus::Signal(9),
            MessageRejected,
            "ended by signal 9: no disk",
        ),
        (
            CommandStatus::Timeout,
            Verdict::RETRY,
            "it took too long: no disk",
        ),
        (
            CommandStatus::NotRun,
            ChannelRejected,
            "it could not be run: no disk",
        ),
    ] {
        let judged = judged_after(
            &example("shell"),
            3,
            60,
            &TransportReply::Command {
                end,
                error: "no\ndisk".into(),
            },
        );
        assert_eq!(
            (judged.verdict, judged.error.as_str()),
            (expected, error),
            "{end:?}"
        );
    }
    // A refusal must persist.
    let refused = TransportReply::Mail {
        code: 550,
        stage: Recipient,
        text: String::new(),
    };
    for (number, seconds) in [(2, 3_600), (3, 3_599)] {
        assert_eq!(
            judged_after(&example("email"), number, seconds, &refused).verdict,
            Verdict::RETRY
        );
    }
    // The number of retries of a refused message does not depend on the kind.
    let failed = TransportReply::Command {
        end: CommandStatus::Exit(1),
        error: String::new(),
    };
    assert_eq!(
        judged_after(&example("shell"), 1, 0, &failed).verdict,
        MessageRejected
    );
    assert_eq!(
        judged_after(&example("webhook"), 1, 0, &answer(422, &[], "")).verdict,
        MessageRejected
    );
    let judged = judged_at(
        &example("ntfy"),
        0,
        &TransportReply::NoReply {
            error: "cannot connect to ntfy.sh: refused".into(),
            may_have_arrived: false,
        },
    );
    assert_eq!(
        (judged.verdict, judged.error.as_str(), judged.status),
        (Verdict::RETRY, "cannot connect to ntfy.sh: refused", 0)
    );
}
