//! Order of imported flips: the order in which they were logged, whatever their times are.
//!
//! Healthchecks dates the end of an overrun run at its deadline, which may be before flips that it
//! logged earlier. Sorting by time would lose a downtime between them.

use crate::domain::ids::CheckId;
use crate::domain::import_contents::ImportedFlip;
use crate::domain::timestamp::Timestamp;

/// Sorts flips by check and number, and adjusts times so that no flip of a check is earlier than
/// its predecessor. A time in the future becomes that of the next flip, or `now`.
pub fn sort_flips(flips: &mut [(CheckId, i64, ImportedFlip)], now: Timestamp) {
    flips.sort_unstable_by_key(|(check, number, _)| (*check, *number));
    for of_check in flips.chunk_by_mut(|(check, ..), (next, ..)| check == next) {
        let mut next = now;
        for (.., flip) in of_check.iter_mut().rev() {
            let at = &mut flip.flip.at;
            if *at > now {
                *at = next;
            }
            next = *at;
        }
        let mut before = None;
        for (.., flip) in of_check {
            let at = before.map_or(flip.flip.at, |before| flip.flip.at.max(before));
            flip.flip.at = at;
            before = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::flip::{Flip, FlipCause};
    use crate::domain::status::Status;

    #[test]
    fn no_downtime_is_lost_and_times_never_decrease() {
        let flip = |check: u64, number, secs, to| {
            let at = Timestamp::from_secs(secs);
            let cause = FlipCause::Unknown;
            let flip = Flip {
                at,
                from: Status::New,
                to,
                cause,
                awaited_since: None,
            };
            (
                CheckId(check),
                number,
                ImportedFlip {
                    check: Uuid::nil(),
                    flip,
                },
            )
        };
        let up = Status::Up;
        let down = Status::Down;
        let mut flips = [
            flip(2, 1, 5, up),
            // The second downtime has an earlier time than the success before it.
            flip(1, 13, 10, down),
            flip(1, 14, 40, up),
            flip(1, 12, 30, up),
            flip(1, 11, 5, down),
            flip(3, 1, 900, down),
            flip(3, 2, 50, up),
            flip(3, 3, 900, down),
        ];
        sort_flips(&mut flips, Timestamp::from_secs(100));
        let read: Vec<_> = flips
            .iter()
            .map(|(check, number, flip)| (check.0, *number, flip.flip.at.secs(), flip.flip.to))
            .collect();
        assert_eq!(
            read,
            [
                (1, 11, 5, down),
                (1, 12, 30, up),
                (1, 13, 30, down),
                (1, 14, 40, up),
                (2, 1, 5, up),
                (3, 1, 50, down),
                (3, 2, 50, up),
                (3, 3, 100, down)
            ]
        );
    }
}
