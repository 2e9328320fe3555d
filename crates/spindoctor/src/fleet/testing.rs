//! Answers made by hand, hostile ones among them, for the tests of every format.

use spindoctor_fleet::failure::{Failure, Reason};
use spindoctor_fleet::piece::{Columns, Ended, Piece};
use spindoctor_fleet::wire::answer::{Column, Kind};
use spindoctor_fleet::wire::rows::Rows;

use super::part::{Format, Part};

pub fn columns(list: &[(&str, Kind)]) -> Columns {
    list.iter().map(|(name, kind)| Column { name: (*name).to_owned(), kind: *kind }).collect()
}

pub fn rows(list: &[&[Option<&[u8]>]]) -> Rows {
    let mut rows = Rows::default();
    list.iter().for_each(|row| rows.push(row.iter().copied()));
    rows
}

pub fn ended() -> Option<Result<Ended, Failure>> {
    Some(Ok(Ended { ms: 1.94, version: "9.7.4".into() }))
}

/// Two servers with the same columns, the first in two parts; one with another column; one that failed.
pub fn answers() -> Vec<(&'static str, Piece)> {
    let common = columns(&[("Id", Kind::Integer), ("Info", Kind::Text)]);
    let other = columns(&[("Id", Kind::Integer), ("Progress", Kind::Decimal), ("Info", Kind::Text)]);
    let piece = |columns: &Columns, part, list: &[&[Option<&[u8]>]], end| Piece {
        server: 0,
        columns: columns.clone(),
        rows: rows(list),
        part,
        end,
    };
    vec![
        ("db1:3306", piece(&common, 0, &[&[Some(b"7"), Some(b"SELECT\t1,\n\"x\\y\"")]], None)),
        ("db2:3306", piece(&common, 0, &[&[Some(b"12"), None], &[Some(b"13"), Some(b"")]], ended())),
        ("db1:3306", piece(&common, 1, &[&[Some(b"8"), Some(b"\x1b[2J\xff")]], ended())),
        ("db3:3306", piece(&other, 0, &[&[Some(b"1"), Some(b"0.50"), Some(b"a")]], ended())),
        ("db4:3306", Piece::failed(0, 0, Failure::new(Reason::Timeout, "no answer within 10 s"))),
    ]
}

/// All of it, in a format.
pub fn printed(mut format: impl Format) -> (Vec<u8>, Vec<String>) {
    let mut out = Vec::new();
    for (server, piece) in answers() {
        format.part(&Part::from_piece(server, &piece), &mut out).unwrap();
    }
    format.finish(&mut out).unwrap();
    (out, format.notes())
}
