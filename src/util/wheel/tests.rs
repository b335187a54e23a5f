use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum WheelOperation {
    /// Inserts at the end of a slot of a level, so that ticks are shared.
    Insert {
        ahead: i64,
        level: u32,
        times: usize,
    },
    Advance {
        by: i64,
        budget: usize,
    },
}

/// A distance in ticks of some magnitude up to 2^62, in both directions.
fn distance() -> impl Strategy<Value = i64> {
    (0..62_u32, any::<i64>(), 0..8_u8).prop_map(|(bits, noise, back)| {
        let size = noise.rem_euclid(1 << bits);
        if back == 0 { -size } else { size }
    })
}

fn step() -> impl Strategy<Value = WheelOperation> {
    let ahead = prop_oneof![3 => -3..200_i64, 3 => 0..20_000_i64, 1 => distance()];
    let times = prop_oneof![8 => Just(1_usize), 1 => 0..400_usize];
    let by = prop_oneof![3 => -100..3_000_i64, 1 => distance()];
    let budget = prop_oneof![Just(1_usize), 0..20_usize, 20..1000_usize, Just(usize::MAX)];
    prop_oneof![
        (ahead, 0..3_u32, times).prop_map(|(ahead, level, times)| WheelOperation::Insert {
            ahead,
            level,
            times
        }),
        (by, budget).prop_map(|(by, budget)| WheelOperation::Advance { by, budget }),
    ]
}

/// The wheel and an ordered map with the expected results, keyed by tick and order of insertion.
struct WheelWithModel {
    wheel: TimingWheel,
    model: BTreeMap<(u64, u64), u64>,
    inserted: u64,
    /// Greatest tick passed to `advance`.
    latest: u64,
}

impl WheelWithModel {
    fn new(now: u64) -> Self {
        Self {
            wheel: TimingWheel::new(now),
            model: BTreeMap::new(),
            inserted: 0,
            latest: now,
        }
    }

    fn insert(&mut self, tick: u64) {
        self.inserted += 1;
        let id = self.inserted % 7;
        self.model
            .insert((tick.max(self.wheel.time), self.inserted), id);
        self.wheel.insert(tick, id);
    }

    fn advance(&mut self, now: u64, budget: usize) -> bool {
        let mut due = Vec::new();
        let more = self.wheel.advance(now, budget, &mut due);
        self.latest = self.latest.max(now);
        assert!(due.len() <= budget.max(1));
        for id in due {
            let ((tick, _), expected) = self.model.pop_first().expect("nothing comes out twice");
            assert_eq!(id, expected);
            assert!(
                tick <= self.latest,
                "an entry for {tick} came out at {}",
                self.latest
            );
        }
        let earliest = self.model.keys().next().map(|(tick, _)| *tick);
        assert_eq!(
            (self.wheel.len(), self.wheel.is_empty()),
            (self.model.len(), self.model.is_empty())
        );
        if more {
            assert!(
                self.wheel
                    .next_tick()
                    .is_some_and(|tick| tick <= now.max(self.wheel.time))
            );
        } else {
            assert!(
                self.wheel.time >= now && earliest.is_none_or(|tick| tick > self.wheel.time),
                "something due was held back"
            );
        }
        match (self.wheel.next_tick(), earliest) {
            (Some(next), Some(earliest)) => {
                assert!(next <= earliest && (more || next > self.wheel.time));
            }
            (next, earliest) => assert_eq!(next, earliest),
        }
        more
    }
}

proptest! {
    #[test]
    fn the_wheel_agrees_with_an_ordered_map(
        start in prop_oneof![Just(0), 0..1_u64 << 40, any::<u64>()],
        steps in vec(step(), 1..400),
    ) {
        let mut pair = WheelWithModel::new(start);
        let mut now = start;
        for step in steps {
            match step {
                WheelOperation::Insert { ahead, level, times } => {
                    let tick = now.saturating_add_signed(ahead) | ((1 << (6 * level)) - 1);
                    (0..times).for_each(|_| pair.insert(tick));
                }
                WheelOperation::Advance { by, budget } => {
                    now = now.saturating_add_signed(by);
                    pair.advance(now, budget);
                }
            }
        }
        for budget in [5, 100] {
            // Eleven moves for each entry are enough for all due entries, and then for all others.
            for _ in 0..=11 * pair.model.len() {
                if !pair.advance(now, budget) {
                    break;
                }
            }
            now = u64::MAX;
        }
        prop_assert!(pair.wheel.is_empty());
    }
}

