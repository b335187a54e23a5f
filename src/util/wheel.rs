//! Timers for millions of deadlines: the cost of one does not depend on their number.
//!
//! A hierarchical timing wheel (Varghese and Lauck, 1987). It stores ticks and opaque ids, whose
//! meaning is up to the caller. Entries are hints: one id may have several, and none is ever
//! cancelled. The caller checks the state of an id when its entry is due.
//!
//! A tick is a number of eleven digits, six bits each, and each digit has a level of 64 slots. An
//! entry is on the level of the highest digit in which its tick differs from the time of the wheel,
//! in the slot of that digit. So future slots have higher digits than the time, nothing wraps
//! around, and no tick is too far away. Time jumps from one occupied slot to the next. Entries of a
//! slot on level 0 are due when time reaches the slot. Entries of a slot on a higher level then
//! move to the levels below.

use std::collections::VecDeque;

/// Bits of a digit.
const BITS: usize = 6;
/// Slots of a level.
const SLOTS: usize = 1 << BITS;
/// Digits of a tick.
const LEVELS: usize = 64_usize.div_ceil(BITS);
/// Entries that are allocated together (2 KiB). A slot grows by chunks, so its entries are never
/// copied all at once.
const CHUNK: usize = 128;
/// Maximum number of empty chunks kept for reuse (128 KiB). Others are returned to the allocator.
const SPARE_CHUNKS: usize = 64;

/// Maximum number of entries that one call moves to a lower level: about 2 ms of work.
const MAX_MOVES: usize = 1 << 16;

#[derive(Clone, Copy)]
struct WheelEntry {
    /// At least the time of the wheel at insertion.
    tick: u64,
    id: u64,
}

/// Entries in order of insertion, in chunks that are never empty.
type WheelSlot = VecDeque<Vec<WheelEntry>>;

struct WheelLevel {
    /// One bit for each slot, set while the slot holds entries.
    occupied: u64,
    slots: [WheelSlot; SLOTS],
}

/// Queue of (tick, id). Insertion and expiry take the same time, whatever the number of entries.
pub struct TimingWheel {
    /// No entry has an earlier tick.
    time: u64,
    /// Level whose slot at `time` is being distributed to the levels below; 0 if none is.
    /// Meanwhile the levels below hold only entries from that slot.
    cascading_level: usize,
    levels: Box<[WheelLevel; LEVELS]>,
    spare_chunks: Vec<Vec<WheelEntry>>,
    len: usize,
}

impl TimingWheel {
    /// Empty wheel whose time is `now`.
    pub fn new(now: u64) -> Self {
        let level = |_| WheelLevel {
            occupied: 0,
            slots: std::array::from_fn(|_| WheelSlot::new()),
        };
        Self {
            time: now,
            cascading_level: 0,
            levels: Box::new(std::array::from_fn(level)),
            spare_chunks: Vec::new(),
            len: 0,
        }
    }

    /// Stores `id` until `tick`. If the time of the wheel has already reached `tick`, the next
    /// [`advance`](Self::advance) returns the id.
    pub fn insert(&mut self, tick: u64, id: u64) {
        // While a slot is being distributed, its entries queue up there, so that they do not
        // overtake older ones.
        self.insert_entry(
            WheelEntry {
                tick: tick.max(self.time),
                id,
            },
            self.cascading_level,
        );
        self.len += 1;
    }

    /// Advances the time of the wheel to `now` and appends the ids that are due to `due`. An
    /// earlier `now` leaves the time unchanged.
    ///
    /// No id is returned before its tick. Ids are in the order of their ticks, and for the same
    /// tick in the order of insertion. An entry that was inserted for a past tick has the time of
    /// the wheel at its insertion as its tick.
    ///
    /// At most `most` entries (0 counts as 1) become due, and at most 65,536 others move to a lower
    /// level. Each entry moves at most ten times until it is in `due`. Returns true if there is
    /// more to do: the time of the wheel may then be before `now`, and the next call continues from
    /// there.
    #[must_use = "more may be due"]
    pub fn advance(&mut self, now: u64, most: usize, due: &mut Vec<u64>) -> bool {
        let now = now.max(self.time);
        let mut most = most.max(1);
        let mut moves = MAX_MOVES;
        while let Some((level, tick)) = self.first_occupied()
            && tick <= now
        {
            // A move costs far less than the work of the caller on a due entry.
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

    /// Tick until which [`advance`](Self::advance) has nothing to do: the time of the wheel if
    /// there is work now, `None` if the wheel is empty.
    ///
    /// The result is never later than the tick of the earliest entry. It may be earlier if that
    /// entry is far away: there are at most ten such stops before an entry.
    pub fn next_tick(&self) -> Option<u64> {
        self.first_occupied().map(|(_, tick)| tick)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Level and first tick of the slot to empty next.
    fn first_occupied(&self) -> Option<(usize, u64)> {
        if self.cascading_level > 0 {
            return Some((self.cascading_level, self.time));
        }
        // On one level, future slots share all higher digits with the time, and slots of a lower
        // level come earlier.
        self.levels
            .iter()
            .enumerate()
            .find(|(_, level)| level.occupied != 0)
            .map(|(number, level)| {
                let higher = self.time >> (number * BITS) & !(SLOTS as u64 - 1);
                (
                    number,
                    (higher | u64::from(level.occupied.trailing_zeros())) << (number * BITS),
                )
            })
    }

    /// Puts an entry into its slot for the current time, on the level `lowest` or above.
    #[expect(
        clippy::indexing_slicing,
        reason = "the eleven digits of any tick have a level each, with a slot for each of their \
                  values"
    )]
    fn insert_entry(&mut self, entry: WheelEntry, lowest: usize) {
        let level = lowest.max(((entry.tick ^ self.time) | 1).ilog2() as usize / BITS);
        let number = digit(entry.tick, level);
        let WheelLevel { occupied, slots } = &mut self.levels[level];
        *occupied |= 1 << number;
        match slots[number].back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(entry),
            _ => {
                let mut chunk = self
                    .spare_chunks
                    .pop()
                    .unwrap_or_else(|| Vec::with_capacity(CHUNK));
                chunk.push(entry);
                slots[number].push_back(chunk);
            }
        }
    }

    /// Moves up to `budget` entries from the first chunk of the level's current slot to `due` or to
    /// lower levels. Returns their number.
    #[expect(
        clippy::indexing_slicing,
        reason = "levels are from `first_occupied`, and each has a slot for each value of a digit"
    )]
    fn drain_slot(&mut self, level: usize, budget: usize, due: &mut Vec<u64>) -> usize {
        let number = digit(self.time, level);
        let mut chunk = self.levels[level].slots[number]
            .pop_front()
            .unwrap_or_default();
        let count = chunk.len().min(budget);
        if level == 0 {
            due.extend(chunk.drain(..count).map(|entry| entry.id));
            self.len -= count;
        } else {
            chunk
                .drain(..count)
                .for_each(|entry| self.insert_entry(entry, 0));
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

/// Digit of a tick on a level.
fn digit(tick: u64, level: usize) -> usize {
    (tick >> (level * BITS)) as usize % SLOTS
}

#[cfg(test)]
mod tests;
