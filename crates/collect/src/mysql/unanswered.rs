//! What a server has not answered: it works at a question, or at a login, until it is done, whether or not somebody waits for
//! it. So a connection that was given up is kept until something comes, and while [`MOST_UNANSWERED`] are kept no other is
//! made: a server that hangs is not filled with connections of ours.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spindoctor_wire::connection::Connection;
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at};

use super::error::ConnectError;
use super::target::Target;

/// So many questions and logins of one target may be without an answer, after their deadlines, before nothing more is tried: as many
/// as a window of ten seconds loses at two seconds each. Until then what still answers is asked: a server whose lists hang says what
/// its counters are. Chosen.
const MOST_UNANSWERED: usize = 5;

/// A connection of which nothing comes is kept for so long at most: where something between answers for a server that is gone, the
/// tool must not wait for it for good. Ten minutes leave thirty connections an hour on a server that hangs that long, a fifth of
/// what servers take by default (`max_connections`, 151). Chosen.
const KEPT: Duration = Duration::from_mins(10);

/// How many questions and logins were given up and have no answer yet. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Unanswered(Arc<watch::Sender<usize>>);

/// One of them, for as long as nothing comes.
struct One(Unanswered);

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

impl Unanswered {
    /// How many they are.
    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    fn one(&self) -> One {
        self.0.send_modify(|count| *count += 1);
        One(self.clone())
    }

    /// Waits until another connection may be made.
    pub async fn room(&self) {
        // The sender lives as long as this does.
        let _ = self.0.subscribe().wait_for(|count| *count < MOST_UNANSWERED).await;
    }

    /// Counts a login that was given up and of which no connection is left: the server may be at it still.
    pub fn given_up(&self) {
        let one = self.one();
        tokio::spawn(async move {
            tokio::time::sleep(KEPT).await;
            drop(one);
        });
    }

    /// Keeps a connection whose answer was given up until something comes.
    pub fn keep(&self, mut connection: Box<Connection>) {
        let one = self.one();
        tokio::spawn(async move {
            let _ = timeout(KEPT, connection.until_something_comes()).await;
            drop(one);
        });
    }

    /// Connects once there is room, by `deadline`. The login goes on after it, as it does in the server.
    ///
    /// # Errors
    /// What the login says, that there is no room, or that there is no answer.
    pub(super) async fn connect<T: Send + 'static>(
        &self,
        target: &Target,
        deadline: Duration,
        login: impl FnOnce(Instant, ConnectError) -> BoxedLogin<T>,
    ) -> Result<T, ConnectError> {
        let by = Instant::now() + deadline;
        if timeout_at(by.into(), self.room()).await.is_err() {
            return Err(ConnectError::Unanswered { address: target.address(), questions: self.count() });
        }
        let late = ConnectError::Silent { address: target.address(), after: deadline };
        match timeout_at(by.into(), tokio::spawn(login(by, late.clone()))).await {
            Ok(Ok(outcome)) => outcome,
            // It is cut off only where the program ends.
            Ok(Err(_)) | Err(_) => Err(late),
        }
    }

    /// Waits for a login; none where it was given up. After `by` nobody waits for it: `is_late` is called, and it counts.
    pub(super) async fn outlast<T>(
        &self,
        by: Instant,
        login: impl Future<Output = T>,
        is_late: impl FnOnce(),
    ) -> Option<T> {
        let mut login = std::pin::pin!(login);
        if let Ok(outcome) = timeout_at(by.into(), &mut login).await {
            return Some(outcome);
        }
        is_late();
        let _one = self.one();
        timeout(KEPT, login).await.ok()
    }
}

/// A login under way.
pub(super) type BoxedLogin<T> = std::pin::Pin<Box<dyn Future<Output = Result<T, ConnectError>> + Send>>;
