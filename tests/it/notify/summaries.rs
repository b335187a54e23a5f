//! Summaries by mail: their contents, the time at which they are sent, and failures.

use overdue::domain::ids::UserId;
use overdue::domain::mail_address::MailAddress;
use overdue::domain::number::Seconds;
use overdue::domain::user::summary::{SummaryInterval, SummarySettings, SummarySubscription};
use overdue::domain::user::{Grant, Membership, ProjectMemberships, UserName};
use overdue::engine::command::user::{NewUser, UserChanges, UserCommand};

use super::*;

/// Tuesday 19 January 2027.
const TUESDAY: i64 = 1_800_316_800;
const HOUR: i64 = 3_600;
/// Monday 25 January 2027, 09:00, in hours after [`TUESDAY`].
const SENDING_HOURS: i64 = 6 * 24 + 9;

struct SummaryFixture {
    site: NotifierFixture,
    user: UserId,
}

impl SummaryFixture {
    /// A server with a user who gets weekly summaries of the project `Home`.
    async fn start(mail: &RecordingMailServer, medium: Medium) -> Self {
        let site = NotifierFixture::start_on(medium, Timestamp::from_secs(TUESDAY), |config| {
            let from = MailFrom::parse("overdue <alerts@example.net>").unwrap();
            let url = format!("smtp+plain://{}", mail.address);
            config.relay =
                Some(MailRelay::new(MailServer::parse(&url).unwrap(), None, from).unwrap());
        });
        for (seed, name) in [(2, "Home"), (3, "Secret")] {
            site.execute(create_project(&Random::seeded(seed), name, 100))
                .await;
        }
        let mut fixture = Self {
            site,
            user: UserId(0),
        };
        fixture.user = fixture.subscribe("Ann").await;
        fixture
    }

    /// Creates a user who gets weekly summaries of the project `Home`.
    async fn subscribe(&self, name: &str) -> UserId {
        let memberships = ProjectMemberships::new([(MAIN, Membership::ReadOnly)]);
        let created = self
            .site
            .execute(user_command(UserCommand::Create(NewUser {
                uuid: self.site.handle.random().uuid(),
                name: UserName::parse(name).unwrap(),
                password: None,
                grant: Grant::Projects(memberships),
            })))
            .await;
        let CommandOutcome::User(user) = created else {
            panic!("{created:?}");
        };
        let settings = SummarySettings {
            interval: SummaryInterval::Weekly,
            address: MailAddress::parse("ann@example.org").unwrap(),
            projects: [].into(),
        };
        let update = UserCommand::Update {
            user: user.id,
            changes: UserChanges {
                summary: Some(Some(settings)),
                ..UserChanges::default()
            },
            request_session: None,
        };
        self.site.execute(user_command(update)).await;
        user.id
    }

    /// Creates a check that may stay silent for a month.
    async fn create_check(&self, project: ProjectId, uuid: u128, name: &str) {
        self.site
            .execute(create_check(
                project,
                uuid,
                CheckEdit {
                    name: Some(Name::parse(name).unwrap()),
                    timeout: Seconds::parse(30 * 86_400).ok(),
                    ..CheckEdit::default()
                },
            ))
            .await;
    }

    /// Moves the clock to this number of hours after [`TUESDAY`].
    fn advance_to_hour(&self, hour: i64) {
        let time = Timestamp::from_secs(TUESDAY + hour * HOUR);
        let distance = time.micros_since(self.site.handle.now()) / 1_000_000;
        self.site.clock.advance_secs(distance);
    }

    fn subscription(&self) -> Option<SummarySubscription> {
        self.site
            .handle
            .with_state(|state| state.users.get(self.user).unwrap().summary.clone())
    }

    async fn wait_for_covered(&self) -> SummarySubscription {
        let end = Timestamp::from_secs(TUESDAY + 6 * 24 * HOUR);
        self.site
            .wait_until(|| self.subscription().unwrap().covered_until == end)
            .await;
        self.subscription().unwrap()
    }
}

fn user_command(command: UserCommand) -> Command {
    Command::User(Box::new(command))
}

/// Text of all mails, with quoted-printable line breaks joined.
fn mails(server: &RecordingMailServer) -> String {
    server.received_lines().join("\n").replace("=\n", "")
}

