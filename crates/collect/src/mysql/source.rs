//! The declaration of a source of the server: a name, a statement per version, and a pure parser.

use spindoctor_model::mysql::Transaction;
use spindoctor_model::{Field, Outcome, ServerSample, ServerVersion, Unavailable};

use super::error::QueryError;
use super::rows::Rows;
use crate::pace::Pace;
use crate::source::{Answer, Cadence};

/// What to ask a server of a given version.
#[derive(Debug, Clone)]
pub enum Plan {
    /// This statement.
    Ask(&'static str),
    /// The statement that follows from what was answered before in the same sample; where there is none, the answer
    /// is known to be empty.
    AskAbout(fn(&ServerSample) -> Result<Option<String>, Unavailable>),
    /// Another source has the same on this server, better: this one is not asked and its reading stays empty.
    Elsewhere,
    /// The server does not have it.
    Cannot(Unavailable),
}

/// One place of the server that is read.
///
/// The collector asks and times the statement, hands the rows to `parse`, and stores the outcome:
/// a source file does no I/O. Where two sources fill one field, the better one stands first in
/// [`super::SOURCES`] and the second is asked only where the first had no answer.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// MySQL's own name: `SHOW GLOBAL STATUS`, `performance_schema.data_lock_waits`.
    pub name: &'static str,
    /// What it is read for, in one line.
    pub help: &'static str,
    /// What asking costs the server: locks taken, rows read.
    pub cost: &'static str,
    /// The privilege it needs, as the GRANT that gives it, without `TO`; empty where none.
    pub grant: fn(ServerVersion) -> &'static str,
    /// The statement that makes a server have it which does not; empty where none.
    pub install: &'static str,
    /// How often it is asked in a window.
    pub cadence: Cadence,
    /// How often it is asked where sampling has no end.
    pub pace: Pace,
    /// What to ask which version; the variables show what is switched on (`performance_schema`).
    pub plan: fn(ServerVersion, Variables<'_>) -> Plan,
    /// Puts the answer into the sample.
    pub parse: fn(&Rows, Answer, &mut ServerSample),
    /// The reading that it fills.
    pub reading: &'static Field<ServerSample>,
}

impl Source {
    /// Says of its reading why it could not be read, where there is neither an answer nor an earlier reason.
    pub fn fail(&self, why: Unavailable, sample: &mut ServerSample) {
        self.reading.get_mut(sample).fail(why);
    }

    /// True where the sample has the answer already: the source is not asked for it a second time.
    pub fn is_answered(&self, sample: &ServerSample) -> bool {
        matches!(self.reading.get(sample).outcome(), Outcome::Answered { .. })
    }

    /// Why it could not be read, with what would unlock it; `grantee` is the account as GRANT wants it.
    pub(crate) fn refused(&self, error: QueryError, version: ServerVersion, grantee: &str) -> Unavailable {
        let grant = (self.grant)(version);
        match error {
            QueryError::Denied { .. } if !grant.is_empty() => {
                error.into_unavailable(&format!("{grant} TO {grantee}"))
            }
            QueryError::Unsupported { .. } if !self.install.is_empty() => {
                error.into_unavailable("").unlock(self.install)
            }
            error => error.into_unavailable(""),
        }
    }
}

/// The server's global variables, where they could be read.
pub type Variables<'a> = Option<&'a spindoctor_model::mysql::NamedValues>;

/// Why performance_schema has no answer, where it has none: the server is too old or it is switched off.
///
/// Defaults where the variable could not be read: on in MySQL (5.6.6 and later), off in MariaDB.
pub(super) fn performance_schema_off(
    version: ServerVersion,
    variables: Variables<'_>,
) -> Option<Unavailable> {
    if !version.mysql_at_least(5, 6, 6) && !version.mariadb_at_least(10, 0, 0) {
        return Some(Unavailable::because(format!("{version} has no such table in performance_schema")));
    }
    let on = variables.and_then(|v| v.switch("performance_schema")).unwrap_or(!version.is_mariadb());
    (!on).then(|| {
        Unavailable::because("performance_schema is off")
            .unlock("performance_schema = ON in the server's option file, and a restart")
    })
}

/// The open transactions of a sample: who waits for a row stands there, and what else is asked depends on it.
pub(super) fn open_transactions(sample: &ServerSample) -> Result<&[Transaction], Unavailable> {
    match (sample.transactions.value(), sample.transactions.unavailable()) {
        (Some(transactions), _) => Ok(transactions),
        (None, Some(why)) => Err(why.clone()),
        (None, None) => Err(Unavailable::because("the open transactions were not read in this sample")),
    }
}

/// Notes in the sample that a source's answer reached its limit: there may be more than it holds.
pub(super) fn note_if_cut(source: &str, rows: &Rows, limit: usize, sample: &mut ServerSample) {
    if rows.len() >= limit {
        sample.cut.push(source.to_owned());
    }
}

/// `GRANT PROCESS`: every flavor and version names it so.
pub(crate) fn process_grant(_: ServerVersion) -> &'static str {
    "GRANT PROCESS ON *.*"
}

/// `GRANT SELECT` on performance_schema: every flavor and version names it so.
pub(super) fn performance_schema_grant(_: ServerVersion) -> &'static str {
    "GRANT SELECT ON performance_schema.*"
}

/// A cell that counts picoseconds, as nanoseconds; 0 for NULL.
pub(super) fn picoseconds_to_ns(row: super::rows::Row<'_>, column: &str) -> u64 {
    row.number(column).unwrap_or(0_u64) / 1000
}
