//! Replies of the admin API: JSON, lists that are generated while they are sent, and streams of
//! bytes.

use std::io::Write;
use std::task::{Context, Poll};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::sync::mpsc::Receiver;
use uuid::Uuid;

use super::error::AdminError;
use crate::backup::stream_chunks;
use crate::engine::command::Unavailable;
use crate::operations::OperationError;

/// Result of an operation.
pub trait AdminReply: Send + 'static {
    /// Returns the body of the response.
    ///
    /// # Errors
    /// If the reply has no JSON form.
    fn into_body(self) -> serde_json::Result<ReplyBody>;
}

impl<T: Serialize + DeserializeOwned + Send + 'static> AdminReply for T {
    fn into_body(self) -> serde_json::Result<ReplyBody> {
        serde_json::to_vec(&self).map(ReplyBody::json)
    }
}

/// Rows that are read page by page, so that the server does not hold all of them.
pub struct RowStream<T>(Box<dyn Iterator<Item = Vec<T>> + Send>);

impl<T> RowStream<T> {
    pub(super) fn new(pages: impl Iterator<Item = Vec<T>> + Send + 'static) -> Self {
        Self(Box::new(pages))
    }

    /// Returns all rows.
    pub fn into_rows(self) -> Vec<T> {
        self.0.flatten().collect()
    }
}

impl<'de, T: Deserialize<'de> + Send + 'static> Deserialize<'de> for RowStream<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let rows = Vec::deserialize(from)?;
        Ok(Self::new(std::iter::once(rows)))
    }
}

impl<T: Serialize + Send + 'static> AdminReply for RowStream<T> {
    fn into_body(self) -> serde_json::Result<ReplyBody> {
        let mut separator = b'[';
        let pages = self.0.map(Some).chain([None]);
        let chunks = pages.map(move |page| {
            let mut chunk = Vec::new();
            let Some(rows) = page else {
                let end: &[u8] = if separator == b'[' { b"[]" } else { b"]" };
                return Ok(end.to_vec());
            };
            for row in rows {
                chunk.push(separator);
                separator = b',';
                serde_json::to_writer(&mut chunk, &row)?;
            }
            Ok(chunk)
        });
        Ok(ReplyBody {
            media_type: JSON,
            content: ReplyContent::Rows {
                chunks: Box::new(chunks),
                has_yielded: true,
            },
        })
    }
}

/// Bytes that are written on a thread of its own, as fast as the receiver takes them.
pub struct ReplyStream {
    media_type: &'static str,
    chunks: Receiver<Result<Vec<u8>, String>>,
}

impl ReplyStream {
    /// Starts to write. An error of `write` ends the stream.
    pub(super) fn start(
        media_type: &'static str,
        write: impl FnOnce(&mut dyn Write) -> Result<(), String> + Send + 'static,
    ) -> Result<Self, AdminError> {
        let chunks = stream_chunks(write)
            .map_err(|_| OperationError::Unavailable(Unavailable::QueueFull))?;
        Ok(Self { media_type, chunks })
    }

    /// Returns the next chunk; `None` at the end.
    ///
    /// # Errors
    /// If the stream could not be written to its end.
    pub async fn next_chunk(&mut self) -> Option<Result<Vec<u8>, String>> {
        self.chunks.recv().await
    }
}

impl AdminReply for ReplyStream {
    fn into_body(self) -> serde_json::Result<ReplyBody> {
        Ok(ReplyBody {
            media_type: self.media_type,
            content: ReplyContent::Stream(self.chunks),
        })
    }
}

const JSON: &str = "application/json";

/// Body of a response.
pub struct ReplyBody {
    media_type: &'static str,
    content: ReplyContent,
}

enum ReplyContent {
    /// JSON; `None` once it was sent.
    Json(Option<Bytes>),
    Rows {
        chunks: Box<dyn Iterator<Item = serde_json::Result<Vec<u8>>> + Send>,
        /// True once other tasks have run since the previous chunk.
        has_yielded: bool,
    },
    Stream(Receiver<Result<Vec<u8>, String>>),
}

impl ReplyBody {
    /// Returns a body of JSON. The result of an operation without one is an empty body.
    pub(super) fn json(json: Vec<u8>) -> Self {
        Self {
            media_type: JSON,
            content: ReplyContent::Json((json != b"null").then(|| json.into())),
        }
    }

    /// Returns the media type; `None` for an empty body.
    pub(super) fn media_type(&self) -> Option<&'static str> {
        (self.length() != Some(0)).then_some(self.media_type)
    }

    /// Returns the number of bytes, if it is known.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.content {
            ReplyContent::Json(json) => Some(json.as_ref().map_or(0, |json| json.len() as u64)),
            ReplyContent::Rows { .. } | ReplyContent::Stream(_) => None,
        }
    }

    /// Returns the next chunk when it is ready.
    pub(super) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, String>>> {
        match &mut self.content {
            ReplyContent::Json(json) => Poll::Ready(json.take().map(Ok)),
            ReplyContent::Rows {
                chunks,
                has_yielded,
            } => {
                *has_yielded = !*has_yielded;
                if *has_yielded {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(chunks.next().map(|chunk| {
                    chunk
                        .map(Bytes::from)
                        .map_err(|error| format!("a row has no JSON form: {error}"))
                }))
            }
            ReplyContent::Stream(chunks) => chunks
                .poll_recv(context)
                .map(|chunk| chunk.map(|chunk| chunk.map(Bytes::from))),
        }
    }
}

/// A created object.
#[derive(Serialize, Deserialize)]
pub struct CreatedObject {
    /// UUID of the object.
    pub uuid: Uuid,
}

/// Warnings about a change that was made.
#[derive(Serialize, Deserialize)]
pub struct Warnings {
    /// Sentences; usually none.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn other_tasks_run_between_two_pages_of_a_list() {
        let pages = [vec![1, 2], Vec::new(), vec![3]];
        let mut body = RowStream::new(pages.into_iter()).into_body().ok().unwrap();
        let mut context = Context::from_waker(Waker::noop());
        for expected in ["[1,2", "", ",3", "]"] {
            let Poll::Ready(Some(Ok(chunk))) = body.poll_chunk(&mut context) else {
                panic!("no chunk {expected:?}")
            };
            assert_eq!(chunk, expected);
            assert!(body.poll_chunk(&mut context).is_pending());
        }
        assert!(body.poll_chunk(&mut context).is_ready());
        let mut empty = RowStream::<u8>::new(std::iter::empty())
            .into_body()
            .ok()
            .unwrap();
        assert!(
            matches!(empty.poll_chunk(&mut context), Poll::Ready(Some(Ok(chunk))) if chunk == "[]")
        );
    }
}
