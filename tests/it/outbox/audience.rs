//! Channels that join or leave the audience of a check while it is down.

use super::*;

const PAGER: &[(&str, &str)] = &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")];

fn assign(engine: &mut Engine, channel: ChannelId, check: CheckId, assigned: bool) {
    engine.done(Command::AssignChannel { channel, checks: vec![check], assigned });
}

fn set(engine: &mut Engine, channel: ChannelId, pairs: &[(&str, &str)]) {
    let given = GivenSettings::new(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect());
    engine.done(Command::SetChannel { channel, name: None, settings: Some(given), maker: Maker::Operator });
}

fn told(engine: &Engine) -> Vec<(ChannelId, Event)> {
    waiting(engine).into_iter().map(|(channel, _, event)| (channel, event)).collect()
}

#[test]
fn who_was_not_notified_of_a_downtime_is_not_notified_of_its_end() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = Engine::open(disk.medium(), Thresholds::default());
        engine.project(100);
        let [first, disabled, moved] = [1, 2, 3].map(|uuid| channel(&mut engine, uuid, "webhook", HOOK));
        let id = check(&mut engine, 7);
        let late = channel(&mut engine, 4, "webhook", HOOK);
        engine.done(Command::DisableChannel { channel: disabled, reason: "no".into() });
        engine.done(ping(7, Kind::Fail, ""));
        engine.done(Command::EnableChannel(disabled));
        assign(&mut engine, late, id, true);
        let every = channel(&mut engine, 5, "webhook", &[HOOK, &[("every", "on")]].concat());
        assert_eq!(told(&engine), [first, moved].map(|channel| (channel, Event::Down)));
        if restarts {
            let now = engine.handle.now();
            drop(engine);
            engine = reopened(&disk, now);
        } else {
            assign(&mut engine, moved, id, false);
            assign(&mut engine, moved, id, true);
        }
        engine.done(ping(7, Kind::Success, ""));
        let ups = [(first, Event::Up), (moved, Event::Up)];
        assert_eq!(told(&engine)[2..], ups, "restarts: {restarts}");
        // The next downtime is told to all of them.
        engine.done(ping(7, Kind::Fail, ""));
        let all = [first, disabled, moved, late, every].map(|channel| (channel, Event::Down));
        assert_eq!(told(&engine)[4..], all);
        engine.done(ping(7, Kind::Success, ""));
        assert_eq!(told(&engine).len(), 14);
    }
}

#[test]
fn incidents_end_when_their_channel_hears_of_every_check_or_belongs_to_a_group_no_longer() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let every = channel(&mut engine, 1, "pd", &[PAGER, &[("every", "on")]].concat());
    let member = channel(&mut engine, 2, "pd", PAGER);
    let group = channel(&mut engine, 3, "group", &[("channels", "00000000-0000-0000-0000-000000000002")]);
    let id = match engine.done(create_check(MAIN, 7, Edit::default())) {
        Outcome::Created(check) => check.id,
        outcome => panic!("{outcome:?}"),
    };
    assign(&mut engine, group, id, true);
    engine.done(ping(7, Kind::Fail, ""));
    assert_eq!(told(&engine), [every, member].map(|channel| (channel, Event::Down)));
    set(&mut engine, every, &[PAGER, &[("every", "off")]].concat());
    engine.done(Command::DeleteChannel(group));
    assert_eq!(told(&engine)[2..], [every, member].map(|channel| (channel, Event::Closed)));
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(told(&engine).len(), 4, "nobody hears of it now");
}
