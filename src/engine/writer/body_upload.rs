//! Upload of a long body before the command that logs it: one chunk with each batch, so that no
//! commit takes long.

use bytes::Bytes;

use super::super::command::{Command, Unavailable};
use super::super::command_queue::{QueuedCommand, ReplyTarget};
use super::Writer;
use crate::store::{Batch, StoreError};

/// Command whose body is being uploaded. It is applied with the last chunk.
pub(super) struct BodyUpload {
    command: Command,
    body: Bytes,
    /// Size of a chunk in bytes.
    chunk_bytes: usize,
    /// Number of the upload, once a chunk is in the file.
    pub(super) number: Option<u64>,
    /// Number of chunks in the file.
    chunks_written: usize,
}

impl BodyUpload {
    /// Writes the next chunk to the file, and returns the number of the upload.
    pub(super) fn write_chunk(&self, batch: &Batch) -> Result<u64, StoreError> {
        let number = self.number.map_or_else(|| batch.begin_upload(), Ok)?;
        batch.put_chunk(number, self.chunks_written as u64, self.next_chunk())?;
        Ok(number)
    }

    /// Next chunk.
    pub(super) fn next_chunk(&self) -> &[u8] {
        let begin = self.chunks_written * self.chunk_bytes;
        self.body
            .get(begin..self.body.len().min(begin + self.chunk_bytes))
            .unwrap_or_default()
    }

    fn is_last_chunk(&self) -> bool {
        (self.chunks_written + 1) * self.chunk_bytes >= self.body.len()
    }
}

impl Writer {
    /// Begins the upload of a large command. Returns the command if it needs none.
    pub(super) fn begin_upload(&mut self, entry: QueuedCommand) -> Option<QueuedCommand> {
        let Some(body) = self.memory.working.body_to_upload(&entry.command) else {
            return Some(entry);
        };
        let QueuedCommand {
            command,
            reply,
            route,
        } = entry;
        self.upload = Some((
            BodyUpload {
                command,
                body,
                chunk_bytes: self.limits.chunk_bytes.max(1),
                number: None,
                chunks_written: 0,
            },
            (route, reply),
        ));
        None
    }

    /// Adds the upload to the next batch: its caller and, with the last chunk, the command. The
    /// flag is true if more chunks follow.
    pub(super) fn join_upload(
        &mut self,
        commands: &mut Vec<Command>,
        callers: &mut Vec<ReplyTarget>,
    ) -> (Option<BodyUpload>, bool) {
        let Some((upload, caller)) = self.upload.take() else {
            return (None, false);
        };
        callers.push(caller);
        let has_more = !upload.is_last_chunk();
        if !has_more {
            commands.push(upload.command.clone());
        }
        (Some(upload), has_more)
    }

    /// Continues with the next chunk, if the caller still waits.
    pub(super) fn continue_upload(&mut self, upload: BodyUpload, caller: Option<ReplyTarget>) {
        match caller {
            Some(caller) => {
                self.upload = Some((
                    BodyUpload {
                        chunks_written: upload.chunks_written + 1,
                        ..upload
                    },
                    caller,
                ));
            }
            None => self.memory.housekeeping.request_chunk_pruning(),
        }
    }

    /// Refuses the command whose body is being uploaded.
    pub(super) fn refuse_upload(&mut self, unavailable: Unavailable) {
        if let Some((_, (_, reply))) = self.upload.take() {
            drop(reply.send(Err(unavailable)));
            self.memory.housekeeping.request_chunk_pruning();
        }
    }
}
