//! One source's turn: the plan, the query, and the answer or the reason in the sample. All code that reads a source
//! does it here.
//!
//! In: a [`Channel`] (a session of this crate, or a fleet's), a [`Source`], what is [`Known`] of the server. Out: the
//! sample's field is filled, and an [`Outcome`] says what happened, for the caller that keeps paces and costs. [`walk`]
//! does it for a list. `round.rs` does it for [`crate::watch`] and [`crate::follow`], which decide when a source has its turn.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Cost, ServerSample, ServerVersion, Unavailable};

use crate::mysql::session::{NOBODY_KNOWS_WHO, answered};
use crate::mysql::source::{Plan, Source, Variables};
use crate::mysql::{QueryError, Rows, Session};
use crate::source::Answer;

/// What is known of a server before a source is asked.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its version.
    pub version: ServerVersion,
    /// Its variables, for a sample that does not have them.
    pub variables: Variables<'a>,
    /// What the times of the answers count from.
    pub origin: Instant,
}

/// What sources are asked over.
pub trait Channel {
    /// An answer as the channel keeps it. The default is an answer without rows.
    type Answer: Default;
    /// Why the channel is of no more use.
    type Broken;

    /// Sends a source's statement. The inner error: the server refused to answer it.
    fn ask(
        &mut self,
        source: &Source,
        version: ServerVersion,
        sql: &str,
    ) -> impl Future<Output = Result<Result<Self::Answer, Refusal>, Self::Broken>> + Send;

    /// The answer as parsers take it.
    fn rows(answer: &Self::Answer) -> Cow<'_, Rows>;
}

/// What came of one source's turn.
#[derive(Debug)]
pub enum Outcome<A> {
    /// It was not asked: the sample has the answer from a better source.
    HasAnswer,
    /// It was not asked: another source has the same on this server.
    Elsewhere,
    /// It answered; or (`rows` is the default) an earlier answer says that there is nothing to read.
    Answered {
        /// The answer.
        rows: A,
        /// When it came.
        answer: Answer,
        /// False where the server was not asked.
        is_asked: bool,
    },
    /// It was asked, and there are no rows.
    Refused {
        /// Why.
        refusal: Refusal,
        /// From question to refusal.
        took: Duration,
    },
    /// It was not asked: this server does not have it.
    Cannot(Unavailable),
    /// It was not asked this time.
    NotNow(Unavailable),
}

/// Why a source did not answer.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The reason, with what would unlock it.
    pub why: Unavailable,
    /// What to expect of the source.
    pub kind: RefusalKind,
    error: QueryError,
}

/// What to expect of a source that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// It will not answer: a right is missing, or the server does not have it.
    ForGood,
    /// There was no answer in time.
    TooSlow,
    /// The session broke, for no fault of the source's; or any other error.
    Other,
}

impl Refusal {
    /// True where the session was lost over it.
    pub(crate) fn breaks_session(&self) -> bool {
        self.error.breaks_session()
    }

    /// Of a server that answered with an error. `limit` is the statement's time limit on the server.
    pub fn answered(
        source: &Source,
        version: ServerVersion,
        code: u16,
        message: &str,
        limit: Duration,
    ) -> Self {
        Self::new(source, version, answered(code, message.to_owned(), limit), NOBODY_KNOWS_WHO)
    }

    /// `grantee` is the account as GRANT wants it.
    pub(crate) fn new(source: &Source, version: ServerVersion, error: QueryError, grantee: &str) -> Self {
        let kind = match error {
            QueryError::Denied { .. } | QueryError::Unsupported { .. } => RefusalKind::ForGood,
            QueryError::NoAnswer { .. } | QueryError::TooLong { .. } | QueryError::LockWait { .. } => {
                RefusalKind::TooSlow
            }
            _ => RefusalKind::Other,
        };
        Self { why: source.refused(error.clone(), version, grantee), kind, error }
    }
}

