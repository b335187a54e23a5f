//! Static files of the pages. They are embedded in the program, in a directory whose name changes
//! whenever one of them changes.

use std::fmt;
use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// An embedded file.
#[derive(PartialEq, Eq)]
pub(crate) struct File {
    name: &'static str,
    /// Content type of the file.
    pub(super) content_type: &'static str,
    content: &'static [u8],
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Declares the table of files from their names and content types.
macro_rules! files {
    ($($name:literal $kind:expr;)*) => {
        /// Every file of `static`.
        const FILES: &[File] = &[$(File {
            name: $name,
            content_type: $kind,
            content: include_bytes!(concat!("static/", $name)),
        }),*];
    };
}

const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JS: &str = "text/javascript; charset=utf-8";

files! {
    "app.css" CSS;
    "app.js" JS;
    "channel.js" JS;
    "chart.js" JS;
    "check.css" CSS;
    "check.js" JS;
    "favicon-down.svg" SVG;
    "favicon-late.svg" SVG;
    "favicon-off.svg" SVG;
    "favicon-up.svg" SVG;
    "form.js" JS;
    "list.js" JS;
    "live.js" JS;
    "log.js" JS;
    "manifest.webmanifest" "application/manifest+json";
    "menu.js" JS;
    "palette.js" JS;
    "passkey.js" JS;
    "polls.js" JS;
    "rows.js" JS;
    "sign-in.js" JS;
    "status.css" CSS;
    "status.js" JS;
    "swap.js" JS;
    "system.js" JS;
    "time.js" JS;
}

/// Directory of the files in URLs, without a leading slash and with a trailing one.
static ASSET_DIRECTORY: LazyLock<String> = LazyLock::new(|| {
    let mut all = Sha256::new();
    for file in FILES {
        all.update(file.name);
        all.update(file.content);
    }
    let hash = all
        .finalize()
        .iter()
        .take(4)
        .fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
    format!("static/{hash}/")
});

/// Bodies of the files, plain and compressed with gzip, computed once.
static ASSET_BODIES: LazyLock<Vec<(Bytes, Bytes)>> = LazyLock::new(|| {
    let sent = |file: &File| {
        let content = if file.content_type == JS {
            minify_script(file.content)
        } else {
            Bytes::from_static(file.content)
        };
        let zipped = gzip(&content, Compression::best());
        (content, zipped.into())
    };
    FILES.iter().map(sent).collect()
});

/// Removes the indentation and the comment lines from a script. No string in a script spans lines:
/// a test of this file checks it.
fn minify_script(script: &[u8]) -> Bytes {
    let lines = script
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_start);
    let lines: Vec<_> = lines
        .filter(|line| !line.is_empty() && !line.starts_with(b"//"))
        .collect();
    lines.join(&b"\n"[..]).into()
}

/// Returns the file of a path, which has no leading slash.
pub(super) fn find_asset(path: &str) -> Option<&'static File> {
    let name = path.strip_prefix(ASSET_DIRECTORY.as_str())?;
    FILES.iter().find(|file| file.name == name)
}

/// Path of a file, without a leading slash.
pub(super) fn asset_path(name: &str) -> String {
    format!("{}{name}", *ASSET_DIRECTORY)
}

impl File {
    /// Content of the file, plain and compressed with gzip.
    pub(super) fn bodies(&self) -> (Bytes, Bytes) {
        let at = FILES.iter().position(|file| file == self);
        at.and_then(|at| ASSET_BODIES.get(at))
            .cloned()
            .unwrap_or_default()
    }
}

/// Compresses bytes with gzip (RFC 1952).
pub(super) fn gzip(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), level);
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn every_file_is_in_the_table_and_found_by_its_path_alone() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/dashboard/static");
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(
            FILES.iter().map(|file| file.name).collect::<Vec<_>>(),
            names
        );
        for file in FILES {
            assert_eq!(find_asset(&asset_path(file.name)), Some(file));
            let mut content = Vec::new();
            let (sent, zipped) = file.bodies();
            flate2::read::GzDecoder::new(&*zipped)
                .read_to_end(&mut content)
                .unwrap();
            assert_eq!(content, sent, "{}", file.name);
            let is_script = file.name.ends_with(".js");
            assert_eq!(sent == file.content, !is_script, "{}", file.name);
            let text = std::str::from_utf8(file.content).unwrap();
            let goes_on = |line: &&str| line.matches('`').count() % 2 == 1 || line.ends_with('\\');
            assert_eq!(
                text.lines().find(goes_on).filter(|_| is_script),
                None,
                "{}",
                file.name
            );
        }
        for path in [
            "static/app.css",
            "static/00000000/app.css",
            "static//app.css",
            "app.css",
        ] {
            assert_eq!(find_asset(path), None, "{path}");
        }
    }
}
