//! One question to one source, and what came of it: what a window and endless sampling have in common.
//!
//! In: a [`Source`], what was answered before. Out: the rows, or why there are none and whether there ever will be. Who
//! is asked when is left to [`crate::watch`] and [`crate::follow`].

use std::borrow::Cow;
use std::time::Duration;

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Cost, ServerSample, ServerVersion, Unavailable};
use tokio::time::Instant;

use crate::mysql::session::NOBODY_KNOWS_WHO;
use crate::mysql::source::{Plan, Source};
use crate::mysql::{QueryError, Rows, Session};

/// What to ask a source now.
pub(crate) enum Question {
    /// This statement.
    Ask(Cow<'static, str>),
    /// Nothing: what was answered before says that there is nothing to tell.
    NothingToTell,
    /// Nothing: another source tells it on this server.
    Elsewhere,
    /// Nothing: this server cannot tell.
    Never(Unavailable),
    /// Nothing this time.
    NotNow(Unavailable),
}

/// What to ask a source, by the version, the server's variables, and what the sample holds so far.
pub(crate) fn question(
    source: &Source,
    version: ServerVersion,
    variables: Option<&NamedValues>,
    sample: &ServerSample,
) -> Question {
    match (source.plan)(version, variables) {
        Plan::Ask(sql) => Question::Ask(Cow::Borrowed(sql)),
        Plan::AskAbout(statement) => match statement(sample) {
            Ok(Some(sql)) => Question::Ask(Cow::Owned(sql)),
            Ok(None) => Question::NothingToTell,
            Err(why) => Question::NotNow(why),
        },
        Plan::Elsewhere => Question::Elsewhere,
        Plan::Cannot(why) => Question::Never(why),
    }
}

/// Why a source did not answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) why: Unavailable,
    pub(crate) kind: RefusalKind,
}

/// What to expect of a source that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// It will not answer: a right is missing, or the server does not have it.
    ForGood,
    /// There was no answer in time.
    TooSlow,
    /// The session broke, for no fault of the source's; or any other error.
    Other,
}

/// A session that sources are asked over, and how it ended.
#[derive(Debug)]
pub(crate) struct Asker {
    /// None where the session broke.
    session: Option<Session>,
    /// Why there is no session.
    lost: String,
    /// The account as GRANT wants it; asked for when first needed.
    grantee: Option<String>,
    /// What the sessions before this one cost.
    before: Cost,
}

impl Asker {
    pub(crate) fn over(session: Session) -> Self {
        Self { session: Some(session), lost: String::new(), grantee: None, before: Cost::default() }
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

    /// Asks a source; with how long that took, whatever came of it.
    pub(crate) async fn ask(
        &mut self,
        source: &Source,
        version: ServerVersion,
        sql: &str,
    ) -> (Result<Rows, Refusal>, Duration) {
        let Some(session) = self.session.as_mut() else {
            let why = Unavailable::because(self.lost.clone());
            return (Err(Refusal { why, kind: RefusalKind::Other }), Duration::ZERO);
        };
        let asked = Instant::now();
        let outcome = session.query(sql).await;
        let took = asked.elapsed();
        let error = match outcome {
            Ok(rows) => return (Ok(rows), took),
            Err(error) => error,
        };
        let kind = match error {
            QueryError::Denied { .. } | QueryError::Unsupported { .. } => RefusalKind::ForGood,
            QueryError::NoAnswer { .. } | QueryError::TooLong { .. } | QueryError::LockWait { .. } => {
                RefusalKind::TooSlow
            }
            _ => RefusalKind::Other,
        };
        if error.breaks_session() {
            self.lose(error.to_string());
        }
        let grantee = match error {
            QueryError::Denied { .. } => self.grantee().await,
            _ => String::new(),
        };
        (Err(Refusal { why: source.refused(error, version, &grantee), kind }), took)
    }

    /// The account that is logged in, as GRANT wants it; a placeholder where the server will not say.
    async fn grantee(&mut self) -> String {
        if self.grantee.is_none()
            && let Some(session) = self.session.as_mut()
        {
            self.grantee = session.grantee().await;
        }
        self.grantee.clone().unwrap_or_else(|| NOBODY_KNOWS_WHO.to_owned())
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
