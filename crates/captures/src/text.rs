//! Bytes of a file to text: unpacked, in UTF-8, with line ends of one kind. Bounded.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// The two bytes that every gzip file begins with (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How files begin that are no text, and what is said of them. Of file(1)'s magic numbers.
const BINARY: [(&[u8], &str); 10] = [
    (b"PK\x03\x04", "it is a zip archive: unpack it and give what is in it"),
    (b"\xfd7zXZ\x00", "it is packed by xz: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "it is packed by zstd: unpack it first"),
    (b"BZh", "it is packed by bzip2: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive: unpack it and give what is in it"),
    (b"\x7fELF", "it is a program or a core dump: give the stacks that gdb or coredumpctl prints of it"),
    (b"\xfebin", "it is a binary log: mysqlbinlog prints it"),
    (b"\xd4\xc3\xb2\xa1", "it is a capture of network packets"),
    (b"PERFILE2", "it is a recording of perf: perf script prints it"),
    (
        b"SQLite format 3\x00",
        "it is a database of SQLite: `spindoctor report` and `spindoctor top --replay` read one that spindoctor recorded",
    ),
];
/// Bytes at the beginning by which it is judged whether a file is text, and how many of a hundred may be no text's.
const JUDGED_BY: usize = 8 << 10;
const MOST_WRONG_PERCENT: usize = 10;
/// Lines of a text that are read, its last ones: in 64 MiB a log has half a million, and each line costs memory beside its bytes.
const MOST_LINES: usize = 2_000_000;
/// A status text is 1 MiB at most, a process list of 10,000 sessions 10 MiB: what is longer is a log, of which the end counts.
pub const LONGEST_BYTES: usize = 64 << 20;

/// A file's content as text, and whether something of it was left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// The text.
    pub text: String,
    /// What was left out or is damaged, in words.
    pub note: Option<String>,
}

impl Text {
    /// Unpacks and decodes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut note = None;
        let unpacked = if bytes.starts_with(&GZIP) {
            let mut out = Vec::new();
            let read = MultiGzDecoder::new(bytes).take(LONGEST_BYTES as u64 + 1).read_to_end(&mut out);
            if read.is_err() {
                note = Some("the gzip file is damaged: what could be unpacked was read".to_owned());
            }
            Cow::Owned(out)
        } else {
            Cow::Borrowed(bytes)
        };
        let mut bytes: &[u8] = &unpacked;
        if bytes.len() > LONGEST_BYTES {
            bytes = &bytes[..LONGEST_BYTES];
            note = Some(format!("only its first {} MiB were read", LONGEST_BYTES >> 20));
        }
        if let Some(why) = binary(bytes) {
            return Self { text: String::new(), note: Some(why.to_owned()) };
        }
        let mut text = one_line_end(&decoded(bytes)).into_owned();
        // A log that was cut while the server had it open begins with zeros up to where the server went on.
        if text.contains('\0') {
            text.retain(|character| character != '\0');
            note.get_or_insert("bytes of zero were left out".to_owned());
        }
        let ends = text.bytes().filter(|byte| *byte == b'\n').count();
        if let Some(more) = ends.checked_sub(MOST_LINES).filter(|more| *more > 0) {
            let begin = text.match_indices('\n').nth(more - 1).map_or(0, |(at, _)| at + 1);
            text.drain(..begin);
            note = Some(format!("only its last {MOST_LINES} lines were read"));
        }
        Self { text, note }
    }
}

/// What is said of bytes that are no text. Zeros say nothing: a log that was cut while a server had it open begins with them, and one
/// of a host that stopped ends with them.
fn binary(bytes: &[u8]) -> Option<&'static str> {
    if let Some((_, why)) = BINARY.iter().find(|(begins, _)| bytes.starts_with(begins)) {
        return Some(*why);
    }
    let is_wide = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let is_text = |byte: u8| {
        byte >= b' ' && byte != 0x7f || matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0c | 0x1b | 0x07)
    };
    let (mut judged, mut wrong) = (0_usize, 0_usize);
    for byte in bytes.iter().filter(|byte| **byte != 0).take(JUDGED_BY) {
        judged += 1;
        wrong += usize::from(!is_text(*byte));
    }
    (!is_wide && wrong * 100 > judged * MOST_WRONG_PERCENT).then_some("it is no text")
}