/// Gives a source its turn: asks it as the version, the variables and the sample say, and puts the answer into the sample, or
/// the reason why there is none.
///
/// # Errors
/// Why the channel is of no more use; the source's field is as it was.
async fn turn<C: Channel>(
    channel: &mut C,
    source: &Source,
    known: Known<'_>,
    sample: &mut ServerSample,
) -> Result<Outcome<C::Answer>, C::Broken> {
    if source.is_answered(sample) {
        return Ok(Outcome::HasAnswer);
    }
    let begun = Instant::now();
    let statement = match (source.plan)(known.version, sample.variables.value().or(known.variables)) {
        Plan::Ask(sql) => Ok(Some(Cow::Borrowed(sql))),
        Plan::AskAbout(statement) => statement(sample).map(|sql| sql.map(Cow::Owned)),
        Plan::Elsewhere => return Ok(Outcome::Elsewhere),
        Plan::Cannot(why) => {
            source.fail(why.clone(), sample);
            return Ok(Outcome::Cannot(why));
        }
    };
    let (rows, is_asked) = match statement {
        Ok(Some(sql)) => match channel.ask(source, known.version, &sql).await? {
            Ok(rows) => (rows, true),
            Err(refusal) => {
                source.fail(refusal.why.clone(), sample);
                return Ok(Outcome::Refused { refusal, took: begun.elapsed() });
            }
        },
        Ok(None) => (C::Answer::default(), false),
        Err(why) => {
            source.fail(why.clone(), sample);
            return Ok(Outcome::NotNow(why));
        }
    };
    let at_s = known.origin.elapsed().as_secs_f64();
    let took_ms = if is_asked { begun.elapsed().as_secs_f64() * 1e3 } else { 0.0 };
    let answer = Answer { at_s, took_ms };
    (source.parse)(&C::rows(&rows), answer, sample);
    Ok(Outcome::Answered { rows, answer, is_asked })
}

/// Gives sources their turns, in order: one sample's trip over a list. `came` gets what came of each.
///
/// # Errors
/// Why the channel is of no more use; what was answered before is in the sample.
pub async fn walk<'a, C: Channel>(
    channel: &mut C,
    sources: impl IntoIterator<Item = &'a Source>,
    known: Known<'_>,
    sample: &mut ServerSample,
    mut came: impl FnMut(&'a Source, Outcome<C::Answer>),
) -> Result<(), C::Broken> {
    for source in sources {
        came(source, turn(channel, source, known, sample).await?);
    }
    Ok(())
}

/// Gives each of these sources its turn, in order. One that the server refuses is unavailable in the sample.
///
/// # Errors
/// The session broke: the server did not answer in time or went away.
pub async fn ask_all<'a>(
    session: &mut Session,
    sources: impl IntoIterator<Item = &'a Source>,
    known: Known<'_>,
    sample: &mut ServerSample,
) -> Result<(), QueryError> {
    walk(session, sources, known, sample, |_, _| {}).await
}

/// The rows of the first of these sources that answers, with what they say in a sample; none where none can be asked.
///
/// # Errors
/// The session broke, or the server refused every source that can be asked: the error of the first, with the GRANT that would unlock it.
pub(crate) async fn first_answer<'a>(
    session: &mut Session,
    sources: impl IntoIterator<Item = &'a Source>,
    known: Known<'_>,
) -> Result<Option<(Rows, ServerSample)>, QueryError> {
    let mut refused = None;
    for source in sources {
        let mut sample = ServerSample::default();
        match turn(session, source, known, &mut sample).await? {
            Outcome::Answered { rows, .. } => return Ok(Some((rows, sample))),
            Outcome::Refused { refusal: Refusal { why, error, .. }, .. } => {
                refused = refused.or_else(|| Some(error.with_grant(&why.unlock.unwrap_or_default())));
            }
            _ => {}
        }
    }
    refused.map_or(Ok(None), Err)
}

impl Channel for Session {
    type Answer = Rows;
    type Broken = QueryError;

