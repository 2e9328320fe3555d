//! The answer to one statement, packet by packet: columns, rows, the end; or OK, or an error.

use crate::bytes::Bytes;
use crate::packets::Packets;
use crate::rows::has_cells;
use crate::{EOF, ERROR, OK, ServerError, Wrong, printable, server_error};

/// Columns of a result set at most: MySQL's own limit.
const MOST_COLUMNS: u64 = 4096;
/// Of what stands before the rows, no packet is larger: a column's name takes 256 characters at most
/// (`MAX_ALIAS_NAME`), an error 512 bytes. Only names of expressions in old servers are as long as the expression.
const MOST_DESCRIPTION_BYTES: usize = 64 << 10;
/// The descriptions of all columns of an answer: a thousand bytes for each of the most columns.
const MOST_DESCRIPTIONS_BYTES: usize = 4 << 20;
/// Result sets of one answer: only a CALL has more than one.
const MOST_RESULTS: u32 = 100;
/// `fb FILE`: the server asks for a file of ours (LOAD DATA LOCAL), which nobody offered.
const LOCAL_INFILE: u8 = 0xfb;
/// `SERVER_MORE_RESULTS_EXISTS`.
const MORE_RESULTS: u16 = 8;
/// The character set of bytes that are no text.
const BINARY: u16 = 63;

/// What kind of values a column has, as far as writing them differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A whole number.
    Integer,
    /// A number with decimals, exact.
    Decimal,
    /// A floating-point number.
    Real,
    /// Text, times, everything that is read as text.
    Text,
    /// Bytes that are no text.
    Bytes,
}

impl Kind {
    /// True for numbers.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Decimal | Self::Real)
    }
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name as the server says it.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// What a packet of the answer is.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A part of the description of the columns: nothing to do.
    Description,
    /// The columns, all of them.
    Columns(Vec<Column>),
    /// A row with as many cells as there are columns.
    Row(&'a [u8]),
    /// Many of them, as [`crate::rows::Rows`] keeps them, and how many.
    Rows(&'a [u8], usize),
    /// The statement is done; of one without rows, what it did.
    End(Done),
    /// The server ended it.
    Error(ServerError),
}

/// What a statement did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Rows that it changed; None where it had a result set.
    pub affected: Option<u64>,
    /// The server's remark: `Rows matched: 3  Changed: 3  Warnings: 0`.
    pub info: String,
    /// True where another result set follows.
    pub more: bool,
}

/// An answer on its way.
#[derive(Debug, Default)]
pub struct Answer {
    stage: Stage,
    columns: Vec<Column>,
    expected: usize,
    /// Bytes of descriptions so far, of all result sets.
    described: usize,
    results: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing came yet.
    #[default]
    Head,
    /// Columns are being described.
    Columns,
    /// All columns were described; an EOF is due.
    EndOfColumns,
    /// Rows come.
    Rows,
    /// Nothing comes any more.
    Ended,
}

