use std::sync::Arc;

use uuid::Uuid;

use super::super::super::command::Command;
use super::super::fixture::{MAIN_PROJECT, NOW, add_channel, add_check, send_ping, working_state};
use super::*;
use crate::domain::maintenance_window::WindowTimes;
use crate::domain::ping::PingKind;
use crate::domain::schedule::Schedule;
use crate::domain::text::{Name, Tags};
use crate::domain::timezone::Timezone;

const WINDOWS: u64 = 100;

/// Creates a window that opens by a schedule, for `minutes`.
fn create(working: &mut WorkingState, schedule: &str, minutes: u32) -> WindowId {
    let schedule = Arc::new(Schedule::parse(schedule).unwrap());
    let times = WindowTimes::Recurring {
        schedule,
        tz: Timezone::utc(),
        minutes,
    };
    let window = NewWindow {
        uuid: Uuid::nil(),
        project: MAIN_PROJECT,
        name: Name::default(),
        tags: Tags::default(),
        times,
    };
    match working.apply(Command::CreateWindow(Box::new(window)), NOW) {
        Ok(CommandOutcome::Window(window)) => window.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn notification_state(
    working: &WorkingState,
    id: crate::domain::ids::CheckId,
) -> NotificationState {
    working.state.check(id).unwrap().state.notification
}

#[test]
fn pings_of_a_held_check_recompute_no_window() {
    let mut working = working_state();
    add_channel(&mut working, "webhook", &[("down-url", "http://a/")]);
    let id = add_check(&mut working, 7);
    for _ in 0..WINDOWS {
        create(&mut working, "0 0 * * *", 24 * 60);
    }
    send_ping(&mut working, 7, PingKind::Fail, NOW);
    assert!(matches!(
        notification_state(&working, id),
        NotificationState::Pending {
            reason: HoldReason::MaintenanceWindow,
            ..
        }
    ));
    assert_eq!(working.state.computed_phases(MAIN_PROJECT), WINDOWS);
    for second in 0..1000 {
        let kind = [
            PingKind::Log,
            PingKind::Fail,
            PingKind::Success,
            PingKind::Start,
        ][second as usize % 4];
        send_ping(&mut working, 7, kind, NOW.plus_secs(second));
    }
    assert_eq!(
        working.state.computed_phases(MAIN_PROJECT),
        WINDOWS,
        "each window once while it is open"
    );
}

#[test]
fn a_cached_phase_is_valid_until_the_phase_ends_or_the_window_changes() {
    let mut working = working_state();
    let open = |working: &mut WorkingState, at: Timestamp| {
        working
            .state
            .windows_open_until(MAIN_PROJECT, &Tags::default(), at)
    };
    // Opens at 08:00 UTC and every hour after it, for ten minutes.
    let id = create(&mut working, "0 * * * *", 10);
    for (secs, until) in [
        (0, Some(600)),
        (599, Some(600)),
        (600, None),
        (3599, None),
        (3600, Some(4200)),
        (0, Some(600)),
        (700, None),
    ] {
        assert_eq!(
            open(&mut working, NOW.plus_secs(secs)),
            until.map(|until| NOW.plus_secs(until)),
            "{secs} s"
        );
    }
    assert!(working.state.computed_phases(MAIN_PROJECT) <= 5);
    // While periods overlap, the end of the last one that has begun, asked earlier or not.
    create(&mut working, "*/2 * * * *", 5);
    for secs in 700..3600 {
        assert_eq!(
            open(&mut working, NOW.plus_secs(secs)),
            Some(NOW.plus_secs(secs / 120 * 120 + 300)),
            "{secs} s"
        );
    }
    working
        .apply(Command::DeleteWindow(MAIN_PROJECT, id), NOW)
        .unwrap();
    let other = WindowTimes::Once {
        from: NOW.plus_secs(60),
        to: NOW.plus_secs(90),
    };
    let window = MaintenanceWindow {
        times: other,
        ..MaintenanceWindow::clone(
            working
                .state
                .project(MAIN_PROJECT)
                .unwrap()
                .windows
                .values()
                .next()
                .unwrap(),
        )
    };
    working.put_window(window, NOW);
    for (secs, until) in [(59, None), (60, Some(90)), (90, None)] {
        assert_eq!(
            open(&mut working, NOW.plus_secs(secs)),
            until.map(|until| NOW.plus_secs(until)),
            "{secs} s, changed"
        );
    }
}
