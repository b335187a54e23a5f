//! Format of a backup: frames, each with a checksum, and at the end a checksum of the whole.
//!
//! The first line names the program and the format version. Frames follow. A frame starts with the
//! length of its content and its CRC-32, each in 4 bytes little endian, then its kind in 1 byte.
//! The first frame has the time and the release. A frame of rows names its table. The last frame
//! has the SHA-256 of everything before it. Nothing follows it.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BackupError, BackupInfo};
use crate::store::TableRows;

/// First line of every backup, with the version of the format.
const MAGIC: &[u8] = b"overdue backup 1\n";
/// First bytes of every backup of any format version.
const MAGIC_PREFIX: &[u8] = b"overdue backup ";
/// Size of a frame header, in bytes.
const FRAME_HEADER_BYTES: usize = 8;
/// Maximum size of a frame, in bytes: see [limits](crate::docs::limits).
const MAX_FRAME_BYTES: usize = 128 << 20;

const KIND_INFO: u8 = 0;
const KIND_ROWS: u8 = 1;
const KIND_END: u8 = 2;

#[derive(Serialize, Deserialize)]
struct BackupInfoRow {
    made: String,
    release: String,
}

/// Writer of a stream.
pub(super) struct BackupWriter<W> {
    out: W,
    hash: Sha256,
    frame: Vec<u8>,
}

impl<W: Write> BackupWriter<W> {
    pub(super) fn begin(out: W, about: &BackupInfo) -> io::Result<Self> {
        let mut writer = Self {
            out,
            hash: Sha256::new(),
            frame: Vec::new(),
        };
        writer.write_hashed(MAGIC)?;
        let about = BackupInfoRow {
            made: about.begun.clone(),
            release: about.release.clone(),
        };
        writer.write_frame(KIND_INFO, &[&serde_json::to_vec(&about)?])?;
        Ok(writer)
    }

    pub(super) fn write_rows(&mut self, rows: &TableRows<'_>) -> io::Result<()> {
        let name = rows.table().as_bytes();
        // Table names are short.
        self.write_frame(KIND_ROWS, &[&[name.len() as u8], name, rows.bytes()])
    }

    /// Writes the end frame and returns the output.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let hash = self.hash.clone().finalize();
        self.write_frame(KIND_END, &[hash.as_slice()])?;
        Ok(self.out)
    }

    fn write_frame(&mut self, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        frame.push(kind);
        parts.iter().for_each(|part| frame.extend_from_slice(part));
        if let Some((head, content)) = frame.split_first_chunk_mut::<FRAME_HEADER_BYTES>() {
            // A row is far below 4 GiB.
            let len = (content.len() as u32).to_le_bytes();
            let sum = crc32fast::hash(content).to_le_bytes();
            head.iter_mut()
                .zip(len.into_iter().chain(sum))
                .for_each(|(byte, of)| *byte = of);
        }
        self.write_hashed(&frame)?;
        self.frame = frame;
        Ok(())
    }

    fn write_hashed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }
}

/// Reader of a stream.
pub(super) struct BackupReader<R> {
    input: R,
    hash: Sha256,
    frame: Vec<u8>,
    info: BackupInfo,
    is_finished: bool,
}

impl<R: Read> BackupReader<R> {
    /// Reads the first line and the metadata.
    pub(super) fn begin(mut input: R) -> Result<Self, BackupError> {
        let mut magic = vec![0; MAGIC.len()];
        let begins = input.read_exact(&mut magic);
        match begins {
            Ok(()) if magic == MAGIC => {}
            Ok(()) if magic.starts_with(MAGIC_PREFIX) => {
                return Err(damage_error(
                    "it was made by a newer release: restore it with that release or a later one",
                ));
            }
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            // A decoder fails like this if a compressed file ends too early.
            Err(error) if error.get_ref().is_some() => {
                return Err(damage_error("it is truncated, or is still being written"));
            }
            _ => return Err(damage_error("it is not a backup of overdue")),
        }
        let hash = Sha256::new_with_prefix(MAGIC);
        let about = BackupInfo {
            begun: String::new(),
            release: String::new(),
        };
        let mut reader = Self {
            input,
            hash,
            frame: Vec::new(),
            info: about,
            is_finished: false,
        };
        let row = match reader.read_frame()? {
            (KIND_INFO, content) => serde_json::from_slice::<BackupInfoRow>(content)
                .map_err(|_| damage_error("its header is missing or invalid"))?,
            _ => return Err(damage_error("its header is missing or invalid")),
        };
        reader.info = BackupInfo {
            begun: row.made,
            release: row.release,
        };
        Ok(reader)
    }

    pub(super) fn info(&self) -> &BackupInfo {
        &self.info
    }

