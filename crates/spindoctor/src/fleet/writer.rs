//! The output of the pieces: printed as they come or in order, folded, or kept for SQL.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Write};

use anyhow::Context as _;
use spindoctor_fleet::failure::{Failure, Failures};
use spindoctor_fleet::group::Groups;
use spindoctor_fleet::order::Ordering;
use spindoctor_fleet::piece::{Ended, Piece};
use spindoctor_fleet::store::{ServerEnd, Store, StoreError};

use super::args::{FleetFormat, FleetQuery};
use super::part::{Format, Part};
use super::query::{Names, format};
use super::servers::Fleet;
use super::{formats, group};
use crate::common::output::ClosedPipe;
use crate::common::terminal;
use spindoctor_page::csv::Reader;
use spindoctor_page::text::Look;

/// Text is written when it is this much, and after each batch.
const WRITE_BYTES: usize = 256 << 10;
/// The SQL of a Parquet file for which no other was given.
const ALL: &str = "SELECT * FROM answers ORDER BY rowid";

/// Takes all pieces.
pub struct Writer {
    names: Names,
    tags: Vec<BTreeMap<String, String>>,
    ordering: Option<Ordering>,
    way: Way,
    out: Out,
    text: Vec<u8>,
    due: Vec<Piece>,
    ends: Vec<Option<Result<Ended, Failure>>>,
    answered: usize,
    failures: Failures,
}

enum Way {
    Print(Box<dyn Format>),
    Fold { groups: Groups, json: bool },
    Keep { store: Box<Store>, sql: String, format: FleetFormat, reader: Reader },
}

/// How it ended.
pub struct Finished {
    /// Servers that answered.
    pub answered: usize,
    /// Those that did not.
    pub failures: Failures,
    /// What the format has to say.
    pub notes: Vec<String>,
}

impl Writer {
    /// As the flags say.
    pub fn new(asked: &FleetQuery, fleet: &Fleet) -> anyhow::Result<Self> {
        let format = format(asked);
        let sql = asked.sql_over.clone().or_else(|| (format == FleetFormat::Parquet).then(|| ALL.to_owned()));
        let out = Out::to(asked)?;
        let reader = terminal::csv_reader(asked.raw_csv, asked.out.is_some());
        let way = match sql {
            Some(sql) => Way::Keep { store: Box::new(Store::new()?), sql, format, reader },
            None if asked.group => Way::Fold { groups: Groups::default(), json: format == FleetFormat::Json },
            None => Way::Print(formats::formatter(format, out.look(), reader)),
        };
        let everybody = (0..fleet.names.len()).collect();
        Ok(Self {
            names: fleet.names.clone(),
            tags: fleet.tags.clone(),
            ordering: asked.ordered.then(|| Ordering::new(everybody)),
            way,
            out,
            text: Vec::new(),
            due: Vec::new(),
            ends: vec![None; fleet.names.len()],
            answered: 0,
            failures: Failures::default(),
        })
    }

    /// Those that failed so far.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Takes pieces as they came.
    pub fn batch(&mut self, batch: Vec<Piece>) -> anyhow::Result<()> {
        for piece in batch {
            match &mut self.ordering {
                None => self.piece(&piece)?,
                Some(ordering) => {
                    ordering.add(piece, &mut self.due).context("answers could not be kept for their turn")?;
                    self.pieces_due()?;
                }
            }
        }
        self.write()
    }

