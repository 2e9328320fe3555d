//! Normalised statements, each kept once: samples refer to a statement by its number.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use spindoctor_model::mysql::{ServerThread, StatementDigest, Transaction};
use spindoctor_model::{Reading, Sample};

/// A statement's `seen_ms` is brought up to date when it is older than this: once an hour is enough for retention.
pub(crate) const SEEN_STEP_MS: i64 = 3_600_000;
/// Numbers that are remembered between samples; a server with more statements than this asks the table for the others.
const REMEMBERED: usize = 20_000;

/// The writer's side: from a statement to its number.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// By hash: the number, and when it was last written down as seen.
    known: HashMap<i64, (i64, i64)>,
}

impl Statements {
    /// Replaces the normalised statements of a sample by their numbers.
    ///
    /// With `literals` the statements themselves stay as they are, and only what the server normalised is replaced.
    pub(crate) fn put_away(
        &mut self,
        db: &Connection,
        at_ms: i64,
        sample: &mut Sample,
        literals: bool,
    ) -> rusqlite::Result<()> {
        for text in texts(sample, literals) {
            *text = self.number("", text, db, at_ms)?.to_string();
        }
        for digest in digests(sample) {
            digest.text = self.number(&digest.digest, &digest.text, db, at_ms)?.to_string();
            digest.digest.clear();
        }
        Ok(())
    }

    /// The number of a statement, which is written down where it is new.
    fn number(&mut self, digest: &str, text: &str, db: &Connection, at_ms: i64) -> rusqlite::Result<i64> {
        let hash = hash(digest, text);
        if let Some((number, seen_ms)) = self.known.get(&hash)
            && at_ms.saturating_sub(*seen_ms) < SEEN_STEP_MS
        {
            return Ok(*number);
        }
        let number = db
            .prepare_cached(
                "INSERT INTO statements (digest, text, hash, seen_ms) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (hash) DO UPDATE SET seen_ms = max(seen_ms, excluded.seen_ms) RETURNING id",
            )?
            .query_row(params![digest, text, hash, at_ms], |row| row.get(0))?;
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(hash, (number, at_ms));
        Ok(number)
    }
}

/// The reader's side: from a number to its statement.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// By number: digest and text; none where the table has it no more.
    known: HashMap<i64, Option<(String, String)>>,
}

impl Texts {
    /// Puts the statements back into a sample. One that the table has no more becomes empty, or none.
    pub(crate) fn put_back(
        &mut self,
        db: &Connection,
        sample: &mut Sample,
        literals: bool,
    ) -> rusqlite::Result<()> {
        for text in texts(sample, literals) {
            *text = self.digest_and_text(db, text)?.map(|(_, text)| text.clone()).unwrap_or_default();
        }
        for digest in digests(sample) {
            (digest.digest, digest.text) =
                self.digest_and_text(db, &digest.text)?.cloned().unwrap_or_default();
        }
        Ok(())
    }

    fn digest_and_text(
        &mut self,
        db: &Connection,
        number: &str,
    ) -> rusqlite::Result<Option<&(String, String)>> {
        let Ok(number) = number.parse() else { return Ok(None) };
        if !self.known.contains_key(&number) {
            let found = db
                .prepare_cached("SELECT digest, text FROM statements WHERE id = ?1")?
                .query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            if self.known.len() >= REMEMBERED {
                self.known.clear();
            }
            self.known.insert(number, found);
        }
        Ok(self.known.get(&number).and_then(Option::as_ref))
    }
}

/// The normalised statements of a sample, but those of the statement summary.
fn texts(sample: &mut Sample, literals: bool) -> impl Iterator<Item = &mut String> {
    let threads = rows(&mut sample.server.threads).iter_mut().flat_map(move |thread: &mut ServerThread| {
        let ServerThread { statement, last_statement, digest_text, .. } = thread;
        let normalised = if literals { [None, None] } else { [statement.as_mut(), last_statement.as_mut()] };
        normalised.into_iter().flatten().chain(digest_text)
    });
    let transactions =
        rows(&mut sample.server.transactions).iter_mut().filter_map(move |transaction: &mut Transaction| {
            transaction.statement.as_mut().filter(|_| !literals)
        });
    threads.chain(transactions)
}

fn digests(sample: &mut Sample) -> impl Iterator<Item = &mut StatementDigest> {
    rows(&mut sample.server.digests).iter_mut()
}

fn rows<T>(reading: &mut Reading<Vec<T>>) -> &mut [T] {
    match reading {
        Reading::Available { value, .. } => value,
        _ => &mut [],
    }
}

/// FNV-1a: the same in every version of spindoctor, as the file holds it. Of a million statements two share one with a
/// probability of 1 in 40 million.
fn hash(digest: &str, text: &str) -> i64 {
    let bytes = digest.bytes().chain([0]).chain(text.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.cast_signed()
}