    /// Returns the next rows. Returns `None` at the end, once the checksum of the whole is
    /// verified.
    pub(super) fn next_rows(&mut self) -> Result<Option<TableRows<'_>>, BackupError> {
        if self.is_finished {
            return Ok(None);
        }
        let hash = self.hash.clone().finalize();
        match self.read_frame()? {
            (KIND_END, content) if content == hash.as_slice() => {
                if self.input.read(&mut [0])? != 0 {
                    return Err(damage_error("unexpected data after the end"));
                }
                self.is_finished = true;
                Ok(None)
            }
            (KIND_END, _) => Err(damage_error(
                "its checksum is wrong: frames are missing or out of order",
            )),
            (KIND_ROWS, _) => self
                .frame_rows()
                .map(Some)
                .ok_or_else(|| damage_error("it has rows that cannot be read")),
            (kind, _) => Err(damage_error(&format!(
                "it has a frame of unknown kind {kind}"
            ))),
        }
    }

    /// Parses the rows in the current frame.
    fn frame_rows(&self) -> Option<TableRows<'_>> {
        let (len, rest) = self.frame.get(1..)?.split_first()?;
        let (table, rows) = rest.split_at_checked(usize::from(*len))?;
        TableRows::read(std::str::from_utf8(table).ok()?, rows)
    }

    /// Reads the next frame and returns its kind and content.
    fn read_frame(&mut self) -> Result<(u8, &[u8]), BackupError> {
        let cut = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                damage_error("its end is missing: it is truncated, or is still being written")
            }
            _ => error.into(),
        };
        let mut head = [0; FRAME_HEADER_BYTES];
        self.input.read_exact(&mut head).map_err(cut)?;
        let [a, b, c, d, e, f, g, h] = head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        let sum = u32::from_le_bytes([e, f, g, h]);
        if len == 0 || len > MAX_FRAME_BYTES {
            return Err(damage_error(
                "it is damaged: the length of a frame is invalid",
            ));
        }
        self.frame.clear();
        // The buffer grows with the data that exists, whatever the header claims.
        let read = (&mut self.input)
            .take(len as u64)
            .read_to_end(&mut self.frame)?;
        if read < len {
            return Err(cut(io::ErrorKind::UnexpectedEof.into()));
        }
        if crc32fast::hash(&self.frame) != sum {
            return Err(damage_error(
                "it is damaged: the checksum of a frame is wrong",
            ));
        }
        self.hash.update(head);
        self.hash.update(&self.frame);
        self.frame
            .split_first()
            .map(|(kind, content)| (*kind, content))
            .ok_or_else(|| damage_error("it is damaged: a frame is empty"))
    }
}

fn damage_error(reason: &str) -> BackupError {
    BackupError::Damaged(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> BackupInfo {
        BackupInfo {
            begun: "2026-11-20T10:00:00+00:00".into(),
            release: "1".into(),
        }
    }

    /// Key and value of 4 bytes each.
    const ROW: [u8; 16] = [4, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

    fn written() -> Vec<u8> {
        let mut stream = BackupWriter::begin(Vec::new(), &about()).unwrap();
        for table in ["pings", "bodies"] {
            stream
                .write_rows(&TableRows::read(table, &[ROW, ROW].concat()).unwrap())
                .unwrap();
        }
        stream.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<String>, BackupError> {
        let mut reader = BackupReader::begin(bytes)?;
        let mut found = vec![reader.info().begun.clone()];
        while let Some(rows) = reader.next_rows()? {
            found.push(format!("{} {}", rows.table(), rows.iter().count()));
        }
        Ok(found)
    }

    #[test]
    fn a_stream_is_read_back() {
        assert_eq!(
            read(&written()).unwrap(),
            ["2026-11-20T10:00:00+00:00", "pings 2", "bodies 2"]
        );
    }

    #[test]
    fn truncated_changed_and_extended_streams_are_rejected() {
        let whole = written();
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "cut at {len}");
            let mut changed = whole.clone();
            changed[len] ^= 1;
            assert!(read(&changed).is_err(), "changed at {len}");
        }
        assert!(read(&[&whole[..], b"x"].concat()).is_err());
        // A missing frame, and two swapped frames: each frame is valid by itself.
        let mut stream = BackupWriter::begin(Vec::new(), &about()).unwrap();
        let begin = stream.out.len();
        stream
            .write_rows(&TableRows::read("pings", &ROW).unwrap())
            .unwrap();
        let end = stream.out.len();
        stream
            .write_rows(&TableRows::read("bodies", &ROW).unwrap())
            .unwrap();
        let end_of_second = stream.out.len();
        let whole = stream.finish().unwrap();
        assert!(read(&whole).is_ok());
        let parts = [
            &whole[..begin],
            &whole[begin..end],
            &whole[end..end_of_second],
            &whole[end_of_second..],
        ];
        for order in [&[0, 2, 3][..], &[0, 2, 1, 3], &[0, 1, 1, 2, 3]] {
            let bytes: Vec<u8> = order
                .iter()
                .flat_map(|part| parts[*part])
                .copied()
                .collect();
            let error = read(&bytes);
            assert!(
                matches!(
                    error,
                    Err(BackupError::Damaged(reason)) if reason.contains("its checksum is wrong")
                ),
                "{order:?}"
            );
        }
    }

    #[test]
    fn a_truncated_compressed_backup_is_recognised() {
        let whole = zstd::encode_all(&written()[..], 3).unwrap();
        let cut = whole.get(..12).unwrap().to_vec();
        let input =
            super::super::file::read_backup(io::Cursor::new(cut), &Default::default()).unwrap();
        let error = BackupReader::begin(input).err().unwrap().to_string();
        assert!(error.contains("truncated"), "{error}");
    }

    #[test]
    fn other_files_are_rejected() {
        for (bytes, part) in [
            (&b""[..], "not a backup"),
            (b"redb\x1a\n and more and more", "not a backup"),
            (b"overdue backup 2\nxxxxxxxx", "newer release"),
        ] {
            assert!(
                read(bytes).unwrap_err().to_string().contains(part),
                "{bytes:?}"
            );
        }
    }
}
