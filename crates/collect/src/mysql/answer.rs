//! One statement's answer, read whole and within bounds, whatever a server sends.

use spindoctor_wire::answer::Item;
use spindoctor_wire::connection::{Connection, Trouble};
use spindoctor_wire::rows::{Row as WireRow, Rows as WireRows};
use spindoctor_wire::{ServerError, Wrong};

use super::rows::Rows;

/// A row is never larger. The largest that is asked for is the text of `SHOW ENGINE INNODB STATUS` (1 MiB at most,
/// `MAX_INNODB_STATUS` in InnoDB's source) and an optimizer trace (`optimizer_trace_max_mem_size`, 1 MiB by default);
/// statements of threads are cut on the server.
const MOST_ROW_BYTES: usize = 16 << 20;
/// What one answer may take here in memory. Ten thousand threads with statements of 1,024 bytes and thirty columns each
/// take 25 MiB.
const MOST_ANSWER_BYTES: usize = 64 << 20;
/// Rows of one answer. The longest that are read whole are lists of threads, digests (10,000 by default) and files (as
/// many as there are tables).
const MOST_ROWS: usize = 1 << 19;
/// What a cell takes beside its text, here and in what is made of it: three words, and the allocator's share of a small
/// allocation.
const CELL_BYTES: usize = 24 + 16;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The server says so; the connection goes on.
    Server(ServerError),
    /// The connection broke.
    Broken(String),
    /// The server sends what is no answer, or more than any answer is: the connection is given up.
    TooMuch(&'static str),
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "it closed in the middle of an answer".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::System(error) => error.into(),
            Trouble::Wrong(Wrong(what)) => Self::TooMuch(what),
        }
    }
}

/// Asks a statement and reads its whole answer: of a CALL, the first result set.
pub(crate) async fn ask(conn: &mut Connection, sql: &str) -> Result<Rows, Stopped> {
    conn.ask(sql).await?;
    read(conn).await
}

/// Asks whether the server's thread answers.
pub(crate) async fn ping(conn: &mut Connection) -> Result<(), Stopped> {
    conn.ping().await?;
    read(conn).await.map(drop)
}

async fn read(conn: &mut Connection) -> Result<Rows, Stopped> {
    let mut reading = Reading::default();
    let mut is_ended = false;
    while !is_ended {
        let mut take = |item: Item<'_>| reading.item(item);
        is_ended = conn.hear(&|| true, MOST_ROW_BYTES, &mut take).await? == Some(true);
        if let Some(what) = reading.too_much {
            return Err(Stopped::TooMuch(what));
        }
    }
    reading.finish()
}

/// An answer on its way into memory: what [`Session::query`](super::Session::query) makes of a server's packets.
#[derive(Debug, Default)]
pub struct Reading {
    rows: Option<Rows>,
    /// True once the first result set is over.
    is_over: bool,
    bytes: usize,
    too_much: Option<&'static str>,
    error: Option<ServerError>,
}

impl Reading {
    /// Takes the next item of the answer. What is beyond the bounds is not kept.
    pub fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Columns(columns) if self.rows.is_none() => {
                self.rows = Some(Rows::of_columns(columns.into_iter().map(|column| column.name).collect()));
            }
            Item::Columns(_) => self.is_over = true,
            Item::Row(packet) => self.row(WireRow::of_packet(packet)),
            Item::Rows(run, _) => WireRows::in_run(run).for_each(|row| self.row(row)),
            Item::Description => {}
            Item::End(_) => self.is_over = self.rows.is_some(),
            Item::Error(error) => self.error = Some(error),
        }
    }

    fn row(&mut self, row: WireRow<'_>) {
        if self.is_over || self.too_much.is_some() {
            return;
        }
        let rows = self.rows.get_or_insert_default();
        self.bytes += row.packet().len() + rows.columns() * CELL_BYTES + CELL_BYTES;
        if self.bytes > MOST_ANSWER_BYTES {
            self.too_much = Some("an answer larger than 64 MiB");
        } else if rows.len() >= MOST_ROWS {
            self.too_much = Some("an answer of more than 524,288 rows");
        } else {
            rows.push(row.cells());
        }
    }

    /// What there is at the end; the server's error stands for the whole answer.
    pub(crate) fn finish(mut self) -> Result<Rows, Stopped> {
        match self.error.take() {
            Some(error) => Err(Stopped::Server(error)),
            None => Ok(self.into_rows()),
        }
    }

    /// The rows so far, for who feeds packets without a connection.
    pub fn into_rows(self) -> Rows {
        self.rows.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_wire::answer::{Column, Kind};

    use super::*;

    fn reading(columns: usize) -> Reading {
        let mut reading = Reading::default();
        let column = |_| Column { name: "c".to_owned(), kind: Kind::Text };
        reading.item(Item::Columns((0..columns).map(column).collect()));
        reading
    }

    #[test]
    fn bytes_that_are_not_utf8_do_not_lose_the_row() {
        let mut reading = reading(2);
        reading.item(Item::Row(b"\x03a\xffb\xfb"));
        let rows = reading.into_rows();
        let row = rows.first().unwrap();
        assert_eq!((row.at(0), row.at(1)), (Some("a\u{fffd}b"), None));
    }

    #[test]
    fn an_answer_is_bounded_in_rows_and_in_bytes_that_it_takes_here() {
        // NULL takes a byte on the wire and forty here.
        let (mut wide, nulls) = (reading(4000), vec![0xfb; 4000]);
        while wide.too_much.is_none() {
            wide.item(Item::Row(&nulls));
        }
        let rows = wide.into_rows().len();
        assert!(rows < MOST_ANSWER_BYTES / (4000 * CELL_BYTES), "{rows}");
        let mut long = reading(1);
        for _ in 0..=MOST_ROWS {
            long.item(Item::Row(b"\xfb"));
        }
        assert_eq!(long.too_much, Some("an answer of more than 524,288 rows"));
        assert_eq!(long.into_rows().len(), MOST_ROWS);
        let (mut large, megabyte) = (reading(1), [b"\xfd\0\0\x10".as_slice(), &[b'x'; 1 << 20]].concat());
        while large.too_much.is_none() {
            large.item(Item::Row(&megabyte));
        }
        assert_eq!(large.into_rows().len(), 63);
    }

    #[test]
    fn of_several_result_sets_the_first_is_kept() {
        let mut reading = reading(1);
        reading.item(Item::Row(b"\x011"));
        reading.item(Item::End(spindoctor_wire::answer::Done { more: true, ..Default::default() }));
        reading.item(Item::Columns(Vec::new()));
        reading.item(Item::Row(b"\x012"));
        assert_eq!(reading.into_rows().len(), 1);
    }
}