impl Answer {
    /// Before the first packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// True where the answer is whole.
    pub fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Hands on what these bytes bring of the answer. Rows that lie whole in them are handed on together, and are made so that
    /// they may be kept as they are. Refuses a packet of more than `most` bytes.
    pub fn bytes(
        &mut self,
        packets: &mut Packets,
        bytes: &mut [u8],
        most: usize,
        take: &mut dyn FnMut(Item<'_>),
    ) -> Result<(), Wrong> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (length, count) = packets.run(rest, |payload| self.is_row(payload));
            let (rows, others) = rest.split_at_mut(length);
            if count > 0 {
                take(Item::Rows(rows, count));
            }
            let most = match self.stage {
                Stage::Rows => most,
                _ => most.min(MOST_DESCRIPTION_BYTES),
            };
            let used = packets.next(others, most, &mut |payload| {
                take(self.packet(payload)?);
                Ok::<(), Wrong>(())
            })?;
            rest = &mut others[used..];
        }
        Ok(())
    }

    /// True where [`Self::packet`] would say that this is a row.
    fn is_row(&self, payload: &[u8]) -> bool {
        self.stage == Stage::Rows
            && payload.first().is_some_and(|&first| first != ERROR)
            && eof(payload).is_none()
            && has_cells(payload, self.expected)
    }

    /// What the next packet is.
    pub fn packet<'a>(&mut self, payload: &'a [u8]) -> Result<Item<'a>, Wrong> {
        let first = *payload.first().ok_or(Wrong("an empty packet"))?;
        if first == ERROR && self.stage != Stage::Ended {
            self.stage = Stage::Ended;
            return server_error(payload).map(Item::Error);
        }
        match self.stage {
            Stage::Head if first == OK => {
                self.begin_result()?;
                self.ok(payload)
            }
            Stage::Head => {
                self.begin_result()?;
                self.head(payload)
            }
            Stage::Columns => self.column(payload),
            Stage::EndOfColumns => {
                eof(payload).ok_or(Wrong("columns without an end"))?;
                self.stage = Stage::Rows;
                Ok(Item::Columns(std::mem::take(&mut self.columns)))
            }
            Stage::Rows => {
                // A cell of 16 MiB and more begins with fe, too: an EOF is short.
                if let Some(status) = eof(payload) {
                    let more = status & MORE_RESULTS != 0;
                    self.stage = if more { Stage::Head } else { Stage::Ended };
                    return Ok(Item::End(Done { more, ..Done::default() }));
                }
                if !has_cells(payload, self.expected) {
                    return Err(Wrong("a row that does not fit its columns"));
                }
                Ok(Item::Row(payload))
            }
            Stage::Ended => Err(Wrong("more than an answer")),
        }
    }

    fn begin_result(&mut self) -> Result<(), Wrong> {
        self.results += 1;
        match self.results > MOST_RESULTS {
            true => Err(Wrong("more result sets than any answer has")),
            false => Ok(()),
        }
    }

    /// `00 AFFECTED ID STATUS[2] WARNINGS[2] INFO`
    fn ok(&mut self, payload: &[u8]) -> Result<Item<'static>, Wrong> {
        let cut = Wrong("an OK packet that is cut off");
        let mut bytes = Bytes::new(&payload[1..]);
        let affected = bytes.number().ok_or(cut)?;
        bytes.number().ok_or(cut)?;
        let status = bytes.u16().ok_or(cut)?;
        bytes.u16().ok_or(cut)?;
        // MySQL sends the remark with its length before it, older servers and MariaDB may send it bare.
        let rest = bytes.rest();
        let info = match bytes.text() {
            Some(text) if bytes.is_empty() => text,
            _ => rest,
        };
        let more = status & MORE_RESULTS != 0;
        self.stage = if more { Stage::Head } else { Stage::Ended };
        let info = printable(info);
        Ok(Item::End(Done { affected: Some(affected), info, more }))
    }

    fn head(&mut self, payload: &[u8]) -> Result<Item<'static>, Wrong> {
        if payload.first() == Some(&LOCAL_INFILE) {
            return Err(Wrong("it asks for a file of this host, which it does not get"));
        }
        let mut bytes = Bytes::new(payload);
        let count = bytes.number().filter(|_| bytes.is_empty());
        let count = count.ok_or(Wrong("an answer that begins with nothing known"))?;
        if !(1..=MOST_COLUMNS).contains(&count) {
            return Err(Wrong("an answer with more columns than any table has"));
        }
        self.expected = count as usize;
        self.columns.clear();
        self.stage = Stage::Columns;
        Ok(Item::Description)
    }

    /// `CATALOG SCHEMA TABLE TABLE NAME NAME 0c CHARSET[2] LENGTH[4] TYPE[1] FLAGS[2] DECIMALS[1] 0[2]`
    fn column(&mut self, payload: &[u8]) -> Result<Item<'static>, Wrong> {
        let cut = Wrong("the description of a column is cut off");
        self.described += payload.len();
        if self.described > MOST_DESCRIPTIONS_BYTES {
            return Err(Wrong("descriptions of columns that are longer than any"));
        }
        let mut bytes = Bytes::new(payload);
        for _ in 0..4 {
            bytes.text().ok_or(cut)?;
        }
        let name = bytes.text().ok_or(cut)?;
        bytes.text().ok_or(cut)?;
        bytes.number().ok_or(cut)?;
        let charset = bytes.u16().ok_or(cut)?;
        bytes.u32().ok_or(cut)?;
        let kind = kind(bytes.u8().ok_or(cut)?, charset);
        self.columns.push(Column { name: String::from_utf8_lossy(name).into_owned(), kind });
        if self.columns.len() == self.expected {
            self.stage = Stage::EndOfColumns;
        }
        Ok(Item::Description)
    }
}