    async fn ask(
        &mut self,
        source: &Source,
        version: ServerVersion,
        sql: &str,
    ) -> Result<Result<Rows, Refusal>, QueryError> {
        let error = match self.query(sql).await {
            Ok(rows) => return Ok(Ok(rows)),
            Err(error) if error.breaks_session() => return Err(error),
            Err(error) => error,
        };
        let grantee = match error {
            QueryError::Denied { .. } => self.grantee().await,
            _ => NOBODY_KNOWS_WHO.to_owned(),
        };
        Ok(Err(Refusal::new(source, version, error, &grantee)))
    }

    fn rows(answer: &Rows) -> Cow<'_, Rows> {
        Cow::Borrowed(answer)
    }
}

/// A session that outlives its connections, and what all of them cost.
#[derive(Debug)]
pub(crate) struct Asker {
    /// None where the session broke.
    session: Option<Session>,
    /// Why there is no session.
    lost: String,
    /// What the sessions before this one cost.
    before: Cost,
    /// Questions that are being answered, for others to see.
    asking: Arc<AtomicU64>,
}

impl Asker {
    pub(crate) fn over(session: Session) -> Self {
        Self { session: Some(session), lost: String::new(), before: Cost::default(), asking: Arc::default() }
    }

    /// The same, with its questions that are being answered counted there.
    pub(crate) fn counted_in(self, asking: Arc<AtomicU64>) -> Self {
        Self { asking, ..self }
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Why there is no session, where there is none.
    pub(crate) fn lost(&self) -> &str {
        &self.lost
    }

    /// Goes on over a new session.
    pub(crate) fn renew(&mut self, session: Session) {
        self.session = Some(session);
    }

    /// There is still no session.
    pub(crate) fn still_lost(&mut self, because: String) {
        self.lost = because;
    }

    /// Gives the session up: its connection is closed, and an answer that is on its way is not read.
    pub(crate) fn lose(&mut self, because: String) {
        if let Some(session) = self.session.take() {
            self.count(&session);
        }
        self.lost = because;
    }

    /// Asks which server answers, behind a round of questions. False where it is another one than before: the session is given up,
    /// and nobody knows which of the two answered what.
    pub(crate) async fn is_same_server(&mut self) -> bool {
        let Some(session) = self.session.as_mut() else { return true };
        self.asking.fetch_add(1, Ordering::Relaxed);
        let outcome = session.expect_same_server().await;
        self.asking.fetch_sub(1, Ordering::Relaxed);
        let Err(error) = outcome else { return true };
        self.lose(error.to_string());
        !matches!(error, QueryError::OtherServer { .. })
    }

    fn count(&mut self, session: &Session) {
        self.before.server_queries += session.cost().queries;
        self.before.server_busy_ms += session.cost().busy_ms;
    }

    /// Says goodbye; what all sessions cost.
    pub(crate) async fn finish(mut self) -> Cost {
        if let Some(session) = self.session.take() {
            self.count(&session);
            session.close().await;
        }
        self.before
    }
}

impl Channel for Asker {
    type Answer = Rows;
    type Broken = Infallible;

    async fn ask(
        &mut self,
        source: &Source,
        version: ServerVersion,
        sql: &str,
    ) -> Result<Result<Rows, Refusal>, Infallible> {
        let Some(session) = self.session.as_mut() else {
            let why = Unavailable::because(self.lost.clone());
            return Ok(Err(Refusal { why, kind: RefusalKind::Other, error: QueryError::Broken }));
        };
        self.asking.fetch_add(1, Ordering::Relaxed);
        let answer = session.ask(source, version, sql).await;
        self.asking.fetch_sub(1, Ordering::Relaxed);
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.lose(error.to_string());
                Ok(Err(Refusal::new(source, version, error, NOBODY_KNOWS_WHO)))
            }
        }
    }

    fn rows(answer: &Rows) -> Cow<'_, Rows> {
        Cow::Borrowed(answer)
    }
}

/// Whether a server lists its threads in performance_schema.
pub(crate) fn has_threads(version: ServerVersion, variables: &NamedValues) -> bool {
    matches!((crate::mysql::perf_schema_threads::SOURCE.plan)(version, Some(variables)), Plan::Ask(_))
}