#[test]
fn sleeping_until_the_next_stop_ends_at_the_tick_and_rarely_before() {
    for (start, tick) in [
        (0, 0),
        (0, 1),
        (63, 64),
        (0, 64 * 64),
        (5, 4 * 365 * 86_400 * 16),
        (1, u64::MAX),
        (u64::MAX - 1, u64::MAX),
        (u64::MAX, u64::MAX),
        (1 << 60, (1 << 60) - 1),
        (0x0fff_ffff_ffff_ffff, 0x1fff_ffff_ffff_ffff),
    ] {
        let mut wheel = TimingWheel::new(start);
        wheel.insert(tick, 7);
        let mut due = Vec::new();
        let mut stops = 0;
        while let Some(next) = wheel.next_tick() {
            assert!(due.is_empty() && !wheel.advance(next, usize::MAX, &mut due));
            assert_eq!(due.is_empty(), next < tick, "{start} {tick}");
            stops += 1;
        }
        assert_eq!(due, [7]);
        assert!(stops <= LEVELS, "{start} {tick}: {stops}");
    }
}

#[test]
fn a_clock_that_is_set_back_neither_delays_nor_advances_entries() {
    let mut wheel = TimingWheel::new(1000);
    let mut due = Vec::new();
    wheel.insert(1010, 1);
    wheel.insert(990, 2);
    assert!(!wheel.advance(0, 10, &mut due));
    assert_eq!(
        (due.as_slice(), wheel.next_tick()),
        ([2].as_slice(), Some(1010))
    );
    wheel.insert(500, 3);
    assert!(!wheel.advance(600, 10, &mut due) && !wheel.advance(1009, 10, &mut due));
    assert_eq!(due, [2, 3]);
    assert!(!wheel.advance(1010, 10, &mut due));
    assert_eq!(due, [2, 3, 1]);
}

impl TimingWheel {
    /// Bytes of the chunks and of the lists of chunks.
    fn footprint(&self) -> usize {
        let chunks = |list: &mut dyn Iterator<Item = &Vec<WheelEntry>>| {
            list.map(|chunk| chunk.capacity() * size_of::<WheelEntry>())
                .sum::<usize>()
        };
        let slots = self.levels.iter().flat_map(|level| &level.slots);
        slots
            .clone()
            .map(|slot| slot.capacity() * size_of::<Vec<WheelEntry>>())
            .sum::<usize>()
            + chunks(&mut slots.flatten())
            + chunks(&mut self.spare_chunks.iter())
    }
}

#[test]
fn memory_grows_with_the_entries_and_is_released_after_a_burst() {
    const BURST: usize = 1_000_000;
    let mut wheel = TimingWheel::new(77);
    for id in 0..BURST as u64 {
        wheel.insert(200_000 + id % 1000, id);
    }
    let full = BURST * size_of::<WheelEntry>();
    assert_eq!(size_of::<WheelEntry>(), 16);
    assert!(
        wheel.footprint() < full + full / 20,
        "{}",
        wheel.footprint()
    );
    let mut due = Vec::new();
    while wheel.advance(200_500, 1000, &mut due) {
        assert!(
            wheel.footprint() < full + full / 20,
            "{}",
            wheel.footprint()
        );
    }
    assert_eq!(due.len(), 501_000);
    while wheel.advance(300_000, usize::MAX, &mut due) {}
    assert!(
        wheel.is_empty() && wheel.footprint() <= SPARE_CHUNKS * CHUNK * size_of::<WheelEntry>(),
        "{}",
        wheel.footprint()
    );
}

#[test]
fn entries_of_a_tick_keep_their_order_while_their_slot_is_emptied() {
    let mut wheel = TimingWheel::new(0);
    (0..300).for_each(|id| wheel.insert(100, id));
    let mut due = Vec::new();
    let mut id = 300;
    while wheel.advance(100, 7, &mut due) {
        if id < 330 {
            wheel.insert(100, id);
            id += 1;
        }
    }
    assert_eq!(due, (0..330).collect::<Vec<_>>());
}

#[test]
fn entries_that_move_down_do_not_delay_those_that_are_due() {
    let mut wheel = TimingWheel::new(0);
    // The entries are three levels up, all in one slot.
    (0..60_000).for_each(|id| wheel.insert(64 * 64 * 64 + 5, id));
    let mut due = Vec::new();
    assert!(wheel.advance(64 * 64 * 64 + 5, 128, &mut due));
    let calls =
        (0..10).find(|_| !due.is_empty() || !wheel.advance(64 * 64 * 64 + 5, 128, &mut due));
    assert!(calls.is_some_and(|calls| calls <= 3), "{calls:?}");
    assert_eq!(due.len(), 128);
}