/// UTF-8, or UTF-16 where its mark or its zero bytes show it.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        Cow::Owned(String::from_utf16_lossy(&units))
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => return wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => return wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => return String::from_utf8_lossy(rest),
        _ => {}
    }
    // Text in Latin letters that is UTF-16 has a zero in every second byte.
    let zeros = |from: usize| bytes.iter().take(400).skip(from).step_by(2).filter(|byte| **byte == 0).count();
    let half = bytes.len().min(400) / 2;
    match (zeros(0), zeros(1)) {
        (0, odd) if half >= 8 && odd * 10 >= half * 9 => wide(bytes, u16::from_le_bytes),
        (even, 0) if half >= 8 && even * 10 >= half * 9 => wide(bytes, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes),
    }
}

fn one_line_end(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn text(bytes: &[u8]) -> String {
        Text::from_bytes(bytes).text
    }

    #[test]
    fn every_encoding_gives_the_same_text() {
        let plain = "--Thread 1 has waited\nat btr0cur.cc\n";
        let units: Vec<u16> = plain.encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(plain.as_bytes()).unwrap();
        for bytes in [
            plain.as_bytes().to_vec(),
            plain.replace('\n', "\r\n").into_bytes(),
            plain.replace('\n', "\r").into_bytes(),
            [&[0xef, 0xbb, 0xbf], plain.as_bytes()].concat(),
            [&[0xff, 0xfe][..], &little].concat(),
            [&[0xfe, 0xff][..], &big].concat(),
            little.clone(),
            big.clone(),
            gzip.finish().unwrap(),
        ] {
            assert_eq!(text(&bytes), plain);
        }
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none() {
        for (bytes, says) in [
            (&b"PK\x03\x04\x14\x00log"[..], "zip archive"),
            (&b"SQLite format 3\x00\x10\x00"[..], "`spindoctor report`"),
            (b"\xfd7zXZ\x00\x00", "xz"),
            (b"\x7fELF\x02\x01", "core dump"),
            (b"\xfebin\x01\x02", "mysqlbinlog"),
            (&[1, 2, 3, 4, 5, 0, b'a', 0x80].repeat(90), "no text"),
        ] {
            let read = Text::from_bytes(bytes);
            assert!(
                read.text.is_empty() && read.note.as_ref().is_some_and(|note| note.contains(says)),
                "{says}: {read:?}"
            );
        }
        for bytes in [
            &b"| Id | \x1b[1mInfo\x1b[0m |\n"[..],
            "\u{e9}\u{4f60}\u{597d}\n".as_bytes(),
            b"",
            b"M\xfcller\n",
        ] {
            assert_eq!(Text::from_bytes(bytes).note, None, "{bytes:?}");
        }
    }

    #[test]
    fn of_a_text_of_nothing_but_lines_the_last_ones_are_read() {
        let read = Text::from_bytes(format!("first\n{}last\n", "\n".repeat(MOST_LINES)).as_bytes());
        assert_eq!(read.text.lines().count(), MOST_LINES);
        assert!(
            read.text.ends_with("\nlast\n") && read.text.starts_with('\n') && read.note.is_some(),
            "{:?}",
            read.note
        );
    }

    #[test]
    fn damaged_bytes_are_text_with_a_note() {
        let cut = Text::from_bytes(&[0x1f, 0x8b, 8, 0, 0]);
        assert!(cut.text.is_empty() && cut.note.is_some());
        assert_eq!(text(b"a\xff\n"), "a\u{fffd}\n");
        let cut = Text::from_bytes(&[&[0; 9_000][..], b"2024-01-01 [Note] a\n"].concat());
        assert!(cut.text == "2024-01-01 [Note] a\n" && cut.note.is_some(), "{cut:?}");
    }
}
