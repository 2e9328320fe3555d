//! Asks `collect`'s sources over a fleet's session: statements and parsers are theirs, the bytes come over ours.
//!
//! An answer is kept unparsed, which takes a fifth of the memory of a parsed one: the first samples of a thousand
//! servers are in memory while these wait for their second.

use std::borrow::Cow;

use spindoctor_collect::asking::{Channel, Known, Outcome, Refusal, walk};
use spindoctor_collect::mysql::{Rows as Texts, Source};
use spindoctor_collect::source::Answer;
use spindoctor_model::{ServerSample, ServerVersion, Unavailable};

use crate::failure::{Failure, Reason};
use crate::piece::Columns;
use crate::session::Session;
use crate::statement::Statement;
use crate::wire::rows::Rows;

/// What became of a source that was asked.
#[derive(Debug)]
pub(crate) struct SourceAnswer {
    source: Source,
    answer: Answer,
    what: Result<(Columns, Rows), Unavailable>,
}

impl SourceAnswer {
    /// Puts the answer into a sample.
    pub(crate) fn put_into(&self, sample: &mut ServerSample) {
        match &self.what {
            Ok((columns, rows)) => (self.source.parse)(&texts(columns, rows), self.answer, sample),
            Err(why) => self.source.fail(why.clone(), sample),
        }
    }

    /// Makes the answer as small as it can be, to be kept for a while.
    pub(crate) fn shrink(&mut self) {
        if let Ok((_, rows)) = &mut self.what {
            rows.shrink_to_fit();
        }
    }

    /// Memory that the answer takes while it is kept, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.what.as_ref().map_or(0, |(_, rows)| rows.bytes())
    }
}

/// Gives these sources their turns in order. What they say is in the sample, and is returned to be kept.
///
/// # Errors
/// Why the session is of no more use. A source that refuses to answer is not such an error.
pub(crate) async fn ask(
    session: &mut Session,
    sources: &[Source],
    known: Known<'_>,
    sample: &mut ServerSample,
) -> Result<Vec<SourceAnswer>, Failure> {
    let mut all = Vec::with_capacity(sources.len());
    walk(session, sources, known, sample, |source, outcome| {
        let (answer, what) = match outcome {
            Outcome::HasAnswer | Outcome::Elsewhere => return,
            Outcome::Answered { rows, answer, .. } => (answer, Ok(rows)),
            Outcome::Refused { refusal, .. } => (Answer::default(), Err(refusal.why)),
            Outcome::Cannot(why) | Outcome::NotNow(why) => (Answer::default(), Err(why)),
        };
        all.push(SourceAnswer { source: *source, answer, what });
    })
    .await?;
    Ok(all)
}

impl Channel for Session {
    type Answer = (Columns, Rows);
    type Broken = Failure;

    async fn ask(
        &mut self,
        source: &Source,
        version: ServerVersion,
        sql: &str,
    ) -> Result<Result<Self::Answer, Refusal>, Failure> {
        let statement = Statement::reading(sql)
            .map_err(|error| Failure::new(Reason::Query, format!("not asked: {}: {error}", source.name)))?;
        match self.answer(&statement).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(Failure { code: Some(code), error, .. }) => {
                let message = error.strip_prefix(&format!("error {code}: ")).unwrap_or(&error);
                Ok(Err(Refusal::answered(source, version, code, message, self.limit())))
            }
            Err(broken) => Err(broken),
        }
    }

    fn rows((columns, rows): &Self::Answer) -> Cow<'_, Texts> {
        Cow::Owned(texts(columns, rows))
    }
}

/// An answer as `collect`'s parsers take it.
pub(crate) fn texts(columns: &Columns, rows: &Rows) -> Texts {
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let text = |cell: Option<&[u8]>| cell.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Texts::new(names, rows.iter().map(|row| row.cells().map(text).collect()).collect())
}

#[cfg(test)]
impl SourceAnswer {
    /// An answer of one row, of about so many bytes and no fewer.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let mut rows = Rows::default();
        rows.push([Some("x".repeat(bytes).as_bytes())]);
        let source = spindoctor_collect::mysql::global_status::SOURCE;
        Self { source, answer: Answer::default(), what: Ok((Columns::default(), rows)) }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_collect::mysql::{self, Plan, global_status};
    use spindoctor_model::mysql::NamedValues;

    use super::*;
    use crate::wire::answer::{Column, Kind};

    fn status(pairs: &[(&str, Option<&str>)]) -> SourceAnswer {
        let column = |name: &str| Column { name: name.to_owned(), kind: Kind::Text };
        let mut rows = Rows::default();
        for (name, value) in pairs {
            rows.push([Some(name.as_bytes()), value.map(str::as_bytes)]);
        }
        let answer = Answer { at_s: 2.5, took_ms: 1.0 };
        SourceAnswer {
            source: global_status::SOURCE,
            answer,
            what: Ok(([column("Variable_name"), column("Value")].into(), rows)),
        }
    }

    #[test]
    fn what_came_over_the_wire_is_what_the_source_reads() {
        let mut sample = ServerSample::default();
        status(&[("Uptime", Some("812")), ("Binlog_snapshot_file", None)]).put_into(&mut sample);
        let (at_s, read) = sample.status.timed().unwrap();
        assert_eq!((at_s, read.number("uptime"), read.len()), (2.5, Some(812.0), 2));
        let why = Unavailable::because("no privilege");
        let refused = SourceAnswer { what: Err(why.clone()), ..status(&[]) };
        let mut sample = ServerSample::default();
        refused.put_into(&mut sample);
        assert_eq!(sample.status.unavailable(), Some(&why));
    }

    #[test]
    fn every_statement_of_every_source_is_seen_to_read() {
        let versions = ["5.7.44", "8.0.36", "9.7.4", "10.4.34-MariaDB", "10.11.6-MariaDB", "11.4.2-MariaDB"];
        let running = [mysql::perf_schema_threads::RUNNING, mysql::processlist::RUNNING];
        let on = NamedValues::from_iter([("performance_schema", "ON")]);
        let mut seen = 0;
        for version in versions.map(|text| ServerVersion::parse(text, "").unwrap()) {
            for source in mysql::SOURCES.iter().chain(&running) {
                if let Plan::Ask(sql) = (source.plan)(version, Some(&on)) {
                    assert!(Statement::reading(sql).is_ok(), "{}: {sql}", source.name);
                    seen += 1;
                }
            }
            let names = format!("SELECT {}", mysql::one_server::columns(Some(version)));
            assert!(Statement::reading(&names).is_ok(), "{names}");
        }
        assert!(seen > 60, "{seen}");
    }
}