    fn pieces_due(&mut self) -> anyhow::Result<()> {
        for piece in std::mem::take(&mut self.due) {
            self.piece(&piece)?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) -> anyhow::Result<()> {
        let name = &self.names[piece.server];
        match &mut self.way {
            Way::Print(format) => format.part(&Part::from_piece(name, piece), &mut self.text)?,
            Way::Fold { groups, .. } => groups.add(piece),
            Way::Keep { store, .. } => store.add(name, piece)?,
        }
        if let Some(end) = &piece.end {
            match end {
                Ok(_) => self.answered += 1,
                Err(failure) => self.failures.add(piece.server, failure),
            }
            self.ends[piece.server] = Some(end.clone());
        }
        if self.text.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let written = self.out.write(&self.text);
        self.text.clear();
        written
    }

    /// No more pieces come.
    pub fn finish(mut self) -> anyhow::Result<Finished> {
        if let Some(ordering) = &mut self.ordering {
            ordering.rest(&mut self.due).context("answers could not be kept for their turn")?;
            self.pieces_due()?;
        }
        let Self { names, tags, way, mut out, mut text, ends, answered, failures, .. } = self;
        let mut notes = Vec::new();
        match way {
            Way::Print(mut format) => {
                format.finish(&mut text)?;
                notes = format.notes();
            }
            Way::Fold { groups, json } => {
                let groups = groups.finish();
                let line = match json {
                    true => group::json(&groups, &names)?,
                    false => group::text(&groups, &names, out.look()),
                };
                text.extend_from_slice(line.as_bytes());
            }
            Way::Keep { mut store, sql, format, reader } => {
                let servers = names.iter().zip(&tags).zip(&ends);
                let ends = servers.map(|((server, tags), end)| ServerEnd { server, tags, end: end.as_ref() });
                store.finish(ends)?;
                let mut format: Box<dyn Format> = match format {
                    FleetFormat::Parquet => Box::new(formats::parquet(out.take()?)),
                    other => formats::formatter(other, out.look(), reader),
                };
                store
                    .query(&sql, &mut |columns, rows| {
                        format.part(&Part::of_result(columns, rows), &mut text).map_err(Broken::Here)?;
                        out.write(&text).map_err(Broken::Here)?;
                        text.clear();
                        Ok(())
                    })
                    .map_err(Broken::into_error)?;
                format.finish(&mut text)?;
                notes = format.notes();
            }
        }
        out.write(&text)?;
        Ok(Finished { answered, failures, notes })
    }
}

/// True for tables and groups of answers; rows with tabs, CSV and JSON are data.
fn is_for_people(asked: &FleetQuery) -> bool {
    match format(asked) {
        FleetFormat::Table => true,
        FleetFormat::Tab | FleetFormat::Csv => asked.group,
        FleetFormat::Json | FleetFormat::Parquet => false,
    }
}

/// What can go wrong between the store and the output.
enum Broken {
    Here(anyhow::Error),
    There(StoreError),
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Self::There(error)
    }
}

impl Broken {
    fn into_error(self) -> anyhow::Error {
        match self {
            Self::Here(error) => error,
            Self::There(error) => error.into(),
        }
    }
}

/// Where the text goes.
enum Out {
    Standard {
        /// True for a text in the characters of the locale, false for data as it is.
        is_for_people: bool,
    },
    File(File),
    /// Somebody else has it now.
    Taken,
}

impl Out {
    fn to(asked: &FleetQuery) -> anyhow::Result<Self> {
        Ok(match &asked.out {
            None => Self::Standard { is_for_people: is_for_people(asked) },
            Some(path) => {
                let file = spindoctor_safefile::create(path);
                Self::File(file.with_context(|| format!("could not make {}", path.display()))?)
            }
        })
    }

    fn look(&self) -> Look {
        match self {
            Self::Standard { .. } => terminal::wide_look_of_stdout(),
            Self::File(_) | Self::Taken => Look::of_file(),
        }
    }

    /// Hands the place over to a format that writes by itself.
    fn take(&mut self) -> anyhow::Result<Box<dyn Write + Send>> {
        Ok(match std::mem::replace(self, Self::Taken) {
            Self::File(file) => Box::new(io::BufWriter::new(file)),
            Self::Standard { .. } | Self::Taken => Box::new(io::stdout()),
        })
    }

    fn write(&mut self, text: &[u8]) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let written = match self {
            Self::Standard { is_for_people } => {
                let shown = std::str::from_utf8(text).ok().filter(|_| *is_for_people);
                let shown = shown.map(terminal::in_characters_of_locale);
                let text = shown.as_ref().map_or(text, |shown| shown.as_bytes());
                let mut stdout = io::stdout().lock();
                stdout.write_all(text).and_then(|()| stdout.flush())
            }
            Self::File(file) => file.write_all(text),
            Self::Taken => Ok(()),
        };
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
            Err(error) => Err(anyhow::Error::new(error).context("the answers could not be written")),
            Ok(()) => Ok(()),
        }
    }
}
