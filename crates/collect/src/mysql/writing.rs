//! A connection that may change something: for `spindoctor_tune::apply`, the only module that changes anything.

use spindoctor_wire::ServerError;
use spindoctor_wire::connection::Connection;

use super::answer::{self, Stopped};
use super::error::ConnectError;
use super::login::log_in;
use super::logins::Logins;
use super::session::Limits;
use super::target::Target;
use super::unanswered::BoxedLogin;

/// A bare connection that is not read only: logged in as every session is, and nothing set on it.
pub struct Writing {
    conn: Box<Connection>,
    logins: Logins,
}

/// Why a statement has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwritten {
    /// The server's error; the connection goes on.
    Server(ServerError),
    /// The connection is of no more use.
    Broken(String),
}

/// Connects and logs in. Code that only reads uses a [`Session`](super::Session).
pub async fn connect_writer(target: &Target, limits: &Limits) -> Result<Writing, ConnectError> {
    let owned = target.clone();
    let login = |by, late: ConnectError| -> BoxedLogin<Writing> {
        Box::pin(async move {
            let login = async {
                let conn = Box::new(log_in(&owned).await?);
                Ok(Writing { conn, logins: owned.logins.clone() })
            };
            owned.logins.writers().outlast(by, login, || ()).await.unwrap_or(Err(late))
        })
    };
    target.logins.writers().connect(target, limits.connect, login).await
}

impl Writing {
    /// Runs a statement and reads its answer within the bounds of every answer; NULL is None. The caller has the
    /// deadline.
    ///
    /// # Errors
    /// The server's error, or the connection broke.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Unwritten> {
        match answer::ask(&mut self.conn, sql).await {
            Ok(rows) => Ok(rows.into_cells()),
            Err(Stopped::Server(error)) => Err(Unwritten::Server(error)),
            Err(Stopped::Broken(why)) => Err(Unwritten::Broken(why)),
            Err(Stopped::TooMuch(what)) => Err(Unwritten::Broken(what.to_owned())),
        }
    }

    /// Gives up an answer for which the deadline is over: the connection is kept until the server has done with it, and while
    /// five are kept no other is made.
    pub fn give_up(self) {
        self.logins.writers().keep(self.conn);
    }

    /// Says goodbye.
    pub async fn disconnect(self) {
        self.conn.close().await;
    }
}
