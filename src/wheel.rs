//! Waiting for deadlines by the million: what one costs does not depend on how many there are.
//!
//! A hierarchical timing wheel (Varghese and Lauck, 1987). It knows ticks and opaque ids. What they mean is up to the caller. Entries are
//! hints: there may be several for one id, and none is ever cancelled. Whoever takes one that came due looks again at what it stands for.
//!
//! A tick is a number of eleven digits, six bits each, and each digit has a level of 64 slots. An entry lies on the level of the
//! highest digit in which its tick differs from the wheel's time, in the slot of that digit. So slots to come have higher digits
//! than the time, nothing wraps around, and no tick is too far away. Time jumps from one occupied slot to the next. Entries of a
//! slot on level 0 are due when time reaches it; those of a slot on a higher level are then dealt out to the levels below.

use std::collections::VecDeque;

/// Bits in a digit.
const BITS: usize = 6;
/// Slots of a level.
const SLOTS: usize = 1 << BITS;
/// Digits of a tick.
const LEVELS: usize = 64_usize.div_ceil(BITS);
/// Entries that are allocated together (2 KiB): a slot grows by chunks, so that its entries are never copied all at once.
const CHUNK: usize = 128;
/// Emptied chunks that are kept for reuse (128 KiB); the rest of a burst goes back to the allocator.
const SPARE_CHUNKS: usize = 64;

/// Entries that one call moves to a lower level at the most: about 2 ms of work.
const MAX_MOVES: usize = 1 << 16;

#[derive(Clone, Copy)]
struct WheelEntry {
    /// Not before the time of the wheel at insertion.
    tick: u64,
    id: u64,
}

/// Entries in order of insertion, in chunks of which none is empty.
type WheelSlot = VecDeque<Vec<WheelEntry>>;

struct WheelLevel {
    /// One bit for each slot, set while it holds entries.
    occupied: u64,
    slots: [WheelSlot; SLOTS],
}

/// A queue of (tick, id) in which insertion and coming due take the same time whatever the number of entries.
pub struct TimingWheel {
    /// No entry has an earlier tick.
    time: u64,
    /// The level whose slot at `time` is being dealt out to the levels below; 0 when none is. Meanwhile those hold nothing but what came
    /// from that slot.
    cascading_level: usize,
    levels: Box<[WheelLevel; LEVELS]>,
    spare_chunks: Vec<Vec<WheelEntry>>,
    len: usize,
}

impl TimingWheel {
    /// An empty wheel whose time is `now`.
    pub fn new(now: u64) -> Self {
        let level = |_| WheelLevel { occupied: 0, slots: std::array::from_fn(|_| WheelSlot::new()) };
        Self { time: now, cascading_level: 0, levels: Box::new(std::array::from_fn(level)), spare_chunks: Vec::new(), len: 0 }
    }

    /// Keeps `id` until `tick`. If the wheel's time has reached `tick` already, the next [`advance`](Self::advance) takes it.
    pub fn insert(&mut self, tick: u64, id: u64) {
        // An entry of the slot that is being dealt out queues up there, or it would overtake older ones.
        self.insert_entry(WheelEntry { tick: tick.max(self.time), id }, self.cascading_level);
        self.len += 1;
    }

    /// Moves the wheel's time to `now` (a `now` before it leaves it where it is) and appends to `due` what has come due.
    ///
    /// Nothing comes out before its tick. Ids come in the order of their ticks, and for the same tick in the order of insertion; what
    /// was inserted for a tick already past counts for the wheel's time at that moment.
    ///
    /// At most `most` entries (0 counts as 1) come due, and at most 65,536 others are moved towards it, each of them at most
    /// ten times until it is in `due`. `true`: there was more to do, the wheel's time may be short of `now`, and the next call goes on
    /// from there.
    #[must_use = "more may be due"]
    pub fn advance(&mut self, now: u64, most: usize, due: &mut Vec<u64>) -> bool {
        let now = now.max(self.time);
        let (mut most, mut moves) = (most.max(1), MAX_MOVES);
        while let Some((level, tick)) = self.first_occupied()
            && tick <= now
        {
            // What only moves costs far less than what its taker does with an entry that is due.
            let budget = if level == 0 { &mut most } else { &mut moves };
            if *budget == 0 {
                return true;
            }
            self.time = tick;
            *budget -= self.drain_slot(level, *budget, due);
        }
        self.time = now;
        false
    }

    /// The tick until which [`advance`](Self::advance) has nothing to do. It is the wheel's time when there is something to do now, and `None`
    /// when the wheel is empty.
    ///
    /// It is never later than the tick of the earliest entry. It may be earlier when that entry is far away: there are at most ten such stops
    /// on the way to an entry.
    pub fn next_tick(&self) -> Option<u64> {
        self.first_occupied().map(|(_, tick)| tick)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The level and first tick of the slot to empty next.
    fn first_occupied(&self) -> Option<(usize, u64)> {
        if self.cascading_level > 0 {
            return Some((self.cascading_level, self.time));
        }
        // On one level the slots to come share all higher digits with the time, and those of a lower level come earlier.
        self.levels.iter().enumerate().find(|(_, level)| level.occupied != 0).map(|(number, level)| {
            let higher = self.time >> (number * BITS) & !(SLOTS as u64 - 1);
            (number, (higher | u64::from(level.occupied.trailing_zeros())) << (number * BITS))
        })
    }

    /// Puts an entry where it belongs at this time, but not below the level `lowest`.
    #[expect(clippy::indexing_slicing, reason = "the eleven digits of any tick have a level each, with a slot for each of their values")]
    fn insert_entry(&mut self, entry: WheelEntry, lowest: usize) {
        let level = lowest.max(((entry.tick ^ self.time) | 1).ilog2() as usize / BITS);
        let number = digit(entry.tick, level);
        let WheelLevel { occupied, slots } = &mut self.levels[level];
        *occupied |= 1 << number;
        match slots[number].back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(entry),
            _ => {
                let mut chunk = self.spare_chunks.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
                chunk.push(entry);
                slots[number].push_back(chunk);
            }
        }
    }

    /// Moves up to `budget` entries from the first chunk of the level's slot at this time to `due` or to lower levels; tells how many.
    #[expect(clippy::indexing_slicing, reason = "levels come from `first`, and a level has a slot for each value of a digit")]
    fn drain_slot(&mut self, level: usize, budget: usize, due: &mut Vec<u64>) -> usize {
        let number = digit(self.time, level);
        let mut chunk = self.levels[level].slots[number].pop_front().unwrap_or_default();
        let count = chunk.len().min(budget);
        if level == 0 {
            due.extend(chunk.drain(..count).map(|entry| entry.id));
            self.len -= count;
        } else {
            chunk.drain(..count).for_each(|entry| self.insert_entry(entry, 0));
        }
        let WheelLevel { occupied, slots } = &mut self.levels[level];
        if !chunk.is_empty() {
            slots[number].push_front(chunk);
        } else if self.spare_chunks.len() < SPARE_CHUNKS {
            self.spare_chunks.push(chunk);
        }
        self.cascading_level = level;
        if slots[number].is_empty() {
            *occupied &= !(1 << number);
            slots[number] = WheelSlot::new();
            self.cascading_level = 0;
        }
        count
    }
}

/// The digit of a tick that counts on a level.
fn digit(tick: u64, level: usize) -> usize {
    (tick >> (level * BITS)) as usize % SLOTS
}

#[cfg(test)]
mod tests;