/// `fe WARNINGS[2] STATUS[2]`: its status.
fn eof(payload: &[u8]) -> Option<u16> {
    match payload {
        [EOF, _, _, low, high, ..] if payload.len() < 9 => Some(u16::from_le_bytes([*low, *high])),
        [EOF] => Some(0),
        _ => None,
    }
}

/// `enum_field_types` of MySQL's `field_types.h`.
fn kind(code: u8, charset: u16) -> Kind {
    match code {
        1 | 2 | 3 | 8 | 9 | 13 => Kind::Integer,
        0 | 246 => Kind::Decimal,
        4 | 5 => Kind::Real,
        16 | 255 => Kind::Bytes,
        15 | 249..=254 if charset == BINARY => Kind::Bytes,
        _ => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bytes::put_text;
    use crate::rows::Rows;

    pub(crate) fn described(name: &str, code: u8) -> Vec<u8> {
        let mut packet = Vec::new();
        for text in ["def", "", "", "", name, ""] {
            put_text(&mut packet, text.as_bytes());
        }
        packet.extend_from_slice(b"\x0c\x21\0\0\0\0\0");
        packet.push(code);
        packet.extend_from_slice(b"\0\0\0\0\0");
        packet
    }

    const END: &[u8] = b"\xfe\0\0\x02\0";

    #[test]
    fn a_result_set_is_columns_rows_and_an_end() {
        let mut answer = Answer::new();
        assert_eq!(answer.packet(b"\x02"), Ok(Item::Description));
        assert_eq!(answer.packet(&described("id", 8)), Ok(Item::Description));
        assert_eq!(answer.packet(&described("name", 253)), Ok(Item::Description));
        let columns = vec![
            Column { name: "id".to_owned(), kind: Kind::Integer },
            Column { name: "name".to_owned(), kind: Kind::Text },
        ];
        assert_eq!(answer.packet(END), Ok(Item::Columns(columns)));
        assert_eq!(answer.packet(b"\x011\xfb"), Ok(Item::Row(b"\x011\xfb")));
        assert!(answer.packet(b"\x011").is_err(), "a cell is missing");
        assert_eq!(answer.packet(END), Ok(Item::End(Done::default())));
        assert!(answer.is_ended() && answer.packet(b"\x011\xfb").is_err());
    }

    #[test]
    fn a_statement_without_rows_says_what_it_did() {
        let done =
            Answer::new().packet(b"\0\x03\0\x02\0\0\0\x05Rows3").map(|item| format!("{item:?}")).unwrap();
        assert!(done.contains("Some(3)") && done.contains("Rows3"), "{done}");
        let mut call = Answer::new();
        assert!(matches!(call.packet(b"\0\0\0\x0a\0\0\0"), Ok(Item::End(Done { more: true, .. }))));
        assert!(!call.is_ended());
    }

    #[test]
    fn an_error_ends_it_anywhere() {
        let mut answer = Answer::new();
        answer.packet(b"\x01").unwrap();
        let Ok(Item::Error(error)) = answer.packet(b"\xff\x25\x05#70100Query execution was interrupted")
        else {
            panic!("an error")
        };
        assert_eq!(error.code, 1317);
        assert!(answer.is_ended());
    }

    /// What an answer brings, rows one by one: cut like this, and its rows taken together or not.
    fn read_items(stream: &[u8], steps: &[usize], together: bool) -> (Vec<String>, Option<Wrong>) {
        let (mut answer, mut packets, mut items) = (Answer::new(), Packets::new(), Vec::new());
        let mut take = |item: Item<'_>| match item {
            Item::Rows(bytes, count) => {
                let mut rows = Rows::default();
                rows.push_run(bytes, count);
                assert_eq!(rows.iter().count(), count);
                items.extend(rows.iter().map(|row| format!("{:?}", Item::Row(row.packet()))));
            }
            other => items.push(format!("{other:?}")),
        };
        let mut rest = stream.to_vec();
        for &step in steps.iter().chain(std::iter::once(&usize::MAX)) {
            let mut now: Vec<u8> = rest.drain(..step.min(rest.len())).collect();
            let fed = match together {
                true => answer.bytes(&mut packets, &mut now, 1 << 20, &mut take),
                false => packets.feed(&now, 1 << 20, &mut |payload| {
                    take(answer.packet(payload)?);
                    Ok(())
                }),
            };
            if let Err(wrong) = fed {
                return (items, Some(wrong));
            }
        }
        (items, None)
    }

    proptest! {
        #[test]
        fn rows_taken_together_are_the_same_rows(
            rows in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3), 0..300),
            steps in proptest::collection::vec(0usize..400, 0..20),
        ) {
            let (mut packets, mut stream) = (Packets::new(), Vec::new());
            for packet in [b"\x01".as_slice(), &described("name", 253), END] {
                packets.frame(packet, &mut stream);
            }
            for row in &rows {
                // Of one or two bytes some are no row of one cell, or its end, or an error.
                packets.frame(row, &mut stream);
            }
            prop_assert_eq!(read_items(&stream, &steps, true), read_items(&stream, &steps, false));
        }
    }

    #[test]
    fn more_rows_than_a_byte_counts_are_taken_together() {
        let (mut packets, mut stream) = (Packets::new(), Vec::new());
        for packet in [b"\x01".as_slice(), &described("name", 253), END] {
            packets.frame(packet, &mut stream);
        }
        for row in 0..600_u16 {
            packets.frame(&[2, row.to_le_bytes()[0], row.to_le_bytes()[1]], &mut stream);
        }
        packets.frame(END, &mut stream);
        let (items, wrong) = read_items(&stream, &[1000, 1], true);
        assert_eq!((items.len(), wrong), (2 + 1 + 600 + 1, None));
        assert_eq!((items, wrong), read_items(&stream, &[], false));
        // A frame that is not the next one.
        let after = stream.len() - (4 + 5) - (4 + 3);
        stream[after + 3] ^= 1;
        let (items, wrong) = read_items(&stream, &[], true);
        assert_eq!((items.len(), wrong), (2 + 1 + 599, Some(Wrong("packets out of order"))));
    }

    #[test]
    fn a_server_that_asks_for_a_file_gets_none() {
        let items = Answer::new().packet(b"\xfb/etc/passwd").unwrap_err();
        assert!(items.0.contains("a file of this host"), "{items}");
    }

    #[test]
    fn nothing_is_made_room_for_that_a_server_only_claims() {
        // Two to the fortieth columns.
        let claimed = b"\xfe\0\0\0\0\0\x01\0\0";
        assert!(Answer::new().packet(claimed).unwrap_err().0.contains("columns"));
        assert!(Answer::new().packet(b"\xfc\x01\x10").is_err(), "4097");
        assert_eq!(Answer::new().packet(b"\xfc\0\x10"), Ok(Item::Description), "4096");
    }

    /// Feeds what a server sends until it is refused, and how many bytes were taken until then.
    fn refused_after(begin: &[&[u8]], endless: &[u8]) -> (Wrong, usize) {
        let (mut answer, mut packets, mut stream) = (Answer::new(), Packets::new(), Vec::new());
        let (mut theirs, mut fed) = (Packets::new(), 0);
        begin.iter().for_each(|packet| theirs.frame(packet, &mut stream));
        loop {
            theirs.frame(endless, &mut stream);
            for piece in stream.chunks_mut(100_000) {
                if let Err(wrong) = answer.bytes(&mut packets, piece, 64 << 20, &mut |_| ()) {
                    return (wrong, fed);
                }
                fed += piece.len();
            }
            assert!(fed < 256 << 20, "no end");
            stream.clear();
        }
    }

    #[test]
    fn endless_descriptions_names_and_result_sets_end() {
        let long = described(&"x".repeat(60_000), 253);
        let (wrong, fed) = refused_after(&[b"\xfc\0\x10"], &long);
        assert!(wrong.0.contains("descriptions") && fed <= 5 << 20, "{wrong} {fed}");
        let (wrong, fed) = refused_after(&[b"\x01"], &described(&"x".repeat(16 << 20), 253));
        assert!(wrong.0.contains("larger") && fed < 1 << 20, "{wrong} {fed}");
        let (wrong, _) = refused_after(&[], b"\0\0\0\x0a\0\0\0");
        assert!(wrong.0.contains("result sets"), "{wrong}");
        // A packet that goes on frame after frame.
        let mut endless = vec![0xfd, 0xff, 0xff, 0xfa];
        endless.resize(80 << 20, b'x');
        let (wrong, fed) = refused_after(&[b"\x01", &described("a", 253), END], &endless);
        assert!(wrong.0.contains("larger") && fed <= 65 << 20, "{wrong} {fed}");
    }

    proptest! {
        #[test]
        fn anything_is_an_answer_or_refused(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..12),
        ) {
            let mut answer = Answer::new();
            for packet in &packets {
                if answer.packet(packet).is_err() {
                    break;
                }
            }
        }
    }
}
