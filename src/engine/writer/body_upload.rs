//! A command that logs a long body: the body is written ahead of it, a piece with each batch, so that no commit is long.

use bytes::Bytes;

use super::super::command::{Command, Unavailable};
use super::super::command_queue::{QueuedCommand, ReplyTarget};
use super::Writer;
use crate::store::{Batch, StoreError};

/// A command whose body is being written. It is carried out with the last piece.
pub(super) struct BodyUpload {
    command: Command,
    body: Bytes,
    /// Bytes of a piece.
    chunk_bytes: usize,
    /// The number of the upload, once there is a piece in the file.
    pub(super) number: Option<u64>,
    /// Pieces that are in the file.
    chunks_written: usize,
}

impl BodyUpload {
    /// Puts the next piece into the file; the number of the upload.
    pub(super) fn write_chunk(&self, batch: &Batch) -> Result<u64, StoreError> {
        let number = self.number.map_or_else(|| batch.begin_upload(), Ok)?;
        batch.put_chunk(number, self.chunks_written as u64, self.next_chunk())?;
        Ok(number)
    }

    /// The next piece.
    pub(super) fn next_chunk(&self) -> &[u8] {
        let begin = self.chunks_written * self.chunk_bytes;
        self.body.get(begin..self.body.len().min(begin + self.chunk_bytes)).unwrap_or_default()
    }

    fn is_last_chunk(&self) -> bool {
        (self.chunks_written + 1) * self.chunk_bytes >= self.body.len()
    }
}

impl Writer {
    /// Takes a large command in hand: gives it back if there is nothing to write ahead of it.
    pub(super) fn begin_upload(&mut self, entry: QueuedCommand) -> Option<QueuedCommand> {
        let Some(body) = self.memory.working.body_to_upload(&entry.command) else { return Some(entry) };
        let QueuedCommand { command, reply, route } = entry;
        self.upload = Some((
            BodyUpload { command, body, chunk_bytes: self.limits.chunk_bytes.max(1), number: None, chunks_written: 0 },
            (route, reply),
        ));
        None
    }

    /// Adds what is written ahead to those who wait for the next batch: its caller; with the last piece also the command. Whether that
    /// piece is not the last.
    pub(super) fn join_upload(&mut self, commands: &mut Vec<Command>, callers: &mut Vec<ReplyTarget>) -> (Option<BodyUpload>, bool) {
        let Some((ahead, caller)) = self.upload.take() else { return (None, false) };
        callers.push(caller);
        let more = !ahead.is_last_chunk();
        if !more {
            commands.push(ahead.command.clone());
        }
        (Some(ahead), more)
    }

    /// Goes on with the next piece, if its caller still waits for it.
    pub(super) fn continue_upload(&mut self, ahead: BodyUpload, caller: Option<ReplyTarget>) {
        match caller {
            Some(caller) => self.upload = Some((BodyUpload { chunks_written: ahead.chunks_written + 1, ..ahead }, caller)),
            None => self.memory.housekeeping.request_chunk_pruning(),
        }
    }

    /// Refuses the command whose body is being written.
    pub(super) fn refuse_upload(&mut self, unavailable: Unavailable) {
        if let Some((_, (_, reply))) = self.upload.take() {
            drop(reply.send(Err(unavailable)));
            self.memory.housekeeping.request_chunk_pruning();
        }
    }
}
