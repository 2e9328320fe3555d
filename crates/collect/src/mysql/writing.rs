//! A connection that may change something: for `spindoctor_tune::apply`, the only module that changes anything.

use spindoctor_wire::ServerError;
use spindoctor_wire::connection::Connection;
use tokio::time::timeout;

use super::answer::{self, Stopped};
use super::error::ConnectError;
use super::login::log_in;
use super::session::Limits;
use super::target::Target;

/// A bare connection that is not read only: logged in as every session is, and nothing set on it.
pub struct Writing {
    conn: Connection,
}

/// Why a statement has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The server's error; the connection goes on.
    Server(ServerError),
    /// The connection is of no more use.
    Broken(String),
}

/// Connects and logs in. Code that only reads uses a [`Session`](super::Session).
pub async fn connect_writer(target: &Target, limits: &Limits) -> Result<Writing, ConnectError> {
    match timeout(limits.connect, log_in(target)).await {
        Ok(outcome) => outcome.map(|conn| Writing { conn }),
        Err(_) => Err(ConnectError::Silent { address: target.address(), after: limits.connect }),
    }
}

impl Writing {
    /// Runs a statement and reads its answer within the bounds of every answer; NULL is None. The caller has the
    /// deadline.
    ///
    /// # Errors
    /// The server's error, or the connection broke.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Unanswered> {
        match answer::ask(&mut self.conn, sql).await {
            Ok(rows) => Ok(rows.into_cells()),
            Err(Stopped::Server(error)) => Err(Unanswered::Server(error)),
            Err(Stopped::Broken(why)) => Err(Unanswered::Broken(why)),
            Err(Stopped::TooMuch(what)) => Err(Unanswered::Broken(what.to_owned())),
        }
    }

    /// Says goodbye.
    pub async fn disconnect(self) {
        self.conn.close().await;
    }
}
