//! Every cause of a downtime with every reason for holding its alert: whether the alert is sent or
//! held, for which reason, and whether the end is sent.

use overdue::domain::maintenance_window::WindowTimesInput;
use overdue::domain::parents::Parents;
use overdue::domain::text::{Name, Tags};
use overdue::engine::command::NewWindow;

use super::*;

/// Cause of a downtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DowntimeCause {
    /// The check was up, and its ping is missing.
    Late,
    /// The check was up, new or paused, and reports a failure.
    FailsUp,
    FailsNew,
    FailsPaused,
    /// The check was up, and a run did not end in time.
    Overrun,
    /// The check was up, and by its new settings a ping is missing.
    Edited,
}

/// Conditions that may hold the alert.
#[derive(Clone, Copy, Debug)]
struct HoldCase {
    way: DowntimeCause,
    /// Failure threshold of the check.
    after: u64,
    /// A maintenance window is open.
    window: bool,
    /// The check depends on a parent that is up (`Some(false)`), or down and alerted.
    parent: Option<bool>,
    /// Pings could not be received for a while.
    had_outage: bool,
}

impl HoldCase {
    fn all() -> impl Iterator<Item = Self> {
        let causes = [
            DowntimeCause::Late,
            DowntimeCause::FailsUp,
            DowntimeCause::FailsNew,
            DowntimeCause::FailsPaused,
            DowntimeCause::Overrun,
            DowntimeCause::Edited,
        ];
        (0..causes.len() * 2 * 2 * 3 * 2).map(move |number| Self {
            way: causes[number / 24],
            after: if number % 2 == 0 { 1 } else { 3 },
            window: number / 2 % 2 == 1,
            had_outage: number / 4 % 2 == 1,
            parent: [None, Some(false), Some(true)][number / 8 % 3],
        })
    }

    fn is_silent(self) -> bool {
        matches!(
            self.way,
            DowntimeCause::Late | DowntimeCause::Overrun | DowntimeCause::Edited
        )
    }

    /// Returns the expected reason, by the precedence of the rules.
    fn expected_hold_reason(self, parent: CheckId) -> Option<HoldReason> {
        let is_silent = self.is_silent();
        if self.had_outage && is_silent {
            Some(HoldReason::ServerOutage)
        } else if self.after > 1 {
            Some(HoldReason::BelowThreshold)
        } else if self.window {
            Some(HoldReason::MaintenanceWindow)
        } else if is_silent && self.parent == Some(true) {
            Some(HoldReason::ParentDown(parent))
        } else {
            None
        }
    }

    /// Takes the check down. The outage is long enough to count, and a ping is expected during it.
    fn go_down(self, engine: &mut TestEngine, id: CheckId) {
        let pause = |engine: &mut TestEngine| {
            if self.had_outage {
                sleep(engine, 50);
            } else {
                wait(engine, 50);
            }
        };
        match self.way {
            DowntimeCause::FailsNew => pause(engine),
            DowntimeCause::FailsPaused => {
                engine.execute(Command::PauseCheck(id, None));
                pause(engine);
            }
            DowntimeCause::FailsUp => {
                engine.execute(ping(7, PingKind::Success, ""));
                pause(engine);
            }
            DowntimeCause::Late => {
                engine.execute(ping(7, PingKind::Success, ""));
                wait(engine, 290);
                pause(engine);
                return wait(engine, 21);
            }
            DowntimeCause::Overrun => {
                engine.execute(ping(7, PingKind::Success, ""));
                engine.execute(ping(7, PingKind::Start, ""));
                pause(engine);
                return wait(engine, 11);
            }
            DowntimeCause::Edited => {
                engine.execute(ping(7, PingKind::Success, ""));
                wait(engine, 30);
                pause(engine);
                wait(engine, 100);
                let shortest = Some(Seconds::parse(60).unwrap());
                let edit = CheckEdit {
                    timeout: shortest,
                    grace: shortest,
                    ..CheckEdit::default()
                };
                return drop(engine.execute(Command::UpdateCheck(id, Box::new(edit))));
            }
        }
        engine.execute(ping(7, PingKind::Fail, ""));
    }
}

#[test]
fn every_cause_of_a_downtime_alerts_unless_the_alert_is_held() {
    for case in HoldCase::all() {
        let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
        engine.create_project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        let parent = create_periodic_check(&mut engine, 6, 86_400, 3600);
        let id = create_periodic_check(&mut engine, 7, 300, 60);
        let parents = case.parent.map(|_| Parents::new(vec![parent]).unwrap());
        engine.execute(Command::UpdateAlertSettings {
            check: id,
            failure_threshold: Some(FailureThreshold::parse(case.after).unwrap()),
            parents,
        });
        engine.execute(ping(
            6,
            if case.parent == Some(true) {
                PingKind::Fail
            } else {
                PingKind::Success
            },
            "",
        ));
        let before = waiting(&engine).len();
        if case.window {
            let times = WindowTimesInput {
                minutes: Some(600),
                ..WindowTimesInput::default()
            }
            .parse(engine.handle.now())
            .unwrap();
            let uuid = engine.handle.random().uuid();
            let name = Name::default();
            let tags = Tags::default();
            engine.execute(Command::CreateWindow(Box::new(NewWindow {
                uuid,
                project: MAIN,
                name,
                tags,
                times,
            })));
        }
        case.go_down(&mut engine, id);
        let check = engine.read_check(id);
        let hold_reason = match check.state.notification {
            NotificationState::Pending {
                reason: hold_reason,
                ..
            } => Some(hold_reason),
            _ => None,
        };
        assert_eq!(
            (check.state.status, hold_reason),
            (Status::Down, case.expected_hold_reason(parent)),
            "{case:?}"
        );
        let alerts = |engine: &TestEngine| waiting(engine)[before..].to_vec();
        let mut expected = if hold_reason.is_none() {
            vec![(hook, id, AlertEvent::Down)]
        } else {
            Vec::new()
        };
        assert_eq!(alerts(&engine), expected, "{case:?}");
        // The end is sent to the channels that were notified of the downtime. If there are none,
        // the log has the reason.
        engine.execute(ping(7, PingKind::Success, ""));
        if hold_reason.is_none() {
            expected.push((hook, id, AlertEvent::Up));
        }
        assert_eq!(
            (alerts(&engine), engine.read_check(id).state.notification),
            (expected, NotificationState::NotNeeded),
            "{case:?}"
        );
        let skipped: Vec<_> = finished(&engine)
            .into_iter()
            .map(|delivery| (delivery.result, delivery.reason.to_string()))
            .collect();
        let reason = |hold_reason: HoldReason| {
            (
                DeliveryResult::Skipped,
                hold_reason.skipped_text(Status::Up).to_owned(),
            )
        };
        assert_eq!(
            skipped,
            hold_reason.map(reason).into_iter().collect::<Vec<_>>(),
            "{case:?}"
        );
    }
}
