//! A command that logs a long body: the body is written ahead of it, a piece with each batch, so that no commit is long.

use bytes::Bytes;

use super::super::command::{Command, Unavailable};
use super::super::queue::{Caller, Entry};
use super::Writer;
use crate::store::{Batch, StoreError};

/// A command whose body is being written. It is carried out with the last piece.
pub(super) struct Ahead {
    command: Command,
    body: Bytes,
    /// Bytes of a piece.
    piece: usize,
    /// The number of the upload, once there is a piece in the file.
    pub(super) number: Option<u64>,
    /// Pieces that are in the file.
    place: usize,
}

impl Ahead {
    /// Puts the next piece into the file; the number of the upload.
    pub(super) fn put(&self, batch: &Batch) -> Result<u64, StoreError> {
        let number = self.number.map_or_else(|| batch.begin_upload(), Ok)?;
        batch.put_piece(number, self.place as u64, self.next())?;
        Ok(number)
    }

    /// The next piece.
    pub(super) fn next(&self) -> &[u8] {
        let begin = self.place * self.piece;
        self.body.get(begin..self.body.len().min(begin + self.piece)).unwrap_or_default()
    }

    fn is_at_last(&self) -> bool {
        (self.place + 1) * self.piece >= self.body.len()
    }
}

impl Writer {
    /// Takes a large command in hand: gives it back if there is nothing to write ahead of it.
    pub(super) fn begin_ahead(&mut self, entry: Entry) -> Option<Entry> {
        let Some(body) = self.memory.working.ahead(&entry.command) else { return Some(entry) };
        let Entry { command, reply, route } = entry;
        self.ahead = Some((Ahead { command, body, piece: self.thresholds.piece.max(1), number: None, place: 0 }, (route, reply)));
        None
    }

    /// Adds what is written ahead to those who wait for the next batch: its caller; with the last piece also the command. Whether that
    /// piece is not the last.
    pub(super) fn join_ahead(&mut self, commands: &mut Vec<Command>, callers: &mut Vec<Caller>) -> (Option<Ahead>, bool) {
        let Some((ahead, caller)) = self.ahead.take() else { return (None, false) };
        callers.push(caller);
        let more = !ahead.is_at_last();
        if !more {
            commands.push(ahead.command.clone());
        }
        (Some(ahead), more)
    }

    /// Goes on with the next piece, if its caller still waits for it.
    pub(super) fn go_on_ahead(&mut self, ahead: Ahead, caller: Option<Caller>) {
        match caller {
            Some(caller) => self.ahead = Some((Ahead { place: ahead.place + 1, ..ahead }, caller)),
            None => self.memory.housekeeping.look_at_pieces(),
        }
    }

    /// Refuses the command whose body is being written.
    pub(super) fn refuse_ahead(&mut self, unavailable: Unavailable) {
        if let Some((_, (_, reply))) = self.ahead.take() {
            drop(reply.send(Err(unavailable)));
            self.memory.housekeeping.look_at_pieces();
        }
    }
}