#[tokio::test]
async fn a_weekly_summary_says_what_was_down_and_what_became_slower() {
    let mail = RecordingMailServer::start(MailScript::default()).await;
    let fixture = SummaryFixture::start(&mail, Medium::memory()).await;
    let site = &fixture.site;
    fixture.create_check(MAIN, 7, "Nightly <backup>").await;
    fixture.create_check(MAIN, 8, "Dump").await;
    fixture.create_check(MAIN, 9, "Silent").await;
    fixture.create_check(ProjectId(2), 10, "Hidden").await;
    site.ping(7, PingKind::Success, "").await;
    site.ping(10, PingKind::Fail, "").await;
    for (run, took) in [60, 60, 60, 120, 120, 120].into_iter().enumerate() {
        fixture.advance_to_hour(1 + i64::try_from(run).unwrap());
        site.ping(8, PingKind::Start, "").await;
        site.clock.advance_secs(took);
        site.ping(8, PingKind::Success, "").await;
    }
    fixture.advance_to_hour(10);
    site.ping(7, PingKind::Fail, "").await;
    fixture.advance_to_hour(12);
    site.ping(7, PingKind::Success, "").await;
    fixture.advance_to_hour(SENDING_HOURS - 1);
    // After the end of the week, so it only counts as down now.
    site.ping(8, PingKind::Fail, "").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(mail.count("MAIL FROM"), 0);
    fixture.advance_to_hour(SENDING_HOURS);
    let subscription = fixture.wait_for_covered().await;
    assert_eq!(subscription.failure, None);
    assert!(subscription.last_sent.is_some());
    let text = mails(&mail);
    for part in [
        "RCPT TO:<ann@example.org>",
        "Subject: 1 check was down last week (18 Jan 2027 to 24 Jan 2027)",
        "List-Unsubscribe: <https://overdue.test/unsubscribe/ann@example.org>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
        "3 checks in Home, 18 Jan 2027 to 24 Jan 2027 (UTC)",
        "Downtime of all checks together: 2 hours",
        "Down now\n- Dump: since 08:00",
        "Were down\n- Nightly <backup>: 2 hours, 1 downtime, 98.6 % up",
        "Slower than before\n- Dump: usually 2 minutes, before 1 minute",
        "Projects\n- Home: 3 checks, 99.3 % up, 1 downtime",
        "Nightly &#60;backup&#62;",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("Hidden") && !text.contains("Secret"),
        "{text}"
    );
    // One mail for each period.
    for _ in 0..3 {
        site.clock.advance_secs(HOUR);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(mail.count("MAIL FROM"), 1);
}

#[tokio::test]
async fn a_summary_that_fails_is_sent_again_and_a_refused_one_is_given_up() {
    for (reply, is_permanent) in [("451 try later", false), ("550 no such user", true)] {
        let mail = RecordingMailServer::start(MailScript::default()).await;
        mail.reply_once("RCPT TO", reply);
        let fixture = SummaryFixture::start(&mail, Medium::memory()).await;
        fixture.create_check(MAIN, 7, "a").await;
        fixture.advance_to_hour(SENDING_HOURS);
        fixture
            .site
            .wait_until(|| fixture.subscription().unwrap().failure.is_some())
            .await;
        let failed = fixture.subscription().unwrap();
        assert!(
            failed
                .failure
                .as_deref()
                .unwrap()
                .contains(reply.split_once(' ').unwrap().1),
            "{failed:?}"
        );
        let is_covered = failed.covered_until > Timestamp::from_secs(TUESDAY);
        assert_eq!(
            (is_covered, failed.last_sent),
            (is_permanent, None),
            "{reply}"
        );
        for _ in 0..3 {
            fixture.site.clock.advance_secs(301);
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        if !is_permanent {
            let sent = fixture.wait_for_covered().await;
            assert!(
                sent.last_sent.is_some() && sent.failure.is_none(),
                "{sent:?}"
            );
        }
        let attempts = if is_permanent { 1 } else { 2 };
        assert_eq!(mail.count("RCPT TO"), attempts, "{reply}");
    }
}

#[tokio::test]
async fn a_restart_sends_no_summary_twice_and_one_that_was_missed() {
    let mail = RecordingMailServer::start(MailScript::default()).await;
    let disk = Disk::default();
    let fixture = SummaryFixture::start(&mail, disk.medium()).await;
    fixture.create_check(MAIN, 7, "a").await;
    fixture.site.stop().await;
    let restart = |hour: i64| {
        let now = Timestamp::from_secs(TUESDAY + hour * HOUR);
        NotifierFixture::start_on(disk.copy().medium(), now, |config| {
            let from = MailFrom::parse("alerts@example.net").unwrap();
            let url = format!("smtp+plain://{}", mail.address);
            config.relay =
                Some(MailRelay::new(MailServer::parse(&url).unwrap(), None, from).unwrap());
        })
    };
    // The server was off on Monday at nine.
    let site = restart(SENDING_HOURS + 20);
    site.wait_until(|| mail.count("MAIL FROM") == 1).await;
    site.wait_until(|| {
        site.handle.with_state(|state| {
            let user = state.users.iter().next().unwrap();
            user.summary.as_ref().unwrap().last_sent.is_some()
        })
    })
    .await;
    site.clock.advance_secs(60);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(mail.count("MAIL FROM"), 1);
}

#[tokio::test]
async fn many_summaries_are_sent_one_after_the_other_without_a_pause() {
    let mail = RecordingMailServer::start(MailScript::default()).await;
    let fixture = SummaryFixture::start(&mail, Medium::memory()).await;
    fixture.create_check(MAIN, 7, "a").await;
    for number in 0..9 {
        fixture.subscribe(&format!("user {number}")).await;
    }
    fixture.advance_to_hour(SENDING_HOURS);
    // A pause of 30 seconds after each two of them would exceed the time limit.
    let waiting = fixture.site.wait_until(|| mail.count("MAIL FROM") == 10);
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_user_without_checks_gets_no_summary() {
    let mail = RecordingMailServer::start(MailScript::default()).await;
    let fixture = SummaryFixture::start(&mail, Medium::memory()).await;
    fixture.advance_to_hour(SENDING_HOURS);
    let covered = fixture.wait_for_covered().await;
    assert_eq!((covered.last_sent, covered.failure), (None, None));
    assert_eq!(mail.count("(connection)"), 0);
}
